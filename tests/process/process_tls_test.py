#!/usr/bin/python3
"""TLS between all nodes: a cluster works as without, renewed certificates disturb nobody, and who
has none, or another authority's, is refused in words that help."""

import json
import os
import re
import socket
import ssl
import subprocess
import time
import urllib.request

import grpc

import etcd
import process_cluster
from process_attacker import send_headers_without_end
from process_cluster import CALM, Cluster, ClusterTest, binary, free_port, free_ports, wait_for
from process_masters import SCHEMA, MastersCluster
from process_wire import Channel, load_schema

PATH = "/tls/log"
HOSTS = "127.0.0.1,localhost"


class Certs:
    """An authority in a folder, made by the command."""

    def __init__(self, folder):
        self.folder = folder
        self.run("init")

    def run(self, *args):
        return subprocess.run([binary("leasehold"), "certs", *args, f"--dir={self.folder}"],
                              check=True, capture_output=True).stdout

    def dir_of(self, who):
        return os.path.join(self.folder, who.replace("/", "-"))

    def issue(self, who, *flags):
        """The folder with its files; a new certificate replaces an old one."""
        self.run("issue", who, f"--host={HOSTS}", "--force", *flags)
        return self.dir_of(who)


def secure(cluster, certs):
    """Has all nodes and the command speak TLS."""
    for node in cluster.nodes():
        role = "master" if node in cluster.masters else "chunkserver"
        node.who = f"{role}/{node.name}"
        node.argv.append(f"--tls-dir={certs.issue(node.who)}")
    plain, own = cluster.environment, certs.issue("admin/test")
    cluster.environment = lambda: dict(plain(), LEASEHOLD_TLS_DIR=own)


class TlsTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.certs = Certs(os.path.join(self.folder, "certs"))

    def start_secure(self, metrics=False, **options):
        self.cluster = Cluster(self.folder, **options)
        secure(self.cluster, self.certs)
        if metrics:
            for node in self.cluster.nodes():
                node.serve_metrics()
        self.cluster.start()

    def start_etcd(self):
        """An etcd whose one member has a certificate of the cluster's authority."""
        member = self.certs.issue("etcd/etcd1")
        files = etcd.Tls(*(os.path.join(member, n + ".pem") for n in ("ca", "cert", "key")))
        members = etcd.Etcd(self.folder, members=1, tls=files)
        self.addCleanup(members.cleanup)
        members.start()
        return members

    def figure(self, node, name):
        """One of the node's figures, over HTTPS, with its certificate checked."""
        context = ssl.create_default_context(cafile=os.path.join(self.certs.folder, "ca.pem"))
        return node.figure(f"leasehold_{name}", tls=context)

    def refused(self, *flags, environment=None):
        """What the command says to a refusal; it must not get in."""
        result = subprocess.run(
            [binary("leasehold"), "ls", "--timeout=1500ms", *flags], capture_output=True,
            env=dict(os.environ, LEASEHOLD_MASTER=self.cluster.master_address,
                     **(environment or {})), check=False)
        self.assertNotEqual(result.returncode, 0)
        return result.stderr.decode()


