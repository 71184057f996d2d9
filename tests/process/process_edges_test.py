#!/usr/bin/python3
"""Each limit that the documents name, at its edge and one beyond it, on each kind of store: what is
within is there after a restart and after a move to another kind of store; what is beyond is refused
with an error that says so, and ends nobody. (Of more things than a test can make, core tests try
smaller bounds: sessions and their locks, values, replicas, calls that wait.)"""

import collections
import contextlib
import os
import subprocess

import grpc

import etcd
import process_cluster
from process_cluster import CALM, Cluster, ClusterTest, binary, free_port, wait_for
from process_programs import Program
from process_wire import Channel, load_schema

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SEAL_BYTES = 10  # behind each pair of the store

# `try_it(test, size)` returns (error's name or "", what was said). `at`: the largest or smallest
# size that is taken; `beyond`: the next one, and `error`. `look(test, size)`: it is there.
# `named`: what is said names the limit.
Limit = collections.namedtuple("Limit", "what try_it at beyond error look named", defaults=(True,))


def text_of(size):
    """A path or name of so many bytes, some of them no ASCII."""
    start = "/ä" + "/" + "p" * 100 + "/"
    return start + "x" * (size - len(start.encode()))


def put(test, name, value=b"v", **fields):
    return test.said(test.channel.leases("Change", name=name, value=value, **fields))


def value_of(test, name):
    reply = test.channel.leases("Get", name=name)
    return reply.value.value if not reply.error else None


def policy(test, prefix, remove=False, **fields):
    return test.said(test.channel.leases(
        "SetPolicy", policy={"prefix": prefix, "no_lease": True, **fields}, remove=remove))


def has_policy(test, prefix):
    return any(p.prefix == prefix for p in test.channel.leases("ListPolicies").policies)


def policies(test, count):
    """So many of them, the numbered ones last."""
    there = {p.prefix for p in test.channel.leases("ListPolicies").policies}
    said = ("", "")
    for i in range(count - len(there)):
        if not said[0]:
            said = policy(test, f"/edges/policies/{len(there)}/{i}")
    return said


def sent(test, size):
    """A request of so many bytes, which is answered, be it with a refusal."""
    request = test.schema.StatRequest(path="/" + "x" * (size - 5))
    test.assertEqual(request.ByteSize(), size)
    try:
        reply = test.channel.call("Master", "Stat", request)
        return ("", "") if reply.error else test.said(reply)
    except grpc.RpcError as error:
        return error.code().name, error.details()


def lock(test, name, **fields):
    program = test.program()
    answer = program.acquire(name, no_wait=True, **fields)
    program.close()
    return ("", "") if isinstance(answer, int) else (test.name_of(answer.error), answer.text)


def session(test, **texts):
    """Its host, process or label."""
    program = Program(test.channel, **{k: v for k, v in texts.items() if k == "label"})
    try:
        test.assertIsNone(program.attach())
    except grpc.RpcError as error:
        return error.details().split(":")[0], error.details()
    program.close()
    return "", ""


def create(test, path, **fields):
    return test.said(test.channel.master("Create", path=path, **fields))


def has_file(test, path):
    return not test.channel.master("Stat", path=path).error


def renamed(test, path):
    source = f"/edges/source{len(path)}"
    error = create(test, source)
    return error if error[0] else test.said(
        test.channel.master("Rename", **{"from": source, "to": path}))


def append(test, path, size):
    """One record through the library."""
    result = test.cluster.run("append", "--create", "--length-prefixed", path,
                              stdin=size.to_bytes(4, "little") + b"r" * size)
    text = result.stderr.decode(errors="replace")
    return ("", "") if result.returncode == 0 else ("TOO_LARGE" if result.returncode == 65
                                                    else str(result.returncode), text)


def record_in(test, path, size):
    return test.cluster.command("cat", "--length-prefixed", path)[4:] == b"r" * size


