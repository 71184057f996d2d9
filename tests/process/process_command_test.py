#!/usr/bin/python3
"""The command for operators, against a staged master and staged chunkservers: what it asks, what it
prints, its JSON and its exit codes."""

import json
import os
import re
import subprocess
import tempfile
import threading
import time
import unittest

import process_cluster
from process_cluster import PATIENCE_S, binary
from process_stage import StagedChunkServer, StagedMaster
from process_wire import chained, checksum_of_nothing, load_schema, pack_batch

GB = 10 ** 9


class CommandTest(unittest.TestCase):

    schema = None

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(folder.cleanup)
        cls.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"], folder.name)

    def setUp(self):
        self.master = StagedMaster(self.schema)
        self.addCleanup(self.master.stop)

    def run_command(self, *args, status=0, master=None):
        """Returns (stdout, stderr); the exit status must be `status`."""
        result = subprocess.run(
            [binary("leasehold"), *args], capture_output=True, timeout=PATIENCE_S, check=False,
            stdin=subprocess.DEVNULL, encoding="utf-8",
            env=dict(os.environ, LEASEHOLD_MASTER=master or self.master.address))
        self.assertEqual(result.returncode, status,
                         f"{args}: {result.stdout}\n{result.stderr}")
        return result.stdout, result.stderr

    def run_json(self, *args, status=0):
        """One well-formed document with names in snake_case."""
        document = json.loads(self.run_command(*args, "--json", status=status)[0])

        def names(value):
            if isinstance(value, dict):
                for name, inner in value.items():
                    self.assertRegex(name, r"^[a-z][a-z0-9_]*$")
                    names(inner)
            elif isinstance(value, list):
                for inner in value:
                    names(inner)

        names(document)
        return document

    def file(self, **fields):
        return self.schema.FileInfo(**{
            "file": 7, "path": "/a", "replication": 3, "min_replicas": 2, "chunk_size": 1 << 26,
            "chunks": 2, "sealed_length": 100, "created_unix_ms": 1700000000000,
            "on_primary_loss": self.schema.ROLL, **fields})


