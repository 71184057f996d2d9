"""Locks of Leasehold's peers, for bench/leases: etcd, Redis and ZooKeeper as Debian packages them.

Each has one server, or three with `--servers 3` (Redis has no lock on several). What they promise
differs: etcd and ZooKeeper have each lock on the disks of a majority, fsynced, before they answer;
Redis (neither RDB nor AOF) loses all locks when it stops. The one client program is
peer_locks_bench.c; it speaks their protocols itself and does not wait between requests.

A peer whose package is missing is left out with a line that names it. The servers listen on
127.0.0.1 only; their data goes when they end.
"""

import collections
import contextlib
import glob
import http.client
import json
import os
import socket
import subprocess

import peer_clients
import peers
from peer_clients import Refused, wait_for

ZOOKEEPER_JAR = "/usr/share/java/zookeeper.jar"
TERM_S = 600  # of sessions and leases: none ends while it is measured

# start(servers, count) returns the address for clients, and options of peer_locks_bench.
Peer = collections.namedtuple("Peer", "name promise missing start")


def etcd_missing():
    return None if peers.program("etcd") else "etcd-server"


def etcd_start(servers, count):
    ports = peers.free_ports(2 * count)
    urls = [f"http://127.0.0.1:{p}" for p in ports]
    urls, peer_urls = urls[:count], urls[count:]
    os.environ.setdefault("ETCD_UNSUPPORTED_ARCH", "arm64")  # elsewhere it means nothing
    for i in range(count):
        servers.start(f"etcd{i}", "etcd", "--name", f"etcd{i}", "--data-dir",
                      servers.path(f"etcd{i}/data"), "--listen-client-urls", urls[i],
                      "--advertise-client-urls", urls[i], "--listen-peer-urls", peer_urls[i],
                      "--initial-advertise-peer-urls", peer_urls[i], "--initial-cluster",
                      ",".join(f"etcd{j}={peer_urls[j]}" for j in range(count)),
                      "--quota-backend-bytes", str(8 << 30))

    def leader():
        for port in ports[:count]:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=1)) as c:
                c.request("GET", "/metrics")
                if b"\netcd_server_is_leader 1" in c.getresponse().read():
                    return port
        return None

    port = wait_for("leader of etcd", leader)
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as c:
        c.request("POST", "/v3/lease/grant", json.dumps({"TTL": TERM_S}))
        lease = int(json.loads(c.getresponse().read())["ID"])
    return f"127.0.0.1:{port}", ["--lease", str(lease)]


def redis_missing():
    return None if peers.program("redis-server") else "redis-server"


def redis_start(servers, _count):
    port, = peers.free_ports(1)
    servers.start("redis", "redis-server", "--bind", "127.0.0.1", "--port", str(port),
                  "--save", "", "--appendonly", "no", "--maxclients", "25000")

    def answers():
        with peer_clients.connect(port) as s:
            s.sendall(peer_clients.resp(b"PING"))
            return s.recv(64).startswith(b"+PONG")

    wait_for("Redis", answers)
    return f"127.0.0.1:{port}", []


def zookeeper_missing():
    if not os.path.exists(ZOOKEEPER_JAR):
        return "zookeeper"
    return None if peers.program("java") else "default-jre-headless"


def zookeeper_start(servers, count):
    ports = peers.free_ports(3 * count)
    jars = glob.glob("/usr/share/java/slf4j-nop.jar")  # it says nothing
    for i in range(count):
        name = f"zookeeper{i}"
        os.makedirs(servers.path(f"{name}-data"))
        with open(servers.path(f"{name}-data/myid"), "w", encoding="ascii") as f:
            f.write(str(i + 1))
        with open(servers.path(name + ".cfg"), "w", encoding="ascii") as f:
            f.write(f"""dataDir={servers.path(f"{name}-data")}
clientPort={ports[i]}
clientPortAddress=127.0.0.1
tickTime=2000
initLimit=10
syncLimit=5
maxClientCnxns=0
maxSessionTimeout={TERM_S * 1000}
admin.enableServer=false
4lw.commands.whitelist=srvr
""")
            if count > 1:
                f.writelines(f"server.{j + 1}=127.0.0.1:{ports[count + 2 * j]}:"
                             f"{ports[count + 2 * j + 1]}\n" for j in range(count))
        servers.start(name, "java", "-cp", ":".join([ZOOKEEPER_JAR, *jars]),
                      "-Dzookeeper.jmx.log4j.disable=true", "-Djute.maxbuffer=4194304",
                      "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                      servers.path(name + ".cfg"))

    def leader():
        for port in ports[:count]:
            with contextlib.suppress(OSError), \
                    socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(b"srvr")
                said = s.recv(1 << 14)
                if b"Mode: leader" in said or b"Mode: standalone" in said:
                    return port
        return None

    return f"127.0.0.1:{wait_for('leader of ZooKeeper', leader)}", []


PEERS = {
    "etcd": Peer("etcd", "fsynced", etcd_missing, etcd_start),
    "zookeeper": Peer("ZooKeeper", "fsynced", zookeeper_missing, zookeeper_start),
    "redis": Peer("Redis", "in memory", redis_missing, redis_start),
}


class Running:
    """A peer whose servers run, inside the `peers.Servers` given."""

    def __init__(self, name, bench, servers, count):
        self.name, self.bench, self.servers = name, bench, servers
        self.address, self.options = PEERS[name].start(servers, count)

    def load(self, load, *options, timeout=600):
        """What peer_locks_bench says of one load."""
        return self._finish(self._start(load, options), timeout)

    @contextlib.contextmanager
    def kept(self, load, *options):
        """The same, of a load that keeps what it has until the block ends."""
        process = self._start(load, options)
        try:
            line = process.stdout.readline()
            if not line:
                self._finish(process, 10)
            yield json.loads(line)
        finally:
            process.stdin.close()
            process.wait(60)

    def _start(self, load, options):
        return subprocess.Popen(
            [self.bench, "--peer", self.name, "--address", self.address, "--load", load,
             *self.options, *map(str, options)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def _finish(process, timeout):
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            raise Refused(f"not done in {timeout} s") from None
        if process.returncode != 0:
            raise Refused(err.strip() or f"exit code {process.returncode}")
        return json.loads(out)