class WorkTest(TlsTest):

    def test_appends_reads_and_locks_while_a_primary_is_killed(self):
        self.start_secure()
        self.cluster.command("create", "--chunk-size=256KiB", PATH)
        self.start_writers(PATH, 2)
        primary = self.cluster.primary(PATH)
        token = self.cluster.command("lock", "/tls/lock", "--", "printenv", "LEASEHOLD_TOKEN")
        self.assertGreater(int(token), 0)
        self.cluster.servers[primary].kill()
        self.await_progress(500)
        self.cluster.servers[primary].start()
        self.cluster.wait_ready()
        self.await_progress(100)
        self.finish_writers()
        self.assertGreater(self.check_file(PATH), 1000)
        wait_for("repair", lambda: self.cluster.run("fsck").returncode == 0, interval=0.3)

    def test_renewed_certificates_disturb_nobody(self):
        self.start_secure(metrics=True, **CALM)
        nodes = self.cluster.nodes()
        self.cluster.command("create", PATH)
        self.start_writers(PATH, 4)
        # Unusable ones first.
        server = self.cluster.servers["cs1"]
        with open(os.path.join(self.certs.dir_of(server.who), "cert.pem"), "w") as file:
            file.write("garbage\n")
        wait_for("the garbage to be seen",
                 lambda: self.figure(server, "tls_renewals_refused_total") == 1)
        self.assertEqual(server.log_text().count("renewed files are not used"), 1)
        expires = {n.name: self.figure(n, "tls_certificate_expires_seconds") for n in nodes}
        for node in nodes:
            self.certs.issue(node.who, "--valid=100d")
        self.certs.issue("admin/test", "--valid=100d")
        for node in nodes:
            wait_for(f"{node.name} to have its new certificate",
                     lambda n=node: self.figure(n, "tls_renewals_total") == 1)
            self.assertLess(self.figure(node, "tls_certificate_expires_seconds"),
                            expires[node.name])
        self.await_progress(500)
        # Connections that are new on both sides.
        restarted = self.cluster.servers["cs2"]
        self.assertEqual(restarted.stop(), 0)
        restarted.start()
        self.cluster.wait_ready()
        self.await_progress(500)
        self.finish_writers()
        self.check_file(PATH)
        self.assertEqual(self.figure(server, "tls_renewals_refused_total"), 1)
        self.assertEqual([w.errors() for w in self.writers], [""] * 4)

    def test_local_has_it_in_one_command(self):
        port = free_ports(0, 101, 201, 301, 1)
        programs = {os.path.dirname(binary(n))
                    for n in ("leasehold-master", "leasehold-chunkserver")}
        local = subprocess.Popen(
            [binary("leasehold"), "local", "--tls", "--chunkservers=1", "--masters=2",
             f"--port={port}", "--session-term=2s"], stdout=subprocess.PIPE, encoding="utf-8",
            env=dict(os.environ, TMPDIR=self.folder,
                     PATH=":".join([*programs, os.environ["PATH"]])))
        self.addCleanup(local.stdout.close)
        self.addCleanup(local.wait)
        self.addCleanup(local.kill)
        lines = []
        while not lines or not lines[-1].startswith("ready at "):
            lines.append(local.stdout.readline())
            self.assertNotEqual(lines[-1], "")
        setting = next(line for line in lines if "LEASEHOLD_TLS_DIR=" in line)
        environment = dict(os.environ, LEASEHOLD_MASTER=f"127.0.0.1:{port},127.0.0.1:{port + 1}",
                           LEASEHOLD_TLS_DIR=setting.strip().split("=", 1)[1])
        done = subprocess.run([binary("leasehold"), "append", "--create", "/hello"], input=b"one\n",
                              env=environment, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        local.terminate()
        self.assertEqual(local.wait(), 0)


class RefusalsTest(TlsTest):

    def test_strangers(self):
        self.start_secure()
        master = self.cluster.master_address
        self.assertIn("perhaps the server speaks TLS", self.refused())
        # Also while it tries on, and by who asks all masters.
        waiting, _ = self.refused("--timeout=3s").split("trying on")
        self.assertIn(f"no master has answered for 2 s ({master}): perhaps the server speaks TLS",
                      waiting)
        masters = subprocess.run([binary("leasehold"), "masters", f"--master={master}"],
                                 capture_output=True, check=False)
        self.assertIn(b"perhaps the server speaks TLS", masters.stderr)
        other = Certs(os.path.join(self.folder, "other"))
        eve = other.issue("admin/eve")
        self.assertIn("of an authority that is not trusted here",
                      self.refused(f"--tls-dir={eve}"))
        # She trusts the servers, and none of them trusts her.
        with open(os.path.join(self.certs.folder, "ca.pem")) as ca:
            with open(os.path.join(eve, "ca.pem"), "a") as file:
                file.write(ca.read())
        self.assertIn("perhaps the server does not trust this side's certificate",
                      self.refused(f"--tls-dir={eve}"))
        wait_for("the master to say so",
                 lambda: "certificate verify failed" in self.cluster.master.log_text())
        brief = self.certs.issue("admin/brief", "--valid=1s")
        time.sleep(1.1)
        self.assertIn("has expired", self.refused(f"--tls-dir={brief}"))
        self.assertIn("cannot open /nowhere/ca.pem", self.refused("--tls-dir=/nowhere"))
        self.assertIn("--tls-ca is missing", self.refused("--tls-key=/nowhere/key.pem"))

        schema = load_schema(SCHEMA, os.path.join(self.folder, "schema"))
        for address in (master, self.cluster.servers["cs1"].address):
            plain = Channel(schema, address)
            with self.assertRaises(grpc.RpcError) as caught:
                plain.health(timeout=20)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            plain.close()
            secure_one = Channel(schema, address, self.certs.dir_of("admin/test"))
            self.assertEqual(secure_one.health(timeout=20), 1)
            secure_one.close()

    def test_a_certificate_that_runs_out(self):
        """Of a client that works: then it cannot connect again, until it is renewed."""
        self.start_secure(servers=1, master_flags=("--replication=1", "--min-replicas=1"))
        self.cluster.command("create", PATH)
        brief = self.certs.issue("admin/brief", "--valid=3s")
        appender = subprocess.Popen(
            [binary("leasehold"), "append", f"--tls-dir={brief}", PATH], stdin=subprocess.PIPE,
            stderr=subprocess.PIPE, env=dict(self.cluster.environment()))
        self.addCleanup(appender.stderr.close)
        self.addCleanup(appender.kill)
        server = self.cluster.servers["cs1"]
        server.kill()
        time.sleep(3.1)
        server.start()
        self.cluster.wait_ready()
        appender.stdin.write(b"record\n")
        appender.stdin.flush()
        wait_for("a server to refuse it", lambda: any(
            "certificate verify failed" in n.log_text() for n in self.cluster.nodes()))
        self.assertEqual(self.cluster.command("cat", PATH), b"")
        self.certs.issue("admin/brief")
        _, said = appender.communicate()
        self.assertEqual(appender.returncode, 0, said)
        self.assertEqual(self.cluster.command("cat", PATH), b"record\n")

    def start_alone(self, *flags):
        """A master alone until it is ready or over; its log, and its exit code."""
        folder = os.path.join(self.folder, f"alone{free_port()}")
        port = free_port()
        process = subprocess.Popen(
            [binary("leasehold-master"), f"--data-dir={folder}",
             *(flag.replace("PORT", str(port)) for flag in flags)],
            stderr=subprocess.PIPE, encoding="utf-8")
        lines = []
        for line in process.stderr:
            lines.append(line)
            if "ready on" in line:
                process.terminate()
        process.stderr.close()
        return "".join(lines), process.wait()

    def test_what_a_server_says_at_its_start(self):
        mine = self.certs.issue("master/mine")
        loud = "WITHOUT TLS ON 0.0.0.0:"
        log, _ = self.start_alone("--listen=0.0.0.0:PORT")
        self.assertEqual(log.count(loud), 1)
        log, _ = self.start_alone("--listen=0.0.0.0:PORT", "--insecure")
        self.assertNotIn(loud, log)
        log, _ = self.start_alone("--listen=127.0.0.1:PORT")
        self.assertNotIn("WITHOUT TLS", log)
        log, _ = self.start_alone("--listen=127.0.0.1:PORT", "--metrics-listen=0.0.0.0:0")
        self.assertIn(loud, log)
        log, code = self.start_alone("--listen=0.0.0.0:PORT", f"--tls-dir={mine}")
        self.assertNotIn("WITHOUT TLS", log)
        self.assertEqual(code, 0)
        for flags, says in (
                ((f"--tls-dir={self.certs.issue('admin/ann')}",),
                 "the certificate of leasehold://admin/ann, and nobody takes a master for"),
                ((f"--tls-dir={mine}", "--tls-key=/nowhere"), "cannot open /nowhere"),
                ((f"--tls-cert={mine}/cert.pem",), "--tls-ca is missing"),
                ((f"--tls-dir={self.certs.issue('chunkserver/cs9')}",),
                 "nobody takes a master for one without the role master"),
                ((f"--tls-dir={mine}", "--store=etcd:127.0.0.1:1/x", "--advertise=127.0.0.2:PORT"),
                 "mine/cert.pem is not for the host of 127.0.0.2:")):
            log, code = self.start_alone("--listen=127.0.0.1:PORT", *flags)
            self.assertIn(says, log)
            self.assertEqual(code, 64)

    def test_what_a_chunkserver_says_at_its_start(self):
        def start(who, *flags):
            return subprocess.run(
                [binary("leasehold-chunkserver"), f"--data-dir={self.folder}/none",
                 "--listen=127.0.0.1:0", f"--tls-dir={self.certs.issue(who)}", *flags],
                capture_output=True, encoding="utf-8", check=False)

        for who, address, says in (
                ("master/m", "127.0.0.1:1", "one without the role chunkserver"),
                ("chunkserver/cs9", "[::1]:1", "cert.pem is not for the host of [::1]:1,"),
                ("chunkserver/cs9", "elsewhere:1", "is not for the host of elsewhere:1,")):
            ended = start(who, f"--advertise={address}")
            self.assertIn(says, ended.stderr)
            self.assertEqual(ended.returncode, 64)
        self.assertFalse(os.path.exists(f"{self.folder}/none"))  # nothing was begun


class HeadersTest(TlsTest):

    MOST = 256 << 20

    def test_headers_without_end(self):
        """They cannot be seen: what nothing comes of is counted."""
        self.start_secure(servers=1, master_flags=("--replication=1",
                                                   "--min-replicas=1"))
        for node in self.cluster.nodes():
            host, port = node.address.rsplit(":", 1)
            folder = self.certs.dir_of("admin/test")
            context = ssl.create_default_context(cafile=os.path.join(folder, "ca.pem"))
            context.load_cert_chain(os.path.join(folder, "cert.pem"),
                                    os.path.join(folder, "key.pem"))
            context.set_alpn_protocols(["h2"])
            plain = socket.create_connection((host, int(port)))
            connection = context.wrap_socket(plain, server_hostname=host)
            # It takes 32 MiB, and more is on its way then; or it ends for want of an answer.
            sent = send_headers_without_end(connection, self.MOST)
            self.assertLess(sent, 96 << 20, node.name)
            with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
                peak = int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) >> 10
            self.assertLess(peak, 320, node.name)


