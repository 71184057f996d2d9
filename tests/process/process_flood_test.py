#!/usr/bin/python3
"""What one address can take of a server, and what is left to others: an appender that calls from
another address goes on beside it. And what all methods do with messages that are almost valid."""

import contextlib
import json
import os
import random
import re
import socket
import subprocess
import threading
import time

import grpc

import process_cluster
from process_attacker import (
    ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PREFACE, PRIORITY, RST_STREAM, SETTINGS,
    WINDOW_UPDATE, Attacker, frame, send_headers_without_end)
from process_cluster import CALM, PATIENCE_S, ClusterTest, binary, wait_for
from process_wire import Channel, load_schema

PATH = "/flood/log"
WATCH = "/grpc.health.v1.Health/Watch"
FLOODER = "127.0.0.2"


def resident_mib(node, what="VmRSS"):
    """Now; or with "VmHWM" the most that it ever was."""
    with open(f"/proc/{node.process.pid}/status", encoding="ascii") as status:
        return int(re.search(what + r":\s+(\d+) kB", status.read()).group(1)) >> 10


class Flood:
    """bench/flood_bench at work, from FLOODER, with a low priority."""

    def __init__(self, node, *options):
        self.process = subprocess.Popen(
            ["nice", "-n", "10", binary("flood_bench"), f"--address={node.address}",
             f"--source={FLOODER}", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def await_ready(self):
        if self.process.stdout.readline() != b"ready\n":
            raise AssertionError("flood_bench ended")

    def finish(self):
        """Ends it; what it counted."""
        self.process.stdin.close()
        text = self.process.stdout.read().decode()
        self.process.wait()
        self.process.stdout.close()
        return json.loads(text.splitlines()[-1])

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Frames:
    """Connections from FLOODER that send frames as fast as they are taken: the one that `make`
    returns for each odd number in turn. What the server answers is not read."""

    AT_ONCE = 2000

    def __init__(self, node, make, connections=2):
        self.make = make
        self.over = threading.Event()
        self.sent = 0
        host, port = node.address.rsplit(":", 1)
        self.sockets = [socket.create_connection((host, int(port)), source_address=(FLOODER, 0))
                        for _ in range(connections)]
        self.threads = [threading.Thread(target=self.send, args=(s,)) for s in self.sockets]
        for thread in self.threads:
            thread.start()

    def send(self, connection):
        connection.settimeout(0.2)
        data = PREFACE + frame(SETTINGS, 0, 0)
        number = 1
        with contextlib.suppress(OSError):
            while not self.over.is_set():
                while data:
                    with contextlib.suppress(TimeoutError):
                        data = data[connection.send(data):]
                    if self.over.is_set():
                        return
                data = b"".join(self.make(number + 2 * i) for i in range(self.AT_ONCE))
                number += 2 * self.AT_ONCE
                self.sent += self.AT_ONCE

    def finish(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        for connection in self.sockets:
            connection.close()


def nameless(number):
    """Begins a call without a path, of 11 bytes: gRPC refuses it by itself, and tells the server of
    none. :method GET, :scheme http."""
    return frame(HEADERS, END_STREAM | END_HEADERS, number, b"\x82\x86")


# Frames that belong to no call. Each costs the server some work, and some an answer.
CONTROL = {
    "ping": lambda _: frame(PING, 0, 0, bytes(8)),
    "an answer to none": lambda _: frame(PING, ACK, 0, bytes(8)),
    "settings": lambda _: frame(SETTINGS, 0, 0),
    "a window's byte": lambda _: frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"),
    "priority": lambda n: frame(PRIORITY, 0, n & 0x7fffffff, b"\0\0\0\3\1"),
    "a reset of no call": lambda n: frame(RST_STREAM, 0, n & 0x7fffffff, b"\0\0\0\x08"),
    "no bytes": lambda n: frame(DATA, 0, n & 0x7fffffff),
    "no known kind": lambda _: frame(0x42, 0, 0, b"x"),
}


class Flooded(ClusterTest):

    def start(self, flags=(), files=0):
        """Three servers and the primary of PATH, with an appender at work; so many other files have
        lower numbers than that."""
        self.cluster = process_cluster.Cluster(self.folder, **CALM)
        for node in self.cluster.nodes():
            node.argv += flags
            node.serve_metrics()
        self.cluster.start()
        for i in range(files):
            self.cluster.command("create", f"/mutants/{i}")
        self.cluster.command("create", PATH)
        self.start_writers(PATH, 1)
        self.primary = self.cluster.servers[self.cluster.primary(PATH)]
        self.both = (self.primary, self.cluster.master)

    def flood(self, node, *options):
        flood = Flood(node, *options)
        self.addCleanup(flood.end)
        return flood

    def await_figure(self, node, name):
        wait_for(f"{name} of {node.name}", lambda: node.figure(name) > 0)

    def assert_well(self):
        """Nobody ended, no session broke, and the file is what was acknowledged."""
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), f"{node.name} ended")
            self.assertNotIn("the connection to the master", node.log_text(), "a session broke")
        self.await_progress(100)
        self.finish_writers()
        self.check_file(PATH)


class FloodTest(Flooded):

    def test_calls_without_end_are_paced(self):
        self.start()
        for node in self.both:
            flood = self.flood(node, "--calls=2000")
            flood.await_ready()
            self.await_figure(node, "leasehold_peer_connections_paced_total")
            self.await_progress(200)
            self.cluster.command("ls", "/")
            counts = flood.finish()
            self.assertGreater(counts["answered"], 1000, "it is read more slowly, not cut")
            self.assertEqual(counts["closed"], 0)
            self.assertLess(resident_mib(node), 200)
        self.assert_well()

    def test_calls_that_never_become_any_are_paced(self):
        self.start()
        for node in self.both:
            before = resident_mib(node)
            flood = Frames(node, nameless)
            self.addCleanup(flood.finish)
            self.await_figure(node, "leasehold_peer_connections_paced_total")
            self.await_progress(500)
            self.cluster.command("ls", "/")
            flood.finish()
            self.assertLess(resident_mib(node), before + 300, f"after {flood.sent}")
        self.assert_well()

    def test_frames_that_belong_to_no_call(self):
        self.start()
        for node in self.both:
            before = resident_mib(node)
            for what, make in CONTROL.items():
                with self.subTest(node=node.name, frames=what):
                    flood = Frames(node, make)
                    self.addCleanup(flood.finish)
                    self.await_progress(200)
                    flood.finish()
                    self.assertGreaterEqual(flood.sent, Frames.AT_ONCE)
                    self.assertLess(resident_mib(node), before + 100, f"after {flood.sent}")
        self.assert_well()

    def test_connections_of_one_address(self):
        self.start(["--max-connections=300", "--max-peer-connections=40", "--max-peer-rate=100"])
        for node in self.both:
            flood = self.flood(node, "--idle=200", "--connects=2000")
            self.await_figure(node, "leasehold_peer_connections_refused_total")
            wait_for("its idle ones to be closed",
                     lambda n=node: n.figure("leasehold_connections_cut_total",
                                                '{why="idle"}') > 0)
            self.assertLess(node.figure("leasehold_connections"), 80)
            self.await_progress(100)
            self.cluster.command("ls", "/")  # a new connection, from another address
            flood.finish()
            self.assertIn(f"from {FLOODER}: ", node.log_text())
        self.assert_well()

    def test_calls_at_once_of_one_address(self):
        self.start(["--max-peer-calls=100"])
        for node in self.both:
            flood = self.flood(node, "--calls=400", f"--method={WATCH}")
            self.await_figure(node, "leasehold_peer_calls_refused_total")
            self.assertLess(node.figure("leasehold_calls"), 400)
            self.await_progress(100)
            self.cluster.command("ls", "/")
            flood.finish()
        self.assert_well()

    def test_what_is_slow_or_idle_ends_and_what_is_quiet_stays(self):
        self.start(["--handshake-timeout=1s", "--idle-timeout=2s", "--request-timeout=2s"])
        for node in self.both:
            quiet = Attacker(node.address)
            self.addCleanup(quiet.close)
            quiet.call(WATCH.encode(), b"")
            alive = threading.Thread(target=quiet.answer_pings, args=(60,), daemon=True)
            alive.start()
            flood = self.flood(node, "--slow=40", "--idle=40", "--method=/leasehold.Master/Stat"
                               if node is self.cluster.master
                               else "--method=/leasehold.ChunkServer/Settle")
            flood.await_ready()
            self.await_figure(node, "leasehold_requests_dropped_total")
            wait_for("connections to end", lambda n=node: n.figure(
                "leasehold_connections_accepted_total") > 160)
            self.await_progress(100)
            counts = flood.finish()
            self.assertGreater(counts["closed"], 60)
            self.assertTrue(alive.is_alive(), "a connection with a quiet stream was ended")
        self.assert_well()


class HeadersTest(Flooded):

    MOST = 256 << 20  # bytes that it would send
    CONNECTIONS = 8

    def test_headers_without_end(self):
        self.start()
        nodes = (self.cluster.master, self.cluster.servers["cs1"])
        for node in nodes:
            host, port = node.address.rsplit(":", 1)
            before = resident_mib(node, "VmHWM")
            for _ in range(self.CONNECTIONS):
                connection = socket.create_connection((host, int(port)),
                                                      source_address=(FLOODER, 0))
                # What was on its way when the server ended it counts, too.
                self.assertLess(send_headers_without_end(connection, self.MOST), 32 << 20)
            self.assertLess(resident_mib(node, "VmHWM"), before + 64)
        self.finish_writers()
        self.check_file(PATH)


class CompressedTest(Flooded):

    def test_nothing_is_uncompressed(self):
        # The library here begins the call, and then compresses for as long as it takes.
        self.start(["--request-timeout=10m", "--handshake-timeout=10m"])
        for node, method in ((self.cluster.master, "/leasehold.Master/Create"),
                             (self.primary, "/leasehold.ChunkServer/Settle")):
            before = resident_mib(node)
            with grpc.insecure_channel(node.address, options=[
                    ("grpc.max_send_message_length", -1)]) as channel:
                call = channel.unary_unary(method)
                with self.assertRaises(grpc.RpcError) as caught:
                    call(bytes(200 << 20), timeout=PATIENCE_S, compression=grpc.Compression.Gzip)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
            self.assertIn("compressed", caught.exception.details())
            self.assertLess(resident_mib(node), before + 50, "it was uncompressed")
        self.assert_well()


class Mutants:
    """Messages of a schema that are almost valid."""

    # What a valid message would do to others, or to the file beside it.
    FIXED = {"chunk": 1 << 40, "server_id": "nobody", "cluster_id": "another", "path": "/mutants/a",
             "from": "/mutants/b", "to": "/mutants/c", "name": "/mutants/n", "prefix": "/mutants/"}

    def __init__(self, seed):
        self.random = random.Random(seed)

    def fill(self, message, depth=0):
        for field in message.DESCRIPTOR.fields:
            if self.random.random() < 0.3 or (depth > 3 and field.message_type):
                continue
            many = field.label == field.LABEL_REPEATED
            for _ in range(self.random.randrange(3) if many else 1):
                self.put(message, field, many, depth)
        return message

    def put(self, message, field, many, depth):
        if field.message_type:
            part = getattr(message, field.name)
            self.fill(part.add() if many else part, depth + 1)
            if not many:
                part.SetInParent()
            return
        value = self.value(field)
        if many:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)

    def value(self, field):
        fixed = self.FIXED.get(field.name)
        if field.type == field.TYPE_STRING:
            return fixed if isinstance(fixed, str) else "/mutants/x"
        if field.type == field.TYPE_BYTES:
            return self.random.randbytes(self.random.randrange(60))
        if field.type == field.TYPE_BOOL:
            return self.random.random() < 0.5
        if field.type == field.TYPE_ENUM:
            return self.random.choice(field.enum_type.values).number
        if isinstance(fixed, int):
            return fixed
        return self.random.choice((0, 1, 2, 7, 1000, (1 << 31) - 1))

    def mutate(self, raw):
        raw = bytearray(raw)
        for _ in range(self.random.randrange(4)):
            at = self.random.randrange(len(raw) + 1)
            how = self.random.randrange(4)
            if how == 0 and at < len(raw):
                raw[at] ^= 1 << self.random.randrange(8)
            elif how == 1:
                raw[at:at] = self.random.randbytes(self.random.randrange(1, 9))
            elif how == 2:
                del raw[at:at + self.random.randrange(1, 9)]
            else:
                raw[at:at] = raw[:self.random.randrange(20)]
        return bytes(raw)


