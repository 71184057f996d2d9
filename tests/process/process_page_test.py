#!/usr/bin/python3
"""The master's page with a real cluster: what it answers over HTTP, and what a real browser shows
of it while a primary is killed."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

from google.protobuf import json_format

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest, Cluster, free_port, wait_for
from process_masters import MastersTest
from process_programs import Program
from process_tls_test import Certs, TlsTest, secure
from process_wire import Channel, load_schema

sys.path.insert(0, "tests/sim")
from timeline_browser import BrowserError, Page  # noqa: E402

PATH = "/page/log"
LOCK = "/page/lock <i>&\"'"  # names are text, whatever is in them
CALLS = {"masters": "Masters", "servers": "ListServers", "files": "List", "file": "Stat",
         "locate": "Locate", "chunks": "ListChunks", "leases": "ListLeases", "explain": "Explain",
         "events": "ListEvents", "names": "ListNames", "sessions": "ListSessions",
         "policies": "ListPolicies"}


class PageTest(ClusterTest):

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"], folder.name)

    def start(self, **options):
        self.port = free_port()
        self.cluster = Cluster(self.folder, **options)
        self.cluster.master.argv += [f"--http-listen=127.0.0.1:{self.port}",
                                     "--http-host=page.example"]
        self.cluster.start()
        return self.cluster

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)

    def get(self, path, method="GET", body=None):
        """(status, headers, bytes)"""
        connection = self.connect()
        try:
            connection.request(method, path, body=body)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def api(self, path, status=200):
        got, headers, text = self.get("/api/" + path)
        self.assertEqual(got, status, text)
        self.assertEqual(headers["Content-Type"], "application/json")
        return json.loads(text)

    def append(self, records=b"one\ntwo\n"):
        self.cluster.command("append", PATH, stdin=records)

    def program(self, label):
        channel = Channel(self.schema, self.cluster.master.address)
        self.addCleanup(channel.close)
        program = Program(channel, label=label)
        self.assertIsNone(program.attach())
        return program


class ApiTest(PageTest):

    def test_over_http(self):
        self.start(**CALM)
        for check in (self.each_call_is_the_message_of_the_schema, self.what_is_no_question,
                      self.of_another_site,
                      self.headers_and_sizes, self.viewers_are_bounded,
                      self.viewers_that_do_not_read_give_way, self.slow_requests_give_way,
                      self.calls_at_once,
                      self.a_master_that_stands_still, self.a_master_that_stops):
            with self.subTest(check.__name__):
                check()

    def each_call_is_the_message_of_the_schema(self):
        self.cluster.command("create", PATH)
        self.append()
        self.cluster.command("put", "/page/value", "bytes")
        asked = {"file": f"?path={PATH}", "locate": f"?path={PATH}", "explain": f"?path={PATH}",
                 "events": "?name=/page/value"}
        for name, method in CALLS.items():
            with self.subTest(name):
                status, _, text = self.get(f"/api/{name}{asked.get(name, '')}")
                self.assertEqual(status, 200, text)
                reply = json_format.Parse(text, getattr(self.schema, method + "Reply")())
                self.assertEqual(reply.error, self.schema.OK)
        self.assertEqual([f["path"] for f in self.api("files")["files"]], [PATH])
        self.assertEqual([e["kind"] for e in self.api("events?name=/page/value")["events"]],
                         ["VALUE_CHANGED"])
        self.assertNotIn("bytes", self.get("/api/names")[2].decode().split('"')[1::2])
        chunk = self.api(f"explain?path={PATH}")["chunk"]
        self.assertEqual(chunk["lease"], "HELD")
        self.assertLess(int(chunk["holder_left_ms"]), int(chunk["lease_left_ms"]))
        kinds = [e["kind"] for e in self.api(f"events?chunk={chunk['chunk']['chunk']}")["events"]]
        self.assertEqual([k for k in kinds if k != "LEASE_RENEWED"],
                         ["LEASE_CONFIRMED", "LEASE_GRANTED"])

    def of_another_site(self):
        """A page of another site in a visitor's browser gets nothing."""
        def status(host, path="/api/masters", **headers):
            connection = self.connect()
            try:
                connection.putrequest("GET", path, skip_host=True)
                if host is not None:
                    connection.putheader("Host", host)
                for name, value in headers.items():
                    connection.putheader(name.replace("_", "-"), value)
                connection.endheaders()
                return connection.getresponse().status
            finally:
                connection.close()
        for host in (f"127.0.0.1:{self.port}", f"localhost:{self.port}", "page.example"):
            for path in ("/", "/api/masters", "/metrics"):
                self.assertEqual(status(host, path), 200, (host, path))
        for host in ("evil.example", f"127.0.0.1.evil.example:{self.port}", "x.page.example"):
            for path in ("/", "/api/masters", "/api/live", "/metrics"):
                self.assertEqual(status(host, path), 421, (host, path))
        self.assertEqual(status("localhost", Sec_Fetch_Site="cross-site"), 421)
        self.assertEqual(status("localhost", "/", Sec_Fetch_Site="cross-site"), 200)  # a link
        self.assertEqual(status("localhost", Sec_Fetch_Site="same-origin"), 200)

    def what_is_no_question(self):
        """It is refused."""
        for path in ("files?prefix=%zz", "files?prefix=%00", "files?prefix=%ff", "files?limit=-1",
                     "files?limit=1001", "files?limit=99999999999999999999", "files?none=1",
                     "files?limit=1&limit=2", "files?limit", "files?&", "masters?x=1", "live?x=1",
                     "files?trash=yes", "explain?call=1", "sessions?after=xyz",
                     "files?prefix=" + "a" * 5000):
            with self.subTest(path):
                self.assertEqual(self.api(path, 400)["error"], "INVALID_ARGUMENT")
        self.assertEqual(self.api("explain?path=/none", 404)["error"], "NOT_FOUND")
        for path in ("/api", "/api/", "/api/Masters", "/../etc/passwd", "/api/remove", "//"):
            status, _, said = self.get(path)
            self.assertEqual((status, b"/api/NAME" in said), (404, True), path)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            self.assertEqual(self.get("/api/masters", method, body=b"x")[0], 405, method)
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            s.sendall(b"\0\1\2 nothing of HTTP\r\n\r\n")
            s.settimeout(PATIENCE_S)
            s.recv(1000)
        self.assertEqual(self.api("masters")["acting"], True)

    def headers_and_sizes(self):
        total = 0
        for path in ("/", "/app.css", "/app.js", "/base.js", "/lease.js", "/live.js", "/views.js",
                     "/icon.svg", "/api/masters", "/api/files?limit=x"):
            status, headers, text = self.get(path)
            self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
            self.assertIn("default-src 'self'", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'none'", headers["Content-Security-Policy"])
            self.assertNotIn(b"https://", text)
            if not path.startswith("/api"):
                self.assertEqual(status, 200)
                total += len(text)
        self.assertLess(total, 150_000)
        self.assertIn(b"leasehold_master_term", self.get("/metrics")[2])
        self.assertEqual(self.get("/healthz")[0], 200)

    def viewers_are_bounded(self):
        viewers = []
        for _ in range(32):
            connection = self.connect()
            connection.request("GET", "/api/live")
            viewers.append((connection, connection.getresponse()))
        self.assertTrue(all(reply.status == 200 for _, reply in viewers))
        frame = viewers[0][1].readline()
        self.assertEqual(json.loads(frame.removeprefix(b"data: "))["ready"], True)
        with self.all_reading([connection.sock for connection, _ in viewers]):
            self.assertEqual(self.api("live", 503)["error"], "SHORTAGE")
        viewers.pop()[0].close()

        def follows():
            connection = self.connect()
            connection.request("GET", "/api/live")
            reply = connection.getresponse()
            viewers.append((connection, reply))
            return reply.status == 200
        wait_for("room for another viewer", follows, interval=0.5)
        self.assertEqual(self.api("masters")["acting"], True)
        for connection, _ in viewers:
            connection.close()

    @contextlib.contextmanager
    def all_reading(self, sockets):
        """Whoever does not read would give way to another viewer."""
        over = threading.Event()

        def read():
            while not over.is_set():
                for s in select.select(sockets, (), (), 0.1)[0]:
                    s.recv(65536)
        reader = threading.Thread(target=read)
        reader.start()
        try:
            yield
        finally:
            over.set()
            reader.join()

    def viewers_that_do_not_read_give_way(self):
        deaf = []
        for _ in range(40):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.connect(("127.0.0.1", self.port))
            s.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            deaf.append(s)
        for _ in range(3):
            connection = self.connect()

            def follows(connection=connection):
                connection.request("GET", "/api/live")
                reply = connection.getresponse()
                if reply.status == 200:
                    return reply.readline().startswith(b"data: ") and reply.readline()
                reply.read()
                return False
            wait_for("a place among viewers that do not read", follows, interval=0.5)
            connection.close()
        for s in deaf:
            s.close()

    def slow_requests_give_way(self):
        """Each sends a byte now and then: for ever, if silence were what counts."""
        slow = []
        for _ in range(200):
            s = socket.socket()
            s.connect(("127.0.0.1", self.port))
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: x")
            slow.append(s)

        def drip():
            while not over.wait(0.2):
                for s in slow:
                    with contextlib.suppress(OSError):
                        s.send(b"x")
        over = threading.Event()
        self.addCleanup(over.set)
        dripping = threading.Thread(target=drip, daemon=True)
        dripping.start()
        for path in ("/healthz", "/readyz", "/metrics", "/api/masters") * 5:
            self.assertEqual(self.get(path)[0], 200, path)

        def all_ended():
            ended = 0
            for s in slow:
                try:
                    ended += s.recv(1, socket.MSG_DONTWAIT) == b""
                except BlockingIOError:
                    pass
                except OSError:
                    ended += 1
            return ended == len(slow)
        wait_for("requests that are too old to be ended", all_ended, interval=0.5)
        over.set()
        dripping.join()
        for s in slow:
            s.close()

    def calls_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            replies = list(pool.map(lambda _: self.get("/api/servers")[0], range(400)))
        self.assertEqual(set(replies) - {200, 503}, set())
        self.assertGreater(replies.count(200), 200)

    def a_master_that_stops(self):
        """A viewer that follows does not hold it up."""
        connection = self.connect()
        connection.request("GET", "/api/live")
        connection.getresponse().readline()
        self.assertEqual(self.cluster.master.stop(), 0)
        connection.close()

    def a_master_that_stands_still(self):
        """What is asked meanwhile is answered when it goes on."""
        self.cluster.master.pause()
        late = threading.Timer(0.5, self.cluster.master.resume)
        late.start()
        self.assertEqual(self.api("masters")["acting"], True)
        late.join()


class RightsTest(TlsTest):
    """With TLS the page shows what the certificate's role may see."""

    def get(self, path, who=None, folder=None):
        """(status, JSON or text)"""
        context = ssl.create_default_context(cafile=os.path.join(self.certs.folder, "ca.pem"))
        if who is not None:
            folder = self.certs.issue(who)
        if folder is not None:
            context.load_cert_chain(os.path.join(folder, "cert.pem"),
                                    os.path.join(folder, "key.pem"))
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE_S,
                                                 context=context)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            text = reply.read().decode()
            return reply.status, json.loads(text) if path.startswith("/api/") else text
        finally:
            connection.close()

    def start_with(self, table):
        roles = os.path.join(self.folder, "roles")
        with open(roles, "w", encoding="utf-8") as file:
            file.write(table)
        self.port = free_port()
        self.cluster = Cluster(self.folder, servers=1, **CALM)
        secure(self.cluster, self.certs)
        self.cluster.master.argv += [f"--roles={roles}", f"--http-listen=127.0.0.1:{self.port}"]
        self.cluster.start()

    def issue_by_hand(self, uri):
        """Of the cluster's authority, with a name that `leasehold certs` would not give."""
        folder = os.path.join(self.folder, "by-hand")
        os.makedirs(folder, exist_ok=True)
        ca, key, cert = (os.path.join(where, name) for where, name in (
            (self.certs.folder, "ca"), (folder, "key.pem"), (folder, "cert.pem")))
        shutil.copy(f"{ca}.pem", folder)
        request = subprocess.run(
            ["openssl", "req", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=x", "-keyout", key],
            check=True, capture_output=True).stdout
        extensions = os.path.join(folder, "extensions")
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName=URI:{uri}\nextendedKeyUsage=clientAuth\n")
        subprocess.run(
            ["openssl", "x509", "-req", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key.pem",
             "-set_serial", "77", "-extfile", extensions, "-out", cert],
            input=request, check=True, capture_output=True)
        return folder

    def denied(self, path, *args, **kwargs):
        status, reply = self.get(path, *args, **kwargs)
        self.assertEqual((status, reply["error"]), (403, "PERMISSION"), (path, reply))
        return reply["error_text"]

    def test_who_sees_what(self):
        self.start_with("leasehold://reader/some reader /logs/\n")
        self.cluster.command("create", "/logs/a")
        self.assertEqual(self.get("/")[0], 200)
        for name in CALLS:
            path = f"/api/{name}{'?path=/logs/a' if name in ('file', 'locate', 'explain') else ''}"
            with self.subTest(path):
                self.assertIn("leasehold://none/page", self.denied(path))
                self.assertEqual(self.get(path, "reader/all")[0], 200)
        self.assertIn("has the role chunkserver", self.denied("/api/files", "chunkserver/cs7"))
        self.assertEqual(self.get("/api/servers", "chunkserver/cs7")[0], 200)
        self.assertEqual(self.get("/api/files?prefix=/logs/", "reader/some")[0], 200)
        self.assertIn("does not reach", self.denied("/api/files", "reader/some"))
        self.assertIn("does not reach", self.denied("/api/events?name=/jobs/a", "reader/some"))
        self.assertEqual(self.get("/api/events?name=/logs/a", "reader/some")[0], 200)
        # Another authority's, under the same name.
        other = Certs(os.path.join(self.folder, "other")).issue("reader/all")
        self.assertIn("was not signed", self.denied("/api/files", folder=other))

    def test_a_name_that_is_no_uri_is_nobody(self):
        self.start_with("")
        for name in ("caf\u00e9", "a b"):
            with self.subTest(name):
                folder = self.issue_by_hand(f"leasehold://reader/{name}")
                self.assertIn("characters that no URI has",
                              self.denied("/api/files", folder=folder))
                self.assertIn("characters that no URI has",
                              self.refused(environment={"LEASEHOLD_TLS_DIR": folder}))

    def test_everybody_by_the_table(self):
        self.start_with("leasehold://none/page reader /logs/\n")
        self.assertEqual(self.get("/api/files?prefix=/logs/")[0], 200)
        self.denied("/api/files?prefix=/")


class BrowserTest(PageTest):

    def open(self, where, **how):
        page = Page(f"http://127.0.0.1:{self.port}/{where}", ready="!!document.querySelector('h1')",
                    **how)
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual(page.errors, []))
        return page

    @staticmethod
    def text(page):
        return page.run("document.querySelector('main').innerText")

    def shows(self, page, *words):
        wait_for(f"{words} on the page", lambda: all(w in self.text(page) for w in words))

    def test_a_primary_that_is_killed(self):
        """The page shows that it is away, who is primary now, and how the lease went over."""
        self.start(session_term="8s", chunk_term="120s",
                   master_flags=("--on-primary-loss=wait", "--grace=600s", "--suspect-after=60s"))
        self.cluster.command("create", PATH)
        self.append()
        lease = self.cluster.held_lease(PATH)
        first = lease["primary"]
        cluster, page = self.open("#/"), self.open("#/file" + PATH)
        self.shows(cluster, "Nothing is wrong.", "3 of 3")
        self.shows(page, "takes appends", f"primary {first}", "Time line", "confirmed")
        self.assertEqual(page.run("document.querySelectorAll('.lane:not(.axis)').length"), 1)

        self.cluster.servers[first].kill()
        self.shows(cluster, f"{first} has been away for", "2 of 3")
        self.shows(page, "expired")
        self.append(b"three\n")
        second = self.cluster.primary(PATH)
        self.assertNotEqual(second, first)
        self.shows(page, f"primary {second}")
        lanes = page.run("[...document.querySelectorAll('.lane:not(.axis) .who')]"
                         ".map(e => e.textContent)")
        self.assertEqual(set(lanes), {first, second})
        self.cluster.servers[first].start()
        self.shows(cluster, "3 of 3", "Nothing is wrong.")

    def test_a_name_and_a_master_that_goes_away(self):
        self.start(servers=1, **CALM)
        holder, waiter = self.program("holder <b>"), self.program("waiter")
        holder.acquire(LOCK, recallable=True)
        page = self.open("#/names")
        self.shows(page, LOCK, "holder <b>")
        page.run("[...document.querySelectorAll('main a')].find(a => a.textContent === %s).click()"
                 % json.dumps(LOCK))
        self.shows(page, "locked", "granted", "stops by itself within")
        waiter.ask(LOCK)
        self.shows(page, "Waiting: 1", "queued", "recalled")
        self.assertEqual(page.run("document.querySelectorAll('main i:empty').length"),
                         page.run("document.querySelectorAll('main i').length"))
        address = page.run("location.href")
        again = Page(address, ready="!!document.querySelector('h1')", dark=True, width=390)
        self.addCleanup(again.close)
        self.shows(again, LOCK, "Waiting: 1")  # the link can be shared

        def status():
            return page.run("document.getElementById('status').textContent")
        page.run("location.hash = '#/'")
        self.shows(page, "1 of 1")
        wait_for("live", lambda: status() == "live")
        self.cluster.master.pause()  # its connections stay open
        wait_for("it says so", lambda: "No answer" in status())
        self.cluster.master.resume()
        wait_for("live again", lambda: status() == "live")
        self.cluster.master.kill()
        wait_for("it says so", lambda: "No answer" in status())
        self.assertIn("1 of 1", self.text(page))  # what was known stays, and is not taken for new
        self.cluster.master.start()
        wait_for("live again", lambda: status() == "live")
        page.errors.clear()  # the browser's own lines about connections that were refused


