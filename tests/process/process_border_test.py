#!/usr/bin/python3
"""Errors of disks below real servers: each error of each call, at the primary, at another member or
at all of them, once or for a time, while something is under way.

TABLE says what happens. A cell is a row with one error. Every cell ends the same way: the faults
are over, every server runs, the file takes appends, and what was acknowledged is all there, once,
in order, on replicas that are byte-identical.

There are also cells with real file systems (EXT4), and with servers that stand still for a time
(FREEZER).

    process_border_test.py            a minute of cells; LEASEHOLD_BORDER_SEED draws their order
    process_border_test.py --for=1h   as many as fit into an hour
    process_border_test.py --list     names the cells
    process_border_test.py CELL...    those that begin so
"""

import collections
import ctypes
import errno
import itertools
import os
import subprocess
import sys
import time

from border_cells import ANY, FEW, LASTING, ONCE, Faults, main
from cgroups import Freezer
from process_cluster import ClusterTest, Host, wait_for

PATH = "/border/log"
SECONDS = 60
# Where the programs for file systems are, which a test's environment may not name.
os.environ["PATH"] += os.pathsep + os.pathsep.join(("/usr/sbin", "/sbin"))

LIMIT_S = float(os.environ.get("LEASEHOLD_BORDER_LIMIT_SECONDS", 60))  # to what must come
CHUNKS = "*/chunks/*.chunk"
PROBE = "*/chunks/0000000000000000.chunk"

# At whom. There are four servers, and the file has three replicas.
PRIMARY, SECONDARY, ALL, TARGET = "primary", "secondary", "all", "target"
# What the appender sees meanwhile. ANY_WAY: it may wait, since fewer than two servers can take.
GOES_ON, ANY_WAY = "goes on", "may wait"

Row = collections.namedtuple("Row", "when call errors lasts where meanwhile")

