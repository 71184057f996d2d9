"""Compiler options of every target that is ours (generated code is compiled without them)."""

LH_COPTS = [
    "-Wall",
    "-Wextra",
    "-Wconversion",
    "-Wshadow",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Werror",
]
