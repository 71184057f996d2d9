#!/usr/bin/python3
"""A client of docs/wire.md that shares no code with the project: what the page says is what servers
speak. And peers that break it, or take what they can get: others notice nothing.
"""

import os
import random
import re
import socket
import struct
import time

import process_cluster
from process_cluster import CALM, ClusterTest
from process_wire import crc32c, load_schema, pack_batch, unpack_batches

HELLO, OPEN, MESSAGE, CREDIT, CLOSE, PING, PONG, GOAWAY = range(0x81, 0x89)
MORE = 1
FRAME_BYTES = 64 << 10
STAT, IDENTIFY, APPEND, READ = 3, 34, 30, 32


def frame(kind, link=0, body=b"", flags=0, covered=None):
    covered = len(body) if covered is None else covered
    head = (bytes([kind]) + len(body).to_bytes(3, "little") + covered.to_bytes(3, "little")
            + bytes([flags]) + struct.pack("<I", link))
    return head + struct.pack("<I", crc32c(head + body[:covered])) + body


def hello(versions=(1, 1), magic=b"leasehld", window=1 << 20):
    return frame(HELLO, body=magic + struct.pack("<HHB3xIII4xQ8x", *versions, 0, window, 0,
                                                 40 << 20, 0))


class Wire:
    """A connection, with frames in and out. Not more clever than a test needs."""

    def __init__(self, address, greet=True):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.last, self.buffer = 0, b""
        if greet:
            self.send(hello())
            assert self.receive()[0] == HELLO

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def _read(self, size):
        while len(self.buffer) < size:
            more = self.socket.recv(1 << 16)
            if not more:
                raise EOFError
            self.buffer += more
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def receive(self):
        """(type, flags, link, body); its checksum was looked at."""
        head = self._read(16)
        length, covered = (int.from_bytes(head[at:at + 3], "little") for at in (1, 4))
        body = self._read(length)
        assert struct.unpack_from("<I", head, 12)[0] == crc32c(head[:12] + body[:covered])
        return head[0], head[7], struct.unpack_from("<I", head, 8)[0], body

    def open(self, method, timeout_ms=0):
        self.last += 1
        self.send(frame(OPEN, self.last, struct.pack("<HHI", method, 0, timeout_ms)))
        return self.last

    def put(self, link, data):
        while len(data) > FRAME_BYTES:
            self.send(frame(MESSAGE, link, data[:FRAME_BYTES], MORE, 512))
            data = data[FRAME_BYTES:]
        self.send(frame(MESSAGE, link, data))

    def take(self, link):
        """The link's next message, or (error, text) at its end."""
        message = b""
        while True:
            kind, flags, whose, body = self.receive()
            if kind == GOAWAY:
                raise EOFError(body[8:])
            if whose != link or kind not in (MESSAGE, CLOSE):
                continue
            if kind == CLOSE:
                return struct.unpack_from("<I", body)[0], body[8:].decode()
            message += body
            if not flags & MORE:
                return message

    def call(self, method, request):
        link = self.open(method)
        self.put(link, request)
        reply = self.take(link)
        assert isinstance(reply, bytes), reply
        assert self.take(link) == (0, "")
        return reply


