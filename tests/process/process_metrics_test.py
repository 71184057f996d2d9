#!/usr/bin/python3
"""What running servers tell an operator's tools over HTTP, held against what the documentation says
and what the dashboard and the alerts ask for."""

import http.client
import json
import re

import etcd
import process_cluster
from process_cluster import CALM, PATIENCE_S, Cluster, ClusterTest, free_port, wait_for
from process_threads import stopped_thread, timer_thread

PATH = "/metrics/log"
RECORDS = b"".join(b"%06d %s\n" % (i, b"x" * 500) for i in range(500))

FAMILY = re.compile(r"# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+)")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.+)\})? (NaN|[+-]Inf|-?[0-9][0-9.eE+-]*)")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)')
FIGURE = re.compile(r"\| `([a-z_]+)` \| (counter|gauge|histogram) \| (.+) \|")
ASKED = re.compile(r"\b((?:leasehold|process)_[a-z_]+)\b(?:\{([^}]*)\})?")


class Family:
    """A figure: its help, its kind and {(name, labels): value}."""

    def __init__(self):
        self.help = self.kind = None
        self.samples = {}

    def sum(self):
        return sum(self.samples.values())


def parse_labels(text):
    labels, at = [], 0
    while at < len(text):
        match = LABEL.match(text, at)
        if match is None:
            raise AssertionError(f"not labels: {text}")
        labels.append(match.groups())
        at = match.end()
    names = [name for name, _ in labels]
    assert len(names) == len(set(names)), text
    return tuple(sorted(labels))


def family_of(name, families):
    """The figure that a sample belongs to."""
    for suffix in ("_bucket", "_sum", "_count"):
        base = name.removesuffix(suffix)
        if base != name and base in families and families[base].kind == "histogram":
            return base
    return name


def parse(text):
    """{figure: Family} of a text in Prometheus's format, as strictly as its description is."""
    families, current = {}, None
    assert text.endswith("\n"), text[-100:]
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            match = FAMILY.fullmatch(line)
            assert match, line
            what, name, rest = match.groups()
            if name != current:
                assert name not in families, f"{name} comes twice"
                families[name] = Family()
                current = name
            family = families[name]
            assert not family.samples, line
            if what == "HELP":
                assert family.help is None, line
                family.help = rest
            else:
                assert family.kind is None and rest in ("counter", "gauge", "histogram"), line
                family.kind = rest
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        name, labels, value = match.groups()
        assert family_of(name, families) == current, f"{name} is not of {current}"
        key = (name, parse_labels(labels or ""))
        assert key not in families[current].samples, line
        families[current].samples[key] = float(value)
    for name, family in families.items():
        assert family.help and family.kind, name
    return families


