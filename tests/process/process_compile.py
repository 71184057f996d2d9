"""Programs in C with the library, compiled as a user's are."""

import os
import subprocess

# Where tests find them (the runfiles).
HEADERS = "client/library"
LIBRARY = "client/library/shared/libleasehold.so"
NAME = "libleasehold.so.0"  # as a program looks for it once it is installed


def compile_program(folder, name, source, *flags):
    """Writes the program into the folder, with the library beside it; returns its path. The
    standard of C is among the flags."""
    program, library = os.path.join(folder, name), os.path.join(folder, NAME)
    if not os.path.exists(library):
        os.symlink(os.path.abspath(LIBRARY), library)
    subprocess.run(["cc", *flags, "-x", "c", "-", "-x", "none", "-o", program, "-isystem", HEADERS,
                    library, f"-Wl,-rpath,{folder}"], input=source, encoding="utf-8", check=True)
    return program
