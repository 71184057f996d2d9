#!/usr/bin/python3
"""Several masters on a network whose links are cut: the active master is cut off from etcd, from
the chunkservers or from the clients, each alone: packets from it are dropped, packets to it, or
both. Its process goes on, and no connection is closed: it finds out by silence.

Masters, members of etcd and chunkservers are on a host each (network.py), all clients on another.
The test itself reaches every host at any time. While links are cut, writers append and clients
create, rename and remove files. At the end nothing that was acknowledged is lost, doubled or out of
order, and what clients were told of names is so.
"""

import os
import subprocess
import sys
import threading
import time
import unittest

import network
import process_cluster
from process_cluster import CALM, binary, wait_for
from process_masters import MastersTest, Names, grpc

PATH = "/cut/log"
ETCD = ("etcd1", "etcd2", "etcd3")
SERVERS = ("cs1", "cs2", "cs3")
CLIENTS = ("clients",)

# Longer than any story takes: no reign ends by itself.
LONG = "60s"


def ways(name, others):
    """What can be cut between a host and others: {what is dropped: pairs (from, to)}."""
    away = [(name, other) for other in others]
    back = [(other, name) for other in others]
    return {f"from {name}": away, f"to {name}": back, f"from and to {name}": away + back}


class Watch(threading.Thread):
    """Asks every master again and again whether it acts, which it says only while it is confirmed;
    and takes the longest pauses of what grows meanwhile.

    A master that acts in a reign, asked after another has acted in a higher one, is a second active
    master (INV-11)."""

    def __init__(self, cluster, growing):
        super().__init__(daemon=True)
        self.cluster, self.growing = cluster, growing
        self.channels = {m.name: cluster.channel(m) for m in cluster.masters}
        self.over = threading.Event()
        self.complaint = None
        self.answers = 0
        self.pauses = dict.fromkeys(growing, 0.0)
        self.start()

    def run(self):
        highest, which = 0, None
        now = time.monotonic()
        grew = {name: (0, now) for name in self.growing}
        while not self.over.wait(0.01):
            for name, channel in self.channels.items():
                try:
                    said = channel.master("Masters", 10)
                except (grpc.RpcError, ValueError):
                    continue
                self.answers += 1
                if said.acting and (said.reign, name) != (highest, which):
                    if said.reign <= highest:
                        self.complaint = (f"{name} acts in reign {said.reign} after {which} in "
                                          f"{highest}")
                    highest, which = max((highest, which), (said.reign, name))
            for name, path in self.growing.items():
                size, now = os.path.getsize(path), time.monotonic()
                if size != grew[name][0]:
                    grew[name] = size, now
                self.pauses[name] = max(self.pauses[name], now - grew[name][1])

    def take_pauses(self):
        """The longest ones since the last call."""
        said = ", ".join(f"{name} {1000 * pause:.0f} ms" for name, pause in self.pauses.items())
        self.pauses = dict.fromkeys(self.pauses, 0.0)
        return said

    def finish(self):
        self.over.set()
        self.join()
        for channel in self.channels.values():
            channel.close()


class CutTest(MastersTest):

    @classmethod
    def setUpClass(cls):
        if network.refused:
            raise unittest.SkipTest(network.refused)
        cls.network = network.Network()
        cls.host = staticmethod(cls.network.host)
        super().setUpClass()

    def begin(self, **options):
        self.began = time.monotonic()
        cluster = self.start_masters(**options)
        cluster.command("create", "--chunk-size=256MiB", PATH)
        self.start_writers(PATH, 4)
        self.names = Names(cluster)
        self.watch = Watch(cluster, {
            **{f"writer {w.number}": w.positions_path for w in self.writers},
            "names": self.names.output})
        self.addCleanup(self.watch.finish)
        self.go_on()
        self.lease = cluster.held_lease(PATH)
        return cluster

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.2f}] {text}; longest pauses: "
              f"{self.watch.take_pauses()}", file=sys.stderr, flush=True)

    def go_on(self):
        self.await_progress(100)
        self.names.await_calls(30)

    def finish(self):
        self.finish_writers()
        calls, met, unknown = self.names.finish()
        self.assertEqual((met, unknown), (0, 0), "each call happens once (HA-12)")
        self.assertGreater(calls, 0)
        self.assertGreater(self.check_file(PATH), 0)
        self.watch.finish()
        self.assertIsNone(self.watch.complaint)
        self.assertGreater(self.watch.answers, 0)

    def assert_same_lease(self):
        """No append was interrupted: with these terms its primary has lost nothing."""
        now = self.cluster.held_lease(PATH)
        for field in ("chunk", "version", "primary"):
            self.assertEqual(now[field], self.lease[field], field)

    def hand_over(self, master, reign):
        """At the operator's wish another one takes over. Returns that and its reign."""
        self.assertEqual(self.cluster.ask(master, "Transfer").error, 0)
        found = self.cluster.wait_acting(reign)
        self.assertIsNot(found[0], master)
        return found

    def answered(self):
        """Whether a client, on the host of the clients, is told anything by an active master."""
        asked = subprocess.run(
            [*self.network.host("clients").prefix, binary("leasehold"), "servers", "--timeout=1s"],
            capture_output=True, env=self.cluster.environment(), check=False)
        return asked.returncode == 0

    def reachable(self):
        """The chunkservers that the active master knows to hear it."""
        return [s["server_id"] for s in self.cluster.json("servers")["servers"]
                if s["live"] and s["reachable"]]

    def test_from_etcd(self):
        cluster = self.begin(**CALM)
        master, reign = cluster.wait_acting()
        for what, cut in ways("it", ETCD).items():
            began = time.monotonic()
            with self.network.cut(*((a if a != "it" else master.name,
                                     b if b != "it" else master.name) for a, b in cut)):
                heir, newer = cluster.wait_acting(reign)
                took = time.monotonic() - began
                self.assertIsNot(heir, master)
                cluster.wait_state(master, "UNCONFIRMED")
                self.go_on()
                self.assertEqual(cluster.ask(master).state, "UNCONFIRMED")
            cluster.wait_state(master, "STANDBY")
            self.assertIn(f"reign {reign} is over", master.log_text())
            self.go_on()
            self.say(f"packets {what}: another one acted after {1000 * took:.0f} ms")
            master, reign = cluster.wait_acting()
        self.assert_same_lease()
        self.finish()

    def test_from_clients_and_from_chunkservers(self):
        # Only what etcd sees decides who acts; and appends need no master.
        cluster = self.begin(reign_term=LONG, **CALM)
        for others, found in ((CLIENTS, self.answered), (SERVERS, self.reachable)):
            for last in (False, True):
                for what in ("from", "to", "from and to"):
                    master, reign = cluster.wait_acting()
                    cut = ways(master.name, others)[f"{what} {master.name}"]
                    with self.network.cut(*cut):
                        wait_for(f"{others} to be cut off", lambda f=found: not f())
                        self.await_progress(100)
                        self.assertEqual(cluster.wait_acting(), (master, reign))
                        if last:
                            self.hand_over(master, reign)
                            self.go_on()
                            cluster.wait_state(master, "STANDBY")
                            wait_for(f"{others} to find it", found)
                    wait_for("all to go on", lambda: len(self.reachable()) == len(SERVERS))
                    self.go_on()
                    self.say(f"{others[0]}, packets {what} it, {last}")
        self.assert_same_lease()
        self.finish()


if __name__ == "__main__":
    network.enter()
    process_cluster.main()
