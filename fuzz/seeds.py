#!/usr/bin/python3
"""Writes strings of bytes to begin with (world.h): whoever begins with nothing spends the time on
registering. Each is the usual course of things, now and then with something else in between."""

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
    "page": [],
}
# What browsers send (fuzz_page.c).
SENT = (b"/api/files?prefix=%2Fa%20b&limit=20&after=%c3%a4", b"/api/events?chunk=7&name=/x",
        b"/api/sessions?after=00ff&limit=3", b"/api/names?exact=true&explain=false",
        b"[::1]:7480", b"127.0.0.1:80", b"localhost", b"page.example:7480")
# Ends of a chunkserver's identity (fuzz_decoders.c says its beginnings).
IDENTITY = (b"leasehold-chunkserver 1\nserver_id cs1\ncluster_id -\nincarnation 7\nmaster_term 2\n",
            b"cs1\ncluster_id c\nincarnation 7\nmaster_term 2\nscrub -\n",
            b"7\nmaster_term 2\nscrub 1 2\n", b"scrub 12 345\n")


def main(part, folder):
    os.makedirs(folder, exist_ok=True)
    source = random.Random(1)
    for number in range(48):
        string = [number % (20 if part == "decoders" else 4)]
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
        if part == "decoders" and number % 5 == 3:
            string[1:] = [number % 4] + list(IDENTITY[number % 4])
        with open(os.path.join(folder, str(number)), "wb") as file:
            file.write(bytes(string))


if __name__ == "__main__":
    main(*sys.argv[1:])
