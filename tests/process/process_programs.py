"""A program with a session that shares no code with Leasehold (PS, NL, VAL): grpcio and the schema.

It does what it is told and repeats nothing, so a test sees exactly what the master answered. A
thread sends heartbeats and sorts what arrives.
"""

import os
import queue
import threading
import time

import grpc

PATIENCE_S = float(os.environ.get("LEASEHOLD_PATIENCE_SECONDS", 120))


class Program:

    def __init__(self, channel, term_ms=10000, label="python", session=None, opens=True):
        self.channel = channel
        self.session = session or os.urandom(16)
        self.term_ms, self.label, self._opens = term_ms, label, opens
        self.granted = {}  # name: token
        self.values = {}  # name: (revision, bytes), as long as it is leased
        self.answers = queue.Queue()
        self._id = self._stream_number = 0
        self._requests = {}  # id: name
        self.greeting = self.shown = None
        self.beats = 0
        self.stream = None

    # The stream.

    def attach(self, beating=True, **show):
        """Returns what came instead of a greeting, or None."""
        self._stream_number += 1
        self.stream = self.channel.stream("Leases", "Session", timeout=3600,
                                          messages="LeaseSession")
        self.stream.send(attach={
            "session": self.session, "opens": self._opens, "stream": self._stream_number,
            "term_ms": self.term_ms, "host": "test", "process": "1 python", "label": self.label})
        first = self.stream.receive()
        if first is None or first.WhichOneof("body") != "greeting":
            return first
        self.greeting, self._opens = first.greeting, False
        self.stream.send(show={"stamp": time.monotonic_ns(), **show})
        self.shown = self.stream.receive().shown
        self._done = threading.Event()
        stream = self.stream
        threading.Thread(target=self._receive, args=(stream,), daemon=True).start()
        if beating:
            threading.Thread(target=self._beat, args=(stream, self._done), daemon=True).start()
        return None

    def _beat(self, stream, done):
        while not done.wait(self.greeting.beat_ns / 1e9):
            stream.send(beat={"stamp": time.monotonic_ns()})

    def _receive(self, stream):
        try:
            while (reply := stream.receive()) is not None:
                self._take(reply)
        except grpc.RpcError as error:
            self.answers.put(("ended", error.code()))
            return
        self.answers.put(("ended", grpc.StatusCode.OK))

    def _take(self, reply):
        kind = reply.WhichOneof("body")
        if kind == "beat":
            self.beats += 1
            if reply.beat.error:
                self.answers.put(("beat", reply.beat))
        for answer in reply.answers.answers if kind == "answers" else ():
            what = answer.WhichOneof("answer")
            body = getattr(answer, what)
            if what == "granted":
                self.granted[self._requests[body.id]] = body.token
            self.answers.put((what, body))

    def next(self, *kinds, timeout=PATIENCE_S):
        """The next answer of one of these kinds; others are passed over."""
        while True:
            kind, body = self.answers.get(timeout=timeout)
            if kind in kinds:
                return kind, body

    def silent(self):
        """Sends no heartbeat any more; what arrives is still taken."""
        self._done.set()

    def drop_stream(self):
        self._done.set()
        self.stream.cancel()

    def close(self):
        self._done.set()
        self.stream.send(close={})
        self.stream.finish()

    # What it asks for.

    def op(self, **op):
        self.stream.send(ops={"ops": [op]})

    def ask(self, name, **fields):
        self._id += 1
        self._requests[self._id] = name
        self.op(acquire={"id": self._id, "name": name, **fields})
        return self._id

    def acquire(self, name, **fields):
        """The token, when it is granted; the refusal."""
        self.ask(name, **fields)
        kind, body = self.next("granted", "refused")
        return body.token if kind == "granted" else body

    def release(self, name, token=None):
        self.op(release={"name": name, "token": token or self.granted.pop(name)})

    def read(self, name, revision=0, lease=True):
        self._id += 1
        self.op(read={"id": self._id, "name": name, "revision": revision, "lease": lease})
        return self.next("value")[1]