class StandbyTest(MastersTest):

    def test_a_standby_leads_to_the_active_master(self):
        cluster = self.make_cluster(servers=1, **CALM)
        ports = {m.name: free_port() for m in cluster.masters}
        for master in cluster.masters:
            master.argv.append(f"--http-listen=127.0.0.1:{ports[master.name]}")
        cluster.start()
        active = cluster.wait_acting()[0]
        standby = next(m for m in cluster.masters if m is not active)
        page = Page(f"http://127.0.0.1:{ports[standby.name]}/",
                    ready="true")  # its console says of a standby's answers that they failed
        self.addCleanup(page.close)

        def seen(script):
            try:
                return page.run(script)
            except BrowserError:  # the browser was going to another page
                return None
        wait_for("the link", lambda: seen(
            "document.querySelector('main a')?.href") == f"http://127.0.0.1:{ports[active.name]}/")
        page.run("document.querySelector('main a').click()")
        wait_for("the active master's page", lambda: seen(
            "document.querySelector('main')?.innerText.includes('Nothing is wrong.')"))
        wait_for("links to all of them", lambda: seen(
            "document.querySelectorAll('main a[href^=http]').length") == len(cluster.masters))


if __name__ == "__main__":
    process_cluster.main(beside=[
        "BrowserTest.test_a_name_and_a_master_that_goes_away",
        "StandbyTest.test_a_standby_leads_to_the_active_master",
    ])
