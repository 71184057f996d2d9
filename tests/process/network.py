"""A network of hosts for tests, on one machine: each host is a network namespace with an address of
its own, and packets from one to another can be dropped, in one direction or in both.

A program that calls enter() first runs on inside namespaces that are its alone: of processes,
mounts and the network. So nothing has to be removed from the machine, however the program ends:
with its first process the kernel ends all others, and namespaces, links and rules vanish with the
last of them. Nor can it disturb a test that runs beside it, or the machine's own network.

The program itself is at the router to which all hosts are linked. It reaches every host, whatever
is cut: it is the observer, and the operator at the console.

    network.py      builds a network and cuts it: whether that is possible here
"""

import contextlib
import os
import signal
import subprocess
import sys

NAMESPACES = ["unshare", "--net", "--mount", "--pid", "--mount-proc", "--fork", "--kill-child"]
INSIDE = "LEASEHOLD_INSIDE_NETWORK"  # set for a program that enter() has started again

refused = None  # or a sentence: why this machine does not allow it


def enter():
    """Returns inside, or with `refused` set."""
    global refused
    if os.environ.pop(INSIDE, None):
        # The first process of a namespace ignores a signal that it has no handler for.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        return
    # Who is not root becomes it in there, where the machine lets anybody make such namespaces.
    command = NAMESPACES + ([] if os.geteuid() == 0 else ["--map-root-user"])
    os.environ[INSIDE] = "yes"
    try:
        probe = subprocess.run([*command, sys.executable, os.path.abspath(__file__)],
                               capture_output=True, encoding="utf-8", check=False)
        why = probe.stderr.strip().split("\n")[-1] if probe.returncode != 0 else None
    except OSError as error:
        why = str(error)
    if why is None:
        os.execvp(command[0], [*command, sys.executable, *sys.argv])
    del os.environ[INSIDE]
    refused = f"network namespaces cannot be made here: {why}"


def _run(*argv, stdin=None):
    done = subprocess.run(argv, input=stdin, capture_output=True, encoding="utf-8", check=False)
    if done.returncode != 0:
        why = done.stderr.strip().replace("\n", "; ") or f"status {done.returncode}"
        raise OSError(f"{' '.join(argv)}: {why}")


def _ip(*lines, inside=None):
    """Commands of ip(8), in the router or in a host."""
    _run("ip", *(["-netns", inside] if inside else []), "-batch", "-",
         stdin="".join(line + "\n" for line in lines))


class Host:
    """As process_cluster.Host; `prefix` starts a process there."""

    def __init__(self, name, number):
        self.name, self.ip = name, f"10.1.{number}.2"
        self._port = 7000
        router, link = f"10.1.{number}.1", f"to{number}"
        _run("ip", "netns", "add", name)
        _ip(f"link add {link} type veth peer name wire netns {name}",
            f"address add {router}/24 dev {link}",
            f"link set {link} up")
        _ip(f"address add {self.ip}/24 dev wire",
            "link set wire up",
            "link set lo up",
            f"route add default via {router}", inside=name)
        # It takes the place of nsenter: what is signalled is the process itself.
        self.prefix = ("nsenter", f"--net=/run/netns/{name}")

    def address(self):
        """Another one at each call. Nobody else takes ports here, but for the far end of the
        range that the kernel hands out."""
        self._port += 1
        return f"{self.ip}:{self._port}"


class Network:
    """The hosts by name. There is one network in a program."""

    def __init__(self):
        self._hosts = {}
        # What `ip netns` leaves behind lies in there.
        _run("mount", "-t", "tmpfs", "none", "/run")
        _ip("link set lo up")
        with open("/proc/sys/net/ipv4/ip_forward", "w", encoding="ascii") as file:
            file.write("1\n")

    def host(self, name):
        """The host of that name; it is made when it is first asked for."""
        if name not in self._hosts:
            self._hosts[name] = Host(name, len(self._hosts) + 1)
        return self._hosts[name]

    @contextlib.contextmanager
    def cut(self, *ways):
        """While it lasts, packets of each way, a pair of names (from, to), are dropped. No side is
        told: the router has no answer for them, as a broken cable has none."""
        rules = [f"pref 100 from {self.host(a).ip} to {self.host(b).ip} blackhole"
                 for a, b in ways]
        _ip(*(f"rule add {rule}" for rule in rules))
        try:
            yield
        finally:
            _ip(*(f"rule delete {rule}" for rule in rules))


def _first(network, sink, *sources):
    """The source whose datagram gets to the sink first: each sends one, in turn. A name in
    `sources` is a host's; None is the router."""
    listener = subprocess.Popen(
        [*network.host(sink).prefix, sys.executable, "-c",
         "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(10)\n"
         "s.bind(('', 7000)); print(flush=True); print(s.recvfrom(9)[1][0])"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, encoding="ascii")
    with listener:
        listener.stdout.readline()
        for source in sources:
            prefix = network.host(source).prefix if source else ()
            subprocess.run([*prefix, sys.executable, "-c",
                            "import socket; socket.socket(type=socket.SOCK_DGRAM)"
                            f".sendto(b'', ('{network.host(sink).ip}', 7000))"], check=True)
        ip = listener.stdout.readline().strip()
    return next((s for s in sources if s and network.host(s).ip == ip), None)


def main():
    """Fails if a network does not do here what a test needs. Neighbours are known to each other
    when it comes to what must not arrive, so what the router sends then is not faster."""
    network = Network()
    assert _first(network, "b", "a") and _first(network, "a", "b"), "nothing is forwarded"
    with network.cut(("a", "b")):
        assert not _first(network, "b", "a", None), "a rule drops nothing"
        assert _first(network, "a", "b"), "a rule drops too much"
    assert _first(network, "b", "a"), "a rule stays"


if __name__ == "__main__":
    if INSIDE not in os.environ:
        enter()
        sys.exit(refused)
    main()
