"""A client of Leasehold that shares no code with it: Python's grpcio and the .proto files.

It speaks to the master and to chunkservers by the schema alone, packs and unpacks record batches by
docs/formats.md, and knows nothing of retries: a test sees exactly what a server answered.
"""

import importlib
import os
import queue
import struct
import subprocess
import sys

import grpc

BATCH_HEADER = struct.Struct("<IIIIQQ")
CHAIN_BYTES = 8
MASK = (1 << 64) - 1
BATCH_MAGIC = int.from_bytes(b"LHB2", "little")
MESSAGE_BYTES_MAX = (1 << 20) + (64 << 10)
PIECE_BYTES = 256 << 10
BULK = {"AppendRequest": "batches", "ReplicateRequest": "batches", "ReadReply": "batches"}


def _crc32c_table():
    table = []
    for n in range(256):
        for _ in range(8):
            n = (n >> 1) ^ 0x82F63B78 if n & 1 else n >> 1
        table.append(n)
    return table


_CRC = _crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def pack_batch(writer, sequence, records):
    """One batch with these records, as APP-1 and docs/formats.md have it."""
    body = b"".join(struct.pack("<I", len(r)) + r for r in records)
    size = BATCH_HEADER.size + len(body) + CHAIN_BYTES
    rest = BATCH_HEADER.pack(0, BATCH_MAGIC, size, len(records), writer, sequence)[4:] + body
    return struct.pack("<I", crc32c(rest)) + rest + bytes(CHAIN_BYTES)


def mix(z):
    z = ((z ^ z >> 30) * 0xbf58476d1ce4e5b9) & MASK
    z = ((z ^ z >> 27) * 0x94d049bb133111eb) & MASK
    return z ^ z >> 31


def checksum_of_nothing(chunk):
    """The running checksum of an empty log of that chunk."""
    return mix((chunk + 0x9e3779b97f4a7c15) & MASK)


def chained(batches, checksum):
    """Whole batches as they are stored behind a log of that running checksum, and theirs."""
    log, at = b"", 0
    while at < len(batches):
        crc, _, size, _, _, _ = BATCH_HEADER.unpack_from(batches, at)
        checksum = mix((checksum + (size << 32 | crc) + 0x9e3779b97f4a7c15) & MASK)
        log += batches[at:at + size - CHAIN_BYTES] + struct.pack("<Q", checksum)
        at += size
    return log, checksum


def unpack_batches(data):
    """Yields (offset, writer, first sequence, records) of whole batches; ValueError if they are
    not."""
    at = 0
    while at < len(data):
        crc, magic, size, count, writer, sequence = BATCH_HEADER.unpack_from(data, at)
        if magic != BATCH_MAGIC or at + size > len(data):
            raise ValueError(f"no batch at {at}")
        if crc32c(data[at + 4:at + size - CHAIN_BYTES]) != crc:
            raise ValueError(f"checksum of the batch at {at}")
        records, pos = [], at + BATCH_HEADER.size
        for _ in range(count):
            (length,) = struct.unpack_from("<I", data, pos)
            records.append(bytes(data[pos + 4:pos + 4 + length]))
            pos += 4 + length
        if pos + CHAIN_BYTES != at + size:
            raise ValueError(f"records of the batch at {at}")
        yield at, writer, sequence, records
        at += size


def load_schema(proto_files, out_dir):
    """Runs protoc and returns the module of leasehold.proto (and registers health_pb2)."""
    os.makedirs(out_dir, exist_ok=True)
    directories = sorted({os.path.dirname(os.path.abspath(p)) for p in proto_files})
    subprocess.run(["protoc"] + [f"--proto_path={d}" for d in directories]
                   + [f"--python_out={out_dir}"] + [os.path.abspath(p) for p in proto_files],
                   check=True)
    if out_dir not in sys.path:
        sys.path.insert(0, out_dir)
    return importlib.import_module("leasehold_pb2")


def in_pieces(message, piece_bytes=PIECE_BYTES):
    """Yields the messages that carry `message`: itself, or pieces of it."""
    field = BULK.get(type(message).__name__)
    bulk = getattr(message, field) if field else b""
    for at in range(piece_bytes, len(bulk), piece_bytes):
        setattr(message, field, bulk[at - piece_bytes:at])
        message.more = True
        yield message
        message = type(message)()
        setattr(message, field, bulk[at:at + piece_bytes])
    yield message


def assembled(messages):
    """Yields whole messages from an iterator over what arrives."""
    whole, bulk = None, []
    for message in messages:
        field = BULK.get(type(message).__name__)
        if field:
            bulk.append(getattr(message, field))
        whole = message if whole is None else whole
        if not field or not message.more:
            if field:
                whole.more = False
                setattr(whole, field, b"".join(bulk))
            yield whole
            whole, bulk = None, []


