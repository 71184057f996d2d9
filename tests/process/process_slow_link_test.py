#!/usr/bin/python3
"""Large records on slow links, on real processes: that bytes arrive is as good as an answer.

A proxy stands in front of each chunkserver and lets those of its connections that are to be slow
carry 20 Mbit/s in either direction: a record of 16 MiB takes seven seconds. That is longer than a
client waits for a sign of life, and than a primary waits for a member.
"""

import os
import re
import socket
import subprocess
import threading
import time

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest, Cluster, Writer, binary

PATH = "/slow/log"
RECORD_BYTES = 16777172 - 100
LINK_BYTES_PER_S = 20_000_000 // 8
PIECE = 16 << 10
FASTEST_S = RECORD_BYTES / LINK_BYTES_PER_S


class Proxy:
    """Forwards connections to `address`; `is_slow(port)` says of a peer's port whether its
    connection is to be slow."""

    def __init__(self, address, is_slow):
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.is_slow = is_slow
        self.carried = 0  # bytes of slow connections
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        while True:
            try:
                near, peer = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(near, peer[1]), daemon=True).start()

    def _serve(self, near, port):
        slow = self.is_slow(port)
        try:
            far = socket.create_connection(self.target, timeout=PATIENCE_S)
        except OSError:
            near.close()
            return
        for end in (near, far):
            end.settimeout(None)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if slow:  # what waits here has not been sent
                end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, PIECE)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIECE)
        threading.Thread(target=self._carry, args=(near, far, slow), daemon=True).start()
        self._carry(far, near, slow)

    def _carry(self, source, sink, slow):
        free_at = 0.0  # when the link has carried what it was given
        try:
            while True:
                data = source.recv(PIECE)
                if not data:
                    break
                if slow:
                    now = time.monotonic()
                    free_at = max(free_at, now) + len(data) / LINK_BYTES_PER_S
                    time.sleep(free_at - now)
                    self.carried += len(data)
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Trickle(Writer):
    """Small records that a slow link has room for."""

    RECORDS_PER_TICK = 2
    TICK_S = 0.05


class SlowLinkTest(ClusterTest):

    def start(self, slow_servers):
        """Connections of chunkservers are slow, or all others."""
        calm = dict(CALM)
        # Longer than a piece takes, shorter than the record.
        calm["server_flags"] = ("--member-timeout=3s",)
        self.cluster = Cluster(self.folder, **calm)
        self.proxies = []
        for node in self.cluster.servers.values():
            proxy = Proxy(node.address,
                          lambda port: self.is_a_servers(port) == slow_servers)
            self.addCleanup(proxy.close)
            self.proxies.append(proxy)
            node.argv.append(f"--advertise={proxy.address}")
        self.cluster.start()
        self.cluster.command("create", PATH)
        self.writers = [Trickle(self.cluster, PATH, i) for i in range(2)]
        self.await_progress(20)

    def is_a_servers(self, port):
        """Whether the socket that is bound to this port belongs to a chunkserver."""
        inodes = set()
        for family in ("tcp", "tcp6"):
            with open(f"/proc/net/{family}", encoding="ascii") as table:
                inodes |= {f"socket:[{line.split()[9]}]" for line in table.readlines()[1:]
                           if int(line.split()[1][-4:], 16) == port}
        for node in self.cluster.servers.values():
            folder = f"/proc/{node.process.pid}/fd"
            try:
                if any(self.target(f"{folder}/{fd}") in inodes for fd in os.listdir(folder)):
                    return True
            except OSError:
                pass
        return False

    @staticmethod
    def target(link):
        try:
            return os.readlink(link)
        except OSError:
            return ""

    def store_a_large_record(self):
        """Returns its position and how long that took; the small ones go on beside it."""
        record = b"large " + os.urandom(RECORD_BYTES // 2 - 3).hex().encode()
        before = [w.acknowledged() for w in self.writers]
        begin = time.monotonic()
        result = subprocess.run(
            [binary("leasehold"), "append", "--positions", "--give-up=90s", PATH],
            input=record + b"\n", capture_output=True, env=self.cluster.environment(), check=False)
        took = time.monotonic() - begin
        self.assertEqual(result.returncode, 0, result.stderr)
        for w, had in zip(self.writers, before):
            self.assertGreater(w.acknowledged(), had, f"writer {w.number} stood still")
        self.await_progress(20)
        self.assertGreater(sum(p.carried for p in self.proxies), RECORD_BYTES, "nothing was slow")
        self.assertGreater(took, FASTEST_S * 0.9, "the link was not slow")
        return record

    def check_records(self, large):
        self.finish_writers()
        found = dict.fromkeys((w.number for w in self.writers), 0)
        seen = 0
        for _, record in self.records(PATH):
            match = re.match(rb"(\d{3}) (\d{8}) ", record[:13])
            if match is None:
                self.assertTrue(record == large, record[:40])
                seen += 1
                continue
            number = int(match.group(1))
            self.assertTrue(record == self.writers[number].record(found[number]), record[:40])
            found[number] += 1
        self.assertEqual(seen, 1)
        self.assertEqual(found, {w.number: w.sent for w in self.writers})

    def test_between_a_client_and_its_primary(self):
        self.start(slow_servers=False)
        large = self.store_a_large_record()
        # Back to a reader it takes as long.
        self.check_records(large)
        self.cluster.assert_replicas_identical(PATH)

    def test_between_a_primary_and_its_members(self):
        self.start(slow_servers=True)
        large = self.store_a_large_record()
        self.check_records(large)


if __name__ == "__main__":
    process_cluster.main(beside=[
        "SlowLinkTest.test_between_a_client_and_its_primary",
    ])
