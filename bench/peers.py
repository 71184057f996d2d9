"""Measures Leasehold's peers as Debian packages them: Redis streams, NATS JetStream and etcd.

`bench/run --peers` calls run() after its own table, so that both sides have the same machine and
the same run. Each peer has three servers. Records have 100 bytes, each row writes a stream (in
etcd, keys) of its own, and nothing is read. What acknowledged means differs, and each row says it:
  3 in memory   Redis, a primary and two replicas, neither RDB nor AOF: WAIT 2 has returned, so all
                three processes hold the record; it is gone when they stop.
  2/3 in files  NATS JetStream, file storage, 3 replicas: a majority has written it to files, which
                are fsynced every two minutes (the default of sync_interval).
  2/3 fsynced   etcd: a majority has fsynced it in the write-ahead log.
Leasehold, for comparison: all three have it in files, not fsynced (buffered) or fsynced (synced).
So Redis is compared though it promises less than buffered; NATS and etcd wait for two of three.

The clients are this process (peer_clients.py) and connect to the primary or leader. Those of Redis
and NATS speak the protocol over plain sockets, send bytes prepared beforehand and only count the
acknowledgements. That of etcd is python3-grpcio; its many records at once are transactions of 100
puts. The column "client" is this process's CPU time in percent of one core: from 80 on the row says
that its client bounds it. Below that it still takes cycles from the servers where cores are few,
and a C client would take less.

A peer whose package is missing is left out with a line that names it. The servers listen on
127.0.0.1 only; their data goes when they end.

Alone, without ratios: python3 bench/peers.py
"""

import collections
import contextlib
import functools
import http.client
import importlib.util
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time

import peer_clients

TICKS = os.sysconf("SC_CLK_TCK")

# The rows of bench/run that have a counterpart here. etcd fsyncs, so its rows have none but SYNCED.
ASYNC, ASYNC_16 = (f"async 100 B, buffered, {n}" for n in ("1 appender", "16 appenders"))
SYNC, SYNC_16 = (f"sync 100 B, buffered, {n}" for n in ("1 appender", "16 appenders"))
SYNCED = "async 100 B, synced, 1 appender"

# unit: what is shown and compared, a rate ("/s") or the time of one ("p50"). ours: the row of
# bench/run to compare with, or None. load(clients, seconds) returns a Result.
Row = collections.namedtuple("Row", "what clients unit ours load")
Peer = collections.namedtuple("Peer", "name program package durability start")


class Servers:
    """Processes of one peer in a directory of their own; stopped and removed at the end."""

    def __init__(self, directory):
        self.directory = tempfile.mkdtemp(prefix="leasehold-peer-", dir=directory)
        self.processes = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for p in self.processes:
            p.terminate()
        for p in self.processes:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.directory, name)

    def start(self, name, *command):
        os.makedirs(self.path(name))
        with open(self.path(name + ".log"), "w") as log:
            self.processes.append(subprocess.Popen([program(command[0]), *command[1:]], stdout=log,
                                                   stderr=log, cwd=self.path(name)))

    def cpu_seconds(self):
        total = 0
        for p in self.processes:
            try:
                with open(f"/proc/{p.pid}/stat") as f:
                    total += sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
            except OSError:
                pass  # it died; the row fails by itself
        return total / TICKS