class Channel:
    """One gRPC channel to a server, with the schema's methods by name."""

    def __init__(self, schema, address, tls_dir=None):
        """`tls_dir`: as the option of that name."""
        self.schema = schema
        self.address = address
        options = [
            ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
            ("grpc.max_send_message_length", -1),  # a test may send too much
            ("grpc.enable_http_proxy", 0),
        ]
        if tls_dir is None:
            self._channel = grpc.insecure_channel(address, options=options)
            return
        files = {}
        for name in ("ca", "key", "cert"):
            with open(os.path.join(tls_dir, name + ".pem"), "rb") as file:
                files[name] = file.read()
        self._channel = grpc.secure_channel(address, grpc.ssl_channel_credentials(
            files["ca"], files["key"], files["cert"]), options=options)

    def close(self):
        self._channel.close()

    def call(self, service, method, request, timeout=120):
        """A unary call; `request` is a message or raw bytes. Returns the reply message."""
        reply_type = getattr(self.schema, method + "Reply")
        raw = request if isinstance(request, bytes) else request.SerializeToString()
        path = f"/leasehold.{service}/{method}"
        if method + "Reply" in BULK:
            stub = self._channel.unary_stream(path, request_serializer=lambda b: b,
                                              response_deserializer=reply_type.FromString)
            (reply,) = assembled(stub(raw, timeout=timeout))
            return reply
        stub = self._channel.unary_unary(path, request_serializer=lambda b: b,
                                         response_deserializer=reply_type.FromString)
        return stub(raw, timeout=timeout)

    def master(self, method, timeout=120, **fields):
        request = getattr(self.schema, method + "Request")(**fields)
        return self.call("Master", method, request, timeout)

    def begin(self, method, timeout=120, **fields):
        """A call of a master whose outcome is asked for later: a grpc.Future."""
        stub = self._channel.unary_unary(
            f"/leasehold.Master/{method}", request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=getattr(self.schema, method + "Reply").FromString)
        return stub.future(getattr(self.schema, method + "Request")(**fields), timeout=timeout)

    def chunkserver(self, method, timeout=120, **fields):
        request = getattr(self.schema, method + "Request")(**fields)
        return self.call("ChunkServer", method, request, timeout)

    def leases(self, method, timeout=120, **fields):
        request = getattr(self.schema, method + "Request")(**fields)
        return self.call("Leases", method, request, timeout)

    def stream(self, service, method, timeout=120, messages=None):
        """`messages`: what its messages are called, but for Request and Reply, if not `method`."""
        return Stream(self, service, method, timeout, messages or method)

    def health(self, service="", timeout=120):
        health = importlib.import_module("health_pb2")
        stub = self._channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health.HealthCheckRequest.SerializeToString,
            response_deserializer=health.HealthCheckResponse.FromString)
        return stub(health.HealthCheckRequest(service=service), timeout=timeout).status


class Stream:
    """A bidirectional stream: send() never waits, receive() waits for the next reply."""

    def __init__(self, channel, service, method, timeout, messages):
        request_type = getattr(channel.schema, messages + "Request")
        reply_type = getattr(channel.schema, messages + "Reply")
        self._requests = queue.Queue()
        self._call = channel._channel.stream_stream(
            f"/leasehold.{service}/{method}",
            request_serializer=lambda m: m if isinstance(m, bytes) else m.SerializeToString(),
            response_deserializer=reply_type.FromString)(iter(self._requests.get, None),
                                                         timeout=timeout)
        self._request_type = request_type

    def send(self, raw=None, **fields):
        for message in [raw] if raw is not None else in_pieces(self._request_type(**fields)):
            self._requests.put(message)

    def receive(self):
        """The next reply but for signs of life, or None at a clean end; grpc.RpcError when the
        stream broke."""
        while True:
            reply = next(self._call, None)
            if reply is None or {f.name for f, _ in reply.ListFields()} - {"alive_ms", "arriving"}:
                return reply

    def finish(self):
        self._requests.put(None)

    def cancel(self):
        self._requests.put(None)
        self._call.cancel()

    def code(self):
        """The status that ended the stream; waits for it."""
        return self._call.code()


class WireAppender:
    """One writer's lane to one chunk's primary; no retries, it reports what it is told."""

    def __init__(self, channel, chunk, version, writer, first_sequence):
        self.writer = writer
        self.sequence = first_sequence
        self.stream = channel.stream("ChunkServer", "Append")
        self._lane = {"lane": 1, "chunk": chunk, "version": version}
        self._answers = []
        self.open(writer, first_sequence)

    def open(self, writer, first_sequence):
        self.stream.send(parts=[{**self._lane, "writer": writer,
                                 "first_sequence": first_sequence}])

    def receive(self):
        """The next answer, or None at a clean end."""
        while not self._answers:
            reply = self.stream.receive()
            if reply is None or reply.error:
                return reply
            self._answers.extend(reply.answers)
        return self._answers.pop(0)

    def opened(self):
        return self.receive()

    def send_batch(self, batch):
        self.stream.send(parts=[{**self._lane, "bytes": len(batch)}], batches=batch)

    def send(self, records):
        batch = pack_batch(self.writer, self.sequence, records)
        first = self.sequence
        self.sequence += len(records)
        self.send_batch(batch)
        return first
