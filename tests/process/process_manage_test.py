#!/usr/bin/python3
"""How servers live with those who run them: a service manager, a reload, a client without the
schema, and a shell that completes."""

import importlib
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool  # noqa: E402

import process_cluster  # noqa: E402
from process_cluster import PATIENCE_S, ClusterTest, binary, wait_for  # noqa: E402
from process_wire import Channel, load_schema  # noqa: E402

PROTO = [f"proto/{name}.proto" for name in
         ("leasehold", "health", "reflection_v1", "reflection_v1alpha")]
SERVING, NOT_SERVING = 1, 2
STANDARD = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"}


class Manager:
    """Starts a program as systemd does, and hears what it says."""

    def __init__(self, folder, argv, watchdog_s=None):
        path = f"@leasehold-{os.getpid()}-{id(self)}"  # a folder's may be too long
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + path[1:])
        self._log = open(os.path.join(folder, "log"), "w+", encoding="utf-8")
        environment = dict(os.environ, NOTIFY_SOCKET=path)
        if watchdog_s is not None:
            environment["WATCHDOG_USEC"] = str(int(watchdog_s * 1e6))
        self.process = subprocess.Popen(argv, env=environment, start_new_session=True,
                                        stdin=subprocess.DEVNULL, stderr=self._log)

    def hear(self, timeout=PATIENCE_S):
        """The next lines; None: none came in time."""
        ready, _, _ = select.select([self._socket], [], [], timeout)
        return self._socket.recv(4096).decode().splitlines() if ready else None

    def hear_of(self, line):
        """Waits for a line that begins so; returns it."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            for said in self.hear() or ():
                if said.startswith(line):
                    return said
        raise AssertionError(f"nothing was said of {line}; log: {self.log()}")

    def silent_for(self, seconds):
        """Whether no ping comes for so long; what is on its way counts as come before."""
        while self.hear(0) is not None:
            pass
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if "WATCHDOG=1" in (self.hear(left) or ()):
                return False
        return True

    def log(self):
        self._log.seek(0)
        return self._log.read()

    def logs(self, text):
        """Waits for it: a log's own thread writes it."""
        wait_for(f"{text} in the log", lambda: text in self.log())

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()
        self._socket.close()


class ManagerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="leasehold-", dir=os.environ.get("TEST_TMPDIR"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.config = os.path.join(self.folder, "config")

    def start(self, program, **settings):
        self.write(listen=f"127.0.0.1:{process_cluster.free_port()}",
                   data_dir=os.path.join(self.folder, "data"), **settings)
        manager = Manager(self.folder, [binary(program), f"--config={self.config}"], 2)
        self.addCleanup(manager.close)
        return manager

    def write(self, **settings):
        with open(self.config, "a", encoding="utf-8") as file:
            for name, value in settings.items():
                file.write(f"{name.replace('_', '-')} = {value}\n")

    def test_a_master_says_when_it_is_up_and_that_it_goes_on(self):
        manager = self.start("leasehold-master")
        manager.hear_of("READY=1")
        manager.hear_of("STATUS=ready")
        for _ in range(3):
            manager.hear_of("WATCHDOG=1")
        # A process that does not go on says nothing more, and is killed by who watches.
        manager.process.send_signal(signal.SIGSTOP)
        time.sleep(0.2)
        self.assertTrue(manager.silent_for(2))
        manager.process.send_signal(signal.SIGCONT)
        manager.hear_of("WATCHDOG=1")
        manager.process.send_signal(signal.SIGTERM)
        manager.hear_of("STOPPING=1")
        self.assertEqual(manager.process.wait(PATIENCE_S), 0)

    def test_a_chunkserver_is_up_before_it_has_a_session(self):
        manager = self.start("leasehold-chunkserver",
                             master=f"127.0.0.1:{process_cluster.free_port()}")
        manager.hear_of("READY=1")
        manager.hear_of("STATUS=there is no session with the master")

    def test_a_reload_takes_up_what_is_live(self):
        manager = self.start("leasehold-chunkserver", log_level="warn",
                             master=f"127.0.0.1:{process_cluster.free_port()}")
        manager.hear_of("READY=1")
        self.assertNotIn("INFO", manager.log())
        with open(self.config, encoding="utf-8") as file:
            before = file.read()

        def reload():
            manager.process.send_signal(signal.SIGHUP)
            manager.hear_of("RELOADING=1")
            manager.hear_of("READY=1")

        with open(self.config, "w", encoding="utf-8") as file:
            file.write(before.replace("log-level = warn", "log-level = info"))
            file.write("capacity = 1GiB\nscrub-rate = 5MiB\n")
        reload()
        manager.logs("log-level is info from now on, and was warn")
        manager.logs("capacity is 1GiB from now on, and was 0")
        manager.logs("WARN  chunkserver: scrub-rate = 5MiB takes a restart; it goes on to be 16MiB")
        self.write(nonsense="1")
        reload()
        manager.logs(f"{self.config}:7: there is no option 'nonsense'")
        manager.logs("none was taken up")
        self.assertIsNone(manager.process.poll())


class DescribeTest(ClusterTest):
    """One cluster for all: nothing here changes it."""

    def setUp(self):
        super().setUp()
        self.schema = load_schema(PROTO, os.path.join(self.folder, "python"))
        self.start_cluster(servers=1, **process_cluster.CALM)

    def ask(self, address, version="v1", **request):
        """What server reflection answers, as any client of it would ask."""
        messages = importlib.import_module(f"reflection_{version}_pb2")
        with grpc.insecure_channel(address) as channel:
            stub = channel.stream_stream(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                request_serializer=messages.ServerReflectionRequest.SerializeToString,
                response_deserializer=messages.ServerReflectionResponse.FromString)
            replies = list(stub(iter([messages.ServerReflectionRequest(**request)]),
                                timeout=PATIENCE_S))
        self.assertEqual(len(replies), 1)
        return replies[0]

    def services(self, address, version):
        reply = self.ask(address, version, list_services="")
        return {s.name for s in reply.list_services_response.service}

    def file_of(self, address, **request):
        files = self.ask(address, **request).file_descriptor_response.file_descriptor_proto
        self.assertEqual(len(files), 1)
        return descriptor_pb2.FileDescriptorProto.FromString(files[0])

    def test_a_client_without_the_schema(self):
        master, server = self.cluster.master.address, self.cluster.servers["cs1"].address
        for version in ("v1", "v1alpha"):
            self.assertEqual(self.services(master, version),
                             {"leasehold.Master", "leasehold.Leases"} | STANDARD)
            self.assertEqual(self.services(server, version), {"leasehold.ChunkServer"} | STANDARD)

        # What is described is the schema.
        path = os.path.join(self.folder, "described")
        subprocess.run(["protoc", "--proto_path=.", f"--descriptor_set_out={path}",
                        "proto/leasehold.proto"], check=True)
        with open(path, "rb") as file:
            ours = descriptor_pb2.FileDescriptorSet.FromString(file.read()).file[0]
        for symbol in ("leasehold.Master", "leasehold.Master.Stat", "leasehold.StatRequest",
                       "leasehold.StatRequest.path", "leasehold.ErrorCode",
                       "leasehold.STALE_VERSION"):
            theirs = self.file_of(master, file_containing_symbol=symbol)
            self.assertEqual(theirs, ours, symbol)
        self.assertEqual(self.file_of(server, file_by_filename=ours.name), ours)
        for symbol in STANDARD:
            self.assertIn(symbol.rsplit(".", 1)[1], [
                s.name for s in self.file_of(master, file_containing_symbol=symbol).service])

        # A pool made of nothing else is enough for a call.
        pool = descriptor_pool.DescriptorPool()
        pool.Add(theirs)
        self.assertIsNotNone(pool.FindServiceByName("leasehold.Master").FindMethodByName("Stat"))

        for request in ({"file_containing_symbol": "leasehold.Nothing"},
                        {"file_containing_symbol": "leasehold"},
                        {"file_containing_symbol": "leasehold.Master.Stat.path"},
                        {"file_containing_symbol": ""},
                        {"file_by_filename": "other.proto"},
                        {"all_extension_numbers_of_type": "leasehold.Nothing"}):
            error = self.ask(master, **request).error_response
            self.assertEqual(error.error_code, grpc.StatusCode.NOT_FOUND.value[0], request)
        reply = self.ask(master, all_extension_numbers_of_type="leasehold.StatRequest")
        self.assertEqual(len(reply.all_extension_numbers_response.extension_number), 0)

    def test_streams_that_ask_have_a_bound(self):
        """Each may leave an answer unread; calls of others go on beside them."""
        messages = importlib.import_module("reflection_v1_pb2")
        path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
        with grpc.insecure_channel(self.cluster.master.address) as channel:
            stub = channel.stream_stream(
                path, request_serializer=messages.ServerReflectionRequest.SerializeToString,
                response_deserializer=messages.ServerReflectionResponse.FromString)
            stop, calls = [], []

            def requests():
                yield messages.ServerReflectionRequest(list_services="")
                while not stop:
                    time.sleep(0.05)

            for _ in range(64):
                calls.append(stub(requests(), timeout=PATIENCE_S))
                next(calls[-1])
            with self.assertRaises(grpc.RpcError) as refused:
                next(stub(requests(), timeout=PATIENCE_S))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
            self.assertEqual(self.cluster.run("ls").returncode, 0)
            stop.append(True)
            for call in calls:
                self.assertEqual(list(call), [])
            wait_for("room for another", lambda: self._asks(stub, messages))
            too_long = messages.ServerReflectionRequest(file_containing_symbol="x" * 2000)
            with self.assertRaises(grpc.RpcError) as refused:
                next(stub(iter([too_long]), timeout=PATIENCE_S))
            self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)

    @staticmethod
    def _asks(stub, messages):
        try:
            return len(list(stub(iter([messages.ServerReflectionRequest(list_services="")]),
                                 timeout=PATIENCE_S))) == 1
        except grpc.RpcError:
            return False

    def test_health(self):
        master = Channel(self.schema, self.cluster.master.address)
        server = Channel(self.schema, self.cluster.servers["cs1"].address)
        for service in ("", "leasehold.Master", "leasehold.Leases"):
            self.assertEqual(master.health(service), SERVING)
        for service in ("", "leasehold.ChunkServer"):
            wait_for("a session", lambda s=service: server.health(s) == SERVING)
        for channel, other in ((master, "leasehold.ChunkServer"), (server, "leasehold.Master")):
            with self.assertRaises(grpc.RpcError) as refused:
                channel.health(other)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.NOT_FOUND)
            channel.close()