class FilesTest(CommandTest):

    def test_create_says_what_becomes_of_a_lost_primary(self):
        self.master.replies["Create"] = self.schema.CreateReply(info=self.file())
        for word, wanted in (("roll", self.schema.ROLL), ("wait", self.schema.WAIT),
                             ("default", self.schema.AS_CONFIGURED)):
            self.run_command("create", f"--on-primary-loss={word}", "/a")
            self.assertEqual(self.master.asked("Create")[-1].on_primary_loss, wanted)
        self.assertIn("roll", self.run_command("create", "--on-primary-loss=so", "/a",
                                               status=64)[1])

    def test_one_document_for_one_path_or_many(self):
        self.master.replies["Create"] = self.schema.CreateReply(info=self.file())
        self.master.replies["Stat"] = self.schema.StatReply(info=self.file())
        for command in ("create", "stat"):
            self.assertEqual(self.run_json(command, "/a")["on_primary_loss"], "roll")
            self.assertEqual([f["file"] for f in self.run_json(command, "/a", "/b")["files"]],
                             [7, 7])

    def test_what_is_missing_is_a_document_too(self):
        self.master.replies["Stat"] = self.schema.StatReply(
            error=self.schema.NOT_FOUND, error_text="there is no /missing")
        for args, error in ((("stat", "/missing"), "NOT_FOUND"),
                            (("stat", "/missing", "/too"), "NOT_FOUND")):
            document = self.run_json(*args, status=1)
            self.assertEqual(document["error"], error)
            self.assertIn("/missing", document["text"])
        self.master.replies["ListPolicies"] = self.schema.ListPoliciesReply()
        self.master.replies["ListNames"] = self.schema.ListNamesReply()
        self.master.replies["Restore"] = self.schema.RestoreReply(
            error=self.schema.ALREADY_EXISTS, error_text="there is a /missing already")
        self.master.replies["Remove"] = self.schema.RemoveReply(
            error=self.schema.NOT_FOUND, error_text="there is no /missing")
        for args, error in ((("policy", "/missing"), "NOT_FOUND"),
                            (("rm", "/missing"), "NOT_FOUND"),
                            (("restore", "/missing"), "ALREADY_EXISTS")):
            document = self.run_json(*args, status=1)
            self.assertEqual(document["error"], error, args)
            self.assertIn("/missing", document["text"])
        # What was done before is in the document, too.
        self.master.replies["Remove"] = [self.schema.RemoveReply(file=7),
                                         self.schema.RemoveReply(error=self.schema.NOT_FOUND,
                                                                 error_text="there is no /b")]
        document = self.run_json("rm", "/a", "/b", status=1)
        self.assertEqual(([r["path"] for r in document["removed"]], document["error"]),
                         (["/a"], "NOT_FOUND"))
        # Nobody else's error is in the document of who succeeds.
        self.master.replies["Remove"] = self.schema.RemoveReply(file=7)
        self.assertNotIn("error", self.run_json("rm", "/a"))
        document = self.run_json("stat", "/missing", "--master=127.0.0.1:1", "--timeout=300ms",
                                 status=69)
        self.assertIn("127.0.0.1:1", document["text"])

    def test_texts_that_are_no_utf8_do_not_break_a_document(self):
        for sent, shown in ((b'"1"\\\n\xc3\xa4', '"1"\\\n\u00e4'), (b'"1"\xff\xc3.', '"1"??.')):
            reply = self.schema.ListServersReply(
                servers=[self.schema.ServerInfo(server_id="cs1", failure_domain="x" * len(sent))])
            self.master.replies["ListServers"] = reply.SerializeToString().replace(
                b"x" * len(sent), sent)
            self.assertEqual(self.run_json("servers")["servers"][0]["failure_domain"], shown)

    def test_what_could_deceive_is_shown_as_what_it_is(self):
        path = "/a\u202etxt.exe\u2028\u200f\u061c\u2066"
        shown = "/a\\u202etxt.exe\\u2028\\u200f\\u061c\\u2066"
        file = self.file(path=path)
        self.master.replies.update(
            List=self.schema.ListReply(files=[file]), Stat=self.schema.StatReply(info=file),
            Explain=self.schema.ExplainReply(info=file, sentences=[f"all is well with {path}"]),
            ListLeases=self.schema.ListLeasesReply(leases=[
                self.schema.Lease(chunk=1, path=path, state="HELD", primary="\x1b[1m")]),
            ListServers=self.schema.ListServersReply(servers=[
                self.schema.ServerInfo(server_id="cs\x1b[2J", obstacle=path)]),
            Locate=self.schema.LocateReply(error=self.schema.NOT_FOUND,
                                           error_text=f"there is no {path}\n"))
        for args, status in ((["ls", "--long"], 0), (["trash"], 0), (["explain", "/a"], 0),
                             (["leases"], 0), (["servers"], 0), (["stat", "/a"], 0),
                             (["stat", "--chunks", path], 1)):
            out, err = self.run_command(*args, status=status)
            self.assertIn(shown, out + err, args)
            for raw in path[2] + "\u2028\u200f\u061c\u2066\x1b":
                self.assertNotIn(raw, out + err, args)
        # Other programs get it as it is; JSON has it, too, but no terminal is deceived by it.
        self.assertEqual(self.run_command("ls")[0], path + "\n")
        self.assertEqual(self.run_json("ls")["files"][0]["path"], path)
        self.assertIn(shown, self.run_command("ls", "--json")[0])
        # Nor by what a user types.
        self.assertIn("'\\xff\\x1b", self.run_command("explain", b"/\xff\x1b"[1:], status=64)[1])

    def test_who_does_not_answer_is_told(self):
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        for method in ("ListServers", "Explain", "ListChunks", "List", "Stat"):
            self.master.__dict__[method] = lambda request: hangs.wait(30)
        for args in (["servers"], ["explain", "/a"], ["fsck"], ["ls"], ["cat", "/a"],
                     ["append", "/a"], ["drain", "cs1"]):
            if args == ["drain", "cs1"]:
                self.master.__dict__["SetServer"] = lambda request: hangs.wait(30)
            begun = time.monotonic()
            err = self.run_command(*args, "--timeout=2500ms", status=75)[1]
            self.assertLess(time.monotonic() - begun, 10)
            self.assertIn(f"no master has answered for 2 s ({self.master.address})", err)
            self.assertIn(f"master {self.master.address} did not answer in time", err)

    def test_rm_says_for_how_long(self):
        self.master.replies["Remove"] = self.schema.RemoveReply(file=7, trash_left_ms=86400000)
        out, _ = self.run_command("rm", "/a", "/b")
        self.assertIn("24.0 h", out)
        self.assertIn("restore --file=7", out)
        self.assertEqual([r.path for r in self.master.asked("Remove")], ["/a", "/b"])
        self.assertEqual(self.run_json("rm", "/a"), {"removed": [
            {"path": "/a", "file": 7, "trash_left_ms": 86400000}]})
        self.master.replies["Remove"] = self.schema.RemoveReply(file=7)
        self.assertIn("for good", self.run_command("rm", "--now", "/a")[0])
        self.assertTrue(self.master.asked("Remove")[-1].now)
        self.run_command("rm", "--now", "--file=9")
        self.assertEqual(self.master.asked("Remove")[-1].file, 9)
        self.run_command("rm", status=64)
        self.run_command("rm", "--file=9", "/a", status=64)

    def test_rm_goes_on_after_a_failure(self):
        self.master.replies["Remove"] = [
            self.schema.RemoveReply(error=self.schema.NOT_FOUND, error_text="there is no file /a"),
            self.schema.RemoveReply(file=8, trash_left_ms=1000)]
        out, err = self.run_command("rm", "/a", "/b", status=1)
        self.assertIn("/b: in the trash", out)
        self.assertIn("/a", err)

    def test_trash_lists_page_by_page(self):
        pages = [
            self.schema.ListReply(more=True, files=[
                self.file(file=1, path="/x", trashed=True, trash_left_ms=60000),
                self.file(file=2, path="/x", trashed=True, trash_left_ms=90000)]),
            self.schema.ListReply(files=[
                self.file(file=3, path="/y", trashed=True, trash_left_ms=86400000 * 3)])]
        self.master.replies["List"] = list(pages)
        out, _ = self.run_command("trash", "/")
        self.assertEqual([line.split()[0] for line in out.splitlines()[1:]], ["1", "2", "3"])
        self.assertIn("3.0 days", out)
        first, second = self.master.asked("List")
        self.assertTrue(first.trash and second.trash)
        self.assertEqual((second.after, second.after_file), ("/x", 2))
        self.master.replies["List"] = list(pages)
        files = self.run_json("trash")["files"]
        self.assertEqual([(f["file"], f["trashed"], f["trash_left_ms"]) for f in files],
                         [(1, True, 60000), (2, True, 90000), (3, True, 86400000 * 3)])

    def test_restore(self):
        self.master.replies["Restore"] = self.schema.RestoreReply(info=self.file(path="/b"))
        self.assertIn("/b: restored", self.run_command("restore", "/a", "--to", "/b")[0])
        request = self.master.asked("Restore")[-1]
        self.assertEqual((request.path, request.file, request.to), ("/a", 0, "/b"))
        self.assertEqual(self.run_json("restore", "--file=7")["path"], "/b")
        self.assertEqual(self.master.asked("Restore")[-1].file, 7)
        self.run_command("restore", status=64)
        self.master.replies["Restore"] = self.schema.RestoreReply(
            error=self.schema.ALREADY_EXISTS, error_text="/a is taken")
        self.assertIn("--to", self.run_command("restore", "/a", status=1)[1])

    def test_leases_show_what_only_runs_out(self):
        self.master.replies["ListLeases"] = self.schema.ListLeasesReply(leases=[self.schema.Lease(
            chunk=4, path="/a", version=2, primary="cs1", state="EXPIRING", left_ms=4200)])
        self.assertIn("EXPIRING", self.run_command("leases")[0])
        self.assertEqual(self.run_json("leases")["leases"][0]["state"], "EXPIRING")


