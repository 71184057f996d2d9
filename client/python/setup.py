"""The version is that of the headers; the extension is made from them."""

import os
import sys

import setuptools

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))  # pip does not look beside this file
import build_ffi  # noqa: E402  pylint: disable=wrong-import-position

setuptools.setup(version=build_ffi.version(), cffi_modules=["build_ffi.py:builder"])
