#!/usr/bin/python3
"""Writes strings of bytes to begin with (world.h): whoever begins with nothing spends the time on
registering. Each is the usual course of things, now and then with something else in between."""

import base64
import os
import random
import sys

SETTLE, TIMER = 14, 0
USUAL = {
    # Register twice, create, open the tail, lose the primary, heartbeat.
    "master": [128, 0, 136, 0, SETTLE, 131, SETTLE, 132, SETTLE, 130, 133, SETTLE, TIMER, 0],
    # Create, grant, open a writer, append.
    "chunkserver": [SETTLE, TIMER, 0, SETTLE, 128, 0, SETTLE, 129, 0, SETTLE, 130, 131, 9, SETTLE,
                    132, 99, SETTLE, 133, 1, 0, SETTLE],
    # Open an appender, submit, open a reader, fetch.
    "client": [128, 130, 3, 131, 129, 132, TIMER, 0],
    "decoders": [],
    "edges": [],
    "files": [],
    "flow": [],
    "page": [],
    # Etcd answers as it should (0), and timers go on; then others write, and it is watched.
    "reigns": 40 * [TIMER] + [128 + 8, TIMER, 0, 129 + 8, 135] + 8 * [TIMER] + [129, 135] +
              40 * [TIMER],
    "wire": [],
}
# What browsers send (fuzz_page.c).
SENT = (b"/api/files?prefix=%2Fa%20b&limit=20&after=%c3%a4", b"/api/events?chunk=7&name=/x",
        b"/api/sessions?after=00ff&limit=3", b"/api/names?exact=true&explain=false",
        b"[::1]:7480", b"127.0.0.1:80", b"localhost", b"page.example:7480")
# Ends of a chunkserver's identity (fuzz_files.c says its beginnings).
IDENTITY = (b"leasehold-chunkserver 1\nserver_id cs1\ncluster_id -\nincarnation 7\nmaster_term 2\n",
            b"cs1\ncluster_id c\nincarnation 7\nmaster_term 2\nscrub -\n",
            b"7\nmaster_term 2\nscrub 1 2\n", b"scrub 12 345\n")
# What fuzz_edges.c begins with, of each kind.
CERTIFICATE = base64.b64decode(
    "MIIBmTCCAT+gAwIBAgIUY8Gf9BYIvh5nDDjFdi/8z5FKK54wCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBeDAgFw0y"
    "NjExMjMyMDI0NThaGA8yMTI2MTAzMDIwMjQ1OFowDDEKMAgGA1UEAwwBeDBZMBMGByqGSM49AgEGCCqGSM49AwEH"
    "A0IABCidROQ0s2+6nJPJcgO4TZKiHl3sSSyumidHI1c9KfgKUDZL8JzWtAcfNeQEfbqwa/i3jyzJDwwjZKzgy/G6"
    "cmSjfTB7MB0GA1UdDgQWBBRPgRblg6PcKL016gXbuBWdtSB/ZjAfBgNVHSMEGDAWgBRPgRblg6PcKL016gXbuBWd"
    "tSB/ZjAPBgNVHRMBAf8EBTADAQH/MCgGA1UdEQQhMB+CAWGHBAoAAAGGFGxlYXNlaG9sZDovL3dyaXRlci93MAoG"
    "CCqGSM49BAMCA0gAMEUCIQCRGEabN2l6x2PJl4S+CLiQ+LNf8JL65iTlhGbPoekCjwIgI+XlWEbCYx0uEUstqLEC"
    "NZuwWfGFZF/QAKAORX14Oj4=")
EDGES = (
    (b"\0\x22\x15leasehold.Master.Stat", b"\1\x1a\x0fleasehold.proto", b"\0\x3a\x01*",
     b"\2\x0a\x10leasehold.Master", b"\3\x0a\0", b"\2", b"\3\x0a\x01x"),
    (b"\1" + 3 * (b"\0\0\4\3\0\0\0\0\1\0\0\0\x08" b"\0\0\2\1\4\0\0\0\3\x82\x84"),),
    (b"\1" b"127.0.0.1:4711", b"\2fe80::1%25eth0%5D:4711", b"\3::1]:1"),
    (b"\0" + CERTIFICATE, b"\1-----BEGIN CERTIFICATE-----\n" + base64.b64encode(CERTIFICATE),
     b"\x84" + CERTIFICATE),
    (b"\x08NO_MEMORY: too many calls", b"\x8eetcdserver: no leader", b"\3: x"),
    (b"\x77", b"\x77" + 33 * b"\0", b"\x36\7" + 32 * b"\0", b"\xf3" + 40 * b"\1"),
)
# What fuzz_files.c begins with, of each kind; of IDENTITY what is behind the beginnings there.
FILES = (
    (b"\0text = a\nyes = true\n# no\n\nnumber=7\n", b'\3bytes = "4KiB"\ntime = 5s\nlist = a,b\n',
     b"\1-yt\na\n--time\n1.5min\n--no-yes\nb", b"\2LEASEHOLD_X_BYTES=2MiB\nLEASEHOLD_YES=1"),
    (b"10.0.0.1:2379,10.0.0.2:2379/leasehold", b"m1:1\nm2:2\nunix:/a", b"[::1]:2379/a/"),
    (b"leasehold://writer/a writer /logs/ /queue/\n", b'"CN=a b,O=c" reader /x\n# no\n',
     b"leasehold://admin/b none\n", b'"CN=s" chunkserver cs7'),
    (b"\0\0" + b"\2\1\1\1a\0\0\0" b"\2\2\2\1a\0\0\0" b"\2\1\7\1b\0\0\0" b"\0\0\0\0\0\0\0\0",),
    tuple(bytes([number]) + end for number, end in enumerate(IDENTITY)),
)


def main(part, folder):
    os.makedirs(folder, exist_ok=True)
    source = random.Random(1)
    for number in range(48):
        string = [number % (16 if part in ("decoders", "reigns") else 8)]
        for _ in range(1 + number // 8):
            for byte in USUAL[part]:
                string.append(byte)
                if byte == SETTLE and source.randrange(4) == 0:
                    string += [source.randrange(14)] + [source.randrange(256)] * 8
        if not USUAL[part]:
            string += [source.randrange(256) for _ in range(64)]
        if part == "page":
            sent = SENT[number % len(SENT)]
            string = [0 if sent.startswith(b"/") else 2, number] + list(sent)
            if number % 3 == 2:
                string = [1, number, 26, number % 9] + [10, 3, 97, 98, 99] * (number // 8)
        if part in ("edges", "files"):
            kinds = EDGES if part == "edges" else FILES
            kind = number % len(kinds)
            string = list(bytes([kind]) + kinds[kind][number // len(kinds) % len(kinds[kind])])
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(bytes(string))


if __name__ == "__main__":
    main(*sys.argv[1:])