class ServersTest(CommandTest):

    def server(self, **fields):
        return self.schema.ServerInfo(**{
            "server_id": "cs1", "address": "10.0.0.1:7500", "live": True, "reachable": True,
            "capacity_bytes": 10 * GB, "free_bytes": 4 * GB, "replicas": 12, "primaries": 3,
            **fields})

    def reply(self, *servers, **fields):
        return self.schema.ListServersReply(servers=servers, **{"deleting": True, **fields})

    def test_the_table(self):
        self.master.replies["ListServers"] = self.reply(
            self.server(server_id="cs2", admin=self.schema.DRAINING, replicas_to_move=5),
            self.server(copies_in=2, copies_out=1),
            self.server(server_id="cs3", live=False, away_ms=90000, grace_left_ms=210000),
            self.server(server_id="cs4", admin=self.schema.DRAINING, safe_to_stop=True),
            repair=self.schema.RepairInfo(
                chunks_degraded=20, chunks_endangered=3, copies_running=4, copies_waiting=16,
                bytes_left=1200 * 10 ** 6, bytes_per_second=60 * 10 ** 6, left_ms=20000))
        out, err = self.run_command("servers")
        rows = {line.split()[0]: line for line in out.splitlines() if line.startswith("cs")}
        self.assertIn("2 in, 1 out", rows["cs1"])
        self.assertIn("6.0 GB", rows["cs1"])
        self.assertIn("draining", rows["cs2"])
        self.assertIn("5 to move", rows["cs2"])
        self.assertIn("  no", rows["cs2"])
        self.assertIn("away for 90.0 s", rows["cs3"])
        self.assertIn("replaced in 3.5 min", rows["cs3"])
        self.assertIn("  yes", rows["cs4"])
        for part in ("20 chunks degraded", "3 with a single", "4 copies running", "16 waiting",
                     "1.2 GB left", "60.0 MB/s", "20.0 s"):
            self.assertIn(part, out)
        self.assertEqual(err, "")
        document = self.run_json("servers")
        self.assertEqual(document["repair"]["chunks_endangered"], 3)
        self.assertEqual([s["safe_to_stop"] for s in document["servers"]],
                         [False, False, False, True])
        self.assertEqual([s["admin"] for s in document["servers"]],
                         ["active", "draining", "active", "draining"])
        self.assertEqual(document["servers"][0]["used_bytes"], 6 * GB)

    def test_warnings(self):
        self.master.replies["ListServers"] = self.reply(self.server())
        out, err = self.run_command("servers")
        self.assertIn("nothing to do", out)
        self.assertEqual(err, "")
        self.master.replies["ListServers"] = self.reply(
            self.server(), deleting=False, deleting_text="cs1 has chunk 9, which is unknown here",
            repair=self.schema.RepairInfo(chunks_degraded=1, chunks_unreadable=1))
        out, err = self.run_command("servers")
        self.assertIn("repair: 1 chunk degraded, ", out)
        self.assertIn("1 chunk has no replica that can be read", err)
        self.assertIn("cs1 has chunk 9", err)
        self.assertIn("garbage --resume", err)
        self.assertIn("fsck", err)
        self.assertFalse(self.run_json("servers")["deleting"])

    def test_drain(self):
        draining = self.server(admin=self.schema.DRAINING, replicas_to_move=12)
        self.master.replies["SetServer"] = self.schema.SetServerReply(server=draining)
        out, _ = self.run_command("drain", "cs1")
        self.assertIn("12 replicas and 3 leases", out)
        request = self.master.asked("SetServer")[-1]
        self.assertEqual((request.server_id, request.admin), ("cs1", self.schema.DRAINING))
        self.assertEqual(self.run_json("drain", "cs1"), {
            "server_id": "cs1", "admin": "draining", "safe_to_stop": False, "forgotten": False,
            "replicas_to_move": 12, "primaries": 3})
        self.master.replies["SetServer"] = self.schema.SetServerReply(server=self.server())
        self.assertIn("active", self.run_command("undrain", "cs1")[0])
        self.assertEqual(self.master.asked("SetServer")[-1].admin, self.schema.ACTIVE)
        self.master.replies["SetServer"] = self.schema.SetServerReply(
            error=self.schema.NOT_FOUND, error_text="there is no chunkserver cs9")
        self.assertIn("cs9", self.run_command("drain", "cs9", status=1)[1])

    def test_drain_waits_until_it_is_safe(self):
        draining = self.server(admin=self.schema.DRAINING, replicas_to_move=1)
        self.master.replies["SetServer"] = self.schema.SetServerReply(server=draining)
        pages = [self.reply(draining),
                 self.schema.ListServersReply(error=self.schema.UNAVAILABLE),
                 self.reply(self.server(admin=self.schema.DRAINING, safe_to_stop=True))]
        self.master.replies["ListServers"] = list(pages)
        self.assertIn("can be switched off", self.run_command("drain", "--wait", "cs1")[0])
        self.master.replies["ListServers"] = list(pages)
        self.assertTrue(self.run_json("drain", "--wait", "cs1")["safe_to_stop"])
        self.master.replies["ListServers"] = pages[:1]
        err = self.run_command("drain", "--wait", "--give-up=1s", "cs1", status=75)[1]
        self.assertIn("1 replica and ", err)
        pages = [self.reply(self.server(admin=self.schema.DRAINING, replicas_to_move=1,
                                        obstacle="1 replicas have nowhere to go"))]
        self.master.replies["ListServers"] = list(pages)
        err = self.run_command("drain", "--wait", "--give-up=1s", "cs1", status=75)[1]
        self.assertIn("nowhere to go", err)
        self.master.replies["ListServers"] = list(pages)
        self.assertIn("nowhere to go", self.run_command("servers")[1])
        self.assertFalse(self.run_json("drain", "--wait", "--give-up=1s", "cs1",
                                       status=75)["safe_to_stop"])

    def test_decommission_waits_until_it_is_forgotten(self):
        leaving = self.server(admin=self.schema.DECOMMISSIONING, replicas_to_move=1)
        self.master.replies["SetServer"] = self.schema.SetServerReply(server=leaving)
        self.master.replies["ListServers"] = [self.reply(leaving), self.reply()]
        self.assertIn("forgotten", self.run_command("decommission", "--wait", "cs1")[0])
        self.assertEqual(self.master.asked("SetServer")[-1].admin, self.schema.DECOMMISSIONING)


