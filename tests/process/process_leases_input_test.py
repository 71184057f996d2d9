#!/usr/bin/python3
"""What must not be said about leases, and programs that behave badly: a clear answer, and
nobody else is harmed."""

import os
import subprocess

import grpc

import process_cluster
from process_cluster import CALM, ClusterTest, wait_for
from process_compile import compile_program
from process_programs import Program
from process_wire import Channel, load_schema

LOCK, OTHER = "/input/lock", "/input/other"
WAITERS = 2000
# Programs that read nothing, and what the master may have in memory then.
DEAF = 24
MEMORY_MIB = 400

# A program that forks while it holds a lock, and closes what a child must not use.
FORKS = r"""
#include <leasehold_leases.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct lh_cluster *cluster;
    struct lh_session *session;
    struct lh_lock lock, again, copy;
    int status = 0;

    if (argc < 2 || lh_cluster_open(argv[1], NULL, &cluster) != LH_OK ||
        lh_session_open(cluster, NULL, 30000, &session) != LH_OK ||
        lh_acquire(session, "/input/fork", NULL, 30000, &lock) != LH_OK)
        return 1;
    if (lh_acquire(session, "/input/fork", NULL, 1000, &again) != LH_ERR_ALREADY_EXISTS)
        return 2;
    pid_t child = fork();
    if (child == 0)
        _exit(lh_session_left_ms(session) != 0 || lh_lock_left_ms(&lock) != 0 ? 3
              : lh_acquire(session, "/input/x", NULL, 1000, &again) != LH_ERR_CLOSED ? 4 : 0);
    waitpid(child, &status, 0);
    if (status != 0)
        return WIFEXITED(status) ? WEXITSTATUS(status) : 5;
    if (lh_lock_left_ms(&lock) == 0)
        return 6;
    copy = lock;
    if (lh_release(&lock) != LH_OK || lh_lock_left_ms(&copy) != 0)
        return 7;
    if (lh_release(&copy) != LH_ERR_NOT_LEASED || lh_lock_yield(&copy, 5) != LH_ERR_NOT_LEASED)
        return 8;
    lh_session_close(session, 30000);
    lh_session_close(NULL, 0);
    lh_cluster_close(cluster);
    puts("well behaved");
    return 0;
}
"""


class LeasesInputTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.start_cluster(servers=1, **CALM)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))
        self.master = Channel(self.schema, self.cluster.master_address)
        self.addCleanup(self.master.close)
        # Somebody who does nothing wrong, and must not notice.
        self.good = self.program(label="good")
        self.token = self.good.acquire(LOCK)

    def program(self, **options):
        program = Program(self.master, **options)
        self.assertIsNone(program.attach())
        self.addCleanup(program.drop_stream)
        return program

    def tearDown(self):
        names = {n.name: n for n in self.master.leases("ListNames", prefix=LOCK).names}
        self.assertEqual([h.token for h in names[LOCK].holders], [self.token])
        self.assertEqual(self.good.shown.stamp > 0 and self.good.beats >= 0, True)
        super().tearDown()

    def refuses(self, error, program, **op):
        """The program is told so, and its stream goes on."""
        program.op(**op)
        refused = program.next("refused")[1]
        self.assertEqual(refused.error, error, refused.text)
        self.assertNotEqual(refused.text, "")

    def assert_refused(self, reply, error=None):
        self.assertNotEqual(reply.error, 0)
        self.assertNotEqual(reply.error_text, "")
        if error is not None:
            self.assertEqual(reply.error, error, reply.error_text)

    def change(self, **fields):
        self.calls = getattr(self, "calls", 0) + 1
        return self.master.leases("Change", wait_ms=30000,
                                  call={"client": 99, "number": self.calls}, **fields)

    def test_names_and_sizes_over_their_limits(self):
        invalid = self.schema.INVALID_ARGUMENT
        program = self.program()
        for name, error in (("", invalid), ("no/slash", invalid),
                            ("/" + "x" * 1024, self.schema.TOO_LARGE)):
            self.refuses(error, program, acquire={"id": 9, "name": name})
            self.assert_refused(self.change(name=name, value=b"x"), error)
            self.assert_refused(self.master.leases("Get", name=name))
            self.assert_refused(self.master.leases("Cancel", name=name, wait_ms=10))
        self.refuses(self.schema.TOO_LARGE, program,
                     acquire={"id": 9, "name": OTHER, "info": b"x" * 257})
        self.assert_refused(self.change(name=OTHER, value=b"x" * 65537))
        self.assertEqual(self.change(name=OTHER, value=b"x" * 65536).error, 0)
        self.assertEqual(len(program.read(OTHER).value), 65536)
        self.assert_refused(self.master.leases("SetPolicy", policy={"prefix": "nonsense"},
                                               call={"client": 98, "number": 1}), invalid)
        self.assertEqual(program.acquire("/" + "x" * 1023) > 0, True)

    def test_requests_that_make_no_sense(self):
        program = self.program()
        self.refuses(self.schema.INVALID_ARGUMENT, program, acquire={"id": 0, "name": OTHER})
        self.assertGreater(program.acquire(OTHER), 0)
        self.refuses(self.schema.ALREADY_EXISTS, program, acquire={"id": 77, "name": OTHER})
        # What is not answered does no harm either.
        program.op(withdraw={"id": 4711})
        program.op(dropped={"name": OTHER, "change": 4711})
        self.assertTrue(program.read(OTHER).id > 0)

    def test_a_release_twice_and_of_somebody_elses(self):
        program = self.program()
        token = program.acquire(OTHER)
        program.release(OTHER, token)
        self.refuses(self.schema.NOT_LEASED, program, release={"name": OTHER, "token": token})
        self.refuses(self.schema.NOT_LEASED, program, release={"name": LOCK, "token": self.token})
        self.refuses(self.schema.NOT_LEASED, program,
                     **{"yield": {"name": LOCK, "token": self.token, "in_ms": 1}})

    def test_tokens_from_nowhere(self):
        self.assert_refused(self.change(name=LOCK, value=b"x", token=self.token + 1),
                            self.schema.STALE_TOKEN)
        self.assert_refused(self.change(name=OTHER, value=b"x", token=self.token),
                            self.schema.STALE_TOKEN)
        self.assertEqual(self.change(name=LOCK, value=b"x", token=self.token).error, 0)
        # Shown at attaching: nobody was given it, and the good one's lock is in force.
        program = Program(self.master)
        program.attach(locks=[{"name": LOCK, "token": self.token}])
        self.addCleanup(program.drop_stream)
        self.assertEqual(list(program.shown.lost), [LOCK])

    def test_sessions_that_are_none(self):
        for session in (b"", b"short", bytes(16), os.urandom(17)):
            program = Program(self.master, session=session or b"")
            program.session = session
            self.assertIsNotNone(self.ended(program), session)
        unknown = Program(self.master, opens=False)
        self.assertIsNotNone(self.ended(unknown))
        self.assert_refused(self.change(name=OTHER, value=b"x", attach=os.urandom(16)))

    @staticmethod
    def ended(program):
        """How the master ended the stream of a program that attaches; None: it greeted."""
        try:
            return program.attach() or (None if program.greeting else "ended")
        except grpc.RpcError as error:
            return error.details()

    def test_a_stream_that_does_not_begin_with_attach(self):
        for first in ({"beat": {"stamp": 1}}, {"show": {}}, {"close": {}},
                      {"ops": {"ops": [{"acquire": {"id": 1, "name": OTHER}}]}}):
            stream = self.master.stream("Leases", "Session", messages="LeaseSession")
            stream.send(**first)
            stream.finish()
            with self.assertRaises(grpc.RpcError):
                while stream.receive() is not None:
                    pass
                raise self.failureException("ended as if nothing were wrong")

    def test_an_older_stream_does_not_count(self):
        program = self.program()
        old = program.stream
        program.acquire(OTHER)
        self.assertIsNone(program.attach(
            locks=[{"name": OTHER, "token": program.granted[OTHER]}]))
        old.send(close={})  # from before: nobody obeys
        program.ask("/input/again")
        self.assertGreater(program.next("granted")[1].token, 0)

    def test_many_wait_and_go(self):
        """Requests of one program; a session that ends takes its place in every queue with it."""
        program = self.program(term_ms=60000)
        for i in range(WAITERS):
            program.ask(f"/input/many/{i}" if i % 2 else f"/input/many/{i - i % 100}")
        second = self.program()
        second.ask(LOCK)
        second.next("queued")
        program.close()
        wait_for("its session to be gone", lambda: not any(
            s.session == program.session for s in self.master.leases("ListSessions").sessions))
        self.assertEqual(len(self.master.leases("ListNames", prefix="/input/many/").names), 0)

    def test_one_that_never_reads_its_stream(self):
        """What is sent to it is bounded, and to all that are like it; others go on."""
        self.assertEqual(self.change(name="/input/big", value=b"x" * 65536).error, 0)
        for _ in range(DEAF):
            channel = Channel(self.schema, self.cluster.master_address)
            self.addCleanup(channel.close)
            deaf = channel.stream("Leases", "Session", messages="LeaseSession", timeout=3600)
            self.addCleanup(deaf.cancel)
            deaf.send(attach={"session": os.urandom(16), "opens": True, "stream": 1,
                              "term_ms": 60000})
            self.assertTrue(deaf.receive().greeting.reign)
            deaf.send(show={"stamp": 1})
            self.assertEqual(deaf.receive().shown.stamp, 1)
            for i in range(10):
                deaf.send(ops={"ops": [
                    *({"read": {"id": i * 200 + k, "name": "/input/big"}} for k in range(1, 100)),
                    {"acquire": {"id": i * 200 + 199, "name": LOCK, "no_wait": True}}]})
        program = self.program()
        self.assertGreater(program.acquire(OTHER), 0)
        self.assertEqual(self.change(name=OTHER, value=b"x").error, 0)
        self.assertGreater(len(self.master.leases("ListSessions").sessions), DEAF)
        with open(f"/proc/{self.cluster.master.process.pid}/status", encoding="ascii") as file:
            memory = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        self.assertLess(memory >> 10, MEMORY_MIB)

    def test_a_program_that_forks_and_closes_in_its_own_order(self):
        program = compile_program(self.folder, "forks", FORKS, "-std=gnu17")
        result = subprocess.run([program, self.cluster.master_address], capture_output=True,
                                timeout=120, check=False)
        self.assertEqual((result.returncode, result.stdout), (0, b"well behaved\n"), result.stderr)

    def test_the_command_says_what_is_wrong(self):
        for args, status in (
                (("get", "no/slash"), 1), (("put", "/" + "x" * 1024, "v"), 1),
                (("put", OTHER, "x" * 65537), 65), (("lock", "no/slash", "--", "true"), 1),
                (("cancel", OTHER), 1), (("holders", "nothing/here"), 0),
                (("watch", "--from=x"), 64)):
            result = self.cluster.run(*args)
            self.assertEqual(result.returncode, status, (args[:1], result.stderr))
            self.assertTrue(status == 0 or result.stderr.startswith(b"leasehold"), result.stderr)


if __name__ == "__main__":
    process_cluster.main()
