# SPDX-License-Identifier: BSD-3-Clause
"""The wheel, which `./dev wheel` makes: the extension has librmem, the cache and OpenSSL in it.

RMEM_LIBRARIES names the archives that it is linked with, in their order.
"""

import glob
import os
import re

from setuptools import Extension, setup

with open("../../configure.ac", encoding="utf-8") as file:
    version = re.search(r"^AC_INIT\(\[rmem\], \[(.*?)\]", file.read(), re.M).group(1)

setup(version=version, ext_modules=[Extension(
    "rmem._rmem", sorted(glob.glob("*.c")),
    include_dirs=["..", "../../include"],
    # as of the Makefile; Python's own flags disable assertions
    extra_compile_args=["-std=gnu17", "-fvisibility=hidden", "-UNDEBUG"],
    extra_objects=os.environ["RMEM_LIBRARIES"].split(),
    # Another librmem or OpenSSL of the process neither takes the place of this one nor is replaced
    # by it; a thread that resolves a name may outlive the last session.
    extra_link_args=["-Wl,--exclude-libs,ALL", "-Wl,-z,nodelete", "-Wl,-z,relro", "-Wl,-z,now",
                     "-Wl,--strip-debug"],
    py_limited_api=True)])