class MastersTest(TlsTest):

    def test_masters_and_etcd(self):
        self.cluster = MastersCluster(
            self.folder, self.start_etcd(), count=2, servers=1,
            master_flags=("--replication=1", "--min-replicas=1"))
        secure(self.cluster, self.certs)
        self.cluster.start()
        self.cluster.command("append", "--create", PATH, stdin=b"one\n")
        masters = self.cluster.json("masters")["masters"]
        acting = next(m for m in masters if m["acting"])
        killed = self.cluster.named(acting["master_id"])
        killed.kill()
        self.cluster.command("append", PATH, stdin=b"two\n")
        self.assertEqual(self.cluster.command("cat", PATH), b"one\ntwo\n")
        # Whoever may ask nothing hears that, also where a standby was asked first.
        nobody = dict(self.cluster.environment(), LEASEHOLD_TLS_DIR=self.certs.issue("etcd/none"))
        killed.start()
        wait_for("it to stand by",
                 lambda: "standby:" in killed.log_text().rpartition("ready on")[2])
        for command in (("ls", "/", "--timeout=2s"), ("masters",),
                        ("lock", "/x", "--timeout=2s", "--", "true")):
            ended = subprocess.run([binary("leasehold"), *command], env=nobody,
                                   capture_output=True, encoding="utf-8", check=False)
            self.assertIn("leasehold://etcd/none has the role etcd and may not", ended.stderr)
            self.assertEqual(ended.returncode, 1)


class ShowTest(TlsTest):

    def test_show(self):
        self.certs.issue("writer/web")
        shown = json.loads(self.certs.run("show", "--json"))["certificates"]
        self.assertEqual([c["identity"] for c in shown], ["", "leasehold://writer/web"])
        self.assertEqual(shown[1]["hosts"], "localhost,127.0.0.1")
        self.assertTrue(shown[0]["authority"])
        self.assertEqual(shown[1]["signed_by"], shown[0]["subject"])
        self.assertIn("leasehold://writer/web", self.certs.run("show").decode())


if __name__ == "__main__":
    process_cluster.main(beside=[
        "WorkTest.test_appends_reads_and_locks_while_a_primary_is_killed",
        "RefusalsTest.test_strangers",
        "RefusalsTest.test_a_certificate_that_runs_out",
        "MastersTest.test_masters_and_etcd",
    ])
