"""Members of a real etcd for tests: start, kill, pause, restart, wipe and replace them.

Each listens on ports of its own and has a folder of its own. Questions to it go through
etcd's own JSON gateway, so that nothing but Python is needed. As in process_cluster.py, nothing
waits for a time, only for what it needs.
"""

import base64
import collections
import http.client
import json
import os
import shutil
import signal
import ssl
import sys

from process_cluster import PATIENCE_S, Node, beside, wait_for


# Files (PEM): of an authority, and of a certificate of it that all show, members and callers.
Tls = collections.namedtuple("Tls", "ca cert key")


UNAVAILABLE = 14  # gRPC's code of what an election cuts off, and of what takes too long meanwhile


class Refused(Exception):
    """What a member answered instead; `code` is gRPC's."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def end_of_prefix(prefix):
    """The first key behind all that begin with `prefix`, whose last byte is not 0xff."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def prefix_range(prefix):
    """What in a request of the gateway means all keys that begin with `prefix`."""
    return {"key": base64.b64encode(prefix).decode(),
            "range_end": base64.b64encode(end_of_prefix(prefix)).decode()}


class Member(Node):
    """One etcd process: kill() is a crash, stop() a clean end, start() after either goes on with
    the same data."""

    def __init__(self, name, folder, flags, tls=None, host=beside):
        self.tls = tls
        self.flags = flags
        place = host(name)
        self.peer = f"http://{place.address()}"
        super().__init__(name, place.address(), os.path.join(folder, name), None,
                         os.path.join(folder, name + ".log"), place)

    def set_cluster(self, token, peers, state):
        """`peers`: all members' names and peer URLs. Counts for a member without data."""
        url = f"{'https' if self.tls else 'http'}://{self.address}"
        self.argv = [
            "etcd", f"--name={self.name}", f"--data-dir={self.data_dir}",
            f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
            f"--listen-peer-urls={self.peer}", f"--initial-advertise-peer-urls={self.peer}",
            f"--initial-cluster={','.join(f'{n}={p}' for n, p in peers.items())}",
            f"--initial-cluster-token={token}", f"--initial-cluster-state={state}", *self.flags]
        if self.tls:
            self.argv += ["--client-cert-auth", f"--trusted-ca-file={self.tls.ca}",
                          f"--cert-file={self.tls.cert}", f"--key-file={self.tls.key}"]

    def _connection(self, timeout):
        if not self.tls:
            return http.client.HTTPConnection(self.address, timeout=timeout)
        context = ssl.create_default_context(cafile=self.tls.ca)
        context.load_cert_chain(self.tls.cert, self.tls.key)
        return http.client.HTTPSConnection(self.address, timeout=timeout, context=context)

    def kill(self):
        if self.running():
            self.resume()
        super().kill()

    def restart(self):
        self.kill()
        self.start()

    def ask(self, path, timeout=PATIENCE_S, **request):
        """One request of the gateway: ask("/v3/maintenance/status"). Raises OSError if nothing
        answers, Refused if it refuses."""
        connection = self._connection(timeout)
        try:
            connection.request("POST", path, json.dumps(request))
            answer = json.loads(connection.getresponse().read())
        except (http.client.HTTPException, ValueError) as error:
            raise ConnectionError(f"{self.name}: {error!r}") from error
        finally:
            connection.close()
        if "error" in answer:
            raise Refused(answer.get("code"), answer["error"])
        return answer

    def status(self):
        return self.ask("/v3/maintenance/status")

    def ready(self):
        """Whether it answers a read that needs a majority."""
        try:
            self.ask("/v3/kv/range", key=base64.b64encode(b"ready").decode(), timeout=10)
            return True
        except (OSError, Refused):
            return False