class MastersTest(CommandTest):
    """m1 acts in reign 7, m2 and m3 stand by; m1 alone is named to the command."""

    def setUp(self):
        super().setUp()
        self.masters = {"m1": self.master}
        for name in ("m2", "m3"):
            self.masters[name] = StagedMaster(self.schema)
            self.addCleanup(self.masters[name].stop)
        for name in self.masters:
            self.say(name)
        self.act("m1", reign=7)

    def say(self, name, **fields):
        known = fields.pop("known", self.masters)
        self.masters[name].replies["Masters"] = self.schema.MastersReply(**{
            "reign": 7, "master_id": name, "process": ord(name[1]), "state": "STANDBY",
            "state_ms": 90_000, "revision": 100, "reign_term_ms": 2000, "store_bytes": 20_500_000,
            "masters": [self.schema.MasterInfo(master_id=n, address=self.masters[n].address)
                        for n in known], **fields})

    def act(self, name, **fields):
        self.say(name, **{"acting": True, "state": "ACTIVE", "active": self.masters[name].address,
                          "revision": 103, **fields})

    def stop(self, name):
        self.masters[name].stop()

    def rows(self, *args):
        """The table without its title, and what follows it."""
        out, err = self.run_command("masters", *args)
        lines = out.splitlines()
        self.assertRegex(lines[0], "^master +address +state +reign +copy +chunkservers$")
        return [re.split("  +", line.strip()) for line in lines[1:-1]], lines[-1], err

    def test_the_table(self):
        self.act("m1", servers=1)
        self.say("m2", revision=103)
        self.say("m3", revision=102, servers=2)
        address = {name: m.address for name, m in self.masters.items()}
        rows, store, err = self.rows()
        self.assertEqual(rows, [
            ["m1", address["m1"], "active for 90.0 s", "7", "-", "1"],
            ["m2", address["m2"], "standby for 90.0 s", "7", "up to date", "-"],
            ["m3", address["m3"], "standby for 90.0 s", "7", "1 revision behind", "hears 2"]])
        self.assertEqual(store, "reign 7 of m1, reign term 2.0 s; store: etcd, 20.5 MB, "
                                "no trouble known")
        self.assertEqual(err, "")

    def test_json(self):
        document = self.run_json("masters")
        self.assertEqual({k: v for k, v in document.items() if k != "masters"}, {
            "shared": True, "active": self.master.address, "reign": 7, "reign_term_ms": 2000,
            "store_bytes": 20_500_000, "store_trouble": ""})
        self.assertEqual([(m["master_id"], m["acting"], m["behind"]) for m in document["masters"]],
                         [("m1", True, None), ("m2", False, 3), ("m3", False, 3)])
        self.assertEqual(document["masters"][1], {
            "master_id": "m2", "address": self.masters["m2"].address, "answered": True,
            "trouble": "", "acting": False, "state": "STANDBY", "state_ms": 90_000, "reign": 7,
            "revision": 100, "behind": 3, "servers": 0})

    def test_a_standby_leads_to_all_others(self):
        self.say("m2", known=["m2"], active=self.master.address)
        for m in self.masters.values():
            m.calls.clear()
        document = self.run_json("masters", "--master=" + self.masters["m2"].address)
        self.assertEqual([m["master_id"] for m in document["masters"]], ["m1", "m2", "m3"])
        # Each is asked once, and nothing else.
        self.assertEqual([[name for name, _ in m.calls] for m in self.masters.values()],
                         [["Masters"]] * 3)

    def test_one_that_does_not_answer(self):
        self.stop("m2")
        rows, _, err = self.rows()
        self.assertEqual(rows[1], ["m2", self.masters["m2"].address, "no answer", "-", "-", "-"])
        self.assertIn(f"m2 at {self.masters['m2'].address}: ", err)
        document = self.run_json("masters")
        self.assertFalse(document["masters"][1]["answered"])
        self.assertNotEqual(document["masters"][1]["trouble"], "")

    def test_none_answers(self):
        err = self.run_command("masters", "--master=127.0.0.1:1,127.0.0.1:2", status=69)[1]
        self.assertIn("127.0.0.1:1, 127.0.0.1:2", err)
        err = self.run_command("masters", "--transfer", "--master=127.0.0.1:1", status=69)[1]
        self.assertIn("127.0.0.1:1", err)

    def test_one_master_by_two_of_its_addresses(self):
        other = self.master.address.replace("127.0.0.1", "localhost")
        rows, _, _ = self.rows(f"--master={other}")
        self.assertEqual([row[1] for row in rows], [m.address for m in self.masters.values()])

    def test_one_that_has_moved(self):
        """A standby still lists where it was."""
        self.masters["m9"] = self.masters["m3"]
        old = self.schema.MasterInfo(master_id="m3", address="127.0.0.1:1")
        self.masters["m2"].replies["Masters"].masters.append(old)
        rows, _, err = self.rows()
        self.assertEqual([row[0] for row in rows], ["m1", "m2", "m3"])
        self.assertEqual(err, "")

    def test_lists_from_the_network_are_not_believed(self):
        info = self.schema.MasterInfo
        self.act("m1", reign=7, masters=[info(address=a) for a in (
            "", "nowhere", "a" * 5000, "\x1b[2J:1", "127.0.0.1:99999999")])
        self.run_json("masters")
        self.act("m1", reign=7, masters=[info(address=f"127.0.0.1:{p}", master_id=f"x{p}")
                                         for p in range(1, 500)])
        self.assertLessEqual(len(self.run_json("masters")["masters"]), 64)

    def test_nobody_acts(self):
        self.say("m1", state="UNCONFIRMED", store_trouble="etcd1: NOSPACE")
        rows, store, err = self.rows()
        self.assertEqual(rows[0][2:], ["unconfirmed for 90.0 s", "7", "-", "-"])
        self.assertEqual(rows[1][4], "-")
        self.assertEqual(store, "reign 7, reign term 2.0 s; store: etcd, 20.5 MB, etcd1: NOSPACE")
        self.assertIn("m1 does not know", err)
        self.assertIn("no master acts now", err)
        self.assertEqual(self.run_json("masters")["active"], "")
        err = self.run_command("masters", "--transfer", status=69)[1]
        self.assertIn("no master acts now", err)
        self.say("m1", state="UNCONFIRMED")
        self.assertRegex(self.rows()[1], ", nothing is known of it: no master acts$")

    def test_one_with_a_store_of_its_own(self):
        self.master.replies["Masters"] = self.schema.MastersReply(acting=True, reign=4,
                                                                  cluster_id="c")
        rows, store, err = self.rows()
        self.assertEqual(rows, [["-", self.master.address, "active", "4", "-", "-"]])
        self.assertIn("shares its store with no other one", store)
        self.assertEqual(err, "")
        self.assertFalse(self.run_json("masters")["shared"])
        for option in ("--transfer", "--transfer=m2", "--forget=m2"):
            self.assertIn("shares its store with no other one",
                          self.run_command("masters", option, status=1)[1])
        # One from before there were several.
        self.master.replies.clear()
        rows, _, _ = self.rows()
        self.assertEqual(rows, [["-", self.master.address, "active", "-", "-", "-"]])

    def resign(self, successor, reply=None):
        """m1 does, and that one follows."""
        def transfer(_request):
            self.say("m1", reign=8)
            self.act(successor, reign=8)
            return reply or self.schema.TransferReply(reign=7)
        self.master.Transfer = transfer

    def test_transfer(self):
        self.resign("m3")
        out, err = self.run_command("masters", "--transfer=m3")
        self.assertRegex(
            out, r"^m1 has resigned, m3 is the active master after \d+ ms, in reign 8$")
        self.assertEqual(err, "")
        self.assertEqual([r.successor for r in self.master.asked("Transfer")], ["m3"])
        for name in ("m2", "m3"):
            self.assertEqual(self.masters[name].asked("Transfer"), [])

    def test_a_successor_that_the_active_one_does_not_know_yet(self):
        self.act("m1", reign=7, known=["m1", "m2"])
        self.resign("m3")
        self.assertIn("m3 is the active master", self.run_command(
            "masters", "--transfer=m3",
            master=f"{self.master.address},{self.masters['m3'].address}")[0])

    def test_transfer_to_any(self):
        self.resign("m2")
        document = self.run_json("masters", "--transfer")
        document.pop("took_ms")
        self.assertEqual(document, {"from": "m1", "to": "m2", "old_reign": 7, "reign": 8})
        self.assertEqual([r.successor for r in self.master.asked("Transfer")], [""])

    def test_another_one_takes_over(self):
        self.resign("m2")
        out, err = self.run_command("masters", "--transfer=m3", status=1)
        self.assertIn("m2 is the active master", out)
        self.assertIn("m2 took over instead of m3", err)

    def test_transfer_to_the_active_one(self):
        self.assertIn("m1 is the active master already",
                      self.run_command("masters", "--transfer=m1")[0])
        self.assertEqual(self.master.asked("Transfer"), [])

    def test_nobody_resigns_for_nobody(self):
        self.say("m2", state="LOADING")
        cases = [("--transfer=m4", 'no master "m4", there are: m1, m2, m3'),
                 ("--transfer=m2", "m2 does not stand by yet: it is LOADING")]
        for option, text in cases:
            self.assertIn(text, self.run_command("masters", option, status=1)[1])
        self.stop("m3")
        self.assertIn(f"m3 at {self.masters['m3'].address}: ",
                      self.run_command("masters", "--transfer=m3", status=1)[1])
        self.assertIn("no other master stands by",
                      self.run_command("masters", "--transfer", status=1)[1])
        self.act("m1", reign=7, known=["m1"])
        self.assertIn("there is no other master",
                      self.run_command("masters", "--transfer", status=1)[1])
        self.assertEqual(self.master.asked("Transfer"), [])

    def test_forget(self):
        self.stop("m3")
        self.master.replies["ForgetMaster"] = self.schema.ForgetMasterReply()
        self.assertEqual(self.run_command("masters", "--forget=m3")[0], "m3 is forgotten\n")
        self.assertEqual([r.master_id for r in self.master.asked("ForgetMaster")], ["m3"])
        self.assertEqual(self.masters["m2"].asked("ForgetMaster"), [])
        self.assertEqual(self.run_json("masters", "--forget=m3"), {"forgotten": "m3"})

    def test_masters_of_two_clusters(self):
        self.say("m3", reign=900, cluster_id="other")
        for name in ("m1", "m2"):
            self.masters[name].replies["Masters"].cluster_id = "own"
        sentence = f"of cluster own and the one at {self.masters['m3'].address} of cluster other"
        self.assertIn(sentence, self.run_json("masters")["store_trouble"])
        for option in ("--transfer", "--transfer=m2", "--forget=m9"):
            self.assertIn(sentence, self.run_command("masters", option, status=1)[1])
        self.assertEqual(self.master.asked("Transfer") + self.masters["m3"].asked("Transfer"), [])

    def test_one_that_runs_is_not_forgotten(self):
        self.assertIn(f"m2 runs, at {self.masters['m2'].address}: stop it first",
                      self.run_command("masters", "--forget=m2", status=1)[1])
        self.run_command("masters", "--forget=m1", status=1)
        self.run_command("masters", "--forget=m2", "--transfer", status=64)
        self.assertEqual(self.master.asked("ForgetMaster"), [])
        self.master.replies["ForgetMaster"] = self.schema.ForgetMasterReply(
            error=self.schema.NOT_FOUND, error_text="there is no record of it")
        self.assertIn("there is no record of it",
                      self.run_command("masters", "--forget=m7", status=1)[1])

    def test_a_refusal(self):
        self.master.replies["Transfer"] = self.schema.TransferReply(
            error=self.schema.INVALID_ARGUMENT, error_text="this master is resigning already")
        self.assertIn("resigning already", self.run_command("masters", "--transfer", status=1)[1])
        self.assertEqual(len(self.master.asked("Transfer")), 1)

    def test_a_lost_answer_is_found_out(self):
        self.resign("m2", reply=b"\xff")
        self.assertIn("m2 is the active master", self.run_command("masters", "--transfer")[0])
        self.assertEqual(len(self.master.asked("Transfer")), 1)

    def test_nobody_follows(self):
        def transfer(_request):
            self.say("m1", state="RESIGNING")
            return self.schema.TransferReply(reign=7)
        self.master.Transfer = transfer
        err = self.run_command("masters", "--transfer", "--timeout=1s", status=75)[1]
        self.assertIn("m1 was asked to resign, and no other master was seen to act since", err)


