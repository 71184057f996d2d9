#!/usr/bin/python3
"""docs/recipes/membership.md: servers that come, end, die and stop, as a program sees them."""

import signal

import process_cluster
from process_cluster import wait_for
from process_recipes import RecipeTest

PREFIX = "/members/web/"


class MembershipTest(RecipeTest):

    def register(self, name, address):
        return self.leasehold(name, "register", "--term=4s", PREFIX + name, address, "--",
                              "sleep", "1000")

    def await_members(self, *members):
        wait_for(f"the members to be {members}",
                 lambda: self.lines("members.log")[-1:] == [" ".join(members)])

    def test_the_list_is_what_runs(self):
        members = self.build("membership")
        a, b = self.register("a", "10.0.0.1:80"), self.register("b", "10.0.0.2:80")
        self.start("members", members, self.cluster.master_address, PREFIX)
        self.await_members("a=10.0.0.1:80", "b=10.0.0.2:80")

        # One comes, one ends as it should.
        c = self.register("c", "10.0.0.3:80")
        self.await_members("a=10.0.0.1:80", "b=10.0.0.2:80", "c=10.0.0.3:80")
        b.signal(signal.SIGTERM)
        self.await_members("a=10.0.0.1:80", "c=10.0.0.3:80")
        self.assertEqual(b.process.wait(), 128 + signal.SIGTERM)

        # One dies, and its successor has its name as soon as it is gone.
        c.kill()
        d = self.leasehold("successor", "register", "--term=4s", PREFIX + "c", "10.0.0.9:80", "--",
                           "sleep", "1000")
        self.await_members("a=10.0.0.1:80", "c=10.0.0.9:80")
        self.assertIn("waiting until its program is gone", d.log_text())

        # One is stopped for longer than its term, and comes back.
        a.pause()
        self.await_members("c=10.0.0.9:80")
        a.resume()
        self.await_members("a=10.0.0.1:80", "c=10.0.0.9:80")

        # A master that is away for longer than their terms changes nothing (PS-3).
        before = len(self.lines("members.log"))
        expired = "no answer for the session's term"
        said = [process.log_text().count(expired) for process in (a, d)]
        self.cluster.master.kill()
        for process, count in zip((a, d), said):
            wait_for("the session to expire",
                     lambda p=process, n=count: p.log_text().count(expired) > n)
        self.cluster.master.start()
        self.register("e", "10.0.0.5:80")
        self.await_members("a=10.0.0.1:80", "c=10.0.0.9:80", "e=10.0.0.5:80")
        for line in self.lines("members.log")[before:]:
            self.assertIn("a=10.0.0.1:80 c=10.0.0.9:80", line)
        for process in (a, d):
            wait_for("the session to go on",
                     lambda p=process: "the value is still there" in p.log_text())


if __name__ == "__main__":
    process_cluster.main()
