#!/usr/bin/python3
"""Several masters on a network whose links are cut: the active master is cut off from etcd, from
the chunkservers or from the clients, each alone: packets from it are dropped, packets to it, or
both. Its process goes on, and no connection is closed: it finds out by silence.

Masters, members of etcd and chunkservers are on a host each (network.py), all clients on another.
The test itself reaches every host at any time. While links are cut, writers append and clients
create, rename and remove files. At the end nothing that was acknowledged is lost, doubled or out of
order, and what clients were told of names is so.
"""

import contextlib
import os
import random
import subprocess
import sys
import threading
import time
import unittest

import network
import process_cluster
from process_cluster import CALM, PATIENCE_S, Writer, binary, wait_for
from process_masters import MastersTest, Names, grpc

PATH = "/cut/log"
GONE = "/cut/gone"
ETCD = ("etcd1", "etcd2", "etcd3")
SERVERS = ("cs1", "cs2", "cs3")
CLIENTS = ("clients",)

# Longer than any story takes: no reign ends by itself.
LONG = "60s"


def ways(name, others):
    """What can be dropped between a host and others, as pairs (from, to)."""
    away = [(name, other) for other in others]
    back = [(other, name) for other in others]
    return {"from": away, "to": back, "from and to": away + back}


class SlowWriter(Writer):
    """Few records, which are small: it is the cuts that count, and all is read back."""

    RECORDS_PER_TICK = 2

    def record(self, index):
        filler = random.Random(self.number << 32 | index)
        return b"%03d %08d %s" % (self.number, index, b"x" * filler.choice((0, 7, 90, 300)))


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
        while not self.over.wait(0.02):
            for name, channel in self.channels.items():
                try:
                    said = channel.master("Masters", 10)
                except (grpc.RpcError, ValueError):
                    continue
                self.answers += 1
                if said.acting and (said.reign, name) != (highest, which):
                    if said.reign <= highest:
                        self.complaint = self.complaint or (
                            f"{name} acts in reign {said.reign} after {which} in {highest}")
                    highest, which = max((highest, which), (said.reign, name))
            for name, path in self.growing.items():
                size, now = os.path.getsize(path), time.monotonic()
                if size != grew[name][0]:
                    grew[name] = size, now
                self.pauses[name] = max(self.pauses[name], now - grew[name][1])

    def take_pauses(self):
        """The longest ones since the last call, as text."""
        said = ", ".join(f"{name} {pause:.2f} s" for name, pause in self.pauses.items())
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
        self.writers = [SlowWriter(cluster, PATH, i) for i in range(4)]
        self.names = Names(cluster)
        self.watch = Watch(cluster, {"writer 0": self.writers[0].positions_path,
                                     "names": self.names.output})
        self.addCleanup(self.watch.finish)
        self.go_on()
        self.lease = cluster.held_lease(PATH)
        return cluster

    def say(self, text):
        print(f"[{time.monotonic() - self.began:6.2f}] {text}; longest pauses: "
              f"{self.watch.take_pauses()}", file=sys.stderr, flush=True)

    def go_on(self):
        self.await_progress(20)
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
        """No append was interrupted: the primary is the one of the beginning."""
        now = self.cluster.held_lease(PATH)
        for field in ("chunk", "version", "primary"):
            self.assertEqual(now[field], self.lease[field], field)

    def hand_over(self, master, reign):
        """At the operator's wish another one takes over."""
        self.assertEqual(self.cluster.ask(master, "Transfer").error, 0)
        self.assertIsNot(self.cluster.wait_acting(reign)[0], master)

    def is_answered(self):
        """Whether a client, on the host of the clients, is told anything by an active master."""
        asked = subprocess.run(
            [*self.host("clients").prefix, binary("leasehold"), "servers", "--timeout=500ms"],
            capture_output=True, env=self.cluster.environment(), check=False)
        return asked.returncode == 0

    def live(self):
        """The chunkservers that have a session, as the active master knows."""
        return [s["server_id"] for s in self.cluster.json("servers")["servers"] if s["live"]]

    # The stories.

    @contextlib.contextmanager
    def silenced(self, cut):
        """With cut(master) the active master has no majority of etcd. Gives that, its reign, and
        when the cut was made; then it must stand by again. Meanwhile it answers nothing of what
        another one changes."""
        cluster = self.cluster
        cluster.command("create", GONE)
        with contextlib.ExitStack() as stack:
            links = stack.enter_context(contextlib.ExitStack())
            state = None
            while state != "UNCONFIRMED":
                links.close()  # where another one began a reign just before
                master, _ = cluster.wait_acting()
                began = time.monotonic()
                links.enter_context(self.network.cut(*cut(master)))
                state = wait_for(f"{master.name} not to act", lambda m=master: self.inactive(m))
            reign = cluster.ask(master).reign
            channel = cluster.channel(master)
            stack.callback(channel.close)
            yield master, reign, began
            cluster.command("rm", "--now", GONE)
            late = channel.begin("Stat", path=GONE)
            self.go_on()
            self.assertFalse(late.done(), "it waits for a confirmation (HA-2)")
            self.assertEqual(cluster.ask(master).state, "UNCONFIRMED")
            links.close()
            error = late.exception(PATIENCE_S)
            self.assertIsInstance(error, grpc.RpcError, "an answer of a reign that is over")
            self.assertIn("NOT_ACTIVE", error.details())
        cluster.wait_state(master, "STANDBY", "ACTIVE")
        self.assertIn(f"reign {reign} is over", master.log_text())

    def inactive(self, master):
        said = self.cluster.ask(master)
        return said is not None and said.state != "ACTIVE" and said.state

    def test_from_etcd(self):
        # HA-2, HA-3: its word is worth nothing when T_reign is over, and another one's is.
        cluster = self.begin(**CALM)
        for what in ("from", "to", "from and to"):
            with self.silenced(lambda m, w=what: ways(m.name, ETCD)[w]) as (master, reign, began):
                self.assertIsNot(cluster.wait_acting(reign)[0], master)
                took = time.monotonic() - began
            self.go_on()
            self.say(f"packets {what} it dropped: another one acted after {took:.2f} s")

        # It is left with the member of etcd that led, and that has no majority any more.
        leader = self.etcd.leader()

        def part(master):
            others = [n for n in [*cluster.masters, *self.etcd.members.values()]
                      if n not in (master, leader)]
            return [pair for node in (master, leader)
                    for pair in ways(node.name, [n.name for n in others])["from and to"]]

        with self.silenced(part) as (master, reign, began):
            self.assertIsNot(cluster.wait_acting(reign)[0], master)
            took = time.monotonic() - began
        self.etcd.wait_ready()
        self.go_on()
        self.say(f"parted together with etcd's leader: another one acted after {took:.2f} s")
        self.assert_same_lease()
        self.finish()

    def test_from_clients(self):
        # What etcd sees alone decides who acts. Appends need no master as long as terms run.
        cluster = self.begin(reign_term=LONG, **CALM)
        master, reign = cluster.wait_acting()
        for what in ("from", "to", "from and to"):
            with self.network.cut(*ways(master.name, CLIENTS)[what]):
                wait_for("the clients to be cut off", lambda: not self.is_answered())
                self.await_progress(50)
                self.assertEqual(cluster.wait_acting(), (master, reign))
                if what == "from and to":
                    self.hand_over(master, reign)
                    self.go_on()
                    cluster.wait_state(master, "STANDBY")
            self.go_on()
            self.say(f"packets {what} it dropped")
        self.assert_same_lease()
        self.finish()

    def test_from_chunkservers_for_longer_than_terms(self):
        # HA-9a: etcd sees nothing wrong. Another master, which they reach, is resigned to.
        cluster = self.begin(reign_term=LONG, session_term="2s", chunk_term="2s")
        for what in ("from", "to", "from and to"):
            master, reign = cluster.wait_acting()
            began = time.monotonic()
            with self.network.cut(*ways(master.name, SERVERS)[what]):
                other, _ = cluster.wait_acting(reign)
                took = time.monotonic() - began
                self.assertIsNot(other, master)
                cluster.wait_ready()
                self.go_on()
                cluster.wait_state(master, "STANDBY")
                self.assertIn("it resigns, and that one is to go on", master.log_text())
            self.go_on()
            self.say(f"packets {what} it dropped: {other.name} acted after {took:.2f} s")
        # Nobody reaches any master: there is nobody to resign to.
        master, reign = cluster.wait_acting()
        everyone = [pair for m in cluster.masters for pair in ways(m.name, SERVERS)["from and to"]]
        with self.network.cut(*everyone):
            wait_for("their sessions to be over", lambda: not self.live())
            self.names.await_calls(100)
            self.assertEqual(cluster.wait_acting(), (master, reign))
        cluster.wait_ready()
        self.go_on()
        self.assertEqual(cluster.wait_acting(), (master, reign))
        self.finish()

    def test_from_a_primary_for_longer_than_terms(self):
        # Clients and its members reach it as before: its lease runs out, and the master stays.
        cluster = self.begin(reign_term=LONG, session_term="2s", chunk_term="2s")
        master, reign = cluster.wait_acting()
        for what in ("from", "to"):
            primary = cluster.primary(PATH)
            with self.network.cut(*ways(master.name, [primary])[what]):
                wait_for("the file to go on elsewhere", lambda p=primary: cluster.leases().get(
                    PATH, {}).get("primary") not in (None, "", p))
                self.go_on()
            cluster.wait_ready()
            self.go_on()
            self.say(f"packets {what} it dropped, of the primary alone")
        self.assertEqual(cluster.wait_acting(), (master, reign))
        self.finish()


if __name__ == "__main__":
    network.enter()
    process_cluster.main()
