#!/usr/bin/python3
"""A server of the master's page with answers of its own, in the place of a large cluster: 200
chunkservers, 100,000 files, a chunk whose lease has had a varied life, a name with holders.

    canned.py FOLDER PORT      FOLDER has the page's files (master/page/web)
"""

import base64
import http.server
import json
import os
import sys
import threading
import time
import urllib.parse

SERVERS = 200
FILES = 100_000
TYPES = {"html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
         "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
POLICY = "default-src 'self'; object-src 'none'; base-uri 'none'"
OK = {"error": "OK", "error_text": ""}


def server(i):
    state = {"live": True, "failing": False, "reachable": True, "admin": "ACTIVE", "obstacle": "",
             "unheard": "", "away_ms": "0", "grace_left_ms": "0", "safe_to_stop": False,
             "replicas_to_move": "0"}
    if i == 17:
        state.update(live=False, reachable=False, away_ms="93000", grace_left_ms="207000")
    if i == 63:
        state.update(failing=True)
    if i in (120, 121):
        state.update(admin="DRAINING", replicas_to_move=str(40 * (i - 119)))
    if i == 122:
        state.update(admin="DRAINING", safe_to_stop=True)
    free = 2_000_000_000_000 + (i * 7919 % 97) * 60_000_000_000
    return dict(state, server_id=f"cs{i:03}", address=f"10.0.{i // 50}.{i % 50 + 10}:7410",
                incarnation="3", session_left_ms=str(7000 + i * 13 % 3000),
                capacity_bytes="8000000000000", free_bytes=str(free),
                replicas=str(1400 + i * 31 % 200), primaries=str(i * 7 % 40),
                failure_domain=f"rack-{i // 20}", copies_in=str(int(i % 50 == 3)),
                copies_out=str(int(i % 50 == 4)))


def file_info(i):
    return {"file": str(i + 1), "path": f"/logs/2026/service-{i // 1000:03}/part-{i % 1000:04}",
            "durability": "BUFFERED", "replication": 3, "min_replicas": 2,
            "chunk_size": "67108864", "chunks": str(i % 9 + 1),
            "sealed_length": str(i % 9 * 67108864), "created_unix_ms": "1795452010549",
            "on_primary_loss": "ROLL", "trashed": False, "trash_left_ms": "0", "lock_name": "",
            "fence": "0"}


def session(i):
    return base64.b64encode(bytes([i] * 16)).decode()


SESSIONS = {"nightly": session(1), "by hand": session(2), "nightly-2": session(3)}


def event(number, kind, ago, holder="", version=0, left=0, count=0, why=""):
    return {"kind": kind, "ago_ms": str(ago), "holder": holder,
            "version": str(version), "left_ms": str(left), "count": str(count), "why": why,
            "session": SESSIONS.get(holder, "")}


CHUNK_EVENTS = [
    event(14, "LEASE_RENEWED", 900, "cs004", 7, 59000, 8),
    event(13, "LEASE_CONFIRMED", 24100, "cs004", 7, 60000),
    event(12, "LEASE_GRANTED", 24400, "cs004", 7, 60000),
    event(11, "LEASE_EXPIRED", 24500, "cs017", 6),
    event(10, "LEASE_RENEWED", 95000, "cs017", 6, count=31),
    event(9, "LEASE_CONFIRMED", 190000, "cs017", 6, 60000),
    event(8, "LEASE_GRANTED", 190200, "cs017", 6, 60000),
    event(7, "LEASE_RELEASED", 190300, "cs120", 5),
    event(6, "LEASE_RENEWED", 192000, "cs120", 5, count=55),
    event(5, "LEASE_RECALLED", 190600, "cs120", 5, 59000),
    event(4, "LEASE_CONFIRMED", 402000, "cs120", 5, 60000),
    event(3, "LEASE_GRANTED", 402300, "cs120", 5, 60000),
    event(2, "LEASE_ENDED", 402400, "cs063", 4, why="is free: its process is dead"),
    event(1, "LEASE_CONTINUED", 590000, "cs063", 4, 60000),
]

CHUNK = {
    "chunk": {"chunk": "42", "version": "7", "start": "536870912", "sealed": False, "length": "0",
              "members": [{"server_id": s, "address": "10.0.0.14:7410", "joining": False}
                          for s in ("cs004", "cs120", "cs121")],
              "primary": "cs004", "unbacked": False},
    "path": file_info(8)["path"], "file": "9", "replication": 3, "min_replicas": 2,
    "replicas": [{"server_id": "cs004", "address": "10.0.0.14:7410", "state": "GOOD",
                  "primary": True},
                 {"server_id": "cs120", "address": "10.0.2.30:7410", "state": "GOOD",
                  "primary": False},
                 {"server_id": "cs121", "address": "10.0.2.31:7410", "state": "JOINING",
                  "primary": False},
                 {"server_id": "cs017", "address": "", "state": "AWAY", "primary": False}],
    "lease": "HELD", "lease_left_ms": "8200", "rolling": False, "trashed": False, "checksum": "0",
    "created": True, "holder_left_ms": "7950"}

SENTENCES = [
    "cs004 is the primary at version 7: its lease runs for another 8.2 s and is extended by its "
    "heartbeats while there are appends.",
    "2 of the 3 replicas that its file asks for are good: [cs004, cs120].",
    "cs121 is joining: it has 41.2 MB of 63.0 MB.",
    "cs017 has been away for 1 min 33 s; what it has is copied elsewhere in 3 min 27 s."]

NAME = {
    "name": "/jobs/compact",
    "holders": [{"session": session(1), "label": "nightly", "host": "build-7",
                 "process": "4711 compact", "mode": "EXCLUSIVE", "token": str((3 << 40) + 118),
                 "left_ms": "7300", "cut": False, "info": "", "recalled": True,
                 "recalled_ms": "4000", "refused": True, "slots": 0, "held_ms": "81000",
                 "holder_left_ms": "7080"}],
    "waiting": "2",
    "waiters": [{"session": session(2), "label": "by hand", "host": "laptop-3",
                 "mode": "EXCLUSIVE", "waited_ms": "31000"},
                {"session": session(3), "label": "nightly-2", "host": "build-9",
                 "mode": "EXCLUSIVE", "waited_ms": "12000"}],
    "value": {"name": "/jobs/compact", "revision": "912", "value": "", "size": "318",
              "session": "", "token": str((3 << 40) + 118)},
    "caches": "14", "changing": False, "change_left_ms": "0",
    "sentences": ["held by nightly of host build-7, process 4711 compact, token 3298534883446, "
                  "ends unless renewed in 7.3 s; recalled 4.0 s ago, its holder keeps it",
                  "2 requests wait"]}

NAME_EVENTS = [
    event(9, "LEASE_KEPT", 3900, "nightly", (3 << 40) + 118, 9000),
    event(8, "LEASE_RECALLED", 4000, "nightly", (3 << 40) + 118, 9000),
    event(7, "LEASE_QUEUED", 12000, "nightly-2"),
    event(6, "LEASE_QUEUED", 31000, "by hand"),
    event(5, "VALUE_CHANGED", 60000, "", 912),
    event(4, "LEASE_GRANTED", 81000, "nightly", (3 << 40) + 118, 10000),
    event(3, "LEASE_EXPIRED", 82000, "by hand"),
    event(2, "VALUE_CHANGED", 99000, "", 911),
    event(1, "LEASE_GRANTED", 140000, "by hand", (3 << 40) + 117, 10000)]

MASTERS = [{"master_id": f"m{i}", "address": f"10.0.0.{i}:7400",
            "page": f"http://10.0.0.{i}:7480/"} for i in (1, 2, 3)]


def answer(name, query):
    """(status, message) of a call."""
    limit = int(query.get("limit", 100))
    if name == "masters":
        return 200, dict(OK, cluster_id="f30d3c957f0e7a46b0bb7aa8261b1045", reign="3",
                         active="10.0.0.2:7400", masters=MASTERS, acting=True,
                         master_id="m2", state="ACTIVE", state_ms="8140000")
    if name == "servers":
        return 200, dict(OK, servers=[server(i) for i in range(1, SERVERS + 1)], master_term="3",
                         deleting=True, deleting_text="", repair={
                             "chunks_degraded": "214", "chunks_endangered": "2",
                             "chunks_unreadable": "0", "copies_running": "8",
                             "copies_waiting": "206", "bytes_left": "13100000000",
                             "bytes_per_second": "412000000", "left_ms": "31800",
                             "copies_done": "1201", "bytes_done": "80600000000"})
    if name == "files":
        prefix, after = query.get("prefix", ""), query.get("after", "")
        first = next((i for i in range(FILES) if file_info(i)["path"] > after), FILES)
        found = [f for f in map(file_info, range(first, min(first + limit, FILES)))
                 if f["path"].startswith(prefix)]
        return 200, dict(OK, files=found, more=first + limit < FILES)
    if name == "explain":
        return 200, dict(OK, info=dict(file_info(8), path=query.get("path", CHUNK["path"])),
                         chunk=CHUNK, writable=True, sentences=SENTENCES)
    if name == "locate":
        chunks = [{"chunk": str(30 + i), "version": "3", "start": str(i * 67108864),
                   "sealed": i < 8, "length": str(67108864 if i < 8 else 0),
                   "members": CHUNK["chunk"]["members"], "primary": "", "unbacked": False}
                  for i in range(9)]
        chunks[8]["chunk"] = "42"
        return 200, dict(OK, info=file_info(8), chunks=chunks, more=False, masters=[])
    if name == "events":
        events = CHUNK_EVENTS if query.get("chunk") else NAME_EVENTS
        return 200, dict(OK, events=events, more=False, since_ms="8140000",
                         unnoted="0" if query.get("chunk") else "41207")
    if name == "leases":
        return 200, dict(OK, more=True, leases=[
            {"chunk": str(40 + i), "path": file_info(i)["path"], "version": "7",
             "primary": f"cs{i % SERVERS + 1:03}", "address": "",
             "state": ("HELD", "HELD", "HELD", "RECALLING", "GRANTING")[i % 5],
             "left_ms": str(59000 - i * 91), "appends": str(i * 977), "session_live": True,
             "members": 3, "replication": 3} for i in range(limit)])
    if name == "names":
        if query.get("exact"):
            return 200, dict(OK, names=[NAME], more=False, waiting=False, waiting_ms="0",
                             sessions_away="0")
        names = [dict(NAME, name=f"/jobs/job-{i:03}", waiting=str(i % 3),
                      holders=NAME["holders"] if i % 4 else []) for i in range(40)]
        return 200, dict(OK, names=[NAME] + names, more=False, waiting=False, waiting_ms="0",
                         sessions_away="0")
    if name == "sessions":
        return 200, dict(OK, more=False, sessions=[
            {"session": session(i), "label": f"worker-{i}", "host": f"build-{i % 9}",
             "process": f"{4000 + i} worker", "term_ms": "10000", "left_ms": str(9900 - i * 31),
             "back": True, "linked": i % 11 != 0, "locks": str(i % 5), "waiting": str(i % 2),
             "values": str(i * 3), "attached": "0"} for i in range(60)])
    return 404, {"error": "NOT_FOUND", "error_text": "there is no such call"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def follow(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        figures = {"files": FILES, "chunks": 512_004, "leases": 1_904, "calls_waiting": 3,
                   "program_sessions": 9_120, "program_sessions_away": 0, "watchers": 212,
                   "locks": 88_412, "locks_waiting": 17, "values": 4_120,
                   "values_bytes": 18_300_000}
        counters = {"grants_total": 3, "regrants_total": 0, "renewals_total": 640,
                    "recalls_total": 1, "expiries_total": 1, "locks_granted_total": 5200,
                    "locks_released_total": 5190, "value_reads_total": 21000,
                    "value_changes_total": 95}
        for second in range(100_000):
            for name, rate in counters.items():
                swing = 0.6 + (second * 37 + len(name) * 11) % 17 / 20
                figures[name] = figures.get(name, 0) + int(rate * swing)
            frame = json.dumps({"ready": True, "why": "", "figures": figures})
            try:
                self.wfile.write(f"data: {frame}\n\n".encode())
            except OSError:
                return
            time.sleep(0.05 if second < 119 else 1)

    def do_GET(self):
        try:
            self.serve()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the browser has gone on

    def serve(self):
        path, _, text = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(text))
        if path == "/api/live":
            self.follow()
        elif path.startswith("/api/"):
            status, message = answer(path[5:], query)
            self.send(status, "application/json", json.dumps(message).encode())
        else:
            name = path.lstrip("/") or "index.html"
            file = os.path.join(self.server.folder, os.path.basename(name))
            if not os.path.exists(file):
                self.send(404, "text/plain", b"not there\n")
                return
            with open(file, "rb") as content:
                self.send(200, TYPES[name.rsplit(".", 1)[1]], content.read())


def start(folder, port=0):
    """A server that runs, on `port` of this machine or on one that is free."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.folder = folder
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    start(sys.argv[1], int(sys.argv[2]))
    threading.Event().wait()