class CompletionTest(ClusterTest):
    """The script in a shell of its own, which has no other completions."""

    def complete(self, line):
        """What bash would offer behind `line`."""
        script = os.path.join(self.folder, "completion.bash")
        if not os.path.exists(script):
            with open(script, "wb") as file:
                subprocess.run([binary("leasehold"), "completion", "bash"], stdout=file, check=True)
        # As readline breaks a line: at blanks, = and :.
        words = 'COMP_WORDS=(); word=""; for ((i = 0; i < ${#COMP_LINE}; i++)); do ' \
                'c=${COMP_LINE:i:1}; case $c in " ") [[ -n $word ]] && COMP_WORDS+=("$word"); ' \
                'word="";; [=:]) [[ -n $word ]] && COMP_WORDS+=("$word"); COMP_WORDS+=("$c"); ' \
                'word="";; *) word+=$c;; esac; done; ' \
                '[[ -n $word || $COMP_LINE == *" " ]] && COMP_WORDS+=("$word"); '
        program = line.split(" ", 1)[0]
        result = subprocess.run(
            ["bash", "--norc", "-c", 'compopt() { :; }; source "$1"; COMP_LINE=$2; '
             'COMP_POINT=${#COMP_LINE}; ' + words + 'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
             '_leasehold "$3"; printf "%s\\n" "${COMPREPLY[@]}"', "bash", script, line, program],
            capture_output=True, text=True, check=False, env=self.environment())
        self.assertEqual(result.stderr, "", line)
        return result.stdout.split("\n")[:-1]

    def environment(self):
        path = ":".join(os.path.dirname(binary(p)) for p in
                        ("leasehold", "leasehold-master", "leasehold-chunkserver"))
        return dict(self.cluster.environment(), PATH=path + ":" + os.environ["PATH"])

    def test_what_a_shell_offers(self):
        self.start_cluster(servers=1, **process_cluster.CALM)
        for path in ("/logs/web", "/logs/web:2", "/logs/a b", "/other"):
            self.assertEqual(self.cluster.run(
                "create", "--replication=1", "--min-replicas=1", path).returncode, 0)
        self.assertEqual(self.cluster.run("put", "/config/web", "1").returncode, 0)
        for line, expected in (
                ("leasehold cr", ["create"]),
                ("leasehold help re", ["restore", "recall", "register"]),
                ("leasehold create --dur", ["--durability="]),
                ("leasehold create --durability=", ["buffered", "synced"]),
                ("leasehold create --durability s", ["synced"]),
                ("leasehold --timeout 5s tail --fol", ["--follow"]),
                ("leasehold cat /l", ["/logs/a\\ b", "/logs/web", "/logs/web:2"]),
                ("leasehold cat /logs/web:", ["2"]),
                ("leasehold append --le", ["--length-prefixed"]),
                ("leasehold append --durability synced /l",
                 ["/logs/a\\ b", "/logs/web", "/logs/web:2"]),
                ("leasehold append /logs/web /bin/fals", ["/bin/false"]),
                ("leasehold drain c", ["cs1"]),
                ("leasehold get /c", ["/config/web"]),
                ("leasehold watch /c", ["/config/web"]),
                ("leasehold leases /", [""]),
                ("leasehold store ", ["init", "copy"]),
                ("leasehold store --json c", ["copy"]),
                ("leasehold store copy ", [""]),
                ("leasehold certs ", ["init", "issue", "show"]),
                ("leasehold certs --dir=/ca is", ["issue"]),
                ("leasehold certs issue /c", [""]),
                ("leasehold certs show /bin/fals", ["/bin/false"]),
                ("leasehold completion p", ["paths"]),
                ("leasehold nothing --", [""]),
                ("leasehold-master --log-level=", ["debug", "info", "warn", "error"]),
                ("leasehold-chunkserver --scrub-p", ["--scrub-period="]),
                ("leasehold lock name -- /bin/fals", ["/bin/false"])):
            self.assertEqual(self.complete(line), expected, line)


if __name__ == "__main__":
    unittest.main(verbosity=2)
