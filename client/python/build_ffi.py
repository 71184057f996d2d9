"""Makes leasehold._capi, the C library as Python sees it, from the library's own headers.

The headers are the only description there is: their comments and guards are taken out, and what is
left is what cffi reads. The C compiler checks it against the headers, so a structure that changes
cannot be read wrongly.

Where the library is: pkg-config says so (PKG_CONFIG_PATH), or LEASEHOLD_INCLUDE and LEASEHOLD_LIB,
folders.
"""

import os
import re
import subprocess

import cffi

HEADERS = ("leasehold.h", "leasehold_leases.h")

# What C calls: leasehold/_native.py has the functions.
CALLBACKS = """
extern "Python" void lh_py_appended(void *, int, struct lh_position, uint32_t);
extern "Python" void lh_py_granted(void *, int, const struct lh_lock *);
extern "Python" void lh_py_recalled(void *, const struct lh_lock *, bool, const char *);
extern "Python" void lh_py_lost(void *, const struct lh_lock *);
extern "Python" void lh_py_state(void *, struct lh_session *, enum lh_session_state);
"""


def _pkg_config(option):
    return subprocess.run(["pkg-config", option, "leasehold"], check=True, capture_output=True,
                          encoding="utf-8").stdout.split()


def include_folder():
    return os.environ.get("LEASEHOLD_INCLUDE") or _pkg_config("--variable=includedir")[0]


def library_folder():
    return os.environ.get("LEASEHOLD_LIB") or _pkg_config("--variable=libdir")[0]


def _read(header):
    with open(os.path.join(include_folder(), header), encoding="utf-8") as file:
        return file.read()


def version():
    text = _read(HEADERS[0])
    return ".".join(re.search(rf"^#define LH_VERSION_{part}\s+(\d+)", text, re.MULTILINE).group(1)
                    for part in ("MAJOR", "MINOR"))


def declarations(text):
    """What is left of a header for cffi. The values of constants come from the compiler."""
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
    text = re.sub(r"#ifdef __cplusplus.*?#endif", "", text, flags=re.DOTALL)
    text = re.sub(r"^#define (\w+)[ \t]+\S.*$", r"#define \1 ...", text, flags=re.MULTILINE)
    return "\n".join(line for line in text.split("\n")
                     if not line.startswith("#") or line.endswith(" ..."))


builder = cffi.FFI()
for name in HEADERS:
    builder.cdef(declarations(_read(name)))
builder.cdef(CALLBACKS)
builder.set_source("leasehold._capi",
                   "".join(f"#include <{name}>\n" for name in HEADERS),
                   include_dirs=[include_folder()], library_dirs=[library_folder()],
                   libraries=["leasehold"])

if __name__ == "__main__":
    builder.compile(verbose=True)