class Etcd:
    """A cluster of members etcd1, etcd2, ... in `folder`."""

    def __init__(self, folder, members=3, flags=(), tls=None, host=beside):
        self.folder = folder
        self.members = {}
        for i in range(1, members + 1):
            member = Member(f"etcd{i}", folder, flags, tls, host)
            self.members[member.name] = member
        self._generation = 0
        self._found()

    def _peers(self):
        return {m.name: m.peer for m in self.members.values()}

    def _found(self):
        """Members without data begin a cluster that is not any earlier one."""
        self._generation += 1
        for m in self.members.values():
            m.set_cluster(f"{self.folder}-{self._generation}", self._peers(), "new")

    def addresses(self):
        """As an option takes them: "127.0.0.1:1,127.0.0.1:2"."""
        return ",".join(m.address for m in self.members.values())

    def start(self):
        # etcd 3.4 does not start on arm64 without it; elsewhere it means nothing.
        os.environ.setdefault("ETCD_UNSUPPORTED_ARCH", "arm64")
        for m in self.members.values():
            if not m.running():
                m.start()
        self.wait_ready()

    def wait_ready(self):
        """Until every member that runs answers."""
        def all_ready():
            for m in self.members.values():
                if m.process is not None and m.process.poll() not in (None, -signal.SIGKILL, 0):
                    raise AssertionError(f"{m.name} ended with {m.process.returncode}")
            return all(m.ready() for m in self.members.values() if m.running())

        wait_for("all members of etcd ready", all_ready)

    def leader(self):
        """The member that leads, once those that run agree on one."""
        def agreed():
            running = [m for m in self.members.values() if m.running()]
            try:
                said = [m.status() for m in running]
            except (OSError, Refused):
                return None
            leaders = {s.get("leader") for s in said}
            for m, s in zip(running, said):
                if leaders == {s["header"]["member_id"]}:
                    return m
            return None
        return wait_for("a leader of etcd", agreed)

    def kill(self):
        for m in self.members.values():
            m.kill()

    def wipe(self):
        """All data is gone; start() begins an empty cluster at the same addresses."""
        self.kill()
        for m in self.members.values():
            shutil.rmtree(m.data_dir, ignore_errors=True)
        self._found()

    def replace(self, name):
        """One member loses its disk and is replaced by a new one at its address. The others must
        have a majority."""
        lost = self.members[name]
        lost.kill()
        shutil.rmtree(lost.data_dir, ignore_errors=True)
        other = next(m for m in self.members.values() if m.running())
        lost_id = next(i for i, peers in self._known(other).items() if peers == [lost.peer])
        self._change(other, "/v3/cluster/member/remove",
                     lambda known: lost_id not in known, ID=lost_id)
        self._change(other, "/v3/cluster/member/add",
                     lambda known: [lost.peer] in known.values(), peerURLs=[lost.peer])
        lost.set_cluster(f"{self.folder}-{self._generation}", self._peers(), "existing")
        lost.start()
        self.wait_ready()

    @staticmethod
    def _known(member):
        """{id: peer URLs} of all members, as `member` knows them."""
        return {m["ID"]: m["peerURLs"]
                for m in member.ask("/v3/cluster/member/list", timeout=10)["members"]}

    def _change(self, member, path, done, **request):
        """Until done(members) holds. Membership is not changed while etcd finds its members
        unhealthy, within seconds of a start; and a change that was proposed to a leader that has
        died is answered never, since etcd 3.4 leaves its end to who asked."""
        def changed():
            try:
                if done(self._known(member)):
                    return True
                member.ask(path, timeout=10, **request)
            except (OSError, Refused):
                pass
            return False
        wait_for(path, changed)

    def save(self, folder):
        """Stops all and copies their data, to be brought back by restore(); then goes on."""
        self.kill()
        for m in self.members.values():
            shutil.copytree(m.data_dir, os.path.join(folder, m.name))
        self.start()

    def restore(self, folder):
        """Goes back to what save() has copied: revisions repeat."""
        self.kill()
        for m in self.members.values():
            shutil.rmtree(m.data_dir, ignore_errors=True)
            shutil.copytree(os.path.join(folder, m.name), m.data_dir)
        self.start()

    # Keys.

    def _any(self):
        return next(m for m in self.members.values() if m.running() and not m.paused)

    def ask_patiently(self, path, member=None, **request):
        """The answer of `member`, or of any that runs. A request that an election or a death cuts
        off is made again, whether it was carried out or not. Raises Refused for what no election
        explains."""
        def answer():
            try:
                return [(member or self._any()).ask(path, timeout=10, **request)]
            except OSError:
                return None
            except Refused as refused:
                if refused.code != UNAVAILABLE:
                    raise
                return None
        return wait_for(f"etcd's answer to {path}", answer)[0]

    def put(self, key, value, member=None):
        """Returns the revision at which it holds."""
        answer = self.ask_patiently("/v3/kv/put", member, key=base64.b64encode(key).decode(),
                                    value=base64.b64encode(value).decode())
        return int(answer["header"]["revision"])

    def get(self, prefix, member=None):
        """{key: value} of all keys that begin with `prefix`."""
        answer = self.ask_patiently("/v3/kv/range", member, **prefix_range(prefix))
        return {base64.b64decode(kv["key"]): base64.b64decode(kv.get("value", ""))
                for kv in answer.get("kvs", [])}

    def delete(self, prefix, member=None):
        """Afterwards no key begins with `prefix`."""
        self.ask_patiently("/v3/kv/deleterange", member, **prefix_range(prefix))

    def free_space(self, prefix):
        """These keys and all history are gone, files are small again, and the alarm is off."""
        self.delete(prefix)
        for m in self.members.values():
            self.compact(m)
        alarms = self.ask_patiently("/v3/maintenance/alarm", action="GET").get("alarms", [])
        for alarm in alarms:
            self.ask_patiently("/v3/maintenance/alarm", action="DEACTIVATE", **alarm)

    def compact(self, member):
        """All history is gone that it still has, and its file is small again."""
        revision = self.ask_patiently("/v3/maintenance/status", member)["header"]["revision"]
        try:
            self.ask_patiently("/v3/kv/compaction", member, revision=revision, physical=True)
        except Refused:
            pass  # another member was asked before
        self.ask_patiently("/v3/maintenance/defragment", member)

    def cleanup(self):
        self.kill()

    def show_logs(self, lines=40):
        """For a test that failed."""
        for m in self.members.values():
            text = m.log_text().splitlines()
            print(f"---- {m.name}, last lines of {len(text)}", file=sys.stderr)
            print("\n".join(text[-lines:]), file=sys.stderr)
