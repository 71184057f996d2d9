"""A program on a terminal of the test's: a VT52, which knows no attributes and no colours."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import unicodedata

from process_cluster import wait_for


class Terminal:
    """Runs `argv` there; `screen()` is what a person would see."""

    def __init__(self, argv, environment, rows=24, columns=80):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.strange = set()  # what no VT52 understands
        self.late = b""  # of a character or a sequence
        environment = {**environment, "TERM": "vt52", "LC_ALL": "C.UTF-8"}
        for name in ("LINES", "COLUMNS"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            argv, env=environment, stdin=self.slave, stdout=self.slave, stderr=self.slave,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def close(self):
        self.process.kill()
        self.process.wait()
        for fd in (self.master, self.slave):
            if fd is not None:
                os.close(fd)
        self.master = self.slave = None

    def resize(self, rows, columns):
        self.rows, self.columns = rows, columns
        self.cells = [[" "] * columns for _ in range(rows)]
        self.y = self.x = 0
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def hang_up(self):
        """The terminal goes away, as when a connection breaks."""
        os.close(self.master)
        os.close(self.slave)
        self.master = self.slave = None

    def type(self, keys):
        os.write(self.master, keys.encode())

    def screen(self):
        """All that was written until now, as it stands there."""
        while select.select([self.master], [], [], 0)[0]:
            self._write(os.read(self.master, 65536))
        return "\n".join("".join(row).rstrip() for row in self.cells)

    def wait_for(self, *texts):
        """Until all of these are to be seen."""
        def seen():
            screen = self.screen()
            return screen if all(text in screen for text in texts) else None
        try:
            return wait_for(f"{texts} on the screen", seen)
        except AssertionError as error:
            raise AssertionError(f"{error}, which is:\n{self.screen()}") from None

    def is_as_before(self):
        """Echo and lines are as the program found them."""
        return termios.tcgetattr(self.slave) == self.before

    def _write(self, data):
        data = self.late + data
        self.late = b""
        at = 0
        while at < len(data):
            n = self._one(data[at:at + 4])
            if n == 0:
                self.late = data[at:]
                return
            at += n

    def _one(self, data):
        """Takes what `data` begins with: how many bytes that is; 0: it is not whole."""
        if data[0] == 0x1b:
            return self._sequence(data)
        if data[0] < 0x20:
            self._control(chr(data[0]))
            return 1
        size = 1 if data[0] < 0xc0 else 2 if data[0] < 0xe0 else 3 if data[0] < 0xf0 else 4
        if len(data) < size:
            return 0
        self._put(data[:size].decode(errors="replace"))
        return size

    def _control(self, letter):
        if letter == "\r":
            self.x = 0
        elif letter == "\b":
            self.x = max(0, self.x - 1)
        elif letter == "\n":
            self.y = min(self.y + 1, self.rows - 1)
        elif letter != "\a":
            self.strange.add(letter)

    def _sequence(self, data):
        if len(data) < 2 or (data[1:2] == b"Y" and len(data) < 4):
            return 0
        letter = chr(data[1])
        if letter == "Y":
            self.y, self.x = data[2] - 32, data[3] - 32
            return 4
        if letter in "ABCD":
            self.y += {"A": -1, "B": 1}.get(letter, 0)
            self.x += {"C": 1, "D": -1}.get(letter, 0)
        elif letter == "H":
            self.y = self.x = 0
        elif letter in "JK":
            self.cells[self.y][self.x:] = [" "] * (self.columns - self.x)
            for y in range(self.y + 1, self.rows if letter == "J" else 0):
                self.cells[y] = [" "] * self.columns
        elif letter not in "=>FG":
            self.strange.add("\x1b" + letter)
        return 2

    def _put(self, character):
        wide = unicodedata.east_asian_width(character) in "WF"
        if ord(character[0]) < 0xa0 and not " " <= character <= "~":
            self.strange.add(character)
        if self.y < self.rows and self.x < self.columns:
            self.cells[self.y][self.x] = character
            if wide and self.x + 1 < self.columns:
                self.cells[self.y][self.x + 1] = ""
        self.x += 2 if wide else 1
