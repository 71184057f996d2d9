"""What the tests are made of."""

load("//:copts.bzl", "LH_COPTS")

def lh_test(name, srcs = [], deps = [], linkopts = [], **kwargs):
    """One cmocka program: a file, named after its target. LH_STORY=NAME runs one story alone."""
    native.cc_test(
        name = name,
        srcs = [name + ".c"] + srcs,
        copts = LH_COPTS,
        linkopts = linkopts + ["-Wl,--wrap=_cmocka_run_group_tests"],
        deps = deps + [
            "//tests:story",
            "//third_party:cmocka",
        ],
        **kwargs
    )

def process_test(name, data = [], size = "large", alone = False):
    """One Python program, named after its target, that starts the servers.

    It waits more than it works, so others run beside it; `alone`: not beside one that loads the
    machine for all of its time."""
    native.sh_test(
        name = name,
        size = size,
        srcs = [name + ".py"],
        data = data + [
            "process_cluster.py",
            "//chunkserver:leasehold-chunkserver",
            "//client:leasehold-command",
            "//master:leasehold-master",
        ],
        tags = [
            "local",
            "nosanitizer",
            "process",
        ] + (["exclusive"] if alone else []),
    )