class AskingTest(CommandTest):

    def test_explain(self):
        said = ["Chunk 3 of /a takes no appends.", "cs1 may act as its primary for 4.0 s more."]
        self.master.replies["Explain"] = self.schema.ExplainReply(
            info=self.file(), sentences=said,
            chunk=self.schema.ChunkState(
                chunk=self.schema.ChunkInfo(chunk=3, version=5), path="/a", lease="HELD",
                checksum=(1 << 64) - 1,
                replicas=[self.schema.ReplicaInfo(server_id="cs1", state="AWAY", primary=True)]))
        self.assertEqual(self.run_command("explain", "/a")[0].splitlines(),
                         ["chunk 3 of /a, version 5: takes no appends now"]
                         + ["  " + sentence for sentence in said])
        self.assertEqual(self.master.asked("Explain")[-1].path, "/a")
        document = self.run_json("explain", "3")
        self.assertEqual(self.master.asked("Explain")[-1].chunk, 3)
        self.assertEqual(document["sentences"], said)
        self.assertEqual(document["chunk"]["replicas"][0]["state"], "AWAY")
        self.assertEqual(document["chunk"]["checksum"], "f" * 16)
        self.assertIn("neither", self.run_command("explain", "3x", status=64)[1])
        self.master.replies["Explain"] = self.schema.ExplainReply(info=self.file())
        self.assertIsNone(self.run_json("explain", "/a")["chunk"])
        self.assertIn("/a, no chunk yet", self.run_command("explain", "/a")[0])

    def test_garbage(self):
        self.master.replies["Garbage"] = self.schema.GarbageReply(
            deleting=True, files_trashed=2, replicas_extra=3, replicas_deleted=40)
        out, _ = self.run_command("garbage")
        self.assertIn("2 files in the trash", out)
        self.assertIn("40 deleted", out)
        self.assertFalse(self.master.asked("Garbage")[-1].resume)
        self.run_command("garbage", "--resume")
        self.assertTrue(self.master.asked("Garbage")[-1].resume)
        self.master.replies["Garbage"] = self.schema.GarbageReply(why_not="cs1 knows chunk 9")
        self.assertIn("cs1 knows chunk 9", self.run_command("garbage")[0])
        self.assertEqual(self.run_json("garbage"), {
            "deleting": False, "why_not": "cs1 knows chunk 9", "files_trashed": 0,
            "replicas_extra": 0, "replicas_deleted": 0})

    def test_an_old_master_and_none_at_all(self):
        for args in (["trash"], ["explain", "/a"], ["garbage"], ["drain", "cs1"], ["fsck"]):
            self.master.replies.clear()
            err = self.run_command(*args, status=69 if args == ["fsck"] else 1)[1]
            self.assertIn("UNIMPLEMENTED", err)
            err = self.run_command(*args, "--timeout=300ms", status=69, master="127.0.0.1:1")[1]
            self.assertIn("127.0.0.1:1", err)

    def test_each_says_how_it_is_used(self):
        for command in ("rm", "trash", "restore", "drain", "undrain", "decommission", "servers",
                        "masters", "explain", "fsck", "garbage"):
            self.assertIn(f"leasehold {command}", self.run_command(command, "--help")[0])
            self.assertIn(f"  {command} ", self.run_command("--help")[0])


