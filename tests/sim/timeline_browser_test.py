#!/usr/bin/python3
"""The timeline's page in a real browser: it draws the run that it was made from."""

import json
import os
import struct
import subprocess
import tempfile
import unittest
import zlib

from timeline_browser import Page


def make_run(kind, folder):
    """(path of the page, counts, rule that was broken or "")"""
    here = os.path.dirname(os.path.abspath(__file__))
    path = os.path.join(folder, kind + ".html")
    output = subprocess.run(
        [os.path.join(here, "timeline_run"), kind, "7", path],
        stdout=subprocess.PIPE, check=True, encoding="utf-8").stdout.splitlines()
    return path, json.loads(output[0]), output[1]


def colors_of(png):
    """How many different pixels a picture has (8 bits a channel, not interlaced)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        if kind == b"IHDR":
            width, height, depth, color = struct.unpack(">IIBB", png[at + 8:at + 18])
        if kind == b"IDAT":
            data += png[at + 8:at + 8 + size]
        at += size + 12
    assert depth == 8 and color in (2, 6)
    step = 3 if color == 2 else 4
    line = width * step
    raw, before, seen = zlib.decompress(data), bytearray(line), set()
    for y in range(height):
        kind, row = raw[y * (line + 1)], bytearray(raw[y * (line + 1) + 1:(y + 1) * (line + 1)])
        for i in range(line):
            left = row[i - step] if i >= step else 0
            up, corner = before[i], before[i - step] if i >= step else 0
            if kind == 1:
                row[i] = (row[i] + left) & 255
            elif kind == 2:
                row[i] = (row[i] + up) & 255
            elif kind == 3:
                row[i] = (row[i] + (left + up) // 2) & 255
            elif kind == 4:
                p = left + up - corner
                near = min((abs(p - left), 0, left), (abs(p - up), 1, up),
                           (abs(p - corner), 2, corner))[2]
                row[i] = (row[i] + near) & 255
        before = row
        seen.update(bytes(row[i:i + step]) for i in range(0, line, step))
    return len(seen)


# What the page knows, for a script in it: where the first lease with a margin is drawn.
MARGIN = """(() => {
  const lease = timeline.leases.find(l => l.gap !== null && l.gap > 1e9);
  const lane = timeline.laneOf.get(lease.node);
  const row = lane.rows.find(r => r.kind === "lease" &&
    r.given.items.some(s => s.lease === lease));
  const box = document.getElementById("lanes").getBoundingClientRect();
  const at = lease.given[lease.given.length - 1].end - lease.gap / 2;
  timeline.show(at - lease.gap, at + lease.gap);
  return {x: box.left + timeline.xOf(at), y: box.top + timeline.yOf(lane) + row.y + row.height / 2,
    name: "chunk " + lease.chunk + " v" + lease.version};
})()"""


class TimelineTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(cls.folder.cleanup)
        cls.runs = {kind: make_run(kind, cls.folder.name)
                    for kind in ("calm", "faults", "violation")}

    def open(self, kind, **how):
        path, self.counts, self.rule = self.runs[kind]
        self.page = Page(path + how.pop("hash", ""), **how)
        self.addCleanup(self.page.close)
        self.addCleanup(lambda: self.assertEqual(self.page.errors, []))
        return self.page

    def view(self):
        return self.page.run("[timeline.view.begin, timeline.view.end]")

    def text(self, where):
        return self.page.run("document.querySelector(%s).textContent" % json.dumps(where))

    def test_it_shows_what_was_in_the_run(self):
        for kind in self.runs:
            with self.subTest(kind):
                page = self.open(kind)
                shown = page.run("timeline.counts")
                self.assertEqual({name: shown[name] for name in self.counts}, self.counts)
                self.assertGreater(self.counts["given"], 3)
                self.assertGreater(self.counts["held"], 3)
                lanes = page.run("timeline.lanes.map(l => l.name)")
                self.assertEqual([n for n in lanes if n != "world"],
                                 ["m", "cs1", "cs2", "cs3", "cs4", "c1", "c2"])

    def test_odd_names_are_text(self):
        page = self.open("calm")
        self.assertEqual(self.text("h1"), 'seed </<i>&"log\'>')
        self.assertEqual(page.run("document.title"),
                         'seed </<i>&"log\'> · Leasehold timeline')
        self.assertEqual(page.run("document.querySelectorAll('i:not(footer i)').length"), 0)
        self.assertIn('creates "/<i>&"log\'"', self.text("#rows"))

    def test_a_run_without_violation_says_so(self):
        self.open("calm")
        self.assertEqual(self.text("#verdict"), "no violation")

    def test_every_kind_of_fault_is_a_span(self):
        page = self.open("faults")
        kinds = set(page.run("timeline.lanes.flatMap(l => l.rows.filter(r => r.kind === 'fault')"
                             ".flatMap(r => r.items.map(f => f.color)))"))
        self.assertEqual(kinds, {"cut", "paused", "stalled", "drift", "slow", "down"})
        words = page.run("timeline.lanes.flatMap(l => l.rows.filter(r => r.kind === 'fault')"
                         ".flatMap(r => r.items.map(f => f.words)))")
        self.assertIn("cut off from m", words)
        self.assertIn("clock +9,000 ppm", words)
        self.assertIn("+30.0 ms to m", words)
        self.assertIn("down: crashed", words)

    def test_no_holder_outlives_its_grantor(self):
        page = self.open("faults")
        gaps = page.run("timeline.leases.map(l => l.gap).filter(g => g !== null)")
        self.assertGreater(len(gaps), 3)
        self.assertTrue(all(gap > 0 for gap in gaps), gaps)
        self.assertEqual(page.run("timeline.overlaps.length"), 0)

    def test_the_violation_is_marked(self):
        page = self.open("violation")
        self.assertTrue(self.rule.startswith("INV-"), self.rule)
        self.assertEqual(self.text("#verdict"), self.rule + " broken")
        gaps = page.run("timeline.leases.map(l => l.gap).filter(g => g !== null)")
        self.assertLess(min(gaps), 0)  # what was promised to the holder, beyond its grantor's end
        begin, end = self.view()
        at = page.run("RUN.failure.at")
        self.assertTrue(begin < at < end)
        page.run("timeline.show(RUN.failure.at - 1e6, RUN.failure.at + 1e6)")
        page.settle()
        self.assertIn(self.rule + " at ", self.text("#rows .failure"))
        x = page.run("document.getElementById('lanes').getBoundingClientRect().left + "
                     "timeline.xOf(RUN.failure.at)")
        page.mouse("mouseMoved", x, 400)
        self.assertIn(self.rule, self.text("#tip"))

    def test_zoom_and_pan(self):
        page = self.open("faults")
        whole = self.view()
        for key in ("+", "w"):
            before = self.view()
            page.key(key)
            self.assertLess(self.view()[1] - self.view()[0], before[1] - before[0])
        before = self.view()
        page.mouse("mouseWheel", 700, 400, deltaX=0, deltaY=-400)
        self.assertLess(self.view()[1] - self.view()[0], (before[1] - before[0]) * 0.9)
        before = self.view()
        page.key("ArrowRight")
        self.assertGreater(self.view()[0], before[0])
        self.assertAlmostEqual(self.view()[1] - self.view()[0], before[1] - before[0], delta=1)
        before = self.view()
        page.mouse("mousePressed", 600, 400, button="left", clickCount=1)
        page.mouse("mouseMoved", 700, 400, button="left")
        page.mouse("mouseReleased", 700, 400, button="left", clickCount=1)
        self.assertLess(self.view()[0], before[0])
        page.key("0")
        self.assertEqual(self.view(), whole)

    def test_hovering_explains_a_lease(self):
        page = self.open("faults")
        where = page.run(MARGIN)
        page.settle()
        self.assertTrue(page.run("document.getElementById('tip').hidden"))
        page.mouse("mouseMoved", where["x"], where["y"])
        self.assertFalse(page.run("document.getElementById('tip').hidden"))
        tip = self.text("#tip")
        self.assertIn(where["name"], tip)
        self.assertIn("the master", tip)
        self.assertIn("after the holder's end", tip)

    def test_search_filter_and_list(self):
        page = self.open("faults")
        page.key("/")
        self.assertEqual(page.run("document.activeElement.id"), "search")
        page.run("timeline.search('has run out')")
        page.settle()
        found = page.run("timeline.view.hits.size")
        self.assertGreater(found, 0)
        rows = page.run("[...document.querySelectorAll('#rows .w')].map(r => r.textContent)")
        self.assertTrue(rows and all("run out" in row for row in rows), rows)
        page.run("timeline.search('')")
        page.run("document.getElementById('chunk').value = '2';"
                 "document.getElementById('chunk').dispatchEvent(new Event('change'))")
        page.settle()
        rows = page.run("[...document.querySelectorAll('#rows .w')].map(r => r.textContent)")
        self.assertTrue(any(row.startswith("chunk 2") for row in rows))
        self.assertFalse(any(row.startswith("chunk 1 ") for row in rows))

    def test_a_link_to_a_time_is_followed_and_kept(self):
        page = self.open("faults", hash="#t=2000~2500.5&chunk=1")
        self.assertEqual(self.view(), [2000e6, 2500.5e6])
        self.assertEqual(page.run("timeline.view.chunk"), 1)
        page.key("-")
        page.wait_for("location.hash !== '#t=2000~2500.5&chunk=1'", 5)
        self.assertIn("chunk=1", page.run("location.hash"))

    def test_messages_are_drawn_close_up(self):
        page = self.open("calm")
        page.run("timeline.show(timeline.leases[0].begin - 2e6, timeline.leases[0].begin + 6e6)")
        page.settle()
        self.assertGreater(page.run("shownArrows.length"), 4)
        page.key("m")
        self.assertEqual(page.run("shownArrows.length"), 0)

    def test_it_is_not_blank_in_either_scheme(self):
        for dark in (False, True):
            with self.subTest(dark=dark):
                page = self.open("faults", dark=dark, width=900, height=500)
                self.assertEqual(page.run("document.documentElement.dataset.theme"),
                                 "dark" if dark else "light")
                self.assertGreater(colors_of(page.screenshot()), 200)


if __name__ == "__main__":
    unittest.main()