class MutantsTest(Flooded):

    SECONDS = float(os.environ.get("LEASEHOLD_MUTANTS_SECONDS", 10))
    SEED = int(os.environ.get("LEASEHOLD_MUTANTS_SEED", 1))

    def methods(self, schema):
        """Each: the node, the path, the types of messages to send, whether it is a stream."""
        wanted = []
        for service in schema.DESCRIPTOR.services_by_name.values():
            node = self.primary if service.name == "ChunkServer" else self.cluster.master
            for method in service.methods:
                wanted.append((node, f"/{service.full_name}/{method.name}",
                               getattr(schema, method.input_type.name), method.client_streaming))
        return wanted

    def attack(self, methods, channels, seed, until, counts):
        mutants = Mutants(seed)
        while time.monotonic() < until:
            node, path, request, stream = mutants.random.choice(methods)
            messages = [mutants.mutate(mutants.fill(request()).SerializeToString())
                        for _ in range(mutants.random.randrange(1, 4) if stream else 1)]
            kind = "stream_stream" if stream else "unary_stream"
            call = getattr(channels[node.name], kind)(path)
            with contextlib.suppress(grpc.RpcError):
                for _ in call(iter(messages) if stream else messages[0], timeout=0.3):
                    pass
            counts[path] = counts.get(path, 0) + 1

    def round(self, methods, number):
        until = time.monotonic() + self.SECONDS / 2
        counts = {}
        channels = {node.name: grpc.insecure_channel(node.address) for node in self.both}
        threads = [threading.Thread(target=self.attack, args=(
            methods, channels, self.SEED * 1000 + number * 100 + i, until, counts))
            for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for channel in channels.values():
            channel.close()
        return counts

    def test_mutants_of_all_methods(self):
        # Who names the number of a file may remove it: Mutants.value() says low ones.
        self.start(files=12)
        schema = load_schema(["proto/leasehold.proto"], os.path.join(self.folder, "schema"))
        methods = self.methods(schema)
        self.round(methods, 0)  # what is kept is there from here on
        before = {node.name: resident_mib(node) for node in self.cluster.nodes()}
        counts = self.round(methods, 1)
        self.assertEqual(set(counts), {path for _, path, _, _ in methods}, "a method was left out")
        for node in self.cluster.nodes():
            self.assertTrue(node.running(), f"{node.name} ended; seed {self.SEED}")
            self.assertLess(resident_mib(node), before[node.name] + 40, f"{node.name} leaks")
        # It answers as before.
        channel = Channel(schema, self.cluster.master_address)
        self.addCleanup(channel.close)
        self.assertEqual(channel.master("Stat", path=PATH).error, 0)
        self.await_progress(100)
        self.finish_writers()
        self.check_file(PATH)


if __name__ == "__main__":
    process_cluster.main(beside=[
        "FloodTest.test_connections_of_one_address",
        "FloodTest.test_what_is_slow_or_idle_ends_and_what_is_quiet_stays",
        "MutantsTest.test_mutants_of_all_methods",
    ])
