# SPDX-License-Identifier: BSD-3-Clause
"""A session for each case."""

import os
import unittest

import rmem

URI = os.environ["URI"]
PAGE = 65536


class Case(unittest.TestCase):
    """Has a session, and a lease of it without a name."""

    def setUp(self):
        self.session = rmem.open(URI)
        self.addCleanup(self.session.close)
        self.lease = self.session.alloc(PAGE)
