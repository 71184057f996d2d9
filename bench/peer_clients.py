"""The clients of peers.py: each appends 100-byte records to a running peer for some seconds.

redis_load(), nats_load() and etcd_load() take the number of clients and the seconds last, return a
Result, and raise Refused or OSError where the peer does not do as it should.
"""

import collections
import concurrent.futures
import contextlib
import re
import selectors
import socket
import time

TIMEOUT_S = 20  # of one wait, for an acknowledgement or a start
SIZE = 100
RECORD = b"x" * SIZE

# latencies_s: of the requests of clients that have one under way at a time.
Result = collections.namedtuple("Result", "records seconds latencies_s")


class Refused(Exception):
    """A peer answered with an error, closed the connection or did not answer in time."""


def wait_for(what, condition):
    until = time.monotonic() + TIMEOUT_S
    while time.monotonic() < until:
        with contextlib.suppress(OSError, Refused):
            value = condition()
            if value:
                return value
        time.sleep(0.1)
    raise Refused(f"after {TIMEOUT_S} s still no {what}")


def connect(port):
    s = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


# What a connection sends again and again. An answer to it has `marks` times the byte `mark`, which
# is nowhere else in what the server sends (one byte: no read can cut it in two). `error`: a pattern
# that only a refusal has.
Request = collections.namedtuple("Request", "data records mark marks in_flight error")


class Connection:
    def __init__(self, sock, request):
        self.sock, self.request = sock, request
        self.seen, self.sent_at = 0, 0.0

    def send(self, count):
        self.sent_at = time.perf_counter()
        self.sock.sendall(self.request.data * count)

    def receive(self):
        """The number of requests that have been answered since the last call."""
        data = self.sock.recv(1 << 16)
        if not data or self.request.error.search(data):
            raise Refused(data[:200].decode(errors="replace") or "connection closed")
        if b"PING\r\n" in data:  # NATS asks; Redis never sends this
            self.sock.sendall(b"PONG\r\n")
        answered, self.seen = divmod(self.seen + data.count(self.request.mark), self.request.marks)
        return answered


def drive(connections, seconds):
    """Keeps request.in_flight requests under way on each connection until the time is over, and
    waits for the last answers."""
    begin = time.perf_counter()
    records, under_way, latencies = 0, 0, []
    with selectors.DefaultSelector() as selector:
        for connection in connections:
            selector.register(connection.sock, selectors.EVENT_READ, connection)
            connection.send(connection.request.in_flight)
            under_way += connection.request.in_flight
        while under_way > 0:
            events = selector.select(TIMEOUT_S)
            if not events:
                raise Refused(f"no answer in {TIMEOUT_S} s")
            for key, _ in events:
                connection = key.data
                answered = connection.receive()
                if answered == 0:
                    continue
                now = time.perf_counter()
                records += answered * connection.request.records
                under_way -= answered
                if connection.request.in_flight == 1:
                    latencies.append(now - connection.sent_at)
                if now - begin < seconds:
                    connection.send(answered)
                    under_way += answered
    return Result(records, time.perf_counter() - begin, latencies)


def resp(*words):
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)


def redis_load(port, batch, clients, seconds):
    stream = b"stream-%d-%d" % (batch, clients)
    data = resp(b"XADD", stream, b"*", b"r", RECORD) * batch + resp(b"WAIT", b"2", b"0")
    # XADD answers with a bulk string ("$"), WAIT with an integer (":").
    request = Request(data, batch, b":", 1, 1, re.compile(rb"-[A-Z]"))
    with contextlib.ExitStack() as stack:
        return drive([Connection(stack.enter_context(connect(port)), request)
                      for _ in range(clients)], seconds)


def nats_connect(port, inbox):
    s = connect(port)
    s.recv(1 << 16)  # INFO
    # Protocol 0: no further INFO, whose braces would be taken for acknowledgements.
    s.sendall(f'CONNECT {{"verbose":false,"protocol":0}}\r\nSUB {inbox} 1\r\nPING\r\n'.encode())
    if not s.recv(1 << 16).startswith(b"PONG"):
        raise Refused("NATS did not welcome the client")
    return s


def nats_call(port, subject, body=""):
    """One request to JetStream's API, and the text that came back."""
    with nats_connect(port, "answer") as s:
        s.settimeout(1)  # a cluster without a leader does not answer
        s.sendall(f"PUB {subject} answer {len(body)}\r\n{body}\r\n".encode())
        answer = s.recv(1 << 16).decode()
        if '"error"' in answer or not answer.startswith("MSG"):
            raise Refused(answer)
        return answer


def nats_stream(ports, name):
    """Creates a stream and returns the port of its leader."""
    create = f'{{"name":"{name}","subjects":["{name}"],"storage":"file","num_replicas":3}}'
    wait_for("NATS stream", lambda: nats_call(ports[0], f"$JS.API.STREAM.CREATE.{name}", create))
    leader = wait_for("leader of a NATS stream", lambda: re.search(
        r'"leader":"nats(\d)"', nats_call(ports[0], f"$JS.API.STREAM.INFO.{name}")))
    return ports[int(leader.group(1))]


def nats_load(ports, batch, in_flight, clients, seconds):
    stream = f"s{batch}x{clients}"
    port = nats_stream(ports, stream)
    error = re.compile(rb'"error"|-ERR')
    with contextlib.ExitStack() as stack:
        connections = []
        for i in range(clients):
            # Each has a subject for its acknowledgements; each of those is one JSON object.
            sock = stack.enter_context(nats_connect(port, f"ack{i}"))
            publish = f"PUB {stream} ack{i} {SIZE}\r\n".encode() + RECORD + b"\r\n"
            connections.append(Connection(sock, Request(publish * batch, batch, b"{", batch,
                                                        in_flight, error)))
        return drive(connections, seconds)


def field(number, data):
    """A field of bytes in a protobuf message."""
    length, varint = len(data), b""
    while length > 127:
        varint += bytes([length & 127 | 128])
        length >>= 7
    return bytes([number << 3 | 2]) + varint + bytes([length]) + data


def etcd_put(key):
    return field(1, key) + field(2, RECORD)  # PutRequest: key, value


def etcd_txn(keys):
    # TxnRequest.success, of RequestOp.request_put
    return b"".join(field(2, field(2, etcd_put(k))) for k in keys)


def etcd_client(port, puts, prefix, until):
    """Puts until that time; returns how long each call took."""
    import grpc  # only here: the other peers do without
    # Channels with equal options would share a connection.
    options = [("bench.client", prefix), ("grpc.enable_http_proxy", 0)]
    latencies = []
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as channel:
        call = channel.unary_unary("/etcdserverpb.KV/" + ("Put" if puts == 1 else "Txn"))
        t = time.perf_counter()
        while t < until:
            number = len(latencies) * puts
            keys = [f"{prefix}/{number + i:012}".encode() for i in range(puts)]
            try:
                call(etcd_put(keys[0]) if puts == 1 else etcd_txn(keys), timeout=TIMEOUT_S)
            except grpc.RpcError as e:
                raise Refused(f"{e.code().name}: {e.details()}") from e
            t, since = time.perf_counter(), t
            latencies.append(t - since)
    return latencies


def etcd_load(port, puts, clients, seconds):
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        done = [pool.submit(etcd_client, port, puts, f"{puts}/{clients}/{i}", begin + seconds)
                for i in range(clients)]
        latencies = [t for d in done for t in d.result()]
    return Result(len(latencies) * puts, time.perf_counter() - begin, latencies)
