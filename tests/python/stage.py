# SPDX-License-Identifier: BSD-3-Clause
"""A session for each case."""

import os
import traceback
import unittest
import warnings

import rmem

URI = os.environ["URI"]
PAGE = 65536


class Case(unittest.TestCase):
    """Has a session, and a lease of it without a name."""

    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = self.session.alloc(PAGE)


def child(function):
    """The exit status of a function in a child of fork()."""
    with warnings.catch_warnings():
        # of Python 3.12, which sees the library's threads
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        try:
            os._exit(function())
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
            os._exit(100)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