class MetricsTest(ClusterTest):

    def start(self, **options):
        self.cluster = Cluster(self.folder, **options)
        for node in self.cluster.nodes():
            node.serve_metrics()
        self.cluster.start()

    def get(self, node, path, method="GET", timeout=PATIENCE_S):
        """(status, content type, text)"""
        connection = http.client.HTTPConnection(node.metrics, timeout=timeout)
        try:
            connection.request(method, path)
            reply = connection.getresponse()
            return (reply.status, reply.getheader("Content-Type"),
                    reply.read().decode("utf-8"))
        finally:
            connection.close()

    def figures(self, node):
        status, kind, text = self.get(node, "/metrics")
        self.assertEqual(status, 200)
        self.assertTrue(kind.startswith("text/plain; version=0.0.4"), kind)
        return parse(text)

    def sums(self, name):
        return sum(self.figures(s)[name].sum() for s in self.cluster.servers.values()
                   if s.running())

    @staticmethod
    def documented():
        """{section: {figure: (kind, text)}} of docs/metrics.md."""
        sections, current = {}, None
        with open("docs/metrics.md", encoding="utf-8") as file:
            for line in file:
                if line.startswith("## "):
                    current = sections.setdefault(line[3:].strip(), {})
                match = FIGURE.match(line)
                if match:
                    name, kind, text = match.groups()
                    assert name not in current, name
                    current[name] = (kind, text)
        return sections

    def all_figures(self):
        """Of the master and of all servers together."""
        both = self.figures(self.cluster.master)
        for server in self.cluster.servers.values():
            for name, family in self.figures(server).items():
                both.setdefault(name, family).samples.update(family.samples)
        return both

    def assert_asked_for_exist(self, expressions):
        families = self.all_figures()
        # Another test holds these against a master that has them.
        for name, (kind, _) in self.documented()["One of several masters"].items():
            families[name] = Family()
            families[name].kind = kind
        self.assertTrue(expressions)
        for expression in expressions:
            asked = ASKED.findall(expression)
            self.assertTrue(asked, expression)
            for name, labels in asked:
                figure = family_of(name, families)
                self.assertTrue(figure in families, f"no figure {name}: {expression}")
                if families[figure].kind == "histogram":
                    self.assertNotEqual(figure, name, expression)
                elif "rate(" in expression or "increase(" in expression:
                    self.assertEqual(families[figure].kind, "counter", expression)
                for label in re.findall(r'(\w+)="([^"]*)"', labels):
                    self.assertTrue(any(label in has for _, has in families[figure].samples),
                                    f"{figure} never has {label}: {expression}")

    # What is there.

    def test_figures_are_those_of_the_documentation(self):
        self.start()
        documented = self.documented()
        both = documented["Both"]
        for node, section in [(self.cluster.master, "The master"),
                              (self.cluster.servers["cs1"], "A chunkserver")]:
            expected = {**documented[section], **both}
            found = {name: (family.kind, family.help)
                     for name, family in self.figures(node).items()}
            self.assertEqual(found, expected)
            for name, (kind, _) in found.items():
                self.assertEqual(name.endswith("_total"), kind == "counter", name)

    def test_a_master_among_several(self):
        store = etcd.Etcd(self.folder, members=1)
        self.addCleanup(store.cleanup)
        store.start()
        self.start(master_flags=(f"--store=etcd:{store.addresses()}/test",))
        master = self.cluster.master
        documented = self.documented()
        found = self.figures(master)
        self.assertEqual({name: (family.kind, family.help) for name, family in found.items()},
                         {**documented["The master"], **documented["One of several masters"],
                          **documented["Both"]})
        for name, value in (("reign", 2), ("active", 1), ("confirmed", 1), ("standby", 0),
                            ("reigns_total", 1), ("reigns_lost_total", 0)):
            self.assertEqual(found[f"leasehold_master_{name}"].sum(), value, name)
        self.assertGreater(found["leasehold_master_etcd_commits_total"].sum(), 0)
        self.assertEqual(self.get(master, "/readyz")[:1], (200,))

        store.kill()
        wait_for("it to be unconfirmed",
                 lambda: self.figures(master)["leasehold_master_confirmed"].sum() == 0)
        self.assertEqual(self.figures(master)["leasehold_master_active"].sum(), 1)
        status, _, text = self.get(master, "/readyz")
        self.assertEqual(status, 503)
        self.assertIn("etcd does not answer", text)
        store.start()
        wait_for("it to be ready", lambda: self.get(master, "/readyz")[0] == 200)

    def test_the_dashboard_asks_for_figures_that_exist(self):
        self.start()
        with open("docs/monitoring/grafana.json", encoding="utf-8") as file:
            text = file.read()
        expressions = [target["expr"] for panel in json.loads(text)["panels"]
                       for target in panel.get("targets", [])]
        self.assertEqual(len(expressions), text.count('"expr"'))
        self.assert_asked_for_exist(expressions)

    def test_the_alerts_ask_for_figures_that_exist(self):
        self.start()
        with open("docs/monitoring/alerts.yml", encoding="utf-8") as file:
            text = file.read()
        expressions = re.findall(r"^ +expr: (.+)$", text, re.MULTILINE)
        self.assertEqual(len(expressions), text.count("- alert:"))
        self.assert_asked_for_exist(expressions)

    # What they say.

    def test_figures_follow_what_happens(self):
        # The lost primary's session must end, but long after the file went on.
        self.start(**dict(CALM, session_term="20s", master_flags=("--suspect-after=3s",)))
        self.cluster.command("create", "--chunk-size=64KiB", PATH)
        self.cluster.command("append", "--batch-bytes=8KiB", PATH, stdin=RECORDS)
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS)
        chunks = self.cluster.chunks(PATH)
        master = self.figures(self.cluster.master)
        self.assertEqual(master["leasehold_master_files"].sum(), 1)
        self.assertEqual(master["leasehold_master_chunks"].sum(), len(chunks))
        self.assertEqual(master["leasehold_master_seals_total"].sum(), len(chunks) - 1)
        self.assertEqual(master["leasehold_master_grants_total"].sum(), len(chunks))
        self.assertEqual(master["leasehold_master_chunks_degraded"].sum(), 0)
        self.assertEqual(master["leasehold_master_term"].sum(), 1)
        states = {dict(labels)["state"]: value for (_, labels), value
                  in master["leasehold_master_chunkservers"].samples.items()}
        self.assertEqual((states["known"], states["live"]), (3, 3))
        ordered = self.sums("leasehold_chunkserver_batches_ordered_total")
        self.assertGreater(ordered, len(RECORDS) // 8192)
        self.assertEqual(self.sums("leasehold_chunkserver_batches_committed_total"), ordered)
        self.assertGreater(self.sums("leasehold_chunkserver_ordered_bytes_total"), len(RECORDS))
        self.assertGreater(self.sums("leasehold_chunkserver_read_bytes_total"), len(RECORDS))
        self.assertGreaterEqual(self.sums("leasehold_chunkserver_log_bytes"), 3 * len(RECORDS))
        self.assertEqual(self.sums("leasehold_chunkserver_uncommitted_bytes"), 0)
        counts = [value for s in self.cluster.servers.values() for (name, _), value
                  in self.figures(s)["leasehold_chunkserver_append_seconds"].samples.items()
                  if name.endswith("_count")]
        self.assertEqual(sum(counts), ordered)

        primary = self.cluster.primary(PATH)
        self.cluster.servers[primary].kill()
        self.cluster.command("append", PATH, stdin=b"after\n")
        master = self.figures(self.cluster.master)
        self.assertEqual(master["leasehold_master_rolls_total"].sum(), 1)
        self.assertEqual(master["leasehold_master_seals_total"].sum(), len(chunks))
        wait_for("its session's end", lambda: self.figures(self.cluster.master)
                 ["leasehold_master_sessions_ended_total"].sum() == 1)

    def test_histograms_add_up(self):
        self.start(**CALM)
        self.cluster.command("create", PATH)
        self.cluster.command("append", "--batch-bytes=8KiB", PATH, stdin=RECORDS)
        histograms = 0
        for node in self.cluster.nodes():
            for name, family in self.figures(node).items():
                if family.kind != "histogram":
                    continue
                histograms += 1
                buckets = [(float(dict(labels)["le"]), value)
                           for (sample, labels), value in family.samples.items()
                           if sample == name + "_bucket"]
                self.assertEqual(buckets, sorted(buckets), name)
                self.assertEqual([v for _, v in buckets], sorted(v for _, v in buckets), name)
                self.assertEqual(buckets[-1], (float("inf"), family.samples[name + "_count", ()]))
                self.assertGreaterEqual(family.samples[name + "_sum", ()], 0)
        self.assertGreaterEqual(histograms, 3)

    # Health.

    def test_health(self):
        self.start(session_term="10s", chunk_term="10s")
        for node in self.cluster.nodes():
            for path in ("/healthz", "/readyz"):
                status, _, text = self.get(node, path)
                self.assertEqual((status, text), (200, "ok\n"), f"{node.name} {path}")
            self.assertEqual(self.get(node, "/readyz", "HEAD")[0], 200)
            self.assertEqual(self.get(node, "/")[0], 404)
            self.assertEqual(self.get(node, "/metrics", "POST")[0], 405)
        self.cluster.master.kill()
        server = self.cluster.servers["cs1"]
        wait_for("it to be not ready", lambda: self.get(server, "/readyz")[0] == 503)
        self.assertIn("session", self.get(server, "/readyz")[2])
        self.assertEqual(self.get(server, "/healthz")[0], 200)
        self.cluster.master.start()
        wait_for("it to be ready", lambda: self.get(server, "/readyz")[0] == 200)

    def test_a_process_that_hangs_does_not_answer(self):
        self.start()
        server = self.cluster.servers["cs1"]
        server.pause()
        with self.assertRaises(OSError):
            self.get(server, "/healthz", timeout=1)
        server.resume()
        self.assertEqual(self.get(server, "/healthz")[0], 200)

    def test_a_loop_that_stands_still_is_not_live(self):
        """One thread of it is stopped, that of the event loop's timer; the process runs."""
        self.start(**CALM)
        for node in (self.cluster.master, self.cluster.servers["cs1"]):
            self.assertEqual(self.get(node, "/healthz")[0], 200)
            with stopped_thread(timer_thread(node.process.pid)) as stopped:
                if not stopped:
                    self.skipTest("threads cannot be traced here")
                wait_for("it to be found",
                         lambda n=node: self.get(n, "/healthz")[0] == 503, interval=0.5)
                self.assertIn("stood still for", self.get(node, "/healthz")[2])
                # The thread may have the core's lock.
                self.assertIn(self.get(node, "/metrics")[0], (200, 503))
            wait_for("it to be live again", lambda n=node: self.get(n, "/healthz")[0] == 200)


if __name__ == "__main__":
    process_cluster.main(beside=[
        "MetricsTest.test_figures_follow_what_happens",
    ])
