#!/usr/bin/python3
"""The Python package, built as pip builds it, on a real cluster; and the programs of its page."""

import asyncio
import collections
import contextlib
import ctypes
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import process_cluster
from process_cluster import CALM, LOG_START, PATIENCE_S, ClusterTest, wait_for

PACKAGE = "client/python"
HEADERS = "client/library"
LIBRARY = "client/library/shared/libleasehold.so"
FILE = "/python"
LOCK = "/python/lock"


def build():
    """Compiles the package in a folder of its own; returns the folder."""
    folder = tempfile.mkdtemp(prefix="leasehold-python-", dir=os.environ.get("TEST_TMPDIR"))
    unittest.addModuleCleanup(shutil.rmtree, folder, ignore_errors=True)
    for name in ("pyproject.toml", "setup.py", "build_ffi.py", "README.md"):
        shutil.copy(os.path.join(PACKAGE, name), folder)
    shutil.copytree(os.path.join(PACKAGE, "leasehold"), os.path.join(folder, "leasehold"))
    for name in ("libleasehold.so.0", "libleasehold.so"):
        os.symlink(os.path.abspath(LIBRARY), os.path.join(folder, name))
    result = subprocess.run([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"],
                            cwd=folder, check=False, capture_output=True, encoding="utf-8",
                            env=dict(os.environ, LEASEHOLD_INCLUDE=os.path.abspath(HEADERS),
                                     LEASEHOLD_LIB=folder))
    if result.returncode != 0:
        raise AssertionError(f"the package is not built: {result.stdout}{result.stderr}")
    return folder


def setUpModule():
    global FOLDER, leasehold  # pylint: disable=global-statement
    FOLDER = build()
    # The extension asks for the library by its name, and finds that it is there.
    ctypes.CDLL(os.path.join(FOLDER, "libleasehold.so.0"), ctypes.RTLD_GLOBAL)
    sys.path.insert(0, FOLDER)
    import leasehold.aio  # pylint: disable=import-outside-toplevel,redefined-outer-name


class PythonTest(ClusterTest):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="leasehold-", dir=os.environ.get("TEST_TMPDIR"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.shared = process_cluster.Cluster(cls.folder, **CALM)
        cls.addClassCleanup(cls.shared.cleanup)
        cls.shared.start()

    def setUp(self):
        self.cluster = None
        self.address = self.shared.master_address
        self.connection = leasehold.connect(self.address)
        self.addCleanup(self.connection.close)

    def file(self, name):
        path = f"{FILE}/{name}"
        self.connection.create(path)
        return path

    # ---- Files

    def test_what_is_appended_is_read_at_its_position(self):
        path = self.file("appended")
        with self.connection.appender(path) as log:
            first = log.append(b"one")
            second = log.append_async(bytearray(b"two")).result(PATIENCE_S)
            self.assertEqual(log.extend(b"%d" % i for i in range(3000)), 3000)
            log.flush(PATIENCE_S)
            self.assertEqual(log.stored, 3002)
            self.assertGreater(log.record_max, 1 << 20)
        self.assertLess(first, second)
        records = list(self.connection.read(path))
        self.assertEqual([r.data for r in records],
                         [b"one", b"two"] + [b"%d" % i for i in range(3000)])
        self.assertEqual([records[0].position, records[1].position], [first, second])
        self.assertEqual(next(self.connection.read(path, start=second)).data, b"two")
        self.assertEqual(leasehold.Position.parse(str(second)), second)

    def test_a_reader_is_told_of_what_is_damaged_everywhere(self):
        path, gaps = f"{FILE}/damaged", []
        self.connection.create(path, chunk_size=64 << 10)
        with self.connection.appender(path, batch_bytes=8 << 10) as log:
            for i in range(200):
                log.append(b"%06d %s" % (i, b"x" * 1000))
        chunk = next(c for c in self.shared.chunks(path) if c["sealed"])
        for member in chunk["members"]:
            with open(self.shared.chunk_file(member["server_id"], chunk["chunk"]), "r+b") as file:
                file.seek(LOG_START + 100)
                byte = file.read(1)
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte[0] ^ 1]))
        with self.assertRaisesRegex(leasehold.CorruptError, "leasehold salvage"):
            list(self.connection.read(path))
        numbers = [int(r.data[:6]) for r in self.connection.read(path, on_gap=gaps.append)]
        gap, = gaps
        self.assertEqual((gap.start, gap.chunk), (0, chunk["chunk"]))
        self.assertEqual(set(gap.members), {m["server_id"] for m in chunk["members"]})
        self.assertEqual(numbers, list(range(numbers[0], 200)))
        self.assertLess(0, numbers[0])
        behind = self.connection.read(path, start=leasehold.Position(gap.end, 0))
        self.assertEqual(next(behind).data[:6],
                         b"%06d" % numbers[0])

    def test_futures_of_several_threads_have_their_own_positions(self):
        path, stored = self.file("threads"), collections.Counter()
        with self.connection.appender(path) as log:
            def append(thread):
                futures = {log.append_async(b"%d %d" % (thread, i)): i for i in range(500)}
                for future, i in futures.items():
                    stored[future.result(PATIENCE_S), b"%d %d" % (thread, i)] += 1
            threads = [threading.Thread(target=append, args=(t,)) for t in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(stored, collections.Counter(
            (r.position, r.data) for r in self.connection.read(path)))

    def test_a_reader_that_follows_sees_what_comes(self):
        path, seen = self.file("followed"), []

        def follow():
            for record in self.connection.read(path, follow=True):
                seen.append(record.data)
                if record.data == b"end":
                    return
        reading = threading.Thread(target=follow)
        reading.start()
        with self.connection.appender(path) as log:
            for i in range(10):
                log.append(b"%d" % i)
            log.append(b"end")
        reading.join(PATIENCE_S)
        self.assertEqual(seen, [b"%d" % i for i in range(10)] + [b"end"])

    def test_files_are_named_listed_removed_and_restored(self):
        paths = [self.file(f"listed/{i}") for i in range(5)]
        self.assertEqual([f.path for f in self.connection.list(f"{FILE}/listed/")], paths)
        self.connection.rename(paths[0], f"{FILE}/listed/renamed")
        file = self.connection.remove(paths[1])
        self.assertEqual([f.path for f in self.connection.trash(f"{FILE}/listed/")], [paths[1]])
        self.assertEqual(self.connection.restore(file=file).path, paths[1])
        self.assertEqual(self.connection.stat(paths[1]).file, file)
        self.assertEqual(self.connection.create(paths[2], exist_ok=True).path, paths[2])
        with self.connection.appender(paths[2]) as log:
            log.append(b"x")
        (chunk,) = self.connection.locate(paths[2])
        self.assertEqual({m.server_id for m in chunk.members}, {"cs1", "cs2", "cs3"})

    def test_mistakes_have_a_class_and_a_sentence(self):
        path = self.file("mistakes")
        with self.assertRaisesRegex(leasehold.NotFoundError, "NOT_FOUND: .*/nothing") as raised:
            self.connection.appender("/nothing")
        self.assertIsInstance(raised.exception, LookupError)
        self.assertFalse(raised.exception.may_retry)
        with self.assertRaises(leasehold.AlreadyExistsError):
            self.connection.create(path)
        with self.assertRaises(leasehold.InvalidArgumentError):
            self.connection.create("relative")
        with self.assertRaises(ValueError):
            self.connection.create(path + "\0")
        with self.assertRaises(ValueError):
            self.connection.create(path, durability="eternal")
        with self.assertRaises(leasehold.DeadlineError):
            self.connection.reader(path, follow=True).next(0.01)
        log = self.connection.appender(path)
        with self.assertRaises(leasehold.TooLargeError):
            log.append(bytes(log.record_max + 1))
        with self.assertRaises(TypeError):
            log.append("a text")
        log.close()
        log.close()
        for late in (lambda: log.append(b"x"), lambda: log.append_async(b"x"), log.flush):
            with self.assertRaises(leasehold.ClosedError):
                late()
        with self.assertRaises(leasehold.UnavailableError):
            with leasehold.connect("127.0.0.1:1") as nobody:
                nobody.stat(path, timeout=0.2)

    def test_a_cluster_that_is_closed_closes_all_that_is_used(self):
        path, quiet = self.file("closed"), self.file("quiet")
        cluster = leasehold.connect(self.address)
        session = cluster.session()
        lock = session.lock(LOCK + "/closed")
        waits = cluster.session().lock_async(LOCK + "/closed")
        reader = cluster.reader(quiet, follow=True)
        failed = []

        def read():
            try:
                reader.next()
            except leasehold.ClosedError as error:
                failed.append(error)
        reading = threading.Thread(target=read)
        reading.start()
        cluster.appender(path).append_async(b"stored")
        cluster.close()
        reading.join(PATIENCE_S)
        self.assertEqual(len(failed), 1)
        self.assertEqual((lock.left, lock.held, session.left), (0, False, 0))
        # By the order of closing the one that waits may have got it.
        if waits.exception(PATIENCE_S) is None:
            self.assertFalse(waits.result().held)
        self.assertEqual([r.data for r in self.connection.read(path)], [b"stored"])

    # ---- Locks and values

    def test_a_lock_goes_from_one_session_to_the_next(self):
        name, recalled = LOCK + "/handed", threading.Event()
        with self.connection.session(label="first") as first, \
                self.connection.session() as second:
            lock = first.lock(name, info=b"why",
                              on_recall=lambda lock, cancelled, why: recalled.set())
            with self.assertRaises(leasehold.LeaseHeldError):
                second.lock(name, timeout=0)
            with self.assertRaises(leasehold.DeadlineError):
                second.lock(name, timeout=0.05)
            waits = second.lock_async(name)
            self.assertTrue(recalled.wait(PATIENCE_S))
            (info,) = self.connection.names(name)
            self.assertEqual([(h.label, h.info, h.token) for h in info.holders],
                             [("first", b"why", lock.token)])
            self.assertTrue(self.connection.explain_name(name).sentences)
            lock.release()
            with waits.result(PATIENCE_S) as taken:
                self.assertGreater(taken.token, lock.token)
                self.assertGreater(taken.left, 1)
                self.assertEqual((lock.left, lock.held), (0, False))
                with self.assertRaises(leasehold.NotLeasedError):
                    lock.release()

    def test_a_lock_that_nobody_waits_for_any_more_is_released(self):
        name = LOCK + "/abandoned"
        with self.connection.session() as first, self.connection.session() as second:
            with first.lock(name):
                waits = second.lock_async(name)
                self.assertTrue(waits.cancel())
            wait_for("the lock is free", lambda: not list(self.connection.names(name)))

    def wait_for_waiting(self, name, count):
        wait_for(f"{count} wait for {name}",
                 lambda: [n.waiting for n in self.connection.names(name)] == [count])

    def test_a_cancelled_wait_leaves_the_queue(self):
        name = LOCK + "/left"
        with self.connection.session() as first, self.connection.session() as second:
            lock = first.lock(name)

            waits = second.lock_async(name)
            self.wait_for_waiting(name, 1)
            self.assertTrue(waits.cancel())
            self.wait_for_waiting(name, 0)

            # Ctrl-C, in the main thread.
            def interrupt():
                self.wait_for_waiting(name, 1)
                os.kill(os.getpid(), signal.SIGINT)
            interrupts = threading.Thread(target=interrupt)
            interrupts.start()
            with self.assertRaises(KeyboardInterrupt):
                second.lock(name)
            interrupts.join()
            self.wait_for_waiting(name, 0)

            # The same session may ask again, and gets it.
            waits = second.lock_async(name)
            self.wait_for_waiting(name, 1)
            lock.release()
            with waits.result(PATIENCE_S) as taken:
                self.assertGreater(taken.token, lock.token)

    def test_a_cancelled_lock_is_lost_and_its_token_refused(self):
        name, lost, recalls = LOCK + "/cancelled", threading.Event(), []
        with self.connection.session(term=2) as session:
            lock = session.lock(name, on_lost=lambda lock: lost.set(),
                                on_recall=lambda lock, cancelled, why: recalls.append(
                                    (cancelled, why)))
            self.connection.put(name + "/value", b"1", lock=lock)
            self.connection.cancel(name, why="a test")
            self.assertTrue(lost.wait(PATIENCE_S))
            self.assertEqual(recalls, [(True, "a test")])
            self.assertFalse(lock.held)
            with self.assertRaises(leasehold.StaleTokenError):
                self.connection.put(name + "/value", b"2", lock=lock)

    def test_a_guard_refuses_who_came_before(self):
        path = os.path.join(FOLDER, "guard")
        with leasehold.Guard(path) as guard, leasehold.Guard(path) as same:
            with guard.enter("/disk", 7):
                with self.assertRaises(leasehold.DeadlineError), same.enter("/disk", 7, 0.01):
                    pass
            with self.assertRaises(leasehold.StaleTokenError), same.enter("/disk", 6):
                pass
            with same.enter("/disk", 8):
                pass

    def test_a_cached_value_is_the_present_one(self):
        name = "/python/value"
        with self.connection.session() as session:
            revision = self.connection.put(name, b"one", attach=session)
            self.assertEqual(session.get(name)[:2], (b"one", revision))
            self.assertEqual(session.get(name).data, b"one")
            with self.assertRaises(leasehold.AlreadyExistsError):
                self.connection.put(name, b"two", if_revision=0)
            self.connection.put(name, b"two", if_revision=revision, attach=session)
            self.assertEqual(session.get(name).data, b"two")
            (info,) = self.connection.names(name)
            self.assertEqual((info.attached, info.size), (session.id, 3))
        def gone():
            try:
                self.connection.get(name)
                return False
            except leasehold.NotFoundError:
                return True
        wait_for("the value went with its session", gone)

    def test_a_watch_has_each_change_once(self):
        prefix = "/python/watched/"
        with self.connection.watch(prefix) as changes:
            self.assertEqual(changes.next(PATIENCE_S).kind, "reset")
            revisions = [self.connection.put(prefix + str(i), b"x") for i in range(5)]
            revisions.append(self.connection.delete(prefix + "2"))
            seen = [changes.next(PATIENCE_S) for _ in revisions]
        self.assertEqual([e.revision for e in seen], revisions)
        self.assertEqual([e.kind for e in seen], ["changed"] * 5 + ["removed"])
        with self.connection.watch(prefix, revision=revisions[3]) as changes:
            self.assertEqual(changes.next(PATIENCE_S).revision, revisions[3])

    def test_locks_are_watched(self):
        name = LOCK + "/watched"
        with self.connection.watch_locks(name) as events, \
                self.connection.session(label="one") as session:
            self.assertEqual(events.next(PATIENCE_S).kind, "reset")
            with session.lock(name) as lock:
                granted = events.next(PATIENCE_S)
                self.assertEqual((granted.kind, granted.name, granted.holder.label,
                                  granted.holder.token), ("granted", name, "one", lock.token))
            self.assertEqual(events.next(PATIENCE_S).kind, "released")

    def test_a_file_that_is_opened_again_is_looked_up_in_memory(self):
        path = self.file("remembered")
        with leasehold.connect(self.address, lookups=10) as cluster:
            for i in range(5):
                with cluster.appender(path) as log:
                    log.append(b"%d" % i)
                self.assertEqual(len(list(cluster.read(path))), i + 1)
            self.connection.rename(path, path + "/renamed")
            with self.assertRaises(leasehold.NotFoundError):
                cluster.appender(path)

    def test_a_child_of_a_fork_ends_by_itself_and_disturbs_nobody(self):
        path = self.file("forked")
        log = self.connection.appender(path)
        log.append(b"parent")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                assert log.closed and self.connection.closed
                log.close()
                self.connection.close()
                leasehold.cluster._close_all()
                with leasehold.connect(self.address) as own, own.appender(path) as others:
                    others.append(b"child")
                status = 0
            finally:
                os._exit(status)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        log.append(b"still here")
        log.close()
        self.assertEqual(
            [r.data for r in self.connection.read(path)], [b"parent", b"child", b"still here"])

    def test_a_callback_that_fails_or_closes_harms_nobody(self):
        name, done = LOCK + "/callback", []

        def recall(lock, _cancelled, _why):
            try:
                lock.session.close()
            except RuntimeError as error:
                done.append(error)
            lock.release()
            raise RuntimeError("as programs do")
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                self.connection.session() as first, self.connection.session() as second:
            first.lock(name, on_recall=recall)
            self.assertTrue(second.lock(name, timeout=PATIENCE_S).held)
        self.assertEqual(len(done), 1)
        self.assertIn("as programs do", said.getvalue())

    def test_an_owner_that_was_succeeded_appends_no_more(self):
        path = self.file("owned")
        with self.connection.session() as first, self.connection.session() as second:
            old = first.lock(LOCK + "/owned")
            log = self.connection.appender(path, lock=old)
            log.append(b"old")
            old.release()
            with second.lock(LOCK + "/owned") as new, \
                    self.connection.appender(path, lock=new) as mine:
                self.assertEqual([r.data for r in self.connection.read(path)], [b"old"])
                with self.assertRaises(leasehold.StaleTokenError):
                    log.append(b"too late", timeout=PATIENCE_S)
                mine.append(b"new")
            with self.assertRaises(leasehold.StaleTokenError):
                log.close()
        self.assertEqual([r.data for r in self.connection.read(path)], [b"old", b"new"])

    # ---- asyncio

    def test_asyncio_appends_locks_and_watches(self):
        path = self.file("asyncio")

        async def main():
            async with leasehold.aio.connect(self.address) as cluster:
                async with await cluster.appender(path, memory_bytes=1) as log:
                    positions = await asyncio.gather(*(log.append(bytes(5000))
                                                       for _ in range(2000)))
                self.assertEqual(len(set(positions)), 2000)
                self.assertEqual([r.position async for r in cluster.read(path)],
                                 sorted(positions))

                async with await cluster.session() as session, await cluster.session() as other:
                    async with await session.lock(LOCK + "/asyncio") as lock:
                        await cluster.put("/python/asyncio/a", b"1", lock=lock)
                        waits = asyncio.ensure_future(other.lock(LOCK + "/asyncio"))
                        gives_up = asyncio.ensure_future(session.lock(LOCK + "/asyncio/2"))
                        await asyncio.sleep(0)
                        gives_up.cancel()
                        with self.assertRaises(asyncio.CancelledError):
                            await gives_up
                        with self.assertRaises(asyncio.TimeoutError):
                            await asyncio.wait_for(session.lock(LOCK + "/asyncio/4"), 0)
                        again = asyncio.ensure_future(other.lock(LOCK + "/asyncio/4"))
                        async with await again as fourth:
                            for _ in range(3):
                                with self.assertRaises(asyncio.TimeoutError):
                                    await asyncio.wait_for(session.lock(fourth.name), 0.01)
                    async with await waits as taken:
                        self.assertGreater(taken.token, lock.token)
                    async with await other.lock(LOCK + "/asyncio/2", timeout=PATIENCE_S):
                        pass

                self.assertEqual([c.sealed for c in await cluster.locate(path)], [False])
                kinds = []
                async for event in cluster.watch("/python/asyncio/"):
                    kinds.append(event.kind)
                    if event.kind == "changed":
                        break
                self.assertEqual(kinds, ["reset", "changed"])
                async with await cluster.session() as a, await cluster.session() as b:
                    async with await a.lock(LOCK + "/asyncio/3"):
                        with self.assertRaises(leasehold.DeadlineError):
                            await b.lock(LOCK + "/asyncio/3", timeout=0.05)

        asyncio.run(main())

    # ---- The page

    def test_the_programs_of_the_page(self):
        with open("docs/python.md", encoding="utf-8") as file:
            programs = re.findall(r"^```python\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE)
        self.assertGreaterEqual(len(programs), 6)
        for program in programs:
            program = program.replace("127.0.0.1:7400", self.address)
            program = program.replace("/tmp/example.guard", os.path.join(FOLDER, "example.guard"))
            result = subprocess.run([sys.executable, "-c", program], cwd=FOLDER,
                                    capture_output=True, check=False, encoding="utf-8",
                                    env=dict(os.environ, LD_LIBRARY_PATH=FOLDER))
            self.assertEqual((result.returncode, result.stderr), (0, ""), program)


class PythonFaultTest(ClusterTest):

    def test_appends_go_on_when_the_primary_is_killed(self):
        self.start_cluster(servers=4)
        with leasehold.connect(self.cluster.master_address) as cluster:
            cluster.create(FILE)
            log, futures = cluster.appender(FILE), []
            for i in range(4000):
                futures.append(log.append_async(b"%d" % i))
                if i == 2000:
                    futures[-1].result(PATIENCE_S)
                    self.cluster.servers[self.cluster.primary(FILE)].kill()
            log.close(PATIENCE_S)
            positions = [f.result(0) for f in futures]
            self.assertEqual([(r.position, r.data) for r in cluster.read(FILE)],
                             [(p, b"%d" % i) for i, p in enumerate(positions)])


if __name__ == "__main__":
    process_cluster.main()