class FramesTest(ClusterTest):

    def setUp(self):
        super().setUp()
        self.start_cluster(**CALM)
        self.schema = load_schema(["proto/leasehold.proto", "proto/health.proto"],
                                  os.path.join(self.folder, "schema"))

    def wire(self, address=None, greet=True):
        wire = Wire(address or self.cluster.master_address, greet)
        self.addCleanup(wire.close)
        return wire

    def primary(self, path):
        self.cluster.command("append", "--create", path, stdin=b"first\n")
        stat = self.wire().call(STAT, self.schema.StatRequest(path=path).SerializeToString())
        self.assertEqual(self.schema.StatReply.FromString(stat).info.path, path)
        return self.cluster.servers[self.cluster.primary(path)].address

    def tail(self, path):
        """The last chunk's id and version."""
        last = self.cluster.chunks(path)[-1]
        return last["chunk"], last["version"]

    def test_an_append_and_a_read_by_the_page(self):
        address = self.primary("/frames")
        chunk, version = self.tail("/frames")
        wire = self.wire(address)
        stream = wire.open(APPEND)
        part = self.schema.AppendPart
        opening = self.schema.AppendRequest(parts=[part(
            lane=1, chunk=chunk, version=version, writer=7, first_sequence=1)])
        wire.put(stream, opening.SerializeToString())
        answers = []
        while not answers:
            answers = self.schema.AppendReply.FromString(wire.take(stream)).answers
        self.assertTrue(answers[0].opened, answers)
        batch = pack_batch(7, 1, [b"by hand", b"x" * 100000])
        wire.put(stream, self.schema.AppendRequest(
            parts=[part(lane=1, bytes=len(batch), chunk=chunk, version=version)],
            batches=batch).SerializeToString())
        stored = []
        while not stored:
            for answer in self.schema.AppendReply.FromString(wire.take(stream)).answers:
                self.assertEqual(answer.error, 0, answer.error_text)
                stored += answer.stored
        self.assertEqual((stored[0].sequence, stored[0].count), (1, 2))
        wire.send(frame(CLOSE, stream, struct.pack("<II", 0, 0)))
        reply = self.schema.ReadReply.FromString(wire.call(READ, self.schema.ReadRequest(
            chunk=chunk, max_bytes=1 << 20).SerializeToString()))
        records = [r for *_, found in unpack_batches(reply.batches) for r in found]
        self.assertEqual(records, [b"first", b"by hand", b"x" * 100000])

    def still_well(self):
        self.assertIn(b"well", self.cluster.command("append", "--create", "/well", stdin=b"well\n")
                      + self.cluster.command("cat", "/well"))

    def ends(self, wire):
        """The server ends the connection; what it says, if it says something."""
        said = b""
        try:
            while True:
                kind, _, _, body = wire.receive()
                if kind == GOAWAY:
                    said = body[8:]
        except (EOFError, ConnectionError):
            return said.decode()

    def test_what_breaks_the_format_ends_the_connection_with_a_sentence(self):
        cases = {
            "no greeting of this protocol": hello(magic=b"leasewhat"[:8]),
            "only versions of the protocol that are not spoken here": hello(versions=(7, 9)),
            "a second greeting": hello() + hello(),
            "a frame of an unknown type": hello() + frame(0x9f),
            "a frame that is too long": hello() + b"\x83" + b"\xff" * 15,
            "a frame with a wrong checksum": hello() + frame(PING)[:12] + bytes(4),
            "a message of a link that was never opened": hello() + frame(MESSAGE, 9, b"x"),
            "a malformed opening of a link": hello() + frame(OPEN, 1, b"x"),
            "more than it may": hello() + frame(OPEN, 1, struct.pack("<HHI", APPEND, 0, 0))
            + frame(MESSAGE, 1, bytes(FRAME_BYTES), MORE) * 40 + frame(MESSAGE, 1, b"") * 2000,
            "too many pings": hello() + frame(PING) * 200,
        }
        for sentence, sent in cases.items():
            with self.subTest(sentence):
                wire = self.wire(greet=False)
                try:
                    wire.send(sent)
                except ConnectionError:
                    pass
                self.assertIn(sentence, self.ends(wire))
        self.still_well()

    def test_random_bytes(self):
        dice = random.Random(4711)
        for _ in range(60):
            wire = self.wire(greet=False)
            try:
                wire.send(hello() + bytes([dice.choice(range(0x80, 0x8A))])
                          + dice.randbytes(dice.choice((15, 100, 5000))))
                wire.socket.shutdown(socket.SHUT_WR)
                self.ends(wire)
            except ConnectionError:
                pass
        self.still_well()

    def test_who_says_nothing_is_closed(self):
        silent = self.wire(greet=False)
        begun = time.monotonic()
        self.assertEqual(self.ends(silent), "")
        self.assertGreater(time.monotonic() - begun, 4)

    def test_who_opens_and_cancels_without_end(self):
        wire = self.wire()
        said = ""
        for _ in range(40):
            batch = b""
            for _ in range(100):
                wire.last += 1
                batch += frame(OPEN, wire.last, struct.pack("<HHI", STAT, 0, 0))
                batch += frame(CLOSE, wire.last, bytes(8))
            try:
                wire.send(batch)
            except ConnectionError:
                break
        said = self.ends(wire)
        self.assertIn("more cancelled calls in a second than may be", said)
        self.still_well()

    def test_replies_that_nobody_takes(self):
        """Its window is small, and it gives no credit: --reply-memory says what is kept."""
        self.cluster.command("append", "--create", "/large",
                             stdin=b"".join(b"%d" % i * 10000 + b"\n" for i in range(200)))
        chunk, _ = self.tail("/large")
        address = self.cluster.servers[self.cluster.primary("/large")].address
        wire = self.wire(address, greet=False)
        wire.send(hello(window=1))
        request = self.schema.ReadRequest(chunk=chunk, max_bytes=1 << 20).SerializeToString()
        for _ in range(400):
            link = wire.open(READ)
            wire.put(link, request)
        self.still_well()
        server = self.cluster.servers[self.cluster.primary("/large")]
        with open(f"/proc/{server.process.pid}/status") as status:
            resident_kb = int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1))
        self.assertLess(resident_kb, 700 << 10)

    def test_a_call_by_a_method_that_there_is_not(self):
        wire = self.wire()
        link = wire.open(999)
        self.assertEqual(wire.take(link)[0], self.schema.UNIMPLEMENTED)
        link = wire.open(STAT)
        wire.put(link, b"\xff\xff\xff\xff")
        self.assertEqual(wire.take(link)[0], self.schema.MALFORMED)
        link = wire.open(STAT)
        wire.put(link, bytes(80 << 10))
        self.assertEqual(wire.take(link)[0], self.schema.TOO_LARGE)


if __name__ == "__main__":
    process_cluster.main()
