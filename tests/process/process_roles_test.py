#!/usr/bin/python3
"""Who may do what: every method and role, by the table of docs/protocol.md, on real servers."""

import os
import re
import signal
import subprocess
import time

import grpc

import process_cluster
from process_cluster import CALM, Node, Writer, binary, free_port, wait_for
from process_masters import SCHEMA
from process_tls_test import TlsTest, secure
from process_wire import Channel, load_schema

ROLES = ("reader", "writer", "admin", "chunkserver", "master")
# Of ROLES by right, as ACC-2 has it.
RIGHTS = {
    "look": {"reader", "writer", "admin", "chunkserver", "master"},
    "read": {"reader", "writer", "admin"},
    "fetch": {"reader", "writer", "admin", "chunkserver"},
    "write": {"writer", "admin"},
    "administer": {"admin"},
    "serve": {"chunkserver"},
}


def methods():
    """(service, method, right) of the table; of two rights that of an empty request."""
    with open("docs/protocol.md", encoding="utf-8") as file:
        rows = re.findall(r"^\| (\w+)\.(\w+) \| (\w+)", file.read(), re.MULTILINE)
    return [(service, method, right) for service, method, right in rows if right in RIGHTS]


class RolesTest(TlsTest):

    def start_with(self, table="", options=CALM, master=()):
        """A cluster whose nodes have that table of roles; `master`: more of its options."""
        roles = os.path.join(self.folder, "roles")
        with open(roles, "w", encoding="utf-8") as file:
            file.write(table)
        self.cluster = process_cluster.Cluster(self.folder, **options)
        secure(self.cluster, self.certs)
        for node in self.cluster.nodes():
            node.argv.append(f"--roles={roles}")
            node.serve_metrics()
        self.cluster.master.argv.extend(master)
        self.cluster.start()

    def as_role(self, who):
        """The environment of a command of that one."""
        own = self.certs.dir_of(who)
        if not os.path.isdir(own):
            self.certs.issue(who)
        return dict(os.environ, LEASEHOLD_MASTER=self.cluster.master_address,
                    LEASEHOLD_TLS_DIR=own)

    def run_as(self, who, *args, stdin=b""):
        return subprocess.run([binary("leasehold"), *args], input=stdin, capture_output=True,
                              env=self.as_role(who), check=False)

    def allowed(self, who, *args, **kwargs):
        result = self.run_as(who, *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr.decode())
        return result.stdout

    def denied(self, who, *args, saying=None, **kwargs):
        result = self.run_as(who, *args, **kwargs)
        self.assertNotEqual(result.returncode, 0, args)
        self.assertIn(saying or f"leasehold://{who}", result.stderr.decode())

    @staticmethod
    def is_denied(channel, service, method):
        """Is an empty request refused for want of a right?"""
        streamed = (service, method) in (("Master", "Session"), ("Leases", "Session"),
                                         ("Leases", "Watch"), ("ChunkServer", "Append"),
                                         ("ChunkServer", "Replicate"))
        try:
            if streamed:
                messages = "LeaseSession" if service == "Leases" and method == "Session" else None
                stream = channel.stream(service, method, 30, messages)
                stream.send(b"")
                stream.finish()
                stream.receive()
                stream.cancel()
            elif method == "Read":
                channel.chunkserver("Read", 30)
            else:
                request = getattr(channel.schema, method + "Request")()
                channel.call(service, method, request, 30)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.PERMISSION_DENIED:
                assert "has the role" in error.details(), error.details()
                return True
            assert error.code() != grpc.StatusCode.UNAVAILABLE, error
        return False

    def test_a_chunkserver_is_named_by_its_certificate(self):
        self.start_with()
        own = self.certs.issue("chunkserver/cs7")
        address = f"127.0.0.1:{free_port()}"
        node = Node("cs7", address, os.path.join(self.folder, "cs7"), [
            binary("leasehold-chunkserver"), f"--master={self.cluster.master_address}",
            f"--listen={address}", f"--data-dir={self.folder}/cs7", f"--tls-dir={own}",
            "--server-id=other"], os.path.join(self.folder, "cs7.log"))
        self.addCleanup(node.kill)
        node.start()
        wait_for("it to be refused", lambda: 'may not register as "other"' in node.log_text())
        wait_for("the refusal to be seen", lambda: self.cluster.json("servers")["refused"])
        (refused,) = self.cluster.json("servers")["refused"]
        self.assertEqual((refused["server_id"], refused["address"], refused["identity"],
                          refused["error"]),
                         ("other", address, "leasehold://chunkserver/cs7", "PERMISSION"))
        self.assertRegex(refused["peer"], r"^127\.0\.0\.1:\d+$")
        said = self.cluster.run("servers").stderr.decode()
        self.assertRegex(said, r"a chunkserver at 127\.0\.0\.1:\d+ was refused \(\d+ times?, "
                         r'the last one .* ago\): .* may not register as "other"')
        self.assertEqual(node.stop(), 0)
        node.argv.pop()  # as the documents say
        node.start()
        wait_for("its session", lambda: any(
            s["server_id"] == "cs7" and s["live"] for s in self.cluster.json("servers")["servers"]))
        self.assertEqual(self.cluster.json("servers")["refused"], [])
        self.assertEqual(node.log_text().count("(0 chunks, "), 2)

    def test_every_method_and_every_role(self):
        self.start_with("leasehold://writer/former none\n")
        schema = load_schema(SCHEMA, os.path.join(self.folder, "schema"))
        served = {(s.name, m.name) for s in schema.DESCRIPTOR.services_by_name.values()
                  for m in s.methods}
        table = methods()
        self.assertEqual({(service, method) for service, method, _ in table}, served)
        servers = {"Master": self.cluster.master, "Leases": self.cluster.master,
                   "ChunkServer": self.cluster.servers["cs1"]}
        for who in [f"{role}/test" for role in ROLES] + ["writer/former"]:
            role = who.split("/")[0] if who != "writer/former" else None
            own = self.certs.issue(who)
            for service, method, right in table:
                channel = Channel(schema, servers[service].address, tls_dir=own)
                with self.subTest(who=who, method=f"{service}.{method}"):
                    self.assertEqual(self.is_denied(channel, service, method),
                                     role not in RIGHTS[right])
                channel.close()

    def test_what_people_do_with_a_role_and_prefixes(self):
        self.start_with("leasehold://writer/ingest writer /logs/ /jobs/\n"
                        "leasehold://reader/web reader /logs/\n")
        self.allowed("writer/ingest", "create", "/logs/web")
        self.denied("writer/ingest", "create", "/other", saying="does not reach")
        self.denied("reader/web", "create", "/logs/mine", saying="has the role reader")
        self.allowed("writer/ingest", "append", "/logs/web", stdin=b"one\ntwo\n")
        self.assertEqual(self.allowed("reader/web", "cat", "/logs/web"), b"one\ntwo\n")
        self.denied("reader/web", "append", "/logs/web", stdin=b"three\n")
        self.allowed("admin/test", "create", "/secret")
        self.allowed("admin/test", "append", "/secret", stdin=b"secret\n")
        self.denied("reader/web", "cat", "/secret", saying="does not reach")
        self.denied("reader/web", "ls", saying="does not reach")
        self.assertIn(b"/logs/web", self.allowed("reader/web", "ls", "/logs/"))
        self.allowed("writer/ingest", "lock", "/jobs/a", "--", "true")
        self.denied("writer/ingest", "lock", "/theirs", "--", "true", saying="does not reach")
        self.denied("reader/web", "lock", "/logs/a", "--", "true", saying="has the role reader")
        self.denied("writer/ingest", "drain", "cs1", saying="has the role writer")
        self.denied("writer/ingest", "recall", "/logs/web", saying="has the role writer")
        self.allowed("reader/web", "servers")
        self.allowed("admin/test", "policy", "/secret/", "--set", "broadcast")
        self.allowed("admin/test", "policy", "/logs/web/", "--set", "broadcast")
        policies = self.allowed("reader/web", "policy")
        self.assertIn(b"/logs/web/", policies)
        self.assertNotIn(b"/secret/", policies)
        self.denied("reader/web", "policy", "/secret/", saying="does not reach")
        result = self.run_as("reader/web", "policy", "/logs/none/")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"there is no policy for /logs/none/", result.stderr)
        self.assertEqual(self.allowed("reader/web", "cat", "/logs/web"), b"one\ntwo\n")
        log = self.cluster.master.log_text()
        self.assertIn("refused: leasehold://", log)

    def test_a_chunks_servers_ask_for_what_the_master_gave(self):
        self.start_with("leasehold://reader/web reader /logs/\n"
                        "leasehold://writer/ingest writer /logs/\n")
        schema = load_schema(SCHEMA, os.path.join(self.folder, "schema"))
        code = schema.ErrorCode.Value
        for path in ("/secret", "/logs/web"):
            self.allowed("admin/test", "create", path)
            self.allowed("admin/test", "append", path, stdin=path.encode() + b"\n")
        found = {}
        for who, path in (("admin/test", "/secret"), ("reader/web", "/logs/web")):
            channel = Channel(schema, self.cluster.master.address, tls_dir=self.certs.issue(who)
                              if who == "reader/web" else self.certs.dir_of(who))
            found[path] = channel.call("Master", "Locate", schema.LocateRequest(path=path),
                                       30).chunks[0]
            channel.close()
        secret, own = found["/secret"], found["/logs/web"]
        self.assertEqual(len(own.capability), 33)
        forged = bytearray(own.capability)
        forged[-1] ^= 1

        def read(server, **fields):
            """What the restricted reader gets, who has found out the chunk's number."""
            channel = Channel(schema, server.address, tls_dir=self.certs.dir_of("reader/web"))
            try:
                reply = channel.chunkserver("Read", 30, max_bytes=1 << 20, **fields)
                return reply.error, reply.batches
            finally:
                channel.close()

        for server in self.cluster.servers.values():
            for shown in (b"", own.capability, bytes(forged), b"x" * 33, b"x" * 1000):
                self.assertEqual(read(server, chunk=secret.chunk, capability=shown),
                                 (code("STALE_CAPABILITY"), b""))
            self.assertEqual(read(server, chunk=own.chunk)[0], code("STALE_CAPABILITY"))
            error, batches = read(server, chunk=own.chunk, capability=own.capability)
            self.assertEqual(error, code("OK"))
            self.assertIn(b"/logs/web", batches)
            for mode in ("RECOVERY", "COPY"):
                with self.assertRaises(grpc.RpcError) as raised:
                    read(server, chunk=own.chunk, capability=own.capability,
                         mode=schema.ReadMode.Value(mode), version=own.version)
                self.assertEqual(raised.exception.code(), grpc.StatusCode.PERMISSION_DENIED)
        log = "".join(s.log_text() for s in self.cluster.servers.values())
        self.assertIn("refused: leasehold://reader/web, chunk ", log)
        for node in self.cluster.nodes():
            self.assertNotIn(own.capability.hex(), node.log_text())

    def test_a_replica_follows_only_whom_the_master_has_granted_its_chunk(self):
        """ACC-9: what somebody can do who has stolen the key of a chunkserver."""
        self.start_with()
        schema = load_schema(SCHEMA, os.path.join(self.folder, "schema"))
        self.allowed("admin/test", "create", "/f", "--on-primary-loss=wait")
        self.allowed("admin/test", "append", "/f", stdin=b"one\n")
        (lease,) = self.cluster.json("leases")["leases"]
        thief = next(s for s in self.cluster.servers if s != lease["primary"])
        for name, server in self.cluster.servers.items():
            if name == thief:
                continue
            channel = Channel(schema, server.address,
                              tls_dir=self.certs.dir_of(f"chunkserver/{thief}"))
            stream = channel.stream("ChunkServer", "Replicate")
            shown = [(lease["version"], b""), (lease["version"] + 1, b""),
                     (1 << 31, os.urandom(33)), ((1 << 64) - 1, b"x" * 1000)]
            stream.send(parts=[{"kind": 0, "chunk": lease["chunk"], "version": version,
                                "feed": i + 1, "server_id": name, "capability": capability}
                               for i, (version, capability) in enumerate(shown)])
            answers = []
            while len(answers) < len(shown):
                answers += stream.receive().answers
            self.assertEqual({a.error for a in answers}, {schema.STALE_CAPABILITY})
            channel.close()
        self.allowed("admin/test", "append", "/f", stdin=b"two\n")
        self.assertEqual(self.cluster.json("leases")["leases"][0]["version"], lease["version"])
        self.assertEqual(self.allowed("admin/test", "cat", "/f"), b"one\ntwo\n")
        # A member that starts in another reign is led by a grant of that one.
        self.cluster.master.kill()
        self.cluster.master.start()
        wait_for("the lease to go on", lambda: len(
            [s for s in self.cluster.json("servers")["servers"] if s["live"]]) == 3)
        self.cluster.servers[thief].kill()
        self.cluster.servers[thief].start()
        self.allowed("admin/test", "append", "/f", stdin=b"three\n")
        self.assertEqual(self.allowed("admin/test", "cat", "/f"), b"one\ntwo\nthree\n")

    def test_a_capability_that_runs_out_is_no_error(self):
        self.start_with(options={"session_term": "500ms"}, master=["--capability-term=1s"])
        self.allowed("admin/test", "create", "/f")
        writer = subprocess.Popen([binary("leasehold"), "append", "/f"], stdin=subprocess.PIPE,
                                  stderr=subprocess.PIPE, env=self.as_role("writer/ingest"))
        reader = subprocess.Popen([binary("leasehold"), "tail", "--follow", "-n", "100", "/f"],
                                  stdout=subprocess.PIPE, env=self.as_role("reader/web"))
        for i in range(30):
            line = b"record %d\n" % i
            writer.stdin.write(line)
            writer.stdin.flush()
            self.assertEqual(reader.stdout.readline(), line)
            time.sleep(0.15)
        reader.kill()
        reader.wait()
        reader.stdout.close()
        _, errors = writer.communicate(timeout=30)
        self.assertEqual((writer.returncode, errors), (0, b""))
        stale = sum(self.figure(server, "chunkserver_capabilities_stale_total")
                    for server in self.cluster.servers.values())
        self.assertGreater(stale, 2)
        # What was listed has run out when it is looked at, chunk by chunk.
        self.allowed("admin/test", "fsck", "--deep")

    def test_a_chunkserver_under_another_ones_name_is_not_let_in(self):
        self.start_with(options={})
        server = self.cluster.servers["cs1"]
        server.kill()
        server.argv = [arg.replace("chunkserver-cs1", "chunkserver-cs2") for arg in server.argv]
        server.start()
        process_cluster.wait_for("the refusal", lambda: "its certificate's name" in
                                 server.log_text() + self.cluster.master.log_text())
        process_cluster.wait_for("the end of its session", lambda: "cs1" not in [
            s["server_id"] for s in self.cluster.json("servers")["servers"] if s["live"]])

    def test_a_chunkserver_that_loses_its_role_says_that_it_is_refused(self):
        self.start_with("# as the certificates say\n")
        server = self.cluster.servers["cs1"]
        with open(os.path.join(self.folder, "roles"), "w", encoding="utf-8") as file:
            file.write("leasehold://chunkserver/cs1 none\n")
        self.cluster.master.process.send_signal(signal.SIGHUP)
        wait_for("the refusal", lambda: re.search(
            r"ERROR chunkserver: no session with the master at \S+, trying on: leasehold://"
            r"chunkserver/cs1 has the role none .* needs the role chunkserver\n",
            server.log_text()))
        # By its own table, too, nobody would take it for one.
        self.assertEqual(server.stop(), 0)
        ended = subprocess.run(server.argv, capture_output=True, encoding="utf-8", check=False)
        self.assertIn("nobody takes a chunkserver for one without the role", ended.stderr)
        self.assertEqual(ended.returncode, 64)

    def says_now(self, table, said):
        """All nodes read that table; each logs that."""
        with open(os.path.join(self.folder, "roles"), "w", encoding="utf-8") as file:
            file.write(table)
        for node in self.cluster.nodes():
            before = node.log_text().count(said)
            node.process.send_signal(signal.SIGHUP)
            process_cluster.wait_for(f"{node.name} to say: {said}", lambda n=node, b=before:
                                     n.log_text().count(said) > b)

    def test_a_table_that_changes_counts_at_once(self):
        first = ("leasehold://writer/ingest writer /logs/\n"
                 "leasehold://writer/other writer /logs/\n")
        self.start_with(first)
        self.allowed("admin/test", "create", "/logs/a", "/logs/b")
        for number, who in enumerate(("writer/ingest", "writer/other")):
            self.cluster.environment = lambda w=who: self.as_role(w)
            self.writers.append(Writer(self.cluster, "/logs/" + "ab"[number], number))
        ingest, other = self.writers
        watch = subprocess.Popen([binary("leasehold"), "watch", "/logs/"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 env=self.as_role("writer/ingest"))
        self.addCleanup(watch.kill)
        self.await_progress(100)
        # A mistake: nothing changes.
        self.says_now("leasehold://writer/ingest wirter\n", "none was taken up")
        self.assertIn("line 1: the role is none of", self.cluster.master.log_text())
        self.await_progress(100)
        # One loses everything, in the middle of its streams. The other one's line is as before.
        self.says_now(first.replace("ingest writer /logs/", "ingest none"), "from now on")
        self.assertNotEqual(ingest.process.wait(process_cluster.PATIENCE_S), 0)
        self.assertIn("leasehold://writer/ingest has the role none", ingest.errors())
        _, error = watch.communicate(timeout=process_cluster.PATIENCE_S)
        self.assertIn("leasehold://writer/ingest has the role none", error.decode())
        ingest.kill()
        self.writers = [other]
        self.await_progress(100)
        self.denied("writer/ingest", "ls", "/logs/", saying="has the role none")
        self.finish_writers()
        self.assertEqual(other.errors(), "")
        # And gets it back.
        self.says_now(first, "from now on")
        self.allowed("writer/ingest", "append", "/logs/a", stdin=b"again\n")

    def test_mistakes_in_the_table_are_said_at_the_start(self):
        roles = os.path.join(self.folder, "roles")
        own = self.certs.issue("master/m")
        with open(roles, "w", encoding="utf-8") as file:
            file.write("# all\n\nCN=x root\n")
        for flags, said in ((["--tls-dir=" + own], "line 3: the role is none of"),
                            ([], "of no use without TLS")):
            if not flags:
                with open(roles, "w", encoding="utf-8") as file:
                    file.write("CN=x reader /\n")
            result = subprocess.run([binary("leasehold-master"), f"--roles={roles}", *flags],
                                    capture_output=True, cwd=self.folder, check=False)
            self.assertEqual(result.returncode, 64)
            self.assertIn(said, result.stderr.decode())


if __name__ == "__main__":
    process_cluster.main()
