#!/usr/bin/python3
"""Bad input, on real processes: each gets an error that names the thing, and nothing is lost."""

import os
import re
import shutil
import signal
import struct
import subprocess

import grpc

import process_cluster
from process_cluster import CALM, PATIENCE_S, ClusterTest, Node, binary, free_port, wait_for
from process_wire import Channel, WireAppender, load_schema, pack_batch

PATH = "/input/log"


class WireInputTest(ClusterTest):
    """What a broken or hostile client can send. The file that it is aimed at stays as it was."""

    def setUp(self):
        super().setUp()
        self.start_cluster(**CALM)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))
        self.cluster.command("create", "--chunk-size=1MiB", PATH)
        self.cluster.command("append", PATH, stdin=b"kept\n")
        self.master = self.channel(self.cluster.master_address)
        self.lease = self.cluster.leases()[PATH]
        self.server = self.channel(self.lease["address"])

    def tearDown(self):
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), f"{node.name} died")
        self.cluster.command("append", PATH, stdin=b"after\n")
        self.assertEqual(self.cluster.command("cat", PATH), b"kept\nafter\n")
        self.cluster.assert_replicas_identical(PATH)

    def channel(self, address):
        channel = Channel(self.schema, address)
        self.addCleanup(channel.close)
        return channel

    def appender(self, first_sequence=1, writer=5, chunk=None, version=None):
        return WireAppender(self.server, chunk or self.lease["chunk"],
                            version or self.lease["version"], writer, first_sequence)

    def end_of(self, stream):
        """What a stream ended with: a reply's error, or the status that broke it."""
        try:
            reply = stream.receive()
            while reply is not None and reply.error == 0:
                self.assertFalse(reply.stored, "nothing may be stored")
                reply = stream.receive()
        except grpc.RpcError as e:
            return e.code(), e.details()
        self.assertIsNotNone(reply, "a stream ended without an error")
        return reply.error, reply.error_text

    def assert_refused(self, stream, *expected):
        error, text = self.end_of(stream)
        self.assertIn(error, expected, text)
        self.assertTrue(text, "an error without a text")

    def test_malformed_messages(self):
        for channel, service, method in ((self.master, "Master", "Create"),
                                         (self.master, "Master", "OpenTail"),
                                         (self.server, "ChunkServer", "Read"),
                                         (self.server, "ChunkServer", "Settle")):
            for raw in (b"\xff\xff\xff\xff", b"\x0a\x7f" + b"a", b"\x0a\xff\xff\xff\xff\x0f"):
                with self.assertRaises(grpc.RpcError) as caught:
                    channel.call(service, method, raw)
                self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT,
                                 f"{method} {raw}")
        for channel, service, method in ((self.master, "Master", "Session"),
                                         (self.server, "ChunkServer", "Append"),
                                         (self.server, "ChunkServer", "Replicate")):
            stream = channel.stream(service, method)
            stream.send(b"\xff\xff\xff\xff")
            with self.assertRaises(grpc.RpcError) as caught:
                stream.receive()
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT, method)

    def test_oversized_messages(self):
        refusals = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)
        large = b"\x0a" + b"\xff\xff\xff\x03" + bytes((8 << 20) - 1)
        # Nobody waits for the rest of this one: the connection may end.
        huge = b"\x0a" + b"\xff\xff\xff\x1f" + bytes((64 << 20) - 1)
        for message, expected in ((large, refusals),
                                  (huge, (*refusals, grpc.StatusCode.UNAVAILABLE))):
            for channel, service, method in ((self.master, "Master", "Create"),
                                             (self.server, "ChunkServer", "Read")):
                with self.assertRaises(grpc.RpcError) as caught:
                    channel.call(service, method, message)
                self.assertIn(caught.exception.code(), expected)

    def test_unknown_methods(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.master._channel.unary_unary("/leasehold.Master/NoSuch")(b"", timeout=PATIENCE_S)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_bad_paths(self):
        for path in ("", "relative", "/", "//", "/a//b", "/a/", "/a/./b", "/a/../b", "/..",
                     "/a\nb", "/" + "x" * 5000):
            expected = (self.schema.TOO_LARGE if len(path) > 1024
                        else self.schema.INVALID_ARGUMENT)
            reply = self.master.master("Create", path=path)
            self.assertEqual(reply.error, expected, repr(path[:20]))
            self.assertTrue(reply.error_text)
            reply = self.master.master("Rename", **{"from": PATH, "to": path})
            self.assertEqual(reply.error, expected, repr(path[:20]))

    def test_bad_file_options(self):
        for options in ({"replication": 1000}, {"replication": 2, "min_replicas": 3},
                        {"chunk_size": 1}, {"chunk_size": 1 << 40}):
            reply = self.master.master("Create", path="/input/other", **options)
            self.assertEqual(reply.error, self.schema.INVALID_ARGUMENT, options)
            self.assertTrue(reply.error_text)
        self.assertEqual(self.master.master("Stat", path="/input/other").error,
                         self.schema.NOT_FOUND)

    def test_unknown_things(self):
        unknown = 1 << 40
        reply = self.server.chunkserver("Read", chunk=unknown, max_bytes=4096)
        self.assertEqual(reply.error, self.schema.NO_REPLICA, reply.error_text)
        reply = self.server.chunkserver("Settle", chunk=unknown, version=1, writer=1)
        self.assertEqual(reply.error, self.schema.NO_REPLICA, reply.error_text)
        self.assert_refused(self.appender(chunk=unknown), self.schema.NO_REPLICA)
        reply = self.master.master("Recall", chunk=unknown)
        self.assertEqual(reply.error, self.schema.NOT_FOUND, reply.error_text)
        reply = self.master.master("OpenTail", path="/no/such")
        self.assertEqual(reply.error, self.schema.NOT_FOUND, reply.error_text)
        self.assertIn("/no/such", reply.error_text)

    def test_calls_of_another_cluster(self):
        """SES-10: this server has the address that one of another cluster had."""
        chunk, version = self.lease["chunk"], self.lease["version"]
        part = {"lane": 1, "chunk": chunk, "version": version, "writer": 5, "first_sequence": 1}

        def streamed(method, **fields):
            stream = self.server.stream("ChunkServer", method)
            stream.send(getattr(self.schema, method + "Request")(cluster=1, **fields))
            return stream.receive()

        for call in (lambda: self.server.chunkserver("Read", chunk=chunk, cluster=1),
                     lambda: self.server.chunkserver("Settle", chunk=chunk, cluster=1),
                     lambda: streamed("Append", parts=[part]),
                     lambda: streamed("Replicate", parts=[{"chunk": chunk, "feed": 1,
                                                           "version": version + 1}])):
            with self.assertRaises(grpc.RpcError) as caught:
                call()
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
            self.assertIn("and not of the caller's", caught.exception.details())
        self.assertEqual(self.server.chunkserver("Read", chunk=chunk).error, 0)

    def test_wrong_versions(self):
        for version in (self.lease["version"] + 7, 1 << 60):
            self.assert_refused(self.appender(version=version), self.schema.STALE_VERSION,
                                self.schema.NOT_PRIMARY)
        stream = self.server.stream("ChunkServer", "Replicate")
        stream.send(parts=[{"kind": 0, "chunk": self.lease["chunk"], "version": 0, "feed": 1},
                           {"kind": 0, "chunk": 1 << 40, "version": 1, "feed": 2},
                           {"kind": 1, "chunk": self.lease["chunk"], "version": 1, "feed": 3}])
        answers = []
        while len(answers) < 3:
            answers += stream.receive().answers
        self.assertEqual([a.feed for a in answers], [1, 2, 3])
        self.assertIn(answers[0].error, (self.schema.STALE_VERSION, self.schema.INVALID_ARGUMENT))
        self.assertEqual(answers[1].error, self.schema.NO_REPLICA)
        self.assertEqual(answers[2].error, self.schema.INVALID_ARGUMENT)
        # The parts do not add up to the bytes: that is no matter of one chunk.
        stream.send(parts=[{"kind": 1, "chunk": 1 << 40, "version": 1, "feed": 4, "bytes": 7}],
                    batches=b"123456")
        self.assert_refused(stream, self.schema.MALFORMED, grpc.StatusCode.INVALID_ARGUMENT)
        # Settling is for seals: an unsealed chunk's answer could change.
        reply = self.server.chunkserver("Settle", chunk=self.lease["chunk"],
                                        version=self.lease["version"], writer=1)
        self.assertNotEqual(reply.error, 0)

    def malformed(self):
        return (self.schema.MALFORMED, self.schema.CORRUPT, self.schema.TOO_LARGE,
                self.schema.INVALID_ARGUMENT, grpc.StatusCode.INVALID_ARGUMENT,
                grpc.StatusCode.DATA_LOSS)

    def test_broken_batches(self):
        good = pack_batch(5, 1, [b"never stored"])
        flipped = good[:40] + bytes([good[40] ^ 1]) + good[41:]
        lengths = bytearray(good)
        lengths[32:36] = struct.pack("<I", 1000)
        foreign = pack_batch(6, 1, [b"of another writer"])
        for name, batch in (("empty", b""), ("checksum", flipped), ("lengths", bytes(lengths)),
                            ("noise", os.urandom(100)), ("other writer", foreign)):
            with self.subTest(name):
                wire = self.appender()
                self.assertTrue(wire.opened().opened)
                wire.send_batch(batch)
                self.assert_refused(wire, *self.malformed())

    def test_parts_that_do_not_add_up(self):
        for said, sent in ((1, 0), (0, 1), (7, 6), (6, 7), (1 << 63, 6)):
            stream = self.server.stream("ChunkServer", "Append")
            stream.send(parts=[{"lane": 1, "chunk": 1 << 40, "version": 1, "bytes": said}],
                        batches=b"1234567"[:sent])
            self.assert_refused(stream, self.schema.MALFORMED)

    def test_records_over_the_limit(self):
        wire = self.appender()
        self.assertTrue(wire.opened().opened)
        wire.send([b"x" * ((1 << 20) // 4 + 1)])
        self.assert_refused(wire, self.schema.TOO_LARGE)

    def test_sequences_with_gaps(self):
        wire = self.appender(writer=50)
        self.assertTrue(wire.opened().opened)
        wire.sequence = 5
        wire.send([b"a gap before it"])
        self.assert_refused(wire, self.schema.OUT_OF_SEQUENCE)
        self.assert_refused(self.appender(writer=0), *self.malformed())


class CommandInputTest(ClusterTest):
    """What a person can get wrong with the command."""

    def setUp(self):
        super().setUp()
        self.start_cluster(**CALM)

    def assert_fails(self, status, mentions, *args, stdin=b""):
        result = self.cluster.run(*args, stdin=stdin)
        text = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, status, f"{args}: {text}")
        self.assertIn(mentions, text, f"{args}")

    def test_usage(self):
        self.assert_fails(64, "no-such-command", "no-such-command")
        self.assert_fails(64, "no-such-flag", "ls", "--no-such-flag")
        self.assert_fails(64, "argument", "create")
        self.assert_fails(64, "neither", "recall", "x")
        self.assert_fails(64, "delimiter", "cat", "--delimiter=ab", "/x")
        for command in ("create", "append", "cat", "tail", "ls", "stat", "mv", "rm", "leases",
                        "servers", "recall", "local"):
            self.assertIn("usage", self.cluster.command(command, "--help").decode().lower())

    def test_commands_are_found(self):
        self.assertEqual(self.cluster.command("help", "append"),
                         self.cluster.command("append", "--help"))
        self.assertEqual(self.cluster.command("--help", "append"),
                         self.cluster.command("append", "--help"))
        self.assertEqual(self.cluster.command("help"), self.cluster.command("--help"))
        self.cluster.command("create", "/there")
        master = self.cluster.master_address
        for before in (["--master", master], [f"--master={master}", "--timeout", "5s"]):
            result = subprocess.run([binary("leasehold"), *before, "ls"], capture_output=True,
                                    timeout=PATIENCE_S, check=True, env={})
            self.assertEqual(result.stdout, b"/there\n")
        for wrong, meant in (("severs", "servers"), ("appnd", "append"), ("decom", "decommission"),
                             ("tial", "tail"), ("list", "ls")):
            result = self.cluster.run(wrong)
            self.assertEqual(result.returncode, 64)
            if wrong != "list":
                self.assertIn(f"did you mean '{meant}'?".encode(), result.stderr)
        self.assert_fails(64, "did you mean 'append'?", "help", "appendd")
        self.assert_fails(64, "leasehold --help", "xyzzy")
        self.assert_fails(64, "--no-such-option", "--no-such-option", "ls")

    def test_help_fits_a_terminal(self):
        def lines(*argv):
            return subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=True,
                                  stdin=subprocess.DEVNULL).stdout.decode().split("\n")

        count = 0
        for program in ("leasehold", "leasehold-sim", "leasehold-master", "leasehold-chunkserver"):
            commands = re.search("^commands='(.*)'", lines(binary(program), "--help=words")[0])
            for command in [None, *(commands.group(1).split()[:-1] if commands else ())]:  # help
                count += 1
                for line in lines(binary(program), *([command] if command else []), "--help"):
                    self.assertLessEqual(len(line), 120, f"{program} {command}: {line}")
        self.assertGreater(count, 40)

    def test_files(self):
        self.assert_fails(1, "/missing", "stat", "/missing")
        self.assert_fails(1, "/missing", "cat", "/missing")
        self.assert_fails(1, "/missing", "append", "/missing", stdin=b"x\n")
        self.assert_fails(1, "/missing", "rm", "/missing")
        self.assert_fails(1, "/missing", "mv", "/missing", "/other")
        self.cluster.command("create", "/there")
        self.assert_fails(1, "/there", "create", "/there")
        self.assert_fails(1, "a//b", "create", "/a//b")
        self.assert_fails(1, "relative", "create", "relative")
        self.assert_fails(66, "/no/such/input", "append", "/there", "/no/such/input")

    def test_closed_standard_descriptors(self):
        # No connection, and no file that is opened, is taken for one of them, and who needs one
        # that is closed says so.
        self.cluster.command("append", "--create", "/closed", stdin=b"one\n" * 1000)
        source = os.path.join(self.folder, "source")
        with open(source, "wb") as file:
            file.write(b"two\n")
        for arguments in ("cat /closed", "ls /", "append --positions /closed " + source,
                          "append /closed", "stat --no-such-option", "tail /closed"):
            for closed in ("<&- >&- 2>&-", ">&-", "2>&-", "<&-"):
                prints = not arguments.startswith("stat")
                reads = arguments == "append /closed"
                status = 64 if "--no-such" in arguments else 0
                if (prints and " >&-" in " " + closed) or (reads and "<&-" in closed):
                    status = 74
                shell = subprocess.run(
                    ["/bin/sh", "-c", f'"$0" {arguments} {closed}', binary("leasehold")],
                    stdin=subprocess.DEVNULL, capture_output=True, check=False,
                    env=self.cluster.environment(), timeout=PATIENCE_S)
                self.assertEqual(shell.returncode, status, f"{arguments} {closed}: {shell.stderr}")
                if status == 74 and "2>&-" not in closed:
                    self.assertIn(b"standard ", shell.stderr, f"{arguments} {closed}")
        self.assertEqual(self.cluster.command("cat", "/closed"), b"one\n" * 1000 + b"two\n" * 4)
        with open(source, "rb") as file:
            self.assertEqual(file.read(), b"two\n")

    def test_records(self):
        self.cluster.command("create", "--chunk-size=64KiB", "/small")
        self.assert_fails(65, "record 2", "append", "/small", stdin=b"ok\n" + b"x" * 20000 + b"\n")
        self.assertEqual(self.cluster.command("cat", "/small"), b"ok\n")
        self.assert_fails(65, "cut off", "append", "--length-prefixed", "/small",
                          stdin=struct.pack("<I", 10) + b"short")
        self.assertEqual(self.cluster.command("cat", "/small"), b"ok\n")

    def test_a_record_that_is_too_long_is_told_what_would_help(self):
        self.cluster.command("create", "--chunk-size=64KiB", "/small")
        self.cluster.command("create", "--chunk-size=64MiB", "/large")
        long, longer, longest = b"x" * 20000 + b"\n", b"x" * 2000000, b"x" * (16777172 + 1) + b"\n"
        self.assert_fails(65, "has 20000 bytes; this file takes up to 16340: split it, or create a "
                          "file with larger chunks: --chunk-size=128KiB", "append", "/small",
                          stdin=long)
        self.assert_fails(65, "--chunk-size=64MiB takes records of up to 16777172", "append",
                          "/small", stdin=longer)
        for path in ("/small", "/large"):
            prefixed = struct.pack("<I", len(longest) - 1) + longest[:100]
            self.assert_fails(65, "split it: no file takes records above 16777172", "append", "-l",
                              path, stdin=prefixed)
        self.assert_fails(65, "split it: no file takes records above 16777172", "append", "/large",
                          stdin=longest)
        self.cluster.command("append", "/large", stdin=longest[1:])
        self.assertEqual(self.cluster.command("cat", "/large"), longest[1:])

    def test_an_interrupted_append_stores_what_it_read(self):
        self.cluster.command("create", "/interrupted")
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            append = subprocess.Popen(
                [binary("leasehold"), "append", "--positions", "/interrupted"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.cluster.environment())
            append.stdin.write(b"one\ntwo\nincomplete")
            append.stdin.flush()
            for _ in range(2):
                append.stdout.readline()
            append.send_signal(number)
            out, err = append.communicate(timeout=PATIENCE_S)
            self.assertEqual((append.returncode, out), (status, b""), err)
            self.assertIn(b"2 records, 6 bytes", err)
            self.assertIn(b"2 records are stored", err)
        self.assertEqual(self.cluster.command("cat", "/interrupted"), b"one\ntwo\n" * 2)

    def test_what_is_created_and_appended_is_told_in_words_that_are_true(self):
        created = self.cluster.run("create", "--replication=9", "--min-replicas=1", "/many")
        self.assertIn(b"9 replicas are asked for, and ", created.stderr)
        self.assertEqual(self.cluster.run("create", "--replication=1", "--min-replicas=1",
                                          "/few").stderr, b"")
        self.assertEqual(self.cluster.run("create", "--replication=17", "/more").returncode, 64)
        self.assertIn(b", 0 chunks of at most ", self.cluster.command("stat", "/few"))
        said = self.cluster.command("append", "/few", stdin=b"x" * 14 + b"\n")
        self.assertIn(b"1 record, 14 bytes in ", said)
        said = self.cluster.command("append", "/few", stdin=b"x\n")
        self.assertIn(b"1 record, 1 byte in ", said)
        self.assertNotIn(b"0 bytes/s", said)
        self.assertIn(b", 1 replica (at least 1), ", self.cluster.command("stat", "/few"))
        said = self.cluster.command("append", "/few", stdin=b"x" * 2000 + b"\n")
        self.assertIn(b"1 record, 2000 bytes (2.0 kB) in ", said)
        self.assertIn(b", 1 chunk of at most ", self.cluster.command("stat", "/few"))
        self.assertIn(b", nothing sealed yet, ", self.cluster.command("stat", "/few"))

    def test_tail_ends_when_nobody_reads_it(self):
        self.cluster.command("create", "/quiet")
        self.cluster.command("append", "/quiet", stdin=b"all there is\n")
        tail = subprocess.Popen([binary("leasehold"), "tail", "-f", "/quiet"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=self.cluster.environment())
        self.addCleanup(tail.kill)
        self.assertEqual(tail.stdout.readline(), b"all there is\n")
        tail.stdout.close()
        self.assertEqual(tail.wait(10), -signal.SIGPIPE)
        self.assertEqual(tail.stderr.read(), b"")
        tail.stderr.close()

    def test_bytes_come_back_as_they_were(self):
        self.cluster.command("create", "/bytes")
        records = [b"", b"\n", b"\x00\xff" * 100, bytes(range(256)), b"x" * 100000]
        framed = b"".join(struct.pack("<I", len(r)) + r for r in records)
        self.cluster.command("append", "--length-prefixed", "/bytes", stdin=framed)
        self.assertEqual(self.cluster.command("cat", "--length-prefixed", "/bytes"), framed)
        self.cluster.command("create", "/nul")
        self.cluster.command("append", "-d", "\\0", "/nul", stdin=b"a\nb\x00c")
        self.assertEqual(self.cluster.command("cat", "-d", "\\0", "/nul"), b"a\nb\x00c\x00")

    def test_tail(self):
        lines = [b"line %d" % i for i in range(3000)]
        self.cluster.command("create", "--chunk-size=64KiB", "/tail")
        for i in range(0, 3000, 500):
            self.cluster.command("append", "--batch-bytes=4KiB", "/tail",
                                 stdin=b"\n".join(lines[i:i + 500]))
        for n in (0, 1, 10, 2999, 3000, 5000):
            expected = lines[-n:] if n else []
            self.assertEqual(self.cluster.command("tail", "-n", str(n), "/tail").split(b"\n")[:-1],
                             expected, n)
        tail = subprocess.Popen([binary("leasehold"), "tail", "-n", "1", "-f", "/tail"],
                                stdout=subprocess.PIPE, env=self.cluster.environment())
        self.addCleanup(tail.stdout.close)
        self.addCleanup(tail.wait)
        self.addCleanup(tail.kill)
        self.assertEqual(tail.stdout.readline(), b"line 2999\n")
        self.cluster.command("append", "/tail", stdin=b"followed\n")
        self.assertEqual(tail.stdout.readline(), b"followed\n")

    def test_unreachable_master(self):
        address = f"127.0.0.1:{free_port()}"
        for command in (["ls"], ["servers"], ["cat", "/x"], ["append", "/x"], ["leases"]):
            result = self.cluster.run(command[0], f"--master={address}", "--timeout=1s",
                                      *command[1:])
            self.assertIn(result.returncode, (69, 75), command)
            self.assertIn(address.encode(), result.stderr, command)


class ServerInputTest(ClusterTest):
    """What an operator can get wrong when starting servers."""

    def setUp(self):
        super().setUp()
        self.start_cluster(servers=1, master_flags=["--replication=1", "--min-replicas=1"])
        self.cluster.command("create", PATH)
        self.cluster.command("append", PATH, stdin=b"kept\n")

    def tearDown(self):
        # Whatever was tried, the cluster that was there goes on with all it had.
        self.assertEqual(self.cluster.command("cat", PATH), b"kept\n")

    def assert_refused(self, argv, statuses, *mentions):
        result = subprocess.run(argv, capture_output=True, timeout=PATIENCE_S, check=False)
        text = (result.stderr + result.stdout).decode(errors="replace")
        self.assertIn(result.returncode, statuses, text)
        for mention in mentions:
            self.assertIn(mention, text)

    def chunkserver(self, data_dir, *flags, address=None):
        return [binary("leasehold-chunkserver"), f"--data-dir={data_dir}",
                f"--listen={address or '127.0.0.1:%d' % free_port()}",
                f"--master={self.cluster.master_address}", *flags]

    def master(self, data_dir, address=None):
        return [binary("leasehold-master"), f"--data-dir={data_dir}",
                f"--listen={address or '127.0.0.1:%d' % free_port()}"]

    def test_usage(self):
        for program in ("leasehold-master", "leasehold-chunkserver"):
            self.assert_refused([binary(program), "--no-such-flag"], (64,), "no-such-flag")
            self.assert_refused([binary(program), "surplus"], (64,), "surplus")
            self.assert_refused([binary(program), "--config=/no/such/file"], (64, 78),
                                "/no/such/file")
        self.assert_refused([binary("leasehold-master"), "--session-term=soon"], (64,), "soon")
        self.assert_refused([binary("leasehold-master"), "--session-term=1ms"], (64, 78),
                            "session-term")
        self.assert_refused([binary("leasehold-chunkserver"), "--listen=0.0.0.0:0"], (64,),
                            "--advertise")

    def test_addresses_that_are_none(self):
        port, url = "its port is no number from", "it is a URL"
        for program, flag, value, why in (
                ("master", "listen", "127.0.0.1:91440", port),
                ("master", "metrics-listen", "127.0.0.1:91440", port),
                ("master", "http-listen", "127.0.0.1:91440", port),
                ("master", "store", "etcd:127.0.0.1:91440/x", "HOST:PORT"),
                ("chunkserver", "listen", "127.0.0.1:91440", port),
                ("chunkserver", "listen", "http://127.0.0.1:7500", url),
                ("chunkserver", "metrics-listen", "127.0.0.1:65536", port),
                ("chunkserver", "advertise", "127.0.0.1:91440", "--advertise"),
                ("chunkserver", "advertise", "http://127.0.0.1:7500", "--advertise"),
                ("chunkserver", "master", "127.0.0.1:91440", port),
                ("chunkserver", "master", "http://127.0.0.1:7400", url)):
            data = os.path.join(self.folder, "none")
            self.assert_refused([binary(f"leasehold-{program}"), f"--data-dir={data}",
                                 f"--{flag}={value}"], (64, 78), why)
            self.assertFalse(os.path.exists(data))
        for value, why in (("127.0.0.1:91440", port), ("http://127.0.0.1:7400", url)):
            self.assert_refused([binary("leasehold"), "ls", f"--master={value}"], (64,), why)

    def test_a_second_process_on_one_data_directory(self):
        cs1 = self.cluster.servers["cs1"]
        self.assert_refused(self.chunkserver(cs1.data_dir), (73,), cs1.data_dir, "in use")
        self.assert_refused(self.master(self.cluster.master.data_dir), (73,),
                            self.cluster.master.data_dir)

    def test_an_address_in_use(self):
        cs1 = self.cluster.servers["cs1"]
        data = os.path.join(self.folder, "fresh")
        self.assert_refused(self.chunkserver(data, address=cs1.address), (69,), cs1.address)
        self.assert_refused(self.master(data + "-master", address=self.cluster.master_address),
                            (69,), self.cluster.master_address)

    def test_the_data_directory_of_another_server(self):
        cs1 = self.cluster.servers["cs1"]
        self.assertEqual(cs1.stop(), 0)
        self.assert_refused(self.chunkserver(cs1.data_dir, "--server-id=cs9"), (73,), "cs1", "cs9")
        cs1.start()
        self.cluster.wait_ready()

    def test_the_data_directory_of_another_cluster(self):
        cs1 = self.cluster.servers["cs1"]
        stranger = process_cluster.Cluster(os.path.join(self.folder), servers=0)
        stranger.master.log = os.path.join(self.folder, "stranger.log")
        data = os.path.join(self.folder, "stranger")
        stranger.master = Node("stranger", stranger.master_address, data,
                               self.master(data, stranger.master_address), stranger.master.log)
        stranger.master.start()
        self.addCleanup(stranger.cleanup)
        copy = os.path.join(self.folder, "copy")
        self.assertEqual(cs1.stop(), 0)
        shutil.copytree(cs1.data_dir, copy)
        lost = Node("cs1", "", copy, self.chunkserver(copy, f"--master={stranger.master_address}")
                    [:3] + [f"--master={stranger.master_address}"],
                    os.path.join(self.folder, "lost.log"))
        lost.start()
        self.addCleanup(lost.kill)
        wait_for("the server to say that it belongs to another cluster",
                 lambda: "cluster" in lost.log_text().lower()
                 and any(level in lost.log_text() for level in ("ERROR", "WARN")))
        lost.kill()
        cs1.start()
        self.cluster.wait_ready()

    def test_a_newer_format(self):
        cs1 = self.cluster.servers["cs1"]
        self.assertEqual(cs1.stop(), 0)
        identity = os.path.join(cs1.data_dir, "IDENTITY")
        with open(identity, encoding="utf-8") as file:
            text = file.read()
        newer = text.replace("leasehold-chunkserver 2\n", "leasehold-chunkserver 3\n")
        self.assertNotEqual(newer, text)
        with open(identity, "w", encoding="utf-8") as file:
            file.write(newer)
        self.assert_refused(self.chunkserver(cs1.data_dir), (73,), cs1.data_dir, "format")
        with open(identity, encoding="utf-8") as file:
            self.assertEqual(file.read(), newer, "it was left alone")
        with open(identity, "w", encoding="utf-8") as file:
            file.write(text)
        cs1.start()
        self.cluster.wait_ready()

    def test_an_unreachable_master(self):
        address = f"127.0.0.1:{free_port()}"
        data = os.path.join(self.folder, "lonely")
        node = Node("lonely", "", data, self.chunkserver(data)[:3] + [f"--master={address}"],
                    os.path.join(self.folder, "lonely.log"))
        node.start()
        self.addCleanup(node.kill)
        # It says so and goes on trying: a master may come later.
        wait_for("the log to name the master", lambda: address in node.log_text())
        self.assertTrue(node.running())
        self.assertEqual(node.stop(), 0, node.log_text())

    def test_a_data_directory_that_cannot_be_used(self):
        self.assert_refused(self.chunkserver("/proc/leasehold"), (71, 73, 74), "/proc/leasehold")
        self.assert_refused(self.chunkserver("/no/such/parent/dir"), (73,), "/no/such/parent/dir")
        self.assert_refused(self.master("/no/such/parent/dir"), (73,), "/no/such/parent/dir")


if __name__ == "__main__":
    process_cluster.main()
