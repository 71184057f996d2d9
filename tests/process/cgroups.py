"""A control group of a test's own, if this machine lets it have one."""

import os
import tempfile

from process_cluster import wait_for

# Of the first version each controller has a tree of its own; the second has one tree.
_PARENTS = ("/sys/fs/cgroup/{}", "/sys/fs/cgroup", "/sys/fs/cgroup/unified")


class Group:
    """Processes that `prefix` stands before are in it, and what they start."""

    def __init__(self, controller, *files):
        """With the files that a test uses. PermissionError: there is none to be had."""
        for parent in (p.format(controller) for p in _PARENTS):
            try:
                folder = tempfile.mkdtemp(prefix="leasehold-", dir=parent)
            except OSError:
                continue
            if all(os.access(os.path.join(folder, f), os.W_OK) for f in ("cgroup.procs", *files)):
                self.folder = folder
                self.prefix = ("/bin/sh", "-c", f'echo $$ >{folder}/cgroup.procs && exec "$@"', "-")
                return
            os.rmdir(folder)
        raise PermissionError(f"no cgroup with {', '.join(files)}")

    def write(self, file, text):
        with open(os.path.join(self.folder, file), "w", encoding="ascii") as out:
            out.write(text)

    def read(self, file):
        with open(os.path.join(self.folder, file), encoding="ascii") as text:
            return text.read()

    def remove(self):
        """When its processes have ended: it is theirs for a moment still."""
        def removed():
            try:
                os.rmdir(self.folder)
            except OSError:
                return False
            return True
        wait_for(f"{self.folder} is removed", removed)


class Freezer(Group):
    """Its processes stand still while it is frozen, as those of a container that is paused."""

    def __init__(self):
        try:
            super().__init__("freezer", "freezer.state")
            self.first = True
        except PermissionError:
            super().__init__("freezer", "cgroup.freeze")
            self.first = False

    def freeze(self):
        """Returns when all of them stand still."""
        if self.first:
            self.write("freezer.state", "FROZEN")
            wait_for("all stand still", lambda: self.read("freezer.state") == "FROZEN\n")
        else:
            self.write("cgroup.freeze", "1")
            wait_for("all stand still", lambda: "frozen 1\n" in self.read("cgroup.events"))

    def thaw(self):
        if self.first:
            self.write("freezer.state", "THAWED")
        else:
            self.write("cgroup.freeze", "0")