TABLE = (
    # While the log grows.
    Row("append", "write", ANY, ONCE, PRIMARY, GOES_ON),
    Row("append", "write", ANY, ONCE, SECONDARY, GOES_ON),
    Row("append", "write", ANY, ONCE, ALL, GOES_ON),
    Row("append", "write", ANY, LASTING, PRIMARY, GOES_ON),
    Row("append", "write", ANY, LASTING, SECONDARY, GOES_ON),
    Row("append", "write", ANY, LASTING, ALL, ANY_WAY),
    Row("append", "sync", ANY, ONCE, PRIMARY, GOES_ON),
    Row("append", "sync", ANY, ONCE, SECONDARY, GOES_ON),
    Row("append", "sync", ANY, ONCE, ALL, GOES_ON),
    Row("append", "sync", FEW, LASTING, PRIMARY, GOES_ON),
    Row("append", "sync", FEW, LASTING, SECONDARY, GOES_ON),
    Row("append", "sync", FEW, LASTING, ALL, ANY_WAY),
    # Chunk after chunk: seals, and the next one's replicas.
    Row("roll", "header", ANY, ONCE, PRIMARY, GOES_ON),
    Row("roll", "header", ANY, ONCE, SECONDARY, GOES_ON),
    Row("roll", "header", ANY, ONCE, ALL, GOES_ON),
    Row("roll", "header", FEW, LASTING, PRIMARY, GOES_ON),
    Row("roll", "header", FEW, LASTING, ALL, ANY_WAY),
    Row("roll", "create", ANY + ("EMFILE",), ONCE, PRIMARY, GOES_ON),
    Row("roll", "create", ANY + ("EMFILE",), LASTING, SECONDARY, GOES_ON),
    Row("roll", "create", FEW, LASTING, ALL, ANY_WAY),
    Row("roll", "allocate", ANY + ("EOPNOTSUPP",), ONCE, SECONDARY, GOES_ON),
    Row("roll", "allocate", ANY + ("EOPNOTSUPP",), LASTING, PRIMARY, GOES_ON),
    Row("roll", "allocate", FEW, LASTING, ALL, ANY_WAY),
    Row("roll", "truncate", FEW, LASTING, ALL, ANY_WAY),
    # The primary dies, and the others take a version over.
    Row("adopt", "header", ANY, ONCE, SECONDARY, GOES_ON),
    Row("adopt", "header", ANY, ONCE, ALL, GOES_ON),
    Row("adopt", "header", FEW, LASTING, SECONDARY, GOES_ON),
    Row("adopt", "header", FEW, LASTING, ALL, ANY_WAY),
    Row("adopt", "sync", ANY, ONCE, SECONDARY, GOES_ON),
    Row("adopt", "sync", ANY, ONCE, ALL, GOES_ON),
    Row("adopt", "write", FEW, ONCE, ALL, GOES_ON),
    # A member is drained, and the fourth server gets what it has.
    Row("copy", "write", ANY, ONCE, TARGET, GOES_ON),
    Row("copy", "header", ANY, ONCE, TARGET, GOES_ON),
    Row("copy", "sync", ANY, ONCE, TARGET, GOES_ON),
    Row("copy", "create", ANY, ONCE, TARGET, GOES_ON),
    Row("copy", "read", FEW, ONCE, ALL, GOES_ON),
    # Everything is read again all the time.
    Row("scrub", "read", FEW + ("ENXIO", "EINVAL"), ONCE, SECONDARY, GOES_ON),
    Row("scrub", "read", FEW, ONCE, PRIMARY, GOES_ON),
    # A server starts meanwhile, or all of them do.
    Row("start", "write", ANY, LASTING, SECONDARY, GOES_ON),
    Row("start", "write", FEW, LASTING, ALL, ANY_WAY),
    Row("start", "header", FEW, LASTING, ALL, ANY_WAY),
    Row("start", "create", FEW, LASTING, SECONDARY, GOES_ON),
    Row("start", "rename", FEW, LASTING, ALL, ANY_WAY),
    Row("start", "sync", FEW, ONCE, SECONDARY, GOES_ON),
    Row("start", "syncfs", FEW, LASTING, SECONDARY, GOES_ON),
    # Nothing at all can be changed: as a file system that was remounted read-only.
    Row("append", "everything", ("EROFS", "EIO"), LASTING, PRIMARY, GOES_ON),
    Row("append", "everything", ("EROFS", "EIO"), LASTING, ALL, ANY_WAY),
    Row("start", "everything", ("EROFS", "EIO"), LASTING, SECONDARY, GOES_ON),
    Row("start", "everything", ("EROFS", "ENOSPC"), LASTING, ALL, ANY_WAY),
    # A limit on the size of files, of the process itself (`ulimit -f`).
    Row("append", "limit", ("EFBIG",), LASTING, PRIMARY, GOES_ON),
    Row("append", "limit", ("EFBIG",), LASTING, ALL, ANY_WAY),
    Row("start", "limit", ("EFBIG",), LASTING, ALL, ANY_WAY),
)

# The same with an ext4 of its own below each server, in which the kernel finds an error and which
# it remounts read-only (errors=remount-ro): (when, where). Then the machines are repaired.
EXT4 = (("append", PRIMARY), ("append", ALL), ("start", SECONDARY), ("start", ALL))
# How the servers there ask the kernel: as they are shipped, and by system calls alone.
URING = {"uring": ("--uring",), "calls": ("--no-uring",)}

# A server is frozen, as a container that is paused (a cgroup's freezer), for so long, and thawed:
# it finds its clock further on, with all that it had in memory. A term is TERM_S.
TERM_S = 2
FREEZER = tuple(itertools.product((0.5 * TERM_S, 4 * TERM_S), (PRIMARY, SECONDARY)))

# What changes anything.
EVERYTHING = ("create", "write", "header", "sync", "truncate", "allocate", "rename", "unlink")


def rules_of(row, error):
    number = getattr(errno, error)
    if row.call == "everything":
        return [(call, number, 0, -1, "*") for call in EVERYTHING]
    if row.lasts == LASTING:
        return [(row.call, number, 0, -1, "*")]
    # A single error of the probe says nothing of a log.
    return [(row.call, 0, 0, -1, PROBE), (row.call, number, 0, 1, CHUNKS)]


