#!/usr/bin/python3
"""Masters and members of etcd are killed, hung, stopped and restarted at random while sixteen
writers append and four clients create, rename and remove files.

At the end nothing that was acknowledged is lost, doubled or out of order, replicas are
byte-identical, names are what the clients were told, and every master in turn, when it becomes the
active one, has the same files.

LEASEHOLD_CHURN_SECONDS says for how long (12), LEASEHOLD_CHURN_SEED which faults (7).
"""

import os
import random
import sys
import time

import process_cluster
from process_cluster import wait_for
from process_load import SlowWriter
from process_masters import MastersTest, Names

PATH = "/churn/log"
WRITERS = 16
CLIENTS = 4
SECONDS = float(os.environ.get("LEASEHOLD_CHURN_SECONDS", 12))
SEED = int(os.environ.get("LEASEHOLD_CHURN_SEED", 7))


class MastersChurnTest(MastersTest):

    def say(self, text):
        print(f"[{time.monotonic() - self.began:8.2f}] {text}", file=sys.stderr, flush=True)

    # What happens to a process, for so long.

    def kill(self, node, pause):
        node.kill()
        time.sleep(pause)
        node.start()

    def hang(self, node, pause):
        node.pause()
        time.sleep(pause)
        node.resume()

    def stop(self, node, pause):
        # One that has only just started may not yet heed the signal.
        wait_for(f"{node.name} to answer", lambda: self.cluster.ask(node))
        self.assertEqual(node.stop(), 0, node.log_text()[-2000:])
        time.sleep(pause)
        node.start()

    def all_of_etcd(self, fault, pause):
        members = list(self.etcd.members.values())
        for m in members:
            m.kill() if fault == "kill" else m.pause()
        time.sleep(pause)
        for m in members:
            m.start() if fault == "kill" else m.resume()

    def both(self, master, member, pause):
        """An active master and a member of etcd at once."""
        master.pause()
        member.kill()
        time.sleep(pause)
        master.resume()
        member.start()

    def fault(self, chance):
        cluster = self.cluster
        members = list(self.etcd.members.values())
        acting = cluster.acting()
        master = acting[0] if acting and chance.random() < 0.7 else chance.choice(cluster.masters)
        member = chance.choice(members)
        # Shorter and longer than a reign, and now and then longer than a session.
        pause = chance.choice((0, 0.1, 0.5, 1, 1, 2, 4))
        kind = chance.choice(("kill", "kill", "hang", "hang", "stop", "transfer", "member kill",
                              "member hang", "all kill", "all hang", "both"))
        self.say(f"{kind} {master.name}{' (active)' if acting and acting[0] is master else ''} "
                 f"{member.name} {pause}")
        if kind in ("kill", "hang", "stop"):
            getattr(self, kind)(master, pause)
        elif kind == "transfer":
            cluster.ask(master, "Transfer", successor=chance.choice(cluster.masters).name)
        elif kind.startswith("member "):
            getattr(self, kind.removeprefix("member "))(member, pause)
        elif kind.startswith("all "):
            self.all_of_etcd(kind.removeprefix("all "), pause)
        else:
            self.both(master, member, pause)
        if chance.random() < 0.3:
            return  # the next one comes before all goes on
        _, reign = cluster.wait_acting()
        self.await_progress(1)
        self.names.await_calls(1)
        self.say(f"all goes on in reign {reign}")

    def test_masters_and_members_at_random(self):
        self.began = time.monotonic()
        chance = random.Random(SEED)
        cluster = self.start_masters(session_term="3s", chunk_term="6s")
        cluster.command("create", "--chunk-size=1MiB", PATH)
        self.writers = [SlowWriter(cluster, PATH, i) for i in range(WRITERS)]
        self.names = Names(cluster, clients=CLIENTS)
        self.await_progress(20)
        faults = 0
        while time.monotonic() < self.began + SECONDS:
            self.fault(chance)
            faults += 1
        self.etcd.wait_ready()
        cluster.wait_ready()
        self.await_progress(20)
        self.finish_writers()
        calls, met, unknown = self.names.finish()
        self.assertEqual((met, unknown), (0, 0), "each call happens once (HA-12)")
        records = self.check_file(PATH)
        reigns = self.everyone_acts_in_turn()
        wait_for("fsck to find nothing",
                 lambda: cluster.run("fsck", "--deep").returncode == 0, interval=0.5)
        print(f"seed {SEED}: {faults} faults, {reigns} reigns, {records} records in "
              f"{len(cluster.chunks(PATH))} chunks, {calls} calls of names")


if __name__ == "__main__":
    process_cluster.main()
