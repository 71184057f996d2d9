"""Faults and accidents of a cluster with several masters: TABLE has one function for each.

A function does something, lets that last (`yield`), and undoes it. KIND says what may happen
beside it:

    MINOR     to one process; everything else goes on
    MAJOR     nobody need go on meanwhile; only something minor may happen at the same time
    OPERATOR  a mistake of a person, and what the manual says comes of it; something minor at most
    ALONE     what the manual warns of where other faults come on top
"""

import base64
import collections
import os
import shutil
import subprocess
import time

import etcd
from process_cluster import PATIENCE_S, Node, binary, free_port, wait_for

MINOR, MAJOR, OPERATOR, ALONE = "minor", "major", "operator", "alone"
QUOTA = 32 << 20

Row = collections.namedtuple("Row", "name kind function")


class Accidents:
    """Of a test (MastersTest) that also has `chance`, and `goes_on()`: waits until everything that
    loads the cluster has got on."""

    taken = frozenset()  # names of nodes to which something happens now
    others = 0  # processes that were started besides

    def take(self, nodes, preferred=None):
        free = [n for n in nodes if n.name not in self.taken]
        node = preferred if preferred in free else self.chance.choice(free)
        self.taken |= {node.name}
        return node

    def a_master(self):
        acting = self.cluster.acting() if self.chance.random() < 0.6 else None
        return self.take(self.cluster.masters, acting and acting[0])

    def a_server(self):
        return self.take(self.cluster.servers.values())

    def a_member(self):
        """Of etcd, whose others are left alone."""
        member = self.take(self.etcd.members.values())
        self.taken |= set(self.etcd.members)
        return member

    def of_any_kind(self):
        kinds = [self.a_master, self.a_server]
        if len(self.etcd.members) > 1 and not self.taken & set(self.etcd.members):
            kinds.append(self.a_member)
        return self.chance.choice(kinds)()

    def another(self, node, **options):
        """A process with that one's options, but for these; at an address of its own."""
        self.others += 1
        name = f"{node.name}-{self.others}"
        options.setdefault("listen", f"127.0.0.1:{free_port()}")
        other = Node(name, options["listen"], None, changed(node.argv, **options),
                     os.path.join(self.folder, name + ".log"))
        other.limits = node.limits
        self.addCleanup(other.kill)
        return other

    def ended_in_order(self, node):
        """SIGTERM. A master that has only just started may not yet heed it."""
        if node in self.cluster.masters:
            wait_for(f"{node.name} to answer", lambda: self.cluster.ask(node))
        self.assertEqual(node.stop(), 0, f"{node.name}: {node.log_text()[-2000:]}")

    def wait_word(self, node, text, since=0):
        def said():
            self.assertTrue(node.running(), f"{node.name} ended: {node.log_text()[-2000:]}")
            return text in node.log_text()[since:]
        wait_for(f"{node.name} to say {text!r}", said)

    def record(self, master):
        return f"{self.cluster.prefix}/records/{master.name}".encode()

    def has_record(self, master):
        return self.etcd.get(self.record(master))

    def wait_listed(self, master):
        def listed():
            said = self.cluster.run("masters", "--json")
            return f'"{master.name}"'.encode() in said.stdout and self.has_record(master)
        wait_for(f"{master.name} to be listed", listed)

    # Faults.

    def killed(self):
        node = self.of_any_kind()
        node.kill()
        yield node.name
        node.start()

    def stands_still(self):
        node = self.of_any_kind()
        node.pause()
        yield node.name
        node.resume()

    def stopped_in_order(self):
        node = self.of_any_kind()
        self.ended_in_order(node) if node not in self.etcd.members.values() else node.stop()
        yield node.name
        node.start()

    def group(self):
        which = self.chance.choice(("masters", "chunkservers", "members of etcd"))
        nodes = {"masters": self.cluster.masters, "members of etcd": self.etcd.members.values(),
                 "chunkservers": self.cluster.servers.values()}[which]
        return which, [n for n in nodes if n.name not in self.taken]

    def all_killed(self):
        which, nodes = self.group()
        for node in nodes:
            node.kill()
        yield which
        for node in nodes:
            node.start()

    def all_stand_still(self):
        which, nodes = self.group()
        for node in nodes:
            node.pause()
        yield which
        for node in nodes:
            node.resume()

    def masters_stopped_in_order(self):
        masters = [n for n in self.cluster.masters if n.name not in self.taken]
        for node in masters:
            self.ended_in_order(node)
        yield "all masters"
        for node in masters:
            node.start()

    # Accidents with masters.

    def handed_over(self):
        heir = self.chance.choice(self.cluster.masters)
        said = self.cluster.run("masters", f"--transfer={heir.name}", "--timeout=5s")
        # None acts, that one cannot, or a third one was faster.
        self.assertIn(said.returncode, (0, 1, 69, 75), said)
        yield (said.stdout + said.stderr).decode().strip()

    def moved(self):
        """A master goes to another machine for a time, under another name. Chunkservers and clients
        were not given its address."""
        node = self.a_master()
        self.ended_in_order(node)
        other = self.another(node, master_id=f"{node.name}-moved")
        other.start()
        self.cluster.wait_state(other, "STANDBY", "ACTIVE")
        self.cluster.run("masters", f"--transfer={node.name}-moved", "--timeout=5s")
        self.goes_on()
        yield node.name
        self.assertEqual(other.stop(), 0, other.log_text()[-2000:])
        node.start()
        self.cluster.run("masters", f"--forget={node.name}-moved", "--timeout=5s")

    def misspelt(self):
        return f"etcd:{self.etcd.addresses()}/{self.cluster.prefix}x"

    def misspelt_beside(self):
        other = self.another(self.cluster.master, store=self.misspelt(), master_id="stranger")
        other.start()
        self.wait_word(other, "etcd has no cluster under the prefix")
        yield "nobody is given its address"
        self.wait_word(other, "")
        self.assertEqual(other.stop(), 0)

    def misspelt_among_addresses(self):
        node = self.a_master()
        self.ended_in_order(node)
        wrong = self.another(node, store=self.misspelt(), listen=node.address)
        wrong.start()
        self.wait_word(wrong, "etcd has no cluster under the prefix")
        yield node.name
        self.goes_on()
        said = self.cluster.run("stat", "/", f"--master={node.address}", "--timeout=1s")
        self.assertNotEqual(said.returncode, 0)
        self.assertIn(b"etcd has no cluster under the prefix", said.stderr)
        self.wait_word(wrong, "")
        self.assertEqual(wrong.stop(), 0)
        node.start()

    def forgotten_while_it_runs(self):
        node = self.a_master()
        self.wait_listed(node)
        wait_for(f"{node.name} to answer", lambda: self.cluster.ask(node))
        said = self.cluster.run("masters", f"--forget={node.name}")
        # 0: it could not be reached in time, and puts its record again.
        self.assertIn(said.returncode, (0, 1, 69, 75), said)
        yield f"{node.name}, status {said.returncode}"
        self.wait_listed(node)

    def forgotten_when_dead(self):
        node = self.a_master()
        node.kill()
        wait_for(f"{node.name} to be forgotten", lambda: self.cluster.run(
            "masters", f"--forget={node.name}").returncode == 0 or not self.has_record(node))
        yield node.name
        node.start()
        self.wait_listed(node)

    def same_id_twice(self):
        node = self.a_master()
        self.wait_listed(node)
        twin = self.another(node)
        twin.start()
        wait_for("the twin to end", lambda: not twin.running())
        self.assertEqual(twin.process.returncode, 73, twin.log_text())
        self.assertIn(f'another master with the id "{node.name}" is running', twin.log_text())
        yield node.name
        self.assertTrue(node.running(), node.name)

    def record_deleted(self):
        node = self.a_master()
        self.wait_listed(node)
        self.etcd.delete(self.record(node))
        yield node.name
        self.wait_listed(node)

    # Accidents with chunkservers.

    def same_directory_twice(self):
        node = self.a_server()
        twin = self.another(node)
        twin.start()
        wait_for("the twin to end", lambda: not twin.running())
        self.assertEqual(twin.process.returncode, 73, twin.log_text())
        self.assertIn("is in use by another process", twin.log_text())
        yield node.name
        self.assertTrue(node.running(), node.name)

    def two_of_one_name(self, node, directory):
        """Until the wrong one is stopped and the right one restarted, as the manual says."""
        wrong = self.another(node, data_dir=directory)
        wrong.start()
        self.wait_word(wrong, "incarnation")
        yield f"{node.name}, {wrong.name}"
        if self.chance.random() < 0.5:
            self.cluster.run("masters", "--transfer", "--timeout=5s")
            self.goes_on()
        self.wait_word(wrong, "")
        self.assertEqual(wrong.stop(), 0, wrong.log_text()[-2000:])
        if node.running():
            self.ended_in_order(node)
        node.start()
        self.wait_whole()
        shutil.rmtree(directory)

    def cloned(self):
        node = self.a_server()
        copy = os.path.join(self.folder, f"copy-{self.others}")
        self.ended_in_order(node)
        shutil.copytree(node.data_dir, copy)
        node.start()
        yield from self.two_of_one_name(node, copy)

    def empty_under_an_old_name(self):
        node = self.a_server()
        if self.chance.random() < 0.5:
            self.ended_in_order(node)
        yield from self.two_of_one_name(node, os.path.join(self.folder, f"empty-{self.others}"))

    def wait_whole(self):
        def whole():
            said = self.cluster.run("fsck")
            return said.returncode == 0
        wait_for("fsck to find nothing", whole, interval=0.5)

    # Accidents with etcd.

    def disk_lost(self):
        """A member of etcd is replaced by an empty one."""
        if len(self.etcd.members) == 1 or self.taken & set(self.etcd.members):
            yield "not possible now"
            return
        member = self.a_member()
        self.etcd.replace(member.name)
        # It has stored all that was ever put, also what filled etcd, and may have raised the alarm.
        self.etcd.free_space(b"others/")
        yield member.name

    def compacted(self):
        for member in self.etcd.members.values():
            if member.name not in self.taken:
                self.etcd.compact(member)
        yield ""

    def begun_again(self):
        said = self.cluster.begin()
        self.assertEqual(said.returncode, 1, said)
        yield said.stderr.decode().strip()

    def pair_changed(self):
        """By a hand, deleted or filled with something else: the active master writes it again."""
        prefix = f"{self.cluster.prefix}/map/".encode()
        key, value = self.chance.choice(sorted(
            pair for kind in (b"M", b"s", b"f") for pair in self.etcd.get(prefix + kind).items()
            if kind != b"f" or pair[0].endswith(bytes(7) + b"\1")))  # that file stays
        if self.chance.random() < 0.5:
            self.etcd.delete(key)
        else:
            self.etcd.put(key, b"by hand")
        yield repr(key)
        wait_for(f"{key} to be written again",
                 lambda: self.etcd.get(key).get(key, b"by hand") != b"by hand")

    def head_deleted(self):
        """No master acts any more, until somebody puts it back."""
        member = next(iter(self.etcd.members.values()))
        key = base64.b64encode(f"{self.cluster.prefix}/head".encode()).decode()
        deleted = int(self.etcd.ask_patiently("/v3/kv/deleterange", member, key=key)
                      ["header"]["revision"])
        for master in self.cluster.masters:
            wait_for(f"{master.name} to end", lambda m=master: not m.running())
            self.assertEqual(master.process.returncode, 73, master.log_text()[-2000:])
            self.assertIn("head any more", master.log_text())
        yield f"revision {deleted}"
        last = self.etcd.ask_patiently("/v3/kv/range", member, key=key, revision=deleted - 1)
        self.etcd.ask_patiently("/v3/kv/put", member, key=key, value=last["kvs"][0]["value"])
        for master in self.cluster.masters:
            master.start()

    def quota_reached(self):
        junk = bytes(1 << 20)
        with self.assertRaises(etcd.Refused):
            for i in range(2 * (QUOTA >> 20)):
                self.etcd.put(b"others/%d" % i, junk)
        yield ""
        self.etcd.free_space(b"others/")

    # Metadata that moves.

    def copy_store(self, source, target):
        argv = [binary("leasehold"), "store", "copy", source, target]
        hurried = None
        if self.chance.random() < 0.5:
            hurried = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(self.chance.random() * 0.1)
            hurried.kill()
            if hurried.wait() == 0:
                return
        done = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
        if hurried is not None and b"holds a store already" in done.stderr:
            return  # it was killed when all of it was done
        self.assertEqual(done.returncode, 0, done.stderr)

    def stored_elsewhere(self):
        """From etcd into a directory, where a single master goes on, and into etcd again."""
        cluster = self.cluster
        in_etcd = store_of(cluster.master)
        directory = os.path.join(self.folder, f"store-{self.others}")
        for master in cluster.masters:
            self.ended_in_order(master)
        self.copy_store(in_etcd, "lmdb:" + directory)
        single = self.another(cluster.master, store="lmdb:" + directory,
                              listen=cluster.master.address)
        single.start()
        frozen = cluster.masters[1]
        since = len(frozen.log_text())
        frozen.start()
        self.wait_word(frozen, f"content went to lmdb:{directory}", since)
        self.goes_on()
        yield "a single master, and one on the old store"
        self.goes_on()
        self.assertFalse(cluster.ask(frozen).acting)
        self.assertEqual(frozen.stop(), 0)
        self.assertEqual(single.stop(), 0, single.log_text()[-2000:])
        cluster.prefix = f"moved-{self.others}"
        target = f"etcd:{self.etcd.addresses()}/{cluster.prefix}"
        self.copy_store("lmdb:" + directory, target)
        again = self.another(cluster.master, store="lmdb:" + directory)
        again.start()
        wait_for("it to end", lambda: not again.running())
        self.assertEqual(again.process.returncode, 73, again.log_text())
        for master in cluster.masters:
            master.argv = changed(master.argv, store=target)
            master.start()
        self.etcd.delete(in_etcd.rpartition("/")[2].encode() + b"/")


