#!/usr/bin/python3
"""Who answers is who is called (ACC-8): each kind of caller, as it is shipped, finds servers at the
addresses that it calls which have certificates of the cluster's authority, and are not meant. It
must send nothing to them, and go on elsewhere."""

import itertools
import os
import socket
import ssl
import subprocess
import threading

import process_cluster
from process_cluster import CALM, Cluster, binary, free_port, wait_for
from process_masters import MastersCluster
from process_tls_test import TlsTest, secure


class Impostor:
    """Listens at an address, and shows a certificate to whoever calls there. `finished`:
    connections that are over; `heard`: the bytes that came over them."""

    def __init__(self, folder, port=0):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_verify_locations(os.path.join(folder, "ca.pem"))
        self.context.load_cert_chain(os.path.join(folder, "cert.pem"),
                                     os.path.join(folder, "key.pem"))
        self.context.verify_mode = ssl.CERT_REQUIRED
        self.context.set_alpn_protocols(["leasehold/1", "h2"])
        self.finished = 0
        self.heard = b""
        self.listener = socket.socket()
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, True)
        self.listener.bind(("127.0.0.1", port or free_port()))
        self.listener.listen()
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            try:
                plain.settimeout(process_cluster.PATIENCE_S)
                with self.context.wrap_socket(plain, server_side=True) as connection:
                    self.heard += connection.recv(4096)  # until it speaks, or goes
            except OSError:
                plain.close()
            self.finished += 1

    def close(self):
        """Ends at its next connection, which the kernel refuses from now on."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


class AnswersTest(TlsTest):
    TRANSPORT = "wire"
    FIRST_BYTES = b"\x81"

    def setUp(self):
        super().setUp()
        os.environ["LEASEHOLD_TRANSPORT"] = self.TRANSPORT
        self.addCleanup(os.environ.pop, "LEASEHOLD_TRANSPORT")

    def by_hand(self, uri):
        """A certificate for servers that the command would not make so: of a client, or without a
        URI."""
        folder = os.path.join(self.folder, "by_hand%d" % free_port())
        os.mkdir(folder)
        ca = self.certs.folder
        names = os.path.join(folder, "names")
        with open(names, "w", encoding="utf-8") as file:
            file.write("subjectAltName=IP:127.0.0.1" + (f",URI:{uri}" if uri else "") + "\n")
        key, csr, cert = (os.path.join(folder, n) for n in ("key.pem", "csr", "cert.pem"))
        subprocess.run(["openssl", "req", "-newkey", "ec", "-pkeyopt",
                        "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=somebody",
                        "-keyout", key, "-out", csr], check=True, capture_output=True)
        subprocess.run(["openssl", "x509", "-req", "-in", csr, "-CA", os.path.join(ca, "ca.pem"),
                        "-CAkey", os.path.join(ca, "ca.key.pem"), "-CAcreateserial", "-days", "2",
                        "-extfile", names, "-out", cert], check=True, capture_output=True)
        os.link(os.path.join(ca, "ca.pem"), os.path.join(folder, "ca.pem"))
        return folder

    def impostors(self):
        """One with each kind of certificate, by its name."""
        folders = {who: self.certs.issue(who) for who in
                   ("master/m", "chunkserver/cs1", "chunkserver/cs2", "etcd/e1")}
        folders["admin/ann"] = self.by_hand("leasehold://admin/ann")
        folders["CN=somebody"] = self.by_hand(None)
        found = {who: Impostor(folder) for who, folder in folders.items()}
        for impostor in found.values():
            self.addCleanup(impostor.close)
        return found

    def assert_sends_to(self, whom, impostors, first_bytes=None):
        """Each was connected to; and only that one was sent anything."""
        wait_for("all to be called", lambda: all(i.finished > 0 for i in impostors.values()))
        self.assertEqual([who for who, i in impostors.items() if i.heard], [whom])
        self.assertTrue(impostors[whom].heard.startswith(first_bytes or self.FIRST_BYTES))

    def begin(self, program, *flags):
        """A server alone; its log."""
        port = free_port()
        log = os.path.join(self.folder, f"alone{port}.log")
        with open(log, "w", encoding="utf-8") as file:
            process = subprocess.Popen(
                [binary(program), f"--listen=127.0.0.1:{port}", *flags], stderr=file)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

        def text():
            with open(log, encoding="utf-8") as file:
                return file.read()
        return text

    def test_a_chunkserver_calls_masters(self):
        impostors = self.impostors()
        masters = ",".join(i.address for i in impostors.values())
        self.begin("leasehold-chunkserver", f"--data-dir={self.folder}/cs", f"--master={masters}",
                   "--server-id=cs1", f"--tls-dir={self.certs.dir_of('chunkserver/cs1')}")
        self.assert_sends_to("master/m", impostors)

    def test_a_command_calls_masters(self):
        impostors = self.impostors()
        own = self.certs.issue("admin/test")
        masters = ",".join(i.address for i in impostors.values())
        command = subprocess.Popen(
            [binary("leasehold"), "ls", f"--master={masters}", f"--tls-dir={own}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self.assert_sends_to("master/m", impostors)
        finally:
            command.kill()
            command.wait()
        # It says who answers, if there is nobody else.
        address = impostors["etcd/e1"].address
        for command in ("ls", "masters"):
            said = subprocess.run(
                [binary("leasehold"), command, "--timeout=1500ms", f"--master={address}",
                 f"--tls-dir={own}"], capture_output=True, check=False)
            self.assertEqual(said.returncode, 69)
            self.assertIn("who answers there is leasehold://etcd/e1, with the role etcd; the role "
                          "master is meant", said.stderr.decode(), command)
        self.assertEqual(impostors["etcd/e1"].heard, b"")

    def test_a_master_calls_etcd(self):
        impostors = self.impostors()
        members = ",".join(i.address for i in impostors.values())
        self.begin("leasehold-master", f"--store=etcd:{members}/x", "--master-id=m",
                   f"--tls-dir={self.certs.dir_of('master/m')}")
        self.assert_sends_to("etcd/e1", impostors, b"PRI")

    def test_store_calls_etcd(self):
        """Both to begin a cluster there and to copy one from there."""
        own = self.certs.dir_of("master/m")
        for words in (["init", "etcd:{}/x"], ["copy", "etcd:{}/x", f"lmdb:{self.folder}/copied"]):
            impostors = self.impostors()
            members = ",".join(i.address for i in impostors.values())
            command = subprocess.Popen(
                [binary("leasehold"), "store", *(w.format(members) for w in words),
                 f"--tls-dir={own}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assert_sends_to("etcd/e1", impostors, b"PRI")
            finally:
                command.kill()
                command.wait()

    def test_a_master_calls_a_chunkserver(self):
        """It asks any chunkserver who it is before anything is placed (SES-8)."""
        self.cluster = Cluster(self.folder, servers=0)
        secure(self.cluster, self.certs)
        self.cluster.start()
        cases = (("master/m", False), ("etcd/e1", False), ("chunkserver/s2", True))
        for number, (who, called) in enumerate(cases):
            server = f"s{number}"
            own = self.certs.issue(f"chunkserver/{server}")
            impostor = Impostor(self.certs.issue(who))
            self.addCleanup(impostor.close)
            self.begin("leasehold-chunkserver", f"--data-dir={self.folder}/{server}",
                       f"--master={self.cluster.master_address}", f"--server-id={server}",
                       f"--advertise={impostor.address}", f"--tls-dir={own}")
            wait_for("it to be called", lambda i=impostor: i.finished > 0)
            self.assertEqual(impostor.heard.startswith(self.FIRST_BYTES), called, who)

    def test_a_master_calls_etcd_by_its_own_authority(self):
        """Whose certificates need no role, but must have none of ours."""
        impostors = self.impostors()
        members = ",".join(i.address for i in impostors.values())
        other = os.path.join(self.folder, "apart.pem")
        with open(os.path.join(self.certs.folder, "ca.pem"), encoding="utf-8") as file:
            pem = file.read()
        with open(other, "w", encoding="utf-8") as file:
            file.write("# the same, as another file\n" + pem)
        self.begin("leasehold-master", f"--store=etcd:{members}/x", "--master-id=m",
                   f"--tls-dir={self.certs.dir_of('master/m')}", f"--etcd-ca={other}")
        wait_for("all to be called", lambda: all(i.finished > 0 for i in impostors.values()))
        self.assertEqual([who for who, i in impostors.items() if i.heard],
                         ["etcd/e1", "CN=somebody"])

    def test_a_master_calls_a_master(self):
        """It asks the address where one with its own id was called."""
        self.cluster = MastersCluster(self.folder, self.start_etcd(), count=1, servers=0)
        secure(self.cluster, self.certs)
        self.cluster.start()
        master = self.cluster.masters[0]
        cases = (("chunkserver/cs1", False), ("etcd/etcd1", False), ("master/x", True))
        for begun, (who, called) in enumerate(cases):
            wait_for("it to act",
                     lambda n=begun: master.log_text().count("is the active one") > n)
            old = master.address
            master.kill()
            impostor = Impostor(self.certs.issue(who), int(old.rsplit(":", 1)[1]))
            self.addCleanup(impostor.close)
            new = f"127.0.0.1:{free_port()}"
            master.argv = [a.replace(f"--listen={old}", f"--listen={new}") for a in master.argv]
            master.address = new
            master.start()
            wait_for("it to call there", lambda i=impostor: i.finished > 0)
            self.assertEqual(impostor.heard.startswith(self.FIRST_BYTES), called, who)

    def file_led_by(self, server, replication):
        """A file with so many replicas, whose primary is that server."""
        for number in itertools.count():
            path = f"/{server}-{replication}-{number}"
            self.cluster.command("append", "--create", f"--replication={replication}", path,
                                 stdin=b"record\n")
            if self.cluster.primary(path) == server:
                return path
        return None

    def test_who_calls_a_chunkserver(self):
        self.cluster = Cluster(self.folder, servers=2, **dict(CALM, master_flags=CALM[
            "master_flags"] + ("--min-replicas=1",)))
        secure(self.cluster, self.certs)
        self.cluster.start()
        wrong = ("chunkserver/cs1", "master/master", "etcd/e1")
        server = self.cluster.servers["cs2"]
        right = self.certs.dir_of(server.who)
        folders = [(self.certs.issue(who) if who.startswith("etcd") else self.certs.dir_of(who),
                    False) for who in wrong] + [(right, True)]
        one = self.file_led_by("cs2", 1)  # its one replica is there
        two = self.file_led_by("cs1", 2)
        callers = (
            ["cat", "--timeout=60s", one],      # a client reads
            ["append", "--timeout=60s", one],   # a client appends
            ["append", "--timeout=60s", two],   # a primary stores at its member
        )
        for folder, called in folders:
            for caller in callers:
                # The master may call there, too: it asks any chunkserver who it is (SES-8).
                tries = (self.calls(server, folder, caller) for _ in range(3))
                self.assertTrue(any(heard.startswith(self.FIRST_BYTES) == called
                                    for heard in tries), (folder, caller))

    def calls(self, server, folder, caller):
        """What is heard at the address of `server` by whoever has that folder's certificate."""
        server.kill()
        impostor = Impostor(folder, int(server.address.rsplit(":", 1)[1]))
        process = subprocess.Popen(
            [binary("leasehold"), *caller], env=self.cluster.environment(),
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        process.stdin.write(b"more\n")
        process.stdin.close()
        wait_for(f"{caller} to call there", lambda: impostor.finished > 0)
        process.kill()
        process.wait()
        impostor.close()
        server.start()
        self.cluster.wait_ready()
        return impostor.heard


class GrpcAnswersTest(AnswersTest):
    TRANSPORT = "grpc"
    FIRST_BYTES = b"PRI * HTTP/2.0"


if __name__ == "__main__":
    process_cluster.main()
