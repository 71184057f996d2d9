#!/usr/bin/python3
"""Several masters on a real etcd: the active one is lost, hangs, resigns; etcd is away, or is not
what a master may use.

Where masters change, four writers append and three clients create, rename and remove files. At the
end nothing that was acknowledged is lost, doubled or out of order, and what clients were told of
names is so.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import time

import etcd
import process_cluster
from process_cluster import CALM, PATIENCE_S, Node, binary, free_port, wait_for
from process_masters import MastersTest, Names, grpc
from process_terminal import Terminal

PATH = "/masters/log"

# Longer than any story takes: who waits for the end of such a reign fails.
LONG = "60s"


class StoriesTest(MastersTest):
    """With appenders and clients of names that run on."""

    def begin(self, writers=4, **options):
        cluster = self.start_masters(**{**CALM, **options})
        cluster.command("create", "--chunk-size=256MiB", PATH)
        self.start_writers(PATH, writers)
        self.names = Names(cluster)
        self.go_on()
        self.lease = cluster.held_lease(PATH)
        return cluster

    def go_on(self):
        self.await_progress(100)
        self.names.await_calls(30)

    def finish(self):
        """All that was acknowledged is there; and the file has still its one chunk, and that its
        primary, since masters that change must not interrupt appends (HA-4)."""
        self.finish_writers()
        calls, met, unknown = self.names.finish()
        self.assertEqual((met, unknown), (0, 0), "each call happens once (HA-12)")
        now = self.cluster.held_lease(PATH)
        for field in ("chunk", "version", "primary"):
            self.assertEqual(now[field], self.lease[field], field)
        self.assertGreater(self.check_file(PATH), 0)
        self.assertGreater(calls, 0)

    def check_health(self, cluster, active):
        """All are well, and the active one alone serves."""
        for master in cluster.masters:
            self.assertEqual(cluster.health(master), 1, master.name)
            for service in ("leasehold.Master", "leasehold.Leases"):
                wait_for(f"{service} to be served by {active.name} alone",
                         lambda m=master, s=service:
                         (cluster.health(m, s) == 1) == (m is active))

    def test_each_active_master_is_killed_in_turn(self):
        cluster = self.begin()
        reign = 0
        for _ in range(3):
            master, reign = cluster.wait_acting(reign)
            self.check_health(cluster, master)
            master.kill()
            cluster.wait_acting(reign)
            self.go_on()
            master.start()
            cluster.wait_state(master, "STANDBY")
        self.finish()

    def test_an_active_master_that_hung_finds_out(self):
        cluster = self.begin()
        cluster.command("create", "/gone")
        master, reign = cluster.wait_acting()
        channel = cluster.channel(master)
        self.addCleanup(channel.close)
        self.assertEqual(channel.master("Stat", path="/gone").error, 0)
        master.pause()
        # This call is with it when it goes on, and its answer would be of the old reign.
        late = channel.begin("Stat", path="/gone")
        created = channel.begin("Create", path="/late")
        _, newer = cluster.wait_acting(reign)
        cluster.command("rm", "--now", "/gone")
        self.go_on()
        master.resume()
        for call in (late, created):
            error = call.exception(PATIENCE_S)
            self.assertIsInstance(error, grpc.RpcError, call)
            self.assertIn("NOT_ACTIVE", error.details())
        cluster.wait_state(master, "STANDBY")
        self.assertIn(f"reign {reign} is over", master.log_text())
        self.assertNotEqual(cluster.run("stat", "/late").returncode, 0)
        self.assertEqual(cluster.wait_acting()[1], newer)
        # It is one of them again: the others are not needed.
        for other in cluster.masters:
            if other is not master:
                other.kill()
        self.assertIs(cluster.wait_acting(newer)[0], master)
        self.go_on()
        self.finish()

    def test_who_is_stopped_hands_over_at_once(self):
        cluster = self.begin(reign_term=LONG)
        master, reign = cluster.wait_acting()
        began = time.monotonic()
        self.assertEqual(master.stop(), 0, master.log_text()[-2000:])
        _, newer = cluster.wait_acting(reign)
        self.assertLess(time.monotonic() - began, 30, "nobody waits for the end of its reign")
        self.assertEqual(newer, reign + 1)
        self.go_on()
        master.start()
        cluster.wait_state(master, "STANDBY")
        # The same at an operator's wish, to the master that is named.
        old, _ = cluster.wait_acting()
        heir = next(m for m in cluster.masters if m not in (old, master))
        wait_for(f"{heir.name} to be known", lambda: cluster.ask(
            old, "Transfer", successor=heir.name).error == 0)
        self.assertIs(cluster.wait_acting(newer)[0], heir)
        cluster.wait_state(old, "STANDBY")
        self.go_on()
        self.finish()

    def test_a_member_of_etcd_is_lost(self):
        cluster = self.begin()
        leader = self.etcd.leader()
        follower = next(m for m in self.etcd.members.values() if m is not leader)
        for member in (follower, leader):
            member.kill()
            self.go_on()
            cluster.wait_acting()
            member.start()
            self.etcd.wait_ready()
        self.finish()

    def test_etcd_stands_still(self):
        # For less than the reign: nobody else may want to begin one.
        cluster = self.begin(reign_term=LONG)
        master, reign = cluster.wait_acting()
        for member in self.etcd.members.values():
            member.pause()
        self.await_progress(500)
        self.assertTrue(cluster.ask(master).acting)
        for member in self.etcd.members.values():
            member.resume()
        self.go_on()
        self.assertEqual(cluster.wait_acting(), (master, reign))
        self.finish()

    def test_etcd_stands_still_for_longer_than_a_reign(self):
        cluster = self.begin()
        master, reign = cluster.wait_acting()
        for member in self.etcd.members.values():
            member.pause()
        wait_for("the active master to notice",
                 lambda: cluster.ask(master).state == "UNCONFIRMED")
        self.await_progress(500)
        for member in self.etcd.members.values():
            member.resume()
        self.go_on()
        # The same reign goes on, or the next one has begun: nobody's appends depend on it.
        self.assertIn(cluster.wait_acting()[1], (reign, reign + 1))
        self.finish()

    def test_all_of_etcd_is_killed(self):
        cluster = self.begin()
        _, reign = cluster.wait_acting()
        self.etcd.kill()
        self.await_progress(500)
        self.etcd.start()
        cluster.wait_acting()
        self.go_on()
        self.finish()

    def test_etcd_goes_back(self):
        # KEEP-4: what was acknowledged since the copy is gone, and no master hides that.
        cluster = self.start_masters()
        cluster.command("create", "/old")
        saved = os.path.join(self.folder, "saved")
        self.etcd.save(saved)
        self.etcd.wait_ready()
        cluster.command("create", "/new")
        reign = 0
        for _ in range(4):
            master, reign = cluster.wait_acting(reign)
            cluster.ask(master, "Transfer")
        cluster.wait_acting(reign)
        cluster.wait_ready()
        # Only who has seen what is gone can know that it is.
        active = cluster.wait_acting()[0]
        seen = cluster.ask(active).revision
        for master in cluster.masters:
            wait_for(f"{master.name} to have seen it",
                     lambda m=master: cluster.ask(m).revision >= seen)
        self.etcd.restore(saved)
        for master in cluster.masters:
            status = wait_for(f"{master.name} to end",
                              lambda m=master: m.process.poll() is not None and [m.process.poll()])
            self.assertEqual(status, [73], master.log_text()[-2000:])
            self.assertRegex(master.log_text(),
                             r"etcd was restored from an older copy: .* --restored")
        # As it says: one master alone, and the others once it acts.
        first = cluster.masters[0]
        first.argv.append("--restored")
        first.start()
        _, reign = cluster.wait_acting()
        for master in cluster.masters[1:]:
            master.start()
        cluster.wait_ready()
        self.assertEqual([f["path"] for f in cluster.json("ls", "/")["files"]], ["/old"])
        self.assertFalse(cluster.json("garbage")["deleting"])
        # Nor does the next one delete anything, which was not told.
        cluster.wait_state(cluster.masters[1], "STANDBY")
        self.assertEqual(first.stop(), 0)
        cluster.wait_acting(reign)
        first.argv.remove("--restored")
        first.start()
        cluster.wait_ready()
        self.assertFalse(cluster.json("garbage")["deleting"])


class BeginningsTest(MastersTest):
    """What a master finds when it starts."""

    def assert_works(self, cluster):
        cluster.wait_ready()
        cluster.command("create", "/works")
        cluster.command("append", "/works", stdin=b"record\n")
        self.assertEqual(cluster.command("cat", "/works"), b"record\n")

    def test_masters_are_there_before_etcd(self):
        self.etcd.kill()
        cluster = self.make_cluster()
        for node in cluster.nodes():
            node.start()
        for master in cluster.masters:
            wait_for("it to say so", lambda m=master: "; trying on" in m.log_text())
        refused = cluster.run("stat", "/", "--timeout=1s")
        self.assertNotEqual(refused.returncode, 0)
        self.etcd.start()
        self.assertEqual(cluster.begin().returncode, 0)
        self.assert_works(cluster)
        for master in cluster.masters:
            self.assertTrue(master.running(), master.name)

    def test_two_masters_of_one_id(self):
        cluster = self.start_masters(count=2)
        first = cluster.named("m2")
        address = f"127.0.0.1:{free_port()}"
        argv = [a for a in first.argv if not a.startswith("--listen")] + [f"--listen={address}"]
        second = Node("twin", address, None, argv, os.path.join(self.folder, "twin.log"))
        self.addCleanup(second.kill)
        wait_for("m2 to be in the list", lambda: any(
            m.master_id == "m2" for m in cluster.ask(cluster.masters[0]).masters))
        second.start()
        status = wait_for("it to end", lambda: second.process.poll() is not None and
                          [second.process.poll()])
        self.assertEqual(status, [73], second.log_text())
        self.assertIn('another master with the id "m2" is running', second.log_text())
        self.assertTrue(first.running())
        # The place of one that is gone can be taken, at another address.
        first.kill()
        second.start()
        cluster.masters[cluster.masters.index(first)] = second
        cluster.wait_state(second, "STANDBY", "ACTIVE")
        self.assert_works(cluster)

    def test_a_master_that_is_gone_is_forgotten(self):
        cluster = self.start_masters(count=3)
        gone = next(m for m in cluster.masters if m is not cluster.wait_acting()[0])

        def lists(master):
            return any(m.master_id == gone.name for m in cluster.ask(master).masters)
        for master in cluster.masters:
            wait_for("the lists to be whole", lambda m=master: lists(m))
        said = cluster.run("masters", f"--forget={gone.name}")
        self.assertEqual(said.returncode, 1)
        self.assertIn(f"{gone.name} runs".encode(), said.stderr)
        gone.kill()
        cluster.command("masters", f"--forget={gone.name}")
        for master in cluster.masters:
            if master is not gone:
                wait_for("it to be forgotten", lambda m=master: not lists(m))
        said = cluster.run("masters", f"--forget={gone.name}")
        self.assertEqual(said.returncode, 1)
        self.assertIn(b"there is no record of", said.stderr)
        # It comes back as a new one does.
        gone.start()
        cluster.wait_state(gone, "STANDBY")
        wait_for("it to be listed", lambda: lists(cluster.wait_acting()[0]))

    def refusal(self, *flags):
        """What a master says that ends at once."""
        done = subprocess.run([binary("leasehold-master"), f"--listen=127.0.0.1:{free_port()}",
                               *flags], capture_output=True, timeout=PATIENCE_S, check=False,
                              encoding="utf-8")
        return done.returncode, done.stderr.strip()

    def test_stores_that_make_no_sense(self):
        no_prefix = "what follows the members' addresses is /PREFIX"
        for store, sentence in (
                ("etcd:", no_prefix),
                ("etcd:127.0.0.1:2379", no_prefix),
                ("etcd:127.0.0.1:2379/", no_prefix),
                ("etcd:/leasehold", "a member's address is HOST:PORT"),
                ("etcd:127.0.0.1/leasehold", "a member's address is HOST:PORT"),
                ("etcd:,/leasehold", "a member's address is HOST:PORT"),
                ("etcd:127.0.0.1:/leasehold", "a member's address is HOST:PORT"),
                ("etcd::2379/leasehold", "a member's address is HOST:PORT"),
                ("etcd:127.0.0.1:port/leasehold", "a member's address is HOST:PORT"),
                ("etcd:127.0.0.1:65536/leasehold", "a member's address is HOST:PORT"),
                ("etcd:127.0.0.1:2379,/leasehold", "a member's address is HOST:PORT"),
                ("etcd:" + ",".join(["127.0.0.1:2379"] * 9) + "/leasehold", "at most eight"),
                ("consul:127.0.0.1/x", "--store is lmdb:DIRECTORY or etcd:"),
                ("lmdb:", "--store is lmdb:DIRECTORY or etcd:"),
        ):
            status, said = self.refusal(f"--store={store}")
            self.assertEqual(status, 64, (store, said))
            self.assertIn(sentence, said, store)
            self.assertEqual(len(said.splitlines()), 1, said)
        status, said = self.refusal("--store=etcd:127.0.0.1:2379/x", "--etcd-user=root")
        self.assertEqual((status, "--etcd-user needs --etcd-password-file" in said), (64, True))
        status, said = self.refusal("--store=etcd:127.0.0.1:2379/x", "--reign-term=1ms")
        self.assertEqual(status, 64, said)

    def test_a_prefix_that_holds_other_keys(self):
        prefix = self.id().split(".")[-1]
        mine, others = prefix.encode() + b"/", (prefix.encode(), prefix.encode() + b"0/map/x")
        for key in others:  # beside it, so that they are nobody's business
            self.etcd.put(key, b"other")
        inside = (mine + b"a/head", mine + b"lock", mine + b"z/head")
        for key in inside:
            self.etcd.put(key, b"another program's")
        cluster = self.make_cluster(prefix=prefix)
        for node in cluster.nodes():
            node.start()
        sentence = f'etcd has no cluster under the prefix "{prefix}/"'
        for master in cluster.masters:
            wait_for("it to say so", lambda m=master: sentence in m.log_text())
        self.assertIsNone(cluster.acting())
        for key in inside:
            said = cluster.begin()
            self.assertEqual(said.returncode, 1)
            self.assertIn(b"etcd has other keys under this prefix", said.stderr)
            self.assertIsNone(cluster.acting())
            self.etcd.delete(key)
        self.assertEqual(cluster.begin().returncode, 0)
        self.assert_works(cluster)
        for key in others:
            self.assertEqual(self.etcd.get(key)[key], b"other")
        for master in cluster.masters:
            self.assertEqual(master.log_text().count(sentence), 1, "it is said once")
        # What stands where files are is not read over.
        for node in cluster.nodes():
            node.kill()
        self.etcd.delete(mine)
        self.etcd.put(mine + b"map/", b"another program's")
        first = cluster.masters[0]
        first.start()
        wait_for("it to say so", lambda: f"under {prefix}/ cannot be used" in first.log_text())
        self.assertTrue(first.running())

    def move(self, cluster, master, prefix):
        """Its operator starts it again with another prefix."""
        master.kill()
        master.argv = [f"--store=etcd:{self.etcd.addresses()}/{prefix}"
                       if a.startswith("--store=") else a for a in master.argv]
        master.start()
        cluster.wait_state(master, "WAITING", "ACTIVE", "STANDBY")

    def assert_servers_run(self, cluster):
        for server in cluster.servers.values():
            self.assertTrue(server.running(), server.log_text()[-2000:])

    @staticmethod
    def readiness(node):
        connection = http.client.HTTPConnection(node.metrics, timeout=PATIENCE_S)
        with contextlib.closing(connection):
            connection.request("GET", "/readyz")
            reply = connection.getresponse()
            return reply.status, reply.read().decode()

    def ls(self, cluster, first):
        """By a client that is given that master first."""
        addresses = [first] + [m for m in cluster.masters if m is not first]
        return subprocess.run(
            [binary("leasehold"), "ls", "/", "--timeout=3s",
             "--master=" + ",".join(m.address for m in addresses)],
            capture_output=True, check=False)

    def test_a_prefix_is_misspelt(self):
        prefix = self.id().split(".")[-1]
        cluster = self.make_cluster(**CALM)
        for server in cluster.servers.values():
            server.serve_metrics()
        cluster.start()
        self.assert_works(cluster)
        active, reign = cluster.wait_acting()
        astray = next(m for m in cluster.masters if m is not active)

        # Nobody else's: it waits, and disturbs nobody, also when the active one is lost.
        self.move(cluster, astray, prefix + "x")
        said = cluster.ask(astray)
        self.assertEqual((said.state, said.cluster_id, said.acting), ("WAITING", "", False))
        self.assertIn("leasehold store init", said.store_trouble)
        self.assertEqual(self.ls(cluster, astray).stdout.split()[-1], b"/works")
        alone = cluster.run("ls", "/", f"--master={astray.address}", "--timeout=1s")
        self.assertNotEqual(alone.returncode, 0)
        self.assertIn(b"leasehold store init", alone.stderr)
        active.kill()
        _, reign = cluster.wait_acting(reign)
        cluster.command("append", "/works", stdin=b"more\n")
        self.assert_servers_run(cluster)
        active.start()
        cluster.wait_state(active, "STANDBY")

        # Another cluster's, in which it acts: what it says counts for nothing.
        other = prefix + "-other"
        subprocess.run([binary("leasehold"), "store", "init",
                        f"etcd:{self.etcd.addresses()}/{other}"], check=True, capture_output=True)
        self.move(cluster, astray, other)
        cluster.wait_state(astray, "ACTIVE")
        self.assertNotIn(cluster.ask(astray).cluster_id, ("", cluster.ask(active).cluster_id))
        for first in cluster.masters:
            # Who belongs to none takes neither, unless one does not answer in time.
            wait_for("it to say so", lambda f=first: b"neither is chosen" in
                     self.ls(cluster, f).stderr)
        own = [m for m in cluster.masters if m is not astray]
        for master in own:
            master.kill()
        servers = cluster.servers.values()
        for server in servers:
            wait_for("it to say so", lambda s=server: "its answers count for nothing" in
                     s.log_text())
            status, text = self.readiness(server)
            self.assertEqual(status, 503)
            self.assertIn("its answers count for nothing", text)

        # All of them: the servers wait for as long as it takes.
        for master in own:
            self.move(cluster, master, other)
        cluster.wait_acting()
        time.sleep(1)
        self.assert_servers_run(cluster)
        for master in cluster.masters:
            self.move(cluster, master, prefix)
        cluster.wait_ready()
        self.assert_servers_run(cluster)
        self.assertEqual(cluster.command("cat", "/works"), b"record\nmore\n")

    def test_who_does_not_fit_in(self):
        prefix = self.id().split(".")[-1]
        cluster = self.start_masters(count=1, servers=0)
        where = f"--store=etcd:{self.etcd.addresses()}/"
        said = self.refusal(where + prefix + "/inner")
        self.assertEqual(said[0], 73, said)
        self.assertIn(f'the prefix "{prefix}/inner/" is inside that of another cluster', said[1])
        said = self.refusal(where + prefix, "--master-id=other", "--session-term=11s")
        self.assertEqual(said[0], 78, said)
        self.assertIn("the active master, m1, runs with --max-clock-drift-ppm=10000 "
                      "--session-term=2000ms", said[1])
        self.assertIn(", 11000ms ", said[1])
        self.assertIsNotNone(cluster.acting())

    # etcd that lets in only those whom it knows.

    def one_member(self, **options):
        members = etcd.Etcd(os.path.join(self.folder, "one"), members=1, **options)
        os.makedirs(os.path.join(self.folder, "one"))
        self.addCleanup(members.cleanup)
        members.start()
        return members

    def test_etcd_fills_up(self):
        quota = 8 << 20
        members = self.one_member(flags=[f"--quota-backend-bytes={quota}"])
        (member,) = members.members.values()
        cluster = self.start_masters(members=members, count=2,
                                     master_flags=[f"--etcd-quota={quota}"])
        self.assert_works(cluster)

        def fill(upto):
            for i in range(1000):
                member.ask("/v3/maintenance/defragment")  # its size is what it holds then
                if int(member.status()["dbSize"]) >= upto:
                    return
                members.put(b"others/%d" % i, b"x" * (128 << 10))

        # Near its quota: nothing new, and all else.
        fill(quota * 91 // 100)
        said = wait_for("new files to be refused", lambda: next(
            (r.stderr for r in [cluster.run("create", f"/new{time.monotonic()}")]
             if r.returncode != 0), None))
        self.assertIn(b"etcd's file has grown to", said)
        self.assertIn(b"etcdctl defrag", said)
        cluster.command("append", "/works", stdin=b"more\n")
        cluster.command("mv", "/works", "/still-works")
        self.assertIn("etcd's file has grown", cluster.command("masters", "--json").decode())
        # At the quota: no master acts, and nothing is lost.
        with self.assertRaises(etcd.Refused):
            fill(quota * 2)
        wait_for("nobody to act", lambda: cluster.acting() is None)
        # What names there are can be read (HA-2a).
        self.assertIn(b"/still-works", cluster.command("ls", "/"))
        cluster.command("stat", "/still-works")
        # With room: all goes on.
        members.free_space(b"others/")
        cluster.wait_acting()
        wait_for("new files", lambda: cluster.run("create", "/newer").returncode == 0)
        self.assertEqual(cluster.command("cat", "/still-works"), b"record\nmore\n")

    def file(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_etcd_asks_who_calls(self):
        members = self.one_member()
        cluster = self.make_cluster(members, count=2, reign_term=LONG)
        member = members.members["etcd1"]
        member.ask("/v3/auth/user/add", name="root", password="secret")
        member.ask("/v3/auth/user/grant", user="root", role="root")
        member.ask("/v3/auth/role/add", name="masters")
        member.ask("/v3/auth/user/add", name="m", password="word")
        member.ask("/v3/auth/user/grant", user="m", role="masters")
        member.ask("/v3/auth/role/grant", name="masters", perm={
            "permType": "READWRITE", **etcd.prefix_range(cluster.prefix.encode() + b"/")})
        member.ask("/v3/auth/enable")
        right = [f"--etcd-password-file={self.file('right', 'word')}", "--etcd-user=m"]
        wrong = [f"--etcd-password-file={self.file('wrong', 'another')}", "--etcd-user=m"]
        first, second = cluster.masters
        plain = list(first.argv)
        for flags, sentence in (([], "user name is empty"),
                                (wrong, "authentication failed, invalid user ID or password")):
            first.argv = plain + flags
            first.start()
            wait_for(f"it to say {sentence!r}", lambda s=sentence: s in first.log_text())
            self.assertIsNone(cluster.acting())
            self.assertEqual(first.stop(), 0)
        for master in (first, second):
            master.argv = plain + right if master is first else master.argv + right
        cluster.start()
        self.assert_works(cluster)
        # A password that is not right any more lets go on who has shown it before.
        cluster.wait_state(first, "STANDBY", "ACTIVE")
        cluster.wait_state(second, "STANDBY", "ACTIVE")
        self.assert_followed(cluster)

    def assert_followed(self, cluster):
        """What resigns for a dead master speaks with etcd as it did (HA-3a)."""
        master, reign = cluster.wait_acting()
        master.kill()
        began = time.monotonic()
        cluster.wait_acting(reign)
        self.assertLess(time.monotonic() - began, 30, "nobody waits for the end of its reign")
        cluster.command("cat", "/works")

    def openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def test_etcd_speaks_tls(self):
        paths = {n: os.path.join(self.folder, n) for n in ("ca.pem", "ca.key", "key", "csr", "pem")}
        self.openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=authority",
                     "-days", "2", "-keyout", paths["ca.key"], "-out", paths["ca.pem"])
        self.openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=member",
                     "-keyout", paths["key"], "-out", paths["csr"])
        names = self.file("names", "subjectAltName=IP:127.0.0.1")
        self.openssl("x509", "-req", "-in", paths["csr"], "-CA", paths["ca.pem"], "-CAkey",
                     paths["ca.key"], "-CAcreateserial", "-days", "2", "-extfile", names,
                     "-out", paths["pem"])
        tls = etcd.Tls(paths["ca.pem"], paths["pem"], paths["key"])
        members = self.one_member(tls=tls)
        cluster = self.make_cluster(members, count=2, reign_term=LONG)
        first = cluster.masters[0]
        # Without a certificate etcd does not speak to it.
        first.argv.append(f"--etcd-ca={tls.ca}")
        first.start()
        wait_for("it to say so", lambda: "; trying on" in first.log_text())
        self.assertIsNone(cluster.acting())
        first.kill()
        flags = [f"--etcd-ca={tls.ca}", f"--etcd-cert={tls.cert}", f"--etcd-key={tls.key}"]
        first.argv += flags[1:]
        cluster.masters[1].argv += flags
        cluster.start()
        self.assert_works(cluster)
        for master in cluster.masters:
            cluster.wait_state(master, "STANDBY", "ACTIVE")
        self.assert_followed(cluster)


class TopTest(MastersTest):
    """`leasehold top`: a person looks on while masters change."""

    def top(self, *flags, rows=24, columns=80):
        terminal = Terminal([binary("leasehold"), "top", "--interval=200ms", *flags],
                            self.cluster.environment(), rows, columns)
        self.addCleanup(terminal.close)
        return terminal

    def assert_left(self, terminal, status):
        self.assertEqual(terminal.process.wait(PATIENCE_S), status)
        self.assertTrue(terminal.is_as_before(), "the terminal is given back as it was")
        self.assertEqual(terminal.strange, set(), "nothing that this terminal does not know")

    def test_top(self):
        cluster = self.start_masters(**CALM)
        for i, path in enumerate(("/log", "/\u65e5\u672c", "/\u202egnp.exe")):
            cluster.command("create", path)
            cluster.command("append", path, stdin=b"x\n" * (i + 1))
        self.assertEqual(len(cluster.leases()), 3)
        self.views()
        self.reports()
        self.ends()
        self.masters_die()

    def views(self):
        top = self.top()
        seen = top.wait_for("nothing is wrong", "appends: ", " recalled, ", "servers: 3 of 3 live",
                            "repair: nothing to do, every chunk has its replicas")
        for name in ("m1", "m2", "m3"):
            self.assertRegex(seen, rf"(?m)^{name} +(active|standby) for ")
        top.type("2")
        top.wait_for("[2 servers]", "cs1", "cs2", "cs3", "live")
        top.type("\t")
        top.wait_for("[3 leases]", "/log", "/\u65e5\u672c", "/\\u202egnp.exe", "HELD")
        top.type("s")
        top.wait_for("s by appends")
        top.type("h")
        top.wait_for("another view")
        top.type("4p")
        top.wait_for("[4 locks]", "paused: p goes on")
        # A screen of four rows: there is more below.
        top.resize(4, 40)
        top.type("p1")
        top.wait_for("[1 overview]", "nothing is wrong")
        top.type("jj")
        top.wait_for("master  state")
        top.resize(24, 100)
        top.type("g")
        top.wait_for("nothing is wrong", "address", "every 0.2 s")
        top.type("q")
        self.assert_left(top, 0)

    def reports(self):
        run = self.cluster.run
        once = run("top", "--once", "--interval=200ms")
        self.assertEqual((once.returncode, once.stderr), (0, b""))
        self.assertIn(b"nothing is wrong\n", once.stdout)
        twice = run("top", "--batch=2", "--interval=200ms", "--view=leases")
        self.assertEqual(twice.stdout.count(b"[3 leases]"), 2)
        self.assertNotIn(b"\x1b", twice.stdout)
        for flags, words in (((), b"no terminal"), (("--once", "--batch=2"), b"one of them"),
                             (("--interval=1ms",), b"too small")):
            refused = run("top", *flags)
            self.assertEqual(refused.returncode, 64, refused)
            self.assertIn(words, refused.stderr)

    def ends(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            top = self.top()
            top.wait_for("nothing is wrong")
            if number == signal.SIGINT:
                top.type("\x03")
            else:
                top.process.send_signal(number)
            self.assert_left(top, 128 + number)
        gone = self.top()
        gone.wait_for("nothing is wrong")
        gone.hang_up()
        self.assertEqual(gone.process.wait(PATIENCE_S), 128 + signal.SIGHUP)
        for name, words in (("nonsense", "the terminal 'nonsense' is unknown here"),
                            ("dumb", "the terminal 'dumb' cannot place its cursor")):
            argv = ["/usr/bin/env", f"TERM={name}", binary("leasehold"), "top"]
            top = Terminal(argv, self.cluster.environment(), columns=200)
            self.addCleanup(top.close)
            self.assert_left(top, 64)
            self.assertIn(words, top.screen())

    def masters_die(self):
        cluster = self.cluster
        top = self.top(columns=160)
        master, reign = cluster.wait_acting()
        top.wait_for(f"master {master.name}, term {reign}", "nothing is wrong")
        master.kill()
        other, newer = cluster.wait_acting(reign)
        top.wait_for(f"master {other.name}, term {newer}", f"! {master.name} at ", "no answer",
                     "servers: 3 of 3 live")
        # The active one last: nobody follows it, for whom no server is live yet.
        for m in sorted(cluster.masters, key=lambda m: m is other):
            if m.running():
                m.kill()
        top.wait_for("! the active master does not answer (", "! no master acts now", " old",
                     "servers: 3 of 3 live")
        refused = cluster.run("top", "--once", "--interval=200ms", "--timeout=1s")
        self.assertIn(refused.returncode, (69, 75), refused)
        self.assertIn(b"! the active master does not answer (", refused.stdout)
        master.start()
        cluster.wait_acting(newer)
        top.wait_for(f"master {master.name}, term ", "active for")
        top.type("q")
        self.assert_left(top, 0)


if __name__ == "__main__":
    process_cluster.main(beside=[
        "TopTest.test_top",
        "BeginningsTest.test_etcd_fills_up",
        "BeginningsTest.test_two_masters_of_one_id",
    ])
