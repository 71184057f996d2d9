#!/usr/bin/python3
"""The operator's commands on a real cluster: fsck, explain, the trash, draining."""

import json
import os
import signal

import process_cluster
from process_cluster import CALM, LOG_START, ClusterTest, wait_for

PATH = "/operate/log"
RECORDS = b"".join(b"%06d %s\n" % (i, b"x" * 500) for i in range(1000))


class OperateTest(ClusterTest):

    def start(self, servers=4, master_flags=(), **options):
        self.start_cluster(servers=servers, master_flags=["--grace=3s", *master_flags], **options)
        self.cluster.command("create", "--chunk-size=64KiB", PATH)
        self.cluster.command("append", "--batch-bytes=8KiB", PATH, stdin=RECORDS)

    def fsck(self, *flags, status=0):
        result = self.cluster.run("fsck", "--json", *flags)
        self.assertEqual(result.returncode, status,
                         (result.stdout + result.stderr).decode(errors="replace"))
        return json.loads(result.stdout)

    def await_clean(self):
        def clean():
            return self.cluster.run("fsck").returncode == 0
        wait_for("fsck to find nothing", clean, interval=0.5)

    def servers(self):
        return {s["server_id"]: s for s in self.cluster.json("servers")["servers"]}

    def assert_all_there(self):
        self.assertEqual(self.cluster.command("cat", PATH), RECORDS)

    def test_fsck_finds_rot_and_repair_mends_it(self):
        self.start(**CALM)
        self.await_clean()
        whole = self.fsck("--deep", "/operate")
        self.assertGreaterEqual(whole["bytes_read"], 3 * len(RECORDS))
        self.assertEqual(self.fsck("--deep", "/elsewhere")["chunks_checked"], 0)
        chunk = next(c for c in self.cluster.chunks(PATH) if c["sealed"])
        server = chunk["members"][0]["server_id"]
        with open(self.cluster.chunk_file(server, chunk["chunk"]), "r+b") as file:
            file.seek(LOG_START + chunk["length"] // 2)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        found = self.fsck("--deep", status=1)
        self.assertEqual({(p["chunk"], p["server_id"], p["kind"]) for p in found["problems"]},
                         {(chunk["chunk"], server, "corrupt")})
        self.await_clean()
        self.fsck("--deep")
        self.assert_all_there()

    def test_fsck_while_a_server_is_away(self):
        self.start(servers=3)
        self.await_clean()
        self.cluster.servers["cs2"].kill()
        wait_for("the master to see it", lambda: not self.servers()["cs2"]["live"])
        kinds = {p["kind"] for p in self.fsck(status=1)["problems"]}
        self.assertLessEqual(kinds, {"away", "gone", "too_few"})
        self.assertIn("away for", self.cluster.command("servers").decode())
        self.cluster.servers["cs2"].start()
        self.cluster.wait_ready()
        self.await_clean()

    def test_fsck_beside_appends(self):
        self.start(**CALM)
        self.cluster.command("create", "--chunk-size=256KiB", PATH + "2")
        self.start_writers(PATH + "2", 2)
        for _ in range(5):
            result = self.cluster.run("fsck", "--deep")
            self.assertEqual(result.returncode, 0, result.stdout.decode())
        self.finish_writers()
        self.check_file(PATH + "2")

    def test_explain(self):
        self.start(**CALM)
        said = self.cluster.json("explain", PATH)
        self.assertEqual(said["file"]["path"], PATH)
        self.assertTrue(said["sentences"])
        tail = said["chunk"]["chunk"]
        text = self.cluster.command("explain", str(tail)).decode()
        self.assertIn(PATH, text)
        self.assertEqual(self.cluster.run("explain", "/none").returncode, 1)
        self.assertEqual(self.cluster.run("explain", "999999").returncode, 1)

    def test_a_lost_primarys_lease_shows_until_it_runs_out(self):
        self.start_cluster(servers=4, session_term="60s", chunk_term="60s")
        # So large that nothing but the loss moves the primary.
        self.cluster.command("create", "--chunk-size=256MiB", PATH)
        self.start_writers(PATH, 1)
        primary = self.cluster.servers[self.cluster.primary(PATH)]
        primary.signal(signal.SIGSTOP)
        [lease] = wait_for("the file to go on", lambda: self.cluster.old_leases(PATH))
        self.assertEqual(lease["primary"], primary.name)
        self.assertIn("EXPIRING", self.cluster.command("leases").decode())
        self.await_progress(100)
        self.assertIn("EXPIRING", self.cluster.command("leases").decode())
        primary.signal(signal.SIGCONT)
        self.finish_writers()
        self.await_clean()

    def test_nothing_is_deleted_on_a_restored_master(self):
        self.start()
        self.assertEqual(self.cluster.master.stop(), 0)
        self.cluster.master.argv.append("--restored")
        self.cluster.master.start()
        self.cluster.wait_ready()
        self.assertFalse(self.cluster.json("garbage")["deleting"])
        self.assertIn(b"nothing is deleted", self.cluster.run("servers").stderr)
        self.assertTrue(self.cluster.json("garbage", "--resume")["deleting"])
        self.assertEqual(self.cluster.run("servers").stderr, b"")

    def test_the_trash(self):
        self.start(master_flags=["--trash-retention=1h"])
        out = self.cluster.command("rm", PATH).decode()
        self.assertIn("in the trash", out)
        self.assertEqual(self.cluster.run("stat", PATH).returncode, 1)
        [trashed] = self.cluster.json("trash")["files"]
        self.assertEqual(trashed["path"], PATH)
        self.assertGreater(trashed["trash_left_ms"], 3500 * 1000)
        self.assertEqual(self.cluster.json("garbage")["files_trashed"], 1)
        self.cluster.command("create", PATH)
        self.assertEqual(self.cluster.run("restore", PATH).returncode, 1)
        self.cluster.command("rm", "--now", PATH)
        self.cluster.command("restore", f"--file={trashed['file']}", "--to", "/back")
        self.assertEqual(self.cluster.command("cat", "/back"), RECORDS)
        self.assertEqual(self.cluster.json("trash")["files"], [])
        self.cluster.command("rm", "/back")
        self.cluster.command("rm", "--now", f"--file={trashed['file']}")
        self.assertEqual(self.cluster.json("trash")["files"], [])
        self.assertEqual(self.cluster.run("restore", "/back").returncode, 1)

    def test_drain_and_undrain(self):
        self.start(**CALM)
        primary = self.cluster.primary(PATH)
        result = self.cluster.json("drain", "--wait", "--give-up=2m", primary)
        self.assertTrue(result["safe_to_stop"])
        self.assertEqual(self.cluster.servers[primary].stop(), 0)
        self.assert_all_there()
        self.cluster.command("append", PATH, stdin=b"after\n")
        self.cluster.servers[primary].start()
        self.cluster.wait_ready()
        self.assertEqual(self.servers()[primary]["admin"], "draining")
        self.cluster.command("undrain", primary)
        self.assertEqual(self.servers()[primary]["admin"], "active")
        self.await_clean()

    def test_decommission(self):
        self.start()
        result = self.cluster.json("decommission", "--wait", "--give-up=2m", "cs1")
        self.assertTrue(result["safe_to_stop"])
        self.cluster.servers["cs1"].kill()
        self.assert_all_there()
        self.await_clean()


if __name__ == "__main__":
    process_cluster.main()