def program(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin")


def free_ports(count):
    """Ports that nobody listens on, outside the range that the kernel hands out by itself."""
    ports = []
    for port in random.sample(range(20000, 32000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            ports.append(port)
    return ports[:count]


def redis_start(servers):
    ports = free_ports(3)
    for i, port in enumerate(ports):
        replica = ["--replicaof", f"127.0.0.1 {ports[0]}"] if i > 0 else []
        servers.start(f"redis{i}", "redis-server", "--bind", "127.0.0.1", "--port", str(port),
                      "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0",
                      *replica)

    def replicated():
        with peer_clients.connect(ports[0]) as s:
            s.sendall(peer_clients.resp(b"INFO", b"replication"))
            return s.recv(1 << 16).count(b"state=online") == 2

    peer_clients.wait_for("two Redis replicas", replicated)

    batches, single = (functools.partial(peer_clients.redis_load, ports[0], n) for n in (1000, 1))
    return [Row("1000 XADD + WAIT 2", 1, "/s", ASYNC, batches),
            Row("1000 XADD + WAIT 2", 16, "/s", ASYNC_16, batches),
            Row("XADD + WAIT 2", 1, "p50", SYNC, single),
            Row("XADD + WAIT 2", 16, "/s", SYNC_16, single)]


def nats_start(servers):
    ports = free_ports(6)
    ports, routes = ports[:3], ports[3:]
    for i in range(3):
        name = f"nats{i}"
        config = servers.path(name + ".conf")
        with open(config, "w") as f:
            f.write(f"""server_name: {name}
listen: 127.0.0.1:{ports[i]}
jetstream {{ store_dir: "{servers.path(name)}" }}
cluster {{ name: bench, listen: 127.0.0.1:{routes[i]},
  routes: [{", ".join(f"nats://127.0.0.1:{r}" for r in routes)}] }}
""")
        servers.start(name, "nats-server", "--config", config)

    many_1, many_16, single = (functools.partial(peer_clients.nats_load, ports, *n)
                               for n in ((50, 20), (50, 5), (1, 1)))
    return [Row("publish, 1000 under way", 1, "/s", ASYNC, many_1),
            Row("publish, 250 each under way", 16, "/s", ASYNC_16, many_16),
            Row("publish", 1, "p50", SYNC, single),
            Row("publish", 16, "/s", SYNC_16, single)]


def etcd_start(servers):
    ports = free_ports(6)
    urls = [f"http://127.0.0.1:{p}" for p in ports]
    urls, peer_urls = urls[:3], urls[3:]
    for i in range(3):
        servers.start(f"etcd{i}", "etcd", "--name", f"etcd{i}", "--data-dir",
                      servers.path(f"etcd{i}/data"), "--listen-client-urls", urls[i],
                      "--advertise-client-urls", urls[i], "--listen-peer-urls", peer_urls[i],
                      "--initial-advertise-peer-urls", peer_urls[i], "--initial-cluster",
                      ",".join(f"etcd{j}={peer_urls[j]}" for j in range(3)))

    def leader():
        for port in ports[:3]:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", "/metrics")
            if b"\netcd_server_is_leader 1" in connection.getresponse().read():
                return port
        return None

    port = peer_clients.wait_for("leader of etcd", leader)
    many, single = (functools.partial(peer_clients.etcd_load, port, n) for n in (100, 1))
    return [Row("Txn of 100 puts", 16, "/s", SYNCED, many),
            Row("Put", 1, "p50", None, single),
            Row("Put", 16, "/s", None, single)]


PEERS = [
    Peer("Redis streams", "redis-server", "redis-server", "3 in memory", redis_start),
    Peer("NATS JetStream R3", "nats-server", "nats-server", "2/3 in files", nats_start),
    Peer("etcd", "etcd", "etcd-server", "2/3 fsynced", etcd_start),
]


def missing_packages(peer):
    missing = [] if program(peer.program) else [peer.package]
    if peer.start is etcd_start and importlib.util.find_spec("grpc") is None:
        missing.append("python3-grpcio")
    return missing


def measured(row, result, ours):
    """The figure of a row as text, and how many times better Leasehold's is (None: no such row)."""
    if row.unit == "p50":
        ordered = sorted(result.latencies_s)
        p50, p99 = (ordered[int(len(ordered) * part)] * 1e6 for part in (0.5, 0.99))
        return f"p50 {p50:,.0f} us, p99 {p99:,.0f} us", p50 / ours["p50_us"] if ours else None
    rate = result.records / result.seconds
    return f"{rate:,.0f} records/s", ours["records_per_s"] / rate if ours else None


def print_row(peer, row, results, servers, seconds):
    name = f"{peer.name}: {row.what}, {row.clients} client{'s' if row.clients > 1 else ''}"
    servers_cpu, client_cpu = servers.cpu_seconds(), time.process_time()
    try:
        result = row.load(row.clients, seconds)
    except (OSError, peer_clients.Refused) as e:
        print(f"{name:60} failed: {e}", flush=True)
        return
    client_cpu = time.process_time() - client_cpu
    cpu = servers.cpu_seconds() - servers_cpu + client_cpu
    text, ratio = measured(row, result, results.get(row.ours))
    ratio = "-" if ratio is None else f"{ratio:.1f}"
    share = client_cpu / result.seconds
    print(f"{name:60} {peer.durability:12} {text:>28} {ratio:>7} "
          f"{cpu / result.records * 1e6:8.2f} {share:7.0%}"
          f"{'  bound by its client' if share >= 0.8 else ''}", flush=True)


def run(results, seconds, directory=None):
    """Prints a row for each peer and load. `results`: bench/run's rows by name, each with
    records_per_s and p50_us; a row that is not there has no ratio. `directory`: where servers keep
    their data (default: the system's place for temporary files)."""
    print(f"\n{'peer, 100-byte records':60} {'acknowledged':12} {'measured':>28} {'x ours':>7} "
          f"{'CPU s/M':>8} {'client':>7}")
    for peer in PEERS:
        missing = missing_packages(peer)
        if missing:
            print(f"{peer.name:60} not measured: apt-get install {' '.join(missing)}", flush=True)
            continue
        with Servers(directory) as servers:
            try:
                rows = peer.start(servers)
            except (OSError, peer_clients.Refused) as e:
                print(f"{peer.name:60} did not start: {e}", flush=True)
                continue
            for row in rows:
                print_row(peer, row, results, servers, seconds)
    print("""
x ours: how many times better Leasehold is in this run, by rate or p50. Compared are many under way
and 1000 XADD with async buffered, one at a time with sync buffered, transactions with async synced.
What a peer promises when it acknowledges differs from Leasehold: see bench/peers.py.""")


if __name__ == "__main__":
    run({}, 5)
