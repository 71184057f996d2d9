"""Several masters that share an etcd, with chunkservers and clients, for tests.

As in process_cluster.py nothing waits for a time, only for what it needs.
"""

import os
import shutil
import subprocess
import sys
import tempfile

# Processes are started while calls are under way. Each executes another program at once: gRPC need
# not make itself ready for a fork, for which it may wait for ever.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

import grpc  # noqa: E402

import etcd  # noqa: E402
import process_cluster  # noqa: E402
import process_names  # noqa: E402
from process_cluster import Cluster, ClusterTest, Node, beside, wait_for  # noqa: E402
from process_wire import Channel, load_schema  # noqa: E402

# Where tests find them (the runfiles), and where they are in the source tree.
SCHEMA = ("proto/leasehold.proto", "proto/health.proto")
LIBRARY = "client/library/shared/libleasehold.so"
HERE = os.path.dirname(os.path.abspath(__file__))


class MastersCluster(Cluster):
    """Masters m1, m2, ... with a prefix of their own in etcd, and chunkservers.

    `store` stands instead of --store's value; `root`: the folder in which schema and library are
    found."""

    def __init__(self, folder, members, count=3, reign_term="600ms", prefix="leasehold",
                 store=None, root=".", **options):
        self.members = members
        self.prefix = prefix
        self._count = count
        self._flags = [f"--store={store or f'etcd:{members.addresses()}/{prefix}'}",
                       f"--reign-term={reign_term}"]
        self._root = root
        self._schema = None
        super().__init__(folder, **options)

    def _make_masters(self, data_dir, argv):
        masters = []
        for i in range(1, self._count + 1):
            name = f"m{i}"
            host = self.host(name)
            address = host.address()
            masters.append(Node(
                name, address, None,
                argv + self._flags + [f"--listen={address}", f"--master-id={name}"],
                os.path.join(self.folder, name + ".log"), host))
        return masters

    def named(self, name):
        return next(m for m in self.masters if m.name == name)

    @property
    def schema(self):
        if self._schema is None:
            # One for all clusters of this process: it cannot be loaded twice.
            out_dir = os.path.join(os.environ.get("TEST_TMPDIR", self.folder), "schema")
            self._schema = sys.modules.get("leasehold_pb2") or load_schema(
                [os.path.join(self._root, p) for p in SCHEMA], out_dir)
        return self._schema

    def channel(self, master):
        return Channel(self.schema, master.address)

    def ask(self, master, method="Masters", timeout=10, **fields):
        """What this master answers; None: it does not."""
        channel = self.channel(master)
        try:
            return channel.master(method, timeout, **fields)
        except grpc.RpcError:
            return None
        finally:
            channel.close()

    def health(self, master, service=""):
        """What grpc.health.v1 says there: 1 is SERVING."""
        channel = self.channel(master)
        try:
            return channel.health(service, timeout=10)
        finally:
            channel.close()

    def acting(self):
        """(master, its reign) of one that says so of itself, or None."""
        for m in self.masters:
            if m.running() and not m.paused:
                said = self.ask(m)
                if said is not None and said.acting:
                    return m, said.reign
        return None

    def wait_acting(self, above=0):
        """The same once there is one, of a reign above that."""
        def found():
            now = self.acting()
            return now if now is not None and now[1] > above else None
        return wait_for(f"a master that acts in a reign above {above}", found)

    def wait_state(self, master, *states):
        def is_there():
            said = self.ask(master)
            return said if said is not None and said.state in states else None
        return wait_for(f"{master.name} to be one of {states}", is_there)