class BorderTest(ClusterTest):
    """A test for each cell."""

    ran = []

    def start(self, chunk_size, server_flags=(), uring=URING["calls"], below=None, **options):
        """`below`: prefixes of the servers' command lines, by their names."""
        self.faults = {}

        def host(name):
            if not name.startswith("cs"):
                return Host()
            self.faults[name] = Faults(self.folder, name)
            self.faults[name].prefix = (*(below or {}).get(name, ()), *self.faults[name].prefix)
            return self.faults[name]

        self.start_cluster(servers=4, host=host, master_flags=("--grace=10m",),
                           server_flags=(*uring, *server_flags), session_term=f"{TERM_S}s",
                           chunk_term=f"{TERM_S}s", **options)
        self.cluster.command("create", "--durability=synced", f"--chunk-size={chunk_size}", PATH)
        self.start_writers(PATH, 1)
        wait_for("three replicas", lambda: len(self.tail()["members"]) == 3)

    def tail(self):
        return self.cluster.chunks(PATH)[-1]

    def members(self):
        return [m["server_id"] for m in self.tail()["members"]]

    def limit_files(self, name, size):
        """`ulimit -f` of a process that runs, and of those that are started."""
        server = self.cluster.servers[name]
        text = "unlimited" if size is None else str(size)
        server.limits = (f"--fsize={text}:unlimited",)
        if server.running():
            subprocess.run(["prlimit", f"--pid={server.process.pid}", *server.limits], check=True)

    def sealed_records(self):
        """How many acknowledged records lie in sealed chunks."""
        length = sum(chunk["length"] for chunk in self.cluster.chunks(PATH) if chunk["sealed"])
        return sum(position[0] < length for position in self.writers[0].positions())

    def check_readable(self):
        """REC-8: what is sealed can be read wherever nothing can be written."""
        sealed = self.sealed_records()
        self.assertGreater(sealed, 0)

        def read():
            return self.cluster.run("cat", "--timeout=5s", PATH).stdout.count(b"\n") >= sealed
        wait_for(f"the {sealed} records of sealed chunks are read", read, 30)

    def check_read_only(self, names):
        def shown():
            servers = {s["server_id"]: s for s in self.cluster.json("servers")["servers"]}
            return all(servers[name]["read_only"] and servers[name]["live"] for name in names)
        wait_for(f"{names} are read-only", shown, 30)

    def struck(self, names):
        return any(self.faults[name].hits() for name in names)

    # What is done meanwhile: each returns the servers whose disks fail.

    def victims(self, row):
        primary = self.cluster.primary(PATH)
        others = [name for name in self.members() if name != primary]
        return {PRIMARY: [primary], SECONDARY: others[:1], ALL: [primary] + others,
                TARGET: [n for n in self.cluster.servers if n != primary and n not in others]
                }[row.where]

    def begin(self, row, error, names):
        if row.call == "limit":
            for name in names:
                self.limit_files(name, 16384)
            return
        for name in names:
            self.faults[name].set(rules_of(row, error))

    def end(self, names):
        for name in names:
            self.faults[name].clear()
            self.limit_files(name, None)

    def cell(self, row, error):
        one_chunk = row.when in ("append", "adopt") and row.call != "everything"
        self.start("256MiB" if one_chunk else "1MiB",
                   ("--scrub-period=2s", "--scrub-rate=1GiB") if row.when == "scrub" else ())
        BorderTest.ran.append(self.id())
        if row.call == "everything":
            wait_for("a sealed chunk", self.sealed_records)
        names = self.victims(row)
        killed = []
        if row.when == "adopt":
            primary = self.cluster.primary(PATH)
            killed = [primary]
            names = [name for name in names if name != primary]
        elif row.when == "start":
            killed = names
        if row.when == "start":
            for name in killed:
                self.cluster.servers[name].kill()
        self.begin(row, error, names)
        if row.when == "adopt":
            self.cluster.servers[killed[0]].kill()
        elif row.when == "start":
            for name in killed:
                self.cluster.servers[name].start()
            killed = []
        elif row.when == "copy":
            source = [name for name in self.members() if name not in names]
            drained = source[-1] if source else self.members()[-1]
            self.cluster.command("drain", drained)
        if row.call != "limit" and not (row.when == "start" and row.call in ("write", "header")):
            wait_for("the fault has struck", lambda: self.struck(names))
        if row.call == "everything" and "ENOSPC" != error:
            self.check_read_only(names)
        if row.call == "everything" and row.where == ALL:
            self.check_readable()
        if row.meanwhile == GOES_ON:
            self.await_progress(100, LIMIT_S)
        else:
            time.sleep(3)
        for server in self.cluster.servers.values():
            if server.name not in killed:
                self.assertTrue(server.running(), f"{server.name} has ended")
        self.end(names)
        for name in killed:
            self.cluster.servers[name].start()
        if row.when == "copy":
            self.cluster.command("undrain", drained)
        self.cluster.wait_ready()
        self.await_progress(100, LIMIT_S)
        self.finish_writers()
        self.check_file(PATH)

    # Real file systems.

    def make_disks(self, count):
        """A file system for each server's data directory, by the servers' names; or the test cannot
        be made here."""
        why = no_loop_devices()
        if why:
            self.skipTest(why)
        self.loops = {}
        self.addCleanup(self.remove_disks)
        return {name: self.make_disk(name) for name in (f"cs{i + 1}" for i in range(count))}

    def shut_down(self, name):
        trigger = f"/sys/fs/ext4/{os.path.basename(self.loops[name])}/trigger_fs_error"
        with open(trigger, "w", encoding="ascii") as file:
            file.write("1")

    def make_disk(self, name):
        mount = os.path.join(self.folder, "fs-" + name)
        image = mount + ".img"
        os.mkdir(mount)
        with open(image, "wb") as file:
            file.truncate(400 << 20)
        command("mkfs.ext4", "-q", "-F", image)
        self.loops[name] = command("losetup", "-f", "--show", image).strip()
        self.mount(name)
        return os.path.join(mount, "data")

    def mount(self, name):
        command("mount", "-o", "errors=remount-ro", self.loops[name],
                os.path.join(self.folder, "fs-" + name))

    def unmount(self, name):
        wait_for(f"the disk of {name} is unmounted", lambda: subprocess.run(
            ["umount", os.path.join(self.folder, "fs-" + name)], stderr=subprocess.DEVNULL,
            check=False).returncode == 0, 20)

    def remove_disks(self):
        if self.cluster is not None:
            self.cluster.cleanup()
        for name in self.loops:
            subprocess.run(["umount", os.path.join(self.folder, "fs-" + name)], check=False,
                           stderr=subprocess.DEVNULL)
            command("losetup", "-d", self.loops[name])

    def idle_ext4_cell(self, uring):
        """REC-2a: what a buffered file has in the kernel's memory alone goes with the mount, though
        the machine was never down. The member that has lost it does not say where the log ends."""
        self.start_cluster(servers=2, data_dirs=self.make_disks(2), server_flags=URING[uring])
        BorderTest.ran.append(self.id())
        self.cluster.command("create", "--durability=buffered", "--replication=2",
                             "--min-replicas=1", PATH)
        self.cluster.command("append", PATH, stdin=b"one\ntwo\n")
        primary = self.cluster.servers[self.cluster.primary(PATH)]
        (other,) = [s for s in self.cluster.servers.values() if s is not primary]
        self.shut_down(other.name)
        other.kill()
        self.unmount(other.name)
        self.mount(other.name)
        primary.kill()
        other.start()
        self.cluster.run("append", "--timeout=15s", "--give-up=10s", PATH, stdin=b"three\n")
        primary.start()
        self.cluster.wait_ready()

        def read():
            return self.cluster.run("cat", "--timeout=5s", PATH).stdout.split(b"\n")[:2]
        wait_for("what was acknowledged is read", lambda: read() == [b"one", b"two"], 60)

    def ext4_cell(self, when, where, uring):
        self.start("1MiB", data_dirs=self.make_disks(4), uring=URING[uring])
        BorderTest.ran.append(self.id())
        wait_for("a sealed chunk", self.sealed_records)
        names = self.victims(Row(when, None, None, None, where, None))
        for name in names:
            self.shut_down(name)
        servers = [self.cluster.servers[name] for name in names]
        if when == "start":
            for server in servers:
                server.kill()
                server.start()
        self.check_read_only(names)
        self.check_readable()
        if where != ALL:
            self.await_progress(100, LIMIT_S)
        for server in self.cluster.servers.values():
            self.assertTrue(server.running(), f"{server.name} has ended")
        for server in servers:
            server.kill()
            self.unmount(server.name)
            subprocess.run(["e2fsck", "-fy", self.loops[server.name]], check=False,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.mount(server.name)
            server.start()
        self.cluster.wait_ready()
        self.await_progress(100, LIMIT_S)
        self.finish_writers()
        self.check_file(PATH)


    # Servers that stand still.

    def freezer_cell(self, seconds, where):
        groups = {}
        try:
            for i in range(1, 5):
                groups[f"cs{i}"] = Freezer()
        except PermissionError as error:
            self.skipTest(f"freezer: {error}")

        def remove():
            for group in groups.values():
                group.thaw()
            if self.cluster is not None:
                self.cluster.cleanup()
            for group in groups.values():
                group.remove()
        self.addCleanup(remove)
        self.start("256MiB", uring=URING["uring"],
                   below={name: group.prefix for name, group in groups.items()})
        BorderTest.ran.append(self.id())
        self.await_progress(100, LIMIT_S)
        (frozen,) = self.victims(Row(None, None, None, None, where, None))
        groups[frozen].freeze()
        since = time.monotonic()
        if seconds > TERM_S:
            self.await_progress(100, LIMIT_S)
        time.sleep(max(0, since + seconds - time.monotonic()))
        groups[frozen].thaw()
        self.await_progress(100, LIMIT_S)
        for server in self.cluster.servers.values():
            self.assertTrue(server.running(), f"{server.name} has ended")
        self.cluster.wait_ready()
        self.finish_writers()
        self.check_file(PATH)


def command(*argv):
    return subprocess.run(argv, check=True, capture_output=True).stdout.decode()


_private = []


def no_loop_devices():
    """Why there are none here; None: there are. Mounts are this process's own from now on."""
    if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
        return "ext4: no loop devices here"
    if not _private:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(0x20000) != 0 or libc.mount(b"none", b"/", None, 0x44000, None) != 0:
            return "ext4: not allowed to mount"
        _private.append(True)
    if subprocess.run(["losetup", "-f"], capture_output=True, check=False).returncode != 0:
        return "ext4: no loop device is free"
    return None


def cells():
    for row in TABLE:
        for error in row.errors:
            name = "_".join(("test", row.when, row.call, error, row.lasts, row.where))
            yield name.replace(" ", "_"), row, error


for _name, _row, _error in cells():
    setattr(BorderTest, _name, lambda self, row=_row, error=_error: self.cell(row, error))
for _uring in URING:
    for _when, _where in EXT4:
        setattr(BorderTest, f"test_{_when}_ext4_remounted_{_where}_{_uring}",
                lambda self, when=_when, where=_where, uring=_uring:
                self.ext4_cell(when, where, uring))
    setattr(BorderTest, f"test_idle_ext4_mounted_again_under_the_same_boot_{_uring}",
            lambda self, uring=_uring: self.idle_ext4_cell(uring))
for _seconds, _where in FREEZER:
    setattr(BorderTest, f"test_append_freezer_{_seconds:.0f}s_{_where}",
            lambda self, seconds=_seconds, where=_where: self.freezer_cell(seconds, where))


if __name__ == "__main__":
    sys.exit(main(BorderTest, "border", SECONDS))
