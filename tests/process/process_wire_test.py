#!/usr/bin/python3
"""An independent client appends and reads: the wire is what the schema says.

Everything here goes through Python's grpcio and generated Python messages; the project's own client
only checks, at the end, that it sees the same file.
"""

import os

import grpc

import process_cluster
from process_cluster import CALM, ClusterTest, wait_for
from process_wire import Channel, WireAppender, crc32c, load_schema, pack_batch, unpack_batches


class WireTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.start_cluster(**CALM)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))
        self.master = self.channel(self.cluster.master_address)

    def channel(self, address):
        channel = Channel(self.schema, address)
        self.addCleanup(channel.close)
        return channel

    def open_tail(self, path):
        reply = wait_for("a primary", lambda: self._primary_of(path))
        return reply

    def _primary_of(self, path):
        reply = self.master.master("OpenTail", path=path, wait_ms=2000)
        return reply if reply.error == 0 and reply.primary.address else None

    def append(self, tail, writer, batches):
        """Appends lists of records in one stream; returns [(sequence, count, offset)]."""
        channel = self.channel(tail.primary.address)
        wire = WireAppender(channel, tail.chunk.chunk, tail.chunk.version, writer, 1)
        opened = wire.opened()
        self.assertEqual((opened.error, opened.opened), (0, True), opened.error_text)
        self.assertGreaterEqual(opened.window_batches, 1)
        stored, sent = [], 0
        while len(stored) < len(batches):
            while sent < len(batches) and sent - len(stored) < opened.window_batches:
                wire.send(batches[sent])
                sent += 1
            reply = wire.receive()
            self.assertEqual(reply.error, 0, reply.error_text)
            stored += [(s.sequence, s.count, s.offset) for s in reply.stored]
        wire.stream.finish()
        return stored

    def read_chunk(self, tail, until):
        """[(offset, writer, sequence, records)] of the chunk up to `until` bytes, from a member."""
        channel = self.channel(tail.chunk.members[-1].address)
        batches, offset = [], 0
        while offset < until:
            reply = channel.chunkserver("Read", chunk=tail.chunk.chunk, offset=offset,
                                        max_bytes=1 << 20, wait_ms=2000)
            self.assertEqual(reply.error, 0, reply.error_text)
            for at, writer, sequence, records in unpack_batches(reply.batches):
                batches.append((offset + at, writer, sequence, records))
            offset += len(reply.batches)
        return batches

    def test_checksums_agree_with_the_standard(self):
        # RFC 3720, B.4.
        self.assertEqual(crc32c(bytes(32)), 0x8A9136AA)
        self.assertEqual(crc32c(b"\xff" * 32), 0x62A8AB43)
        self.assertEqual(crc32c(bytes(range(32))), 0x46DD794E)

    def test_append_and_read_back(self):
        path = "/wire/log"
        created = self.master.master("Create", path=path, replication=3)
        self.assertEqual(created.error, 0, created.error_text)
        self.assertEqual(created.info.path, path)
        tail = self.open_tail(path)
        self.assertEqual(len(tail.chunk.members), 3)

        batches = [[b"record %d of batch %d" % (r, b) for r in range(b + 1)] for b in range(40)]
        stored = self.append(tail, 0x1234567890ABCDEF, batches)

        sequence, offset = 1, 0
        for records, (at, count, where) in zip(batches, stored):
            self.assertEqual((at, count, where), (sequence, len(records), offset))
            offset += len(pack_batch(1, 1, records))
            sequence += len(records)
        found = self.read_chunk(tail, offset)
        self.assertEqual([b[3] for b in found], batches)
        self.assertEqual([b[0] for b in found], [s[2] for s in stored])
        self.assertEqual({b[1] for b in found}, {0x1234567890ABCDEF})

        lines = b"".join(r + b"\n" for records in batches for r in records)
        self.assertEqual(self.cluster.command("cat", path), lines)
        self.cluster.assert_replicas_identical(path)

    def test_a_repeated_batch_is_stored_once(self):
        path = "/wire/repeat"
        self.master.master("Create", path=path)
        tail = self.open_tail(path)
        first = self.append(tail, 77, [[b"once"], [b"twice"]])
        # The same writer begins again with the same numbers and bytes, as after a lost answer.
        self.assertEqual(self.append(tail, 77, [[b"once"], [b"twice"]]), first)
        self.assertEqual(self.cluster.command("cat", path), b"once\ntwice\n")

    def test_writers_share_a_stream_and_batches_share_a_message(self):
        path = "/wire/stream"
        self.master.master("Create", path=path)
        tail = self.open_tail(path)
        wire = WireAppender(self.channel(tail.primary.address), tail.chunk.chunk,
                            tail.chunk.version, 1, 1)
        self.assertEqual(wire.opened().writer, 1)
        wire.open(2, 1)
        reply = wire.receive()
        self.assertEqual((reply.error, reply.opened, reply.writer), (0, True, 2))
        wire.send_batch(pack_batch(1, 1, [b"a"]) + pack_batch(2, 1, [b"b", b"c"])
                        + pack_batch(1, 2, [b"d"]))
        stored = []
        while len(stored) < 3:
            reply = wire.receive()
            self.assertEqual(reply.error, 0, reply.error_text)
            stored += [(s.writer, s.sequence, s.count) for s in reply.stored]
        self.assertEqual(stored, [(1, 1, 1), (2, 1, 2), (1, 2, 1)])
        # One writer's mistake is not the other's.
        wire.send_batch(pack_batch(1, 9, [b"a gap before it"]))
        reply = wire.receive()
        self.assertEqual((reply.error, reply.writer), (self.schema.OUT_OF_SEQUENCE, 1))
        wire.send_batch(pack_batch(2, 3, [b"e"]))
        self.assertEqual(wire.receive().stored[0].writer, 2)
        wire.stream.finish()
        self.assertEqual(self.cluster.command("cat", path), b"a\nb\nc\nd\ne\n")

    def test_lanes_share_a_stream_and_a_batch_comes_in_parts(self):
        tails = []
        for path in ("/lanes/a", "/lanes/b"):
            self.master.master("Create", path=path, replication=3)
            tails.append(self.open_tail(path))
        stream = self.channel(tails[0].primary.address).stream("ChunkServer", "Append")
        lanes = [{"lane": n + 1, "chunk": t.chunk.chunk, "version": t.chunk.version}
                 for n, t in enumerate(tails)]
        stream.send(parts=[{**lane, "writer": 9, "first_sequence": 1} for lane in lanes])
        answers = []
        while len(answers) < 2:
            answers += stream.receive().answers
        # The second one's primary may be another server: that is no matter of the first.
        self.assertTrue(answers[0].lane == 1 and answers[0].opened)
        second = answers[1].opened
        if not second:
            self.assertEqual(answers[1].error, self.schema.NOT_PRIMARY)
        batch, small = pack_batch(9, 1, [b"x" * 1000]), pack_batch(9, 1, [b"small"])
        stream.send(parts=[{**lanes[0], "bytes": 500}, {**lanes[1], "bytes": len(small)}],
                    batches=batch[:500] + small)
        if second:
            self.assertEqual([(a.lane, len(a.stored)) for a in stream.receive().answers], [(2, 1)])
        stream.send(parts=[{**lanes[1], "end": True}, {**lanes[0], "bytes": len(batch) - 500}],
                    batches=batch[500:])
        self.assertEqual([(a.lane, len(a.stored)) for a in stream.receive().answers], [(1, 1)])
        stream.finish()
        self.assertEqual(self.cluster.command("cat", "/lanes/a"), b"x" * 1000 + b"\n")

    def test_two_clients_share_a_file(self):
        path = "/wire/shared"
        self.cluster.command("create", path)
        self.cluster.command("append", path, stdin=b"from the command\n")
        self.append(self.open_tail(path), 99, [[b"from python"]])
        self.cluster.command("append", path, stdin=b"from the command again\n")
        self.assertEqual(self.cluster.command("cat", path),
                         b"from the command\nfrom python\nfrom the command again\n")

    def test_namespace(self):
        for name in ("b", "a", "c"):
            self.assertEqual(self.master.master("Create", path=f"/ns/{name}").error, 0)
        listed = self.master.master("List", prefix="/ns/")
        self.assertEqual([f.path for f in listed.files], ["/ns/a", "/ns/b", "/ns/c"])
        self.assertEqual(self.master.master("Rename", **{"from": "/ns/a", "to": "/ns/z"}).error, 0)
        self.assertEqual(self.master.master("Remove", path="/ns/b").error, 0)
        listed = self.master.master("List", prefix="/ns/", limit=1)
        self.assertEqual(([f.path for f in listed.files], listed.more), (["/ns/c"], True))
        stat = self.master.master("Stat", path="/ns/b")
        self.assertEqual(stat.error, self.schema.NOT_FOUND)
        self.assertIn("/ns/b", stat.error_text)

    def test_health(self):
        serving = 1
        for service in ("", "leasehold.Master"):
            self.assertEqual(self.master.health(service), serving)
        for node in self.cluster.servers.values():
            channel = self.channel(node.address)
            wait_for("the chunkserver to say that it serves",
                     lambda c=channel: c.health("leasehold.ChunkServer") == serving)
        with self.assertRaises(grpc.RpcError) as caught:
            self.master.health("no.such.Service")
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)


if __name__ == "__main__":
    process_cluster.main()
