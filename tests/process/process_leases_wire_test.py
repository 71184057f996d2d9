#!/usr/bin/python3
"""A program in another language holds leases: all that it needs is in the schema."""

import os
import threading
import time

import grpc

import process_cluster
from process_cluster import CALM, ClusterTest, wait_for
from process_programs import Program
from process_wire import Channel, load_schema

LOCK = "/wire/lock"
VALUE = "/wire/value"


class LeasesWireTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.start_cluster(servers=1, **CALM)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))
        self.master = Channel(self.schema, self.cluster.master_address)
        self.addCleanup(self.master.close)

    def program(self, **options):
        program = Program(self.master, **options)
        self.assertIsNone(program.attach())
        self.addCleanup(program.drop_stream)
        return program

    def name(self, name):
        names = self.master.leases("ListNames", prefix=name, exact=True).names
        return names[0] if names else None

    def change(self, name, value, **fields):
        """A call that happens once: a number for each."""
        self.calls = getattr(self, "calls", 0) + 1
        return self.master.leases("Change", name=name, value=value, wait_ms=60000,
                                  call={"client": 77, "number": self.calls}, **fields)

    def test_a_lock_is_acquired_recalled_and_handed_over(self):
        first, second = self.program(label="first"), self.program(label="second")
        token = first.acquire(LOCK, recallable=True, info=b"whoever asks")
        self.assertGreater(token, 0)
        holder = self.name(LOCK).holders[0]
        self.assertEqual((holder.label, holder.token, holder.info),
                         ("first", token, b"whoever asks"))

        second.ask(LOCK)
        self.assertEqual(second.next("queued")[1].ahead, 0)
        demand = first.next("demand")[1]
        self.assertEqual((demand.name, demand.token, demand.cancel), (LOCK, token, False))
        first.release(LOCK)
        self.assertGreater(second.next("granted")[1].token, token)
        second.close()
        wait_for("the lock to be free", lambda: self.name(LOCK) is None)

    def test_a_request_that_does_not_wait_is_refused(self):
        first, second = self.program(), self.program()
        first.acquire(LOCK)
        refused = second.acquire(LOCK, no_wait=True)
        self.assertEqual(refused.error, self.schema.LEASE_HELD)
        self.assertLessEqual(refused.left_ms, 10000)

    def test_shared_locks_have_slots(self):
        programs = [self.program() for _ in range(3)]
        tokens = [p.acquire(LOCK, mode=self.schema.SHARED, slots=2) for p in programs[:2]]
        self.assertEqual(tokens[0], tokens[1])
        programs[2].ask(LOCK, mode=self.schema.SHARED, slots=2)
        programs[2].next("queued")
        programs[0].release(LOCK)
        self.assertEqual(programs[2].next("granted")[1].token, tokens[0])

    def test_a_cancelled_lock_is_over_when_it_is_released(self):
        program = self.program()
        token = program.acquire(LOCK)
        answer = []
        thread = threading.Thread(target=lambda: answer.append(
            self.master.leases("Cancel", name=LOCK, wait_ms=60000, why="the test says so")))
        thread.start()
        demand = program.next("demand")[1]
        self.assertEqual((demand.cancel, demand.why), (True, "the test says so"))
        self.assertTrue(self.name(LOCK).holders[0].cut)
        program.release(LOCK, token)
        thread.join()
        self.assertEqual(answer[0].error, 0, answer[0].error_text)
        self.assertEqual(self.master.leases("Cancel", name=LOCK, wait_ms=1000).error,
                         self.schema.NOT_LEASED)

    def test_a_dead_holders_lock_is_free_at_its_own_end_over_restarts(self):
        # LEASE-9. Against terms: a whole one after the last start would end half a term later.
        if "it cannot be noted" in self.cluster.master.log_text():
            self.skipTest("no memory here that outlives a process")
        term_s = 40
        opened = time.clock_gettime(time.CLOCK_BOOTTIME)
        holder = self.program(term_ms=term_s * 1000, label="dies")
        holder.acquire(LOCK)
        waiter = self.program(term_ms=term_s * 1000, label="lives")
        holder.drop_stream()
        for _ in range(4):
            self.cluster.master.kill()
            started = time.clock_gettime(time.CLOCK_BOOTTIME)
            self.cluster.master.start()
            wait_for("the program to be back", lambda: self._is_back(waiter))
            time.sleep(term_s / 6)
        waiter.acquire(LOCK)
        free = time.clock_gettime(time.CLOCK_BOOTTIME)
        self.assertGreaterEqual(free, opened + term_s)
        self.assertLess(free, started + term_s)

    @staticmethod
    def _is_back(program):
        program.silent()
        try:
            return program.attach() is None
        except grpc.RpcError:
            return False  # the master is not there yet

    def test_a_value_is_read_with_a_lease_and_dropped(self):
        revision = self.change(VALUE, b"one").revision
        reader = self.program()
        read = reader.read(VALUE)
        self.assertEqual((read.value, read.revision, read.leased), (b"one", revision, True))
        # The same again: the lease alone.
        again = reader.read(VALUE, revision=revision)
        self.assertEqual((again.same, again.value), (True, b""))

        replies = []
        thread = threading.Thread(target=lambda: replies.append(self.change(VALUE, b"two")))
        thread.start()
        drop = reader.next("drop")[1]
        self.assertEqual(drop.name, VALUE)
        self.assertEqual(replies, [])  # the change waits for this
        reader.op(dropped={"name": VALUE, "change": drop.change})
        thread.join()
        self.assertEqual(replies[0].error, 0, replies[0].error_text)
        self.assertGreater(replies[0].revision, revision)
        self.assertEqual(self.master.leases("Get", name=VALUE).value.value, b"two")

    def test_a_reader_that_is_gone_delays_a_change_no_longer_than_its_term(self):
        self.change(VALUE, b"one")
        reader = self.program(term_ms=3000)
        self.assertTrue(reader.read(VALUE).leased)
        reader.silent()
        self.assertEqual(self.change(VALUE, b"two").error, 0)

    def test_a_value_is_changed_on_conditions(self):
        program = self.program()
        token = program.acquire(VALUE)
        stale = self.schema.STALE_TOKEN
        first = self.change(VALUE, b"one", token=token)
        self.assertEqual(first.error, 0, first.error_text)
        self.assertEqual(self.change(VALUE, b"x").error, stale)  # it has a token now
        self.assertEqual(self.change(VALUE, b"x", token=token + 1).error, stale)  # never given
        self.assertEqual(self.change(VALUE, b"x", token=token, lock=LOCK).error, stale)
        self.assertEqual(
            self.change(VALUE, b"x", token=token, if_revision=True,
                        revision=first.revision + 1).error, self.schema.ALREADY_EXISTS)
        second = self.change(VALUE, b"two", token=token, if_revision=True, revision=first.revision)
        self.assertEqual(second.error, 0, second.error_text)
        program.release(VALUE)
        wait_for("the token to be stale",
                 lambda: self.change(VALUE, b"x", token=token).error == stale)
        self.assertEqual(self.change(VALUE, b"forced", force=True).error, 0)

    def test_an_attached_value_goes_with_its_session(self):
        program = self.program()
        self.assertEqual(self.change(VALUE, b"here", attach=program.session).error, 0)
        self.assertEqual(self.master.leases("Get", name=VALUE).value.session, program.session)
        program.close()
        wait_for("the value to be gone", lambda: self.master.leases(
            "Get", name=VALUE).error == self.schema.NOT_FOUND)
        unknown = self.change(VALUE, b"here", attach=os.urandom(16))
        self.assertNotEqual(unknown.error, 0)

    def test_a_watch_shows_each_change_once_and_in_order(self):
        self.change("/wire/w/a", b"0")
        watch = self.master.stream("Leases", "Watch")
        watch.send(prefix="/wire/w/")
        first = watch.receive()
        self.assertTrue(first.reset)
        events = list(first.events)
        for i in range(1, 6):
            self.change("/wire/w/a", b"%d" % i)
            self.change("/wire/x", b"elsewhere")
        while len(events) < 6:
            events += watch.receive().events
        self.assertEqual([e.value for e in events], [b"%d" % i for i in range(6)])
        revisions = [e.revision for e in events]
        self.assertEqual(revisions, sorted(set(revisions)))
        watch.cancel()

    def test_a_session_goes_on_over_its_streams_and_shows_what_it_holds(self):
        program = self.program()
        token = program.acquire(LOCK)
        program.drop_stream()
        self.assertIsNone(program.attach(locks=[{"name": LOCK, "token": token}]))
        self.assertEqual(list(program.shown.lost), [])
        self.assertEqual(self.name(LOCK).holders[0].token, token)
        # What is not shown is free.
        program.drop_stream()
        self.assertIsNone(program.attach())
        wait_for("the lock to be free", lambda: self.name(LOCK) is None)

    def test_a_restarted_master_lets_holders_go_on_and_grants_nothing_before(self):
        first, second = self.program(term_ms=60000), self.program(term_ms=60000)
        token = first.acquire(LOCK)
        self.cluster.master.kill()
        self.cluster.master.start()
        wait_for("the master to answer", self._answers)
        second.attach()
        second.ask(LOCK, no_wait=True)  # the first one has not shown what it holds
        first.attach(locks=[{"name": LOCK, "token": token}])
        kind, refused = second.next("granted", "refused")
        self.assertEqual((kind, refused.error), ("refused", self.schema.LEASE_HELD))
        self.assertEqual(self.name(LOCK).holders[0].token, token)

    def _answers(self):
        try:
            return self.master.leases("ListSessions").error == 0
        except grpc.RpcError:
            return False


if __name__ == "__main__":
    process_cluster.main()