def server(test, **flags):
    """A chunkserver that is given this, until it is in its session or has ended."""
    address = f"127.0.0.1:{free_port()}"
    name = f"{flags}"[:40]
    process = subprocess.Popen(
        [binary("leasehold-chunkserver"), f"--listen={address}",
         f"--master={test.cluster.master_address}",
         f"--data-dir={test.folder}/extra{abs(hash(name))}-{len(test.extra)}",
         *(f"--{k.replace('_', '-')}={v}" for k, v in flags.items())],
        stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    test.extra.append(process)
    wanted = flags.get("server_id")

    def decided():
        return process.poll() is not None or any(
            s["server_id"] == wanted and s["live"]
            for s in test.cluster.json("servers")["servers"])
    wait_for("a chunkserver to be there, or refused", decided)
    ended = process.poll()
    if ended is None:
        process.kill()
    said = process.communicate()[1].decode(errors="replace")
    return ("", said) if ended is None else (str(ended), said)


def address_of(size):
    """One of so many bytes, whose host may be a name."""
    labels = 5 * ("h" * 49 + ".")
    return labels + "h" * (size - len(labels) - 5) + ":7500"


LIMITS = [
    Limit("the name of a value", lambda t, n: put(t, text_of(n)), 510, 511, "TOO_LARGE",
          lambda t, n: value_of(t, text_of(n)) == b"v"),
    Limit("the name of a value, up to a path's", lambda t, n: put(t, text_of(n)), None, 1024,
          "TOO_LARGE", None),
    Limit("the name of a value, any", lambda t, n: put(t, text_of(n)), None, 1025,
          "TOO_LARGE", None),
    Limit("a name under which nothing is, deleted",
          lambda t, n: t.said(t.channel.leases("Change", name=text_of(n), remove=True)),
          None, 1024, "NOT_FOUND", None, False),
    Limit("the prefix of a policy", lambda t, n: policy(t, text_of(n)), 510, 511, "TOO_LARGE",
          lambda t, n: has_policy(t, text_of(n))),
    Limit("the prefix of a policy, any", lambda t, n: policy(t, text_of(n - 1) + "/"), None, 1024,
          "TOO_LARGE", None),
    Limit("a prefix without a policy, whose policy is removed",
          lambda t, n: policy(t, text_of(n), remove=True), None, 1024, "NOT_FOUND", None, False),
    Limit("a value", lambda t, n: put(t, f"/edges/value{n}", b"b" * n), 65536, 65537, "TOO_LARGE",
          lambda t, n: value_of(t, f"/edges/value{n}") == b"b" * n),
    Limit("the share of a policy", lambda t, n: policy(t, "/edges/share", share_percent=n),
          1000, 1001, "INVALID_ARGUMENT", None),
    Limit("the term of a policy", lambda t, n: policy(t, "/edges/term", term_max_ms=n),
          24 * 3600000, 24 * 3600000 + 1, "INVALID_ARGUMENT", None),
    Limit("policies", policies, 1000, 1001, "NO_MEMORY",
          lambda t, n: len(t.channel.leases("ListPolicies").policies) >= n, False),
    Limit("a request", sent, 72 * KIB, 72 * KIB + 1, "INVALID_ARGUMENT", None, False),
    Limit("the name of a lock", lambda t, n: lock(t, text_of(n)), 1024, 1025, "TOO_LARGE", None),
    Limit("what a lock says of its holder", lambda t, n: lock(t, "/edges/info", info=b"i" * n),
          256, 257, "TOO_LARGE", None),
    Limit("the label of a session", lambda t, n: session(t, label="l" * n), 128, 129,
          "INVALID_ARGUMENT", None),
    Limit("a path", lambda t, n: create(t, text_of(n)), 1024, 1025, "TOO_LARGE",
          lambda t, n: has_file(t, text_of(n))),
    Limit("a path that is another's new one", lambda t, n: renamed(t, text_of(n - 1) + "r"),
          1024, 1025, "TOO_LARGE", lambda t, n: has_file(t, text_of(n - 1) + "r")),
    Limit("the smallest chunk", lambda t, n: create(t, f"/edges/chunk{n}", chunk_size=n),
          64 * KIB, 64 * KIB - 1, "INVALID_ARGUMENT", lambda t, n: has_file(t, f"/edges/chunk{n}")),
    Limit("the largest chunk", lambda t, n: create(t, f"/edges/chunk{n}", chunk_size=n),
          GIB, GIB + 1, "INVALID_ARGUMENT", lambda t, n: has_file(t, f"/edges/chunk{n}")),
    Limit("replicas", lambda t, n: create(t, f"/edges/replicas{n}", replication=n, min_replicas=1),
          16, 17, "INVALID_ARGUMENT", lambda t, n: has_file(t, f"/edges/replicas{n}")),
    Limit("a record", lambda t, n: append(t, f"/edges/record{n}", n), 16777172, 16777173,
          "TOO_LARGE", lambda t, n: record_in(t, f"/edges/record{n}", n)),
    Limit("the id of a chunkserver", lambda t, n: server(t, server_id="s" * n), 64, 65, "64", None),
    Limit("the address of a chunkserver",
          lambda t, n: server(t, server_id=f"a{n}", advertise=address_of(n)), 256, 257, "64", None),
    Limit("a failure domain",
          lambda t, n: server(t, server_id=f"d{n}", failure_domain="d" * n), 128, 129, "64", None),
]


def as_before(key, value):
    """A value of the store as releases before wrote it: without a seal (docs/formats.md), and in a
    format that has none. The format is the first field of the records that have one."""
    if key.startswith((b"edges/map/", b"edges/head")):
        value = value[:-SEAL_BYTES]
    if key in (b"edges/map/M", b"edges/head"):
        assert value[0] == 0x08 and value[1] > 1
        value = bytes([0x08, value[1] - 1]) + value[2:]
    return value


class EdgesTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.extra = []
        self.addCleanup(self.end_extra)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))
        self.members = etcd.Etcd(self.folder, members=1, flags=("--unsafe-no-fsync",))
        self.addCleanup(self.members.cleanup)
        self.members.start()
        self.directory = f"lmdb:{self.folder}/store"
        self.etcd = f"etcd:{self.members.addresses()}/edges"

    def end_extra(self):
        for process in self.extra:
            process.kill()
            process.wait()

    def said(self, reply):
        return self.name_of(reply.error), reply.error_text

    def name_of(self, error):
        return self.schema.ErrorCode.Name(error) if error else ""

    def program(self):
        program = Program(self.channel)
        self.assertIsNone(program.attach())
        return program

    def connect(self):
        self.channel = Channel(self.schema, self.cluster.master.address)
        self.addCleanup(self.channel.close)

        def answers():
            with contextlib.suppress(grpc.RpcError):
                return self.channel.master("Masters")
            return None
        wait_for("the master to answer", answers)  # the library keeps broken connections

    def start_on(self, store):
        """The cluster; its master, on this store. Again: on another one."""
        if self.cluster is None:
            self.cluster = Cluster(self.folder, **CALM)
        master = self.cluster.master
        if master.running():
            self.assertEqual(master.stop(), 0)
        master.argv = [a for a in master.argv if not a.startswith(("--store=", "--data-dir="))]
        master.argv.append("--store=" + store)
        self.cluster.begin()
        for node in self.cluster.nodes():
            if not node.running():
                node.start()
        self.cluster.wait_ready()
        self.connect()

    def look(self):
        for limit in LIMITS:
            if limit.look is not None:
                with self.subTest(limit.what):
                    self.assertTrue(limit.look(self, limit.at), "it is not there")
                    self.assertFalse(self.finds(limit), "what was refused is there")

    def finds(self, limit):
        try:
            return limit.look(self, limit.beyond)
        except AssertionError:  # a command that failed
            return False

    def try_all(self, store):
        self.start_on(store)
        master = self.cluster.master
        number = master.process.pid
        for limit in LIMITS:
            with self.subTest(limit.what):
                if limit.at is not None:
                    self.assertEqual(limit.try_it(self, limit.at)[0], "", limit.try_it)
                error, text = limit.try_it(self, limit.beyond)
                self.assertEqual(error, limit.error, text)
                if limit.named:
                    self.assertRegex(text, r"\d", "names no limit")
                self.assertIsNone(master.process.poll(), "the master ended")
        self.assertEqual(master.process.pid, number)
        self.look()
        master.kill()
        master.start()
        self.cluster.wait_ready()
        self.connect()
        self.look()

    def copy(self, source, target):
        self.assertEqual(self.cluster.master.stop(), 0)
        return self.cluster.run("store", "copy", source, target)

    def move(self, source, target):
        moved = self.copy(source, target)
        self.assertEqual(moved.returncode, 0, moved.stderr)
        self.start_on(target)

    def test_limits_in_a_directory_and_after_a_move(self):
        self.try_all(self.directory)
        self.move(self.directory, self.etcd)
        self.look()

    def test_limits_in_etcd_and_after_a_move(self):
        self.try_all(self.etcd)
        self.move(self.etcd, self.directory)
        self.look()

    def test_longer_names_of_an_older_release(self):
        """etcd has them, LMDB could not: they can be read and deleted, and stop a move until then,
        which says so."""
        name, longer = text_of(510), text_of(600)
        self.start_on(self.etcd)
        self.assertEqual(put(self, name)[0], "")
        self.assertEqual(self.cluster.master.stop(), 0)
        for key, value in self.members.get(b"edges/").items():
            value = as_before(key, value)
            self.members.put(key, value)
            if key.endswith(name.encode()):
                self.members.put(key.replace(name.encode(), longer.encode()), value)
        self.start_on(self.etcd)
        self.assertEqual(value_of(self, longer), b"v")
        self.assertEqual(put(self, longer)[0], "TOO_LARGE")
        moved = self.copy(self.etcd, self.directory)
        self.assertEqual(moved.returncode, 1, moved.stderr)
        self.assertIn(b"its key has 601 bytes, of at most 511", moved.stderr)
        self.start_on(self.etcd)
        self.assertEqual(self.said(self.channel.leases("Change", name=longer, remove=True))[0], "")
        self.assertIsNone(value_of(self, longer))
        self.move(self.etcd, self.directory)
        self.assertEqual(value_of(self, name), b"v")


if __name__ == "__main__":
    process_cluster.main()