def changed(argv, **options):
    """The command line with other values of these options."""
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}="
        argv = [a for a in argv if not a.startswith(option)] + [option + value]
    return argv


def store_of(master):
    return next(a for a in master.argv if a.startswith("--store=")).partition("=")[2]


TABLE = (
    # Often: what happens by itself.
    *3 * (Row("killed", MINOR, Accidents.killed),),
    *3 * (Row("stands still", MINOR, Accidents.stands_still),),
    *2 * (Row("stopped in order", MINOR, Accidents.stopped_in_order),),
    Row("all killed", MAJOR, Accidents.all_killed),
    Row("all stand still", MAJOR, Accidents.all_stand_still),
    Row("masters stopped in order", MAJOR, Accidents.masters_stopped_in_order),
    # What a person does.
    Row("handed over", MINOR, Accidents.handed_over),
    Row("a master moved", OPERATOR, Accidents.moved),
    Row("misspelt prefix", OPERATOR, Accidents.misspelt_beside),
    Row("misspelt prefix among the addresses", OPERATOR, Accidents.misspelt_among_addresses),
    Row("forgotten while it runs", OPERATOR, Accidents.forgotten_while_it_runs),
    Row("forgotten when dead", OPERATOR, Accidents.forgotten_when_dead),
    Row("a master's id twice", OPERATOR, Accidents.same_id_twice),
    Row("a master's record deleted", OPERATOR, Accidents.record_deleted),
    Row("a directory twice", OPERATOR, Accidents.same_directory_twice),
    Row("a directory cloned", ALONE, Accidents.cloned),
    Row("an empty directory under an old name", ALONE, Accidents.empty_under_an_old_name),
    Row("a member of etcd replaced", OPERATOR, Accidents.disk_lost),
    Row("etcd compacted", OPERATOR, Accidents.compacted),
    Row("the cluster begun again", OPERATOR, Accidents.begun_again),
    Row("a pair changed in etcd", ALONE, Accidents.pair_changed),
    Row("the head deleted in etcd", ALONE, Accidents.head_deleted),
    Row("etcd's quota reached", ALONE, Accidents.quota_reached),
    Row("the store moved", ALONE, Accidents.stored_elsewhere),
)