class FsckTest(CommandTest):
    """One sealed chunk (1) and one that grows (2), on three servers."""

    def setUp(self):
        super().setUp()
        self.size = len(pack_batch(5, 1, [b"x" * 1000] * 10))  # of each batch
        self.batches = [pack_batch(5, i * 10 + 1, [b"%02d" % i * 500] * 10) for i in range(20)]
        self.log, _ = self.log_of(1, self.batches)
        self.open_log, _ = self.log_of(2, self.batches)
        self.servers = {}
        for name in ("cs1", "cs2", "cs3"):
            server = self.servers[name] = StagedChunkServer(self.schema)
            self.addCleanup(server.stop)
            server.replicas = {1: {"log": self.log, "version": 3, "sealed": True},
                               2: {"log": self.open_log, "version": 4, "sealed": False}}
        self.states = {1: {}, 2: {}}  # of a chunk's replicas by server, where not GOOD
        self.chunks = self.two_chunks
        self.master.ListChunks = self.list_chunks

    @staticmethod
    def log_of(chunk, batches):
        """The chunk's log of those batches, and its running checksum."""
        return chained(b"".join(batches), checksum_of_nothing(chunk))

    def chunk(self, number, sealed):
        return self.schema.ChunkState(
            chunk=self.schema.ChunkInfo(chunk=number, version=4 - sealed, sealed=sealed,
                                        length=len(self.log) if sealed else 0),
            path="/a", file=7, replication=3, min_replicas=2, created=True, lease="HELD",
            checksum=self.log_of(number, self.batches)[1] if sealed else 0,
            replicas=[self.schema.ReplicaInfo(server_id=name, address=server.address,
                                              state=self.states.get(number, {}).get(name, "GOOD"))
                      for name, server in self.servers.items()])

    def two_chunks(self):
        return [self.chunk(1, True), self.chunk(2, False)]

    def list_chunks(self, request):
        """One chunk a page."""
        left = [c for c in self.chunks() if c.chunk.chunk > request.after_chunk]
        return self.schema.ListChunksReply(chunks=left[:1], more=len(left) > 1)

    def replica(self, name, chunk):
        return self.servers[name].replicas[chunk]

    def problems(self, *flags, status):
        document = self.run_json("fsck", *flags, status=status)
        self.assertEqual(document["clean"], status == 0)
        for problem in document["problems"]:
            self.assertTrue(problem["text"] and problem["advice"])
        return document["problems"]

    def kinds(self, *flags, status):
        return {(p["chunk"], p["server_id"], p["kind"])
                for p in self.problems(*flags, status=status)}

    def test_clean(self):
        out, _ = self.run_command("fsck")
        self.assertIn("2 chunks checked at 6 replicas", out)
        self.assertIn("clean", out)
        document = self.run_json("fsck", "--deep", "/")
        self.assertEqual(document["bytes_read"], 6 * len(self.log))
        self.assertEqual(document["chunks_checked"], 2)
        self.assertEqual(self.master.asked("ListChunks")[-1].prefix, "/")

    def test_what_the_master_knows_already(self):
        for state, kind in (("AWAY", "away"), ("GONE", "gone"), ("LOST", "lost"),
                            ("MISSING", "missing"), ("STALE", "stale")):
            self.states[1] = {"cs2": state}
            self.assertEqual(self.kinds(status=1), {(1, "cs2", kind)})
        out, _ = self.run_command("fsck", status=1)
        self.assertIn("chunk 1 of /a: degraded: cs2", out)
        self.assertIn("1 degraded", out)

    def test_replicas_that_do_not_count_are_no_problem(self):
        for state in ("JOINING", "COPYING", "EXTRA"):
            self.states[2] = {"cs3": state}
            self.assertEqual(self.kinds(status=1), {(2, "", "too_few")})

    def test_a_chunk_that_never_held_anything(self):
        chunk = self.chunk(2, False)
        chunk.created = False
        self.chunks = lambda: [self.chunk(1, True), chunk]
        self.servers["cs1"].replicas.pop(2)
        self.assertEqual(self.kinds("--deep", status=0), set())

    def test_servers_that_do_not_show_theirs(self):
        for error, kind in ((self.schema.NO_REPLICA, "missing"), (self.schema.CORRUPT, "lost"),
                            (self.schema.RECOVERING, "busy"), (self.schema.IO, "lost")):
            self.servers["cs1"].replicas[2] = error
            self.assertEqual(self.kinds(status=1), {(2, "cs1", kind)})
        self.servers["cs1"].stop()
        self.assertEqual(self.kinds("--timeout=10s", status=1),
                         {(1, "cs1", "unreachable"), (2, "cs1", "unreachable")})

    def test_who_may_not_look(self):
        refusal = "leasehold://reader/web has the role reader, Read needs fetch"
        self.servers["cs1"].Read = lambda request: self.schema.ReadReply(
            error=self.schema.PERMISSION, error_text=refusal)
        found = self.problems(status=1)
        self.assertEqual({(p["chunk"], p["server_id"], p["kind"]) for p in found},
                         {(1, "cs1", "refused"), (2, "cs1", "refused")})
        for problem in found:
            self.assertIn(refusal, problem["text"])
        # At no server: nothing is known of the bytes, so that nothing is damaged, either.
        for server in self.servers.values():
            server.Read = self.servers["cs1"].Read
        self.assertEqual({kind for _, _, kind in self.kinds("--deep", status=1)}, {"refused"})

    def with_capabilities(self, listings):
        """The master lists what is below /a alone, with a capability that is good till it lists the
        next time; from the listing of that number on it refuses, or says that error."""
        listed = []

        def list_chunks(request):
            listed.append(request)
            error, at = listings
            if request.prefix != "/a" or len(listed) >= at:
                return self.schema.ListChunksReply(
                    error=self.schema.PERMISSION if request.prefix != "/a" else error,
                    error_text=f"it does not reach {request.prefix or 'everything'}, to read")
            reply = self.list_chunks(request)
            for chunk in reply.chunks:
                chunk.path = "/before/a"  # the file was renamed, or is in the trash
                chunk.chunk.capability = b"%d" % len(listed)
            return reply

        def read(server):
            whole = type(server).Read

            def answer(request):
                if request.capability != b"%d" % len(listed):
                    return self.schema.ReadReply(error=self.schema.STALE_CAPABILITY,
                                                 error_text="what was shown has run out")
                return whole(server, request)
            return answer

        self.master.ListChunks = list_chunks
        for server in self.servers.values():
            server.Read = read(server)
        return listed

    def test_a_capability_that_ran_out_is_replaced(self):
        listed = self.with_capabilities((self.schema.OK, 1000))
        first = self.chunks
        self.chunks = lambda: first()[:1]
        looks = []
        whole = self.servers["cs2"].Read

        def later(request):
            looks.append(request)
            if len(looks) == 1:
                listed.append(None)  # as if its time were over
            return whole(request)

        self.servers["cs2"].Read = later
        self.assertEqual(self.kinds("--deep", "/a", status=0), set())
        self.assertEqual([request.prefix for request in listed if request is not None],
                         ["/a", "/a"])

    def test_a_capability_that_nobody_replaces(self):
        for error, said in ((self.schema.PERMISSION, "to read"),
                            (self.schema.UNIMPLEMENTED, "gave no new capability")):
            listed = self.with_capabilities((error, 3))
            first = self.two_chunks
            self.chunks = lambda f=first: f()[:1]
            whole = self.servers["cs1"].Read

            def later(request, listed=listed, whole=whole):
                if len(listed) == 1:
                    listed.append(None)
                return whole(request)

            self.servers["cs1"].Read = later
            found = self.problems("/a", status=1)
            self.assertEqual({(p["server_id"], p["kind"]) for p in found},
                             {(name, "refused") for name in self.servers})
            for problem in found:
                self.assertIn(said, problem["text"])

    def test_a_second_look_stays_below_the_prefix(self):
        listed = self.with_capabilities((self.schema.OK, 1000))
        first = self.chunks
        self.chunks = lambda: first()[:1]
        self.replica("cs1", 1)["sealed"] = False

        def seal_arrives(request):
            if len(listed) == 1:
                self.replica("cs1", 1)["sealed"] = True
            return whole(request)

        whole = self.master.ListChunks
        self.master.ListChunks = seal_arrives
        self.assertEqual(self.kinds("/a", status=0), set())

    def test_a_silent_server_is_waited_for_once(self):
        many = [self.chunk(number, True) for number in range(1, 40)]
        for server in self.servers.values():
            server.replicas = {number: dict(server.replicas[1],
                                            log=self.log_of(number, self.batches)[0])
                               for number in range(1, 40)}
        hangs = threading.Event()
        self.addCleanup(hangs.set)
        self.servers["cs3"].Read = lambda request: hangs.wait(60)
        self.chunks = lambda: many
        err = self.run_command("fsck", "--timeout=3s", "--deep", status=1)[1]
        self.assertIn(f"chunkserver {self.servers['cs3'].address} has not answered for 2 s", err)
        found = self.problems("--timeout=5s", "--jobs=4", status=1)
        self.assertEqual({(p["chunk"], p["server_id"], p["kind"]) for p in found},
                         {(number, "cs3", "unreachable") for number in range(1, 40)})
        # Each job waits for it, and looks again at the chunk at which it did.
        self.assertGreaterEqual(self.not_asked(found), 39 - 2 * 4)

        def away_by_then(request):
            """All in one page; who looks again at one chunk is told more."""
            if request.limit != 1:
                return self.schema.ListChunksReply(chunks=many)
            self.states = {request.after_chunk + 1: {"cs3": "AWAY"}}
            return self.schema.ListChunksReply(chunks=[self.chunk(request.after_chunk + 1, True)])

        self.master.ListChunks = away_by_then
        found = self.problems("--timeout=5s", "--jobs=1", status=1)
        self.assertEqual({p["kind"] for p in found}, {"away", "unreachable"})
        self.assertEqual(len(found), 39)
        self.assertEqual(self.not_asked(found), 38)

    @staticmethod
    def not_asked(problems):
        return sum("was not asked" in p["text"] for p in problems)

    def test_nothing_can_be_read(self):
        self.states[1] = {"cs1": "AWAY", "cs2": "LOST", "cs3": "GONE"}
        self.assertIn((1, "", "unreadable"), self.kinds(status=2))
        out, _ = self.run_command("fsck", status=2)
        self.assertIn("chunk 1 of /a: DAMAGE: no good replica", out)
        self.assertIn("1 damaged", out)

    def test_a_replica_without_the_seal(self):
        self.replica("cs1", 1)["sealed"] = False
        self.assertEqual(self.kinds(status=1), {(1, "cs1", "stale")})

    def test_what_passes_by_itself_is_no_problem(self):
        self.replica("cs1", 1)["sealed"] = False
        looks = []

        def seal_arrives(request):
            looks.append(request)
            if len(looks) == 2:  # the second look at the first page's chunk
                self.replica("cs1", 1)["sealed"] = True
            return self.list_chunks(request)

        self.master.ListChunks = seal_arrives
        self.assertEqual(self.kinds(status=0), set())
        self.assertEqual(len(looks), 3)

    def test_a_chunk_that_is_gone_by_then(self):
        self.servers["cs1"].replicas.pop(2)
        looks = []

        def removed(request):
            looks.append(request)
            if len(looks) == 3:  # the second look at the second page's
                self.chunks = lambda: [self.chunk(1, True)]
            return self.list_chunks(request)

        self.master.ListChunks = removed
        self.assertEqual(self.kinds(status=0), set())

    def test_metadata_older_than_the_replicas(self):
        self.replica("cs1", 1)["version"] = 9
        self.replica("cs2", 2)["sealed"] = True
        self.assertEqual(self.kinds(status=2), {(1, "cs1", "newer"), (2, "cs2", "newer")})

    def test_a_sealed_replica_of_another_length(self):
        self.replica("cs1", 1)["log"] = self.log[:3 * self.size]
        self.assertEqual(self.kinds(status=2), {(1, "cs1", "differs")})

    def test_rot(self):
        for name, chunk, log in (("cs2", 1, self.log), ("cs3", 2, self.open_log)):
            rotten = bytearray(log)
            rotten[len(rotten) // 2] ^= 1
            self.replica(name, chunk)["log"] = bytes(rotten)
        self.assertEqual(self.kinds(status=0), set())
        self.assertEqual(self.kinds("--deep", status=1),
                         {(1, "cs2", "corrupt"), (2, "cs3", "corrupt")})

    def test_other_records(self):
        other = [pack_batch(6, 1, [b"x" * 1000] * 10)] + self.batches[1:]
        self.replica("cs2", 1)["log"], _ = self.log_of(1, other)
        self.replica("cs3", 2)["log"], _ = self.log_of(2, other)
        self.assertEqual(len(self.replica("cs2", 1)["log"]), len(self.log))
        self.assertEqual(self.kinds(status=0), set())
        found = self.kinds("--deep", status=2)
        self.assertIn((1, "cs2", "differs"), found)
        self.assertEqual({kind for chunk, _, kind in found if chunk == 2}, {"differs"})

    def test_a_batch_that_belongs_elsewhere(self):
        self.replica("cs2", 1)["log"] = self.open_log
        moved = self.log_of(2, self.batches[:1] + self.batches[2:3] + self.batches[2:])[0]
        self.replica("cs3", 2)["log"] = (
            self.open_log[:self.size] + moved[2 * self.size:3 * self.size]
            + self.open_log[2 * self.size:])
        self.assertEqual(self.kinds("--deep", status=1),
                         {(1, "cs2", "corrupt"), (2, "cs3", "corrupt")})

    def test_members_that_know_less_are_compared_as_far_as_they_know(self):
        self.replica("cs1", 2)["log"] = self.open_log[:7 * self.size]
        self.replica("cs2", 2)["log"] = b""
        document = self.run_json("fsck", "--deep")
        self.assertEqual(document["bytes_read"], (3 + 1) * len(self.log) + 7 * self.size)
        self.replica("cs1", 2)["log"], _ = self.log_of(2, [pack_batch(6, 1, [b"x" * 1000] * 10)])
        self.assertEqual(self.kinds("--deep", status=2), {(2, "cs1", "differs")})

    def test_a_damaged_longest_member_is_no_measure(self):
        rotten = bytearray(self.open_log)
        rotten[self.size * 5 + 100] ^= 1
        self.replica("cs3", 2)["log"] = bytes(rotten)
        self.replica("cs1", 2)["log"] = self.open_log[:10 * self.size]
        self.replica("cs2", 2)["log"] = self.open_log[:12 * self.size]
        self.assertEqual(self.kinds("--deep", status=1), {(2, "cs3", "corrupt")})
        other = [pack_batch(6, 1, [b"x" * 1000] * 10)] + self.batches[1:10]
        self.replica("cs1", 2)["log"], _ = self.log_of(2, other)
        self.assertEqual(self.kinds("--deep", status=2),
                         {(2, "cs3", "corrupt"), (2, "cs1", "differs")})


if __name__ == "__main__":
    process_cluster.main(beside=[
        "FilesTest.test_who_does_not_answer_is_told",
        "FsckTest.test_a_silent_server_is_waited_for_once",
        "ServersTest.test_drain_waits_until_it_is_safe",
    ])
