# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the doors to engines have in common."""

import logging
import os
import subprocess
import sys
import unittest

import rmem
from stage import URI

SETTINGS = {"servers": [URI], "bytes": "8M"}


class DoorCase(unittest.TestCase):
    """Warnings of doors are kept in self.warnings."""

    def setUp(self):
        self.warnings = []
        handler = logging.Handler()
        handler.emit = lambda record: self.warnings.append(record.getMessage())
        log = logging.getLogger("rmem")
        log.addHandler(handler)
        log.propagate = False
        self.addCleanup(log.removeHandler, handler)

    def refuses(self, make, **wrong):
        """Each wrong setting is one line that names it."""
        for name, values in wrong.items():
            for value in values:
                with self.assertRaisesRegex(Exception, name) as caught:
                    make(**{**SETTINGS, name: value})
                self.assertNotIn("\n", str(caught.exception))


def other_process(text):
    """What another process prints, whose strings have other hashes."""
    done = subprocess.run([sys.executable, "-c", text], check=True, stdout=subprocess.PIPE,
                          text=True, env={**os.environ, "PYTHONHASHSEED": "7"})
    return done.stdout.strip()


def keys_of(name):
    """All keys of a cache."""
    with rmem.Cache([URI], name, immutable=True) as cache:
        return sorted(entry.key.decode() for entry in cache.list())