class Names:
    """Clients of names (process_names.py), and whether what they were answered is true.

    `pause`: seconds between two calls of one client."""

    def __init__(self, cluster, folder="/names", clients=3, pause=0):
        self.cluster, self.folder = cluster, folder
        self.output = os.path.join(cluster.folder, folder.strip("/").replace("/", "_") + ".calls")
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen(
                [*cluster.host("clients").prefix, sys.executable,
                 os.path.join(HERE, "process_names.py"), LIBRARY, cluster.master_address, folder,
                 str(clients), str(pause)],
                stdin=subprocess.PIPE, stdout=output)

    def calls(self):
        """Whole lines so far."""
        with open(self.output, encoding="utf-8") as file:
            return [line.split(" ", 2) for line in file.read().split("\n")[:-1]]

    def await_calls(self, more):
        goal = len(self.calls()) + more

        def reached():
            if self.process.poll() is not None:
                raise AssertionError(f"the clients of names ended: {self.calls()[-1:]}")
            return len(self.calls()) >= goal
        wait_for(f"{more} more calls of names", reached)

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()

    def finish(self):
        """Ends them; raises AssertionError unless every answer was right, and what was acknowledged
        is there. Returns how many calls there were, how many met their own first copy, and of how
        many the outcome was not known."""
        self.process.stdin.close()
        assert self.process.wait(process_cluster.PATIENCE_S) == 0
        there, calls = set(), self.calls()
        met = [self._take(line, there) for line in calls]
        now = {f["path"] for f in self.cluster.json("ls", self.folder + "/")["files"]}
        if now != there:
            raise AssertionError(f"lost: {sorted(there - now)}, not gone: {sorted(now - there)}")
        return len(calls), met.count("met"), met.count("unknown")

    @staticmethod
    def _take(line, there):
        """One call. No other client knows these paths, so a call that meets its own effect was
        carried out before, and its answer was lost."""
        call, path, rest = line
        met = {"create": "ALREADY_EXISTS", "rename": "NOT_FOUND", "remove": "NOT_FOUND"}.get(call)
        to = None
        if call == "rename":
            to, rest = rest.split(" ", 1)
        if call == "stat":
            if rest.split(" ")[0] != ("OK" if path in there else "NOT_FOUND"):
                raise AssertionError(f"stat of {path}: {rest}, which is wrong")
            return None
        if rest.endswith(process_names.UNKNOWN):
            return "unknown"
        if call == "create" and rest.startswith(process_names.NO_ROOM):
            return None  # etcd has reached its quota
        if rest != "OK" and not rest.startswith(f"{met} "):
            raise AssertionError(f"{call} {path}: {rest}")
        there.discard(path)
        if call == "create":
            there.add(path)
        if to is not None:
            there.add(to)
        return None if rest == "OK" else "met"


class MastersTest(ClusterTest):
    """A test with an etcd of three members, which all tests of a class share. Each test has a
    prefix of its own."""

    etcd = None
    etcd_options = {}
    host = staticmethod(beside)

    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="etcd-", dir=os.environ.get("TEST_TMPDIR"))
        cls.etcd_folder = folder
        cls.etcd = etcd.Etcd(folder, host=cls.host, **cls.etcd_options)
        cls.addClassCleanup(cls._drop_etcd)
        cls.etcd.start()

    @classmethod
    def _drop_etcd(cls):
        shutil.rmtree(cls.etcd_folder, ignore_errors=True)

    @classmethod
    def tearDownClass(cls):
        cls.etcd.cleanup()

    def setUp(self):
        super().setUp()
        self.names = None
        self.addCleanup(self._end_names)
        for member in self.etcd.members.values():
            if member.running():
                member.resume()
        self.etcd.start()

    def _end_names(self):
        if self.names is not None and self.names.process.poll() is None:
            self.names.kill()
        if self._failed():
            self.etcd.show_logs(20)

    def make_cluster(self, members=None, **options):
        """Nothing of it runs yet."""
        self.cluster = MastersCluster(self.folder, members or self.etcd,
                                      prefix=options.pop("prefix", self.id().split(".")[-1]),
                                      host=self.host, **options)
        return self.cluster

    def start_masters(self, members=None, **options):
        cluster = self.make_cluster(members, **options)
        cluster.start()
        return cluster

    def files(self):
        files = self.cluster.json("ls", "/")["files"]
        return sorted((f["path"], f["chunks"]) for f in files)

    def everyone_acts_in_turn(self):
        """Each master is made the active one, and has the same files. Returns the first reign."""
        cluster = self.cluster
        _, reign = cluster.wait_acting()
        files = self.files()
        for heir in cluster.masters:
            def handed_over(heir=heir):
                active, _ = cluster.wait_acting()
                if active is heir:
                    return True
                cluster.ask(active, "Transfer", successor=heir.name)
                return False
            wait_for(f"{heir.name} to act", handed_over)
            self.assertEqual(self.files(), files, heir.name)
        return reign
