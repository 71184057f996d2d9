"""How a core is built: once for the product, once for the simulator.

The simulator's build of the same sources can be given planted bugs and counts coverage marks
(base/probe.h); in the product's both are nothing.
"""

load("//:copts.bzl", "LH_COPTS")

# Nothing that is shipped.
PROBED_USERS = [
    "//access:__pkg__",
    "//bench:__pkg__",
    "//chunkserver:__subpackages__",
    "//client:__subpackages__",
    "//evidence:__pkg__",
    "//finder:__pkg__",
    "//flow:__pkg__",
    "//lease:__pkg__",
    "//master:__subpackages__",
    "//sim:__subpackages__",
    "//tests:__subpackages__",
    "//wire:__subpackages__",
]

def _named(core):
    return core if ":" in core else core + ":" + core.split("/")[-1]

def _probed(core):
    return _named(core) + "_probed"

def _sources(core):
    return _named(core) + "_sources"

def lh_core(name, srcs, hdrs, cores = [], deps = [], visibility = ["//visibility:public"]):
    """Defines `name` for the product and `name`_probed for the simulator.

    Args:
      name: of the target.
      srcs: sources.
      hdrs: headers.
      cores: what it depends on that is itself defined by lh_core, as //package:name.
      deps: what else it depends on.
      visibility: of the product's; what is inside of a core is for that core alone.
    """
    native.cc_library(
        name = name,
        srcs = srcs,
        hdrs = hdrs,
        copts = LH_COPTS,
        visibility = visibility,
        deps = deps + cores,
    )

    # For the fuzzers, which compile them, and the cores below, with another compiler.
    native.filegroup(
        name = name + "_sources",
        srcs = srcs + hdrs + [_sources(core) for core in cores],
        visibility = ["//visibility:public"],
    )
    native.cc_library(
        name = name + "_probed",
        srcs = srcs,
        hdrs = hdrs,
        copts = LH_COPTS,
        # Probes are found in their sections of one binary; a test that is linked from shared
        # libraries would have one such section in each.
        linkstatic = True,
        local_defines = ["LH_PROBED=1"],
        visibility = PROBED_USERS,
        deps = deps + [_probed(core) for core in cores] + ["//base:probe"],
    )
