"""One cmocka program: a file, named after its target."""

load("//:copts.bzl", "LH_COPTS")

def lh_test(name, srcs = [], deps = [], **kwargs):
    native.cc_test(
        name = name,
        srcs = [name + ".c"] + srcs,
        copts = LH_COPTS,
        deps = deps + ["//third_party:cmocka"],
        **kwargs
    )
