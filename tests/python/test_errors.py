# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions."""

import errno
import os

import rmem
from rmem import errors
from stage import Case


class Errors(Case):
    def test_each_has_a_remedy_and_a_number(self):
        for code, kind in errors._classes.items():
            error = errors.failure(code, "text", 0)
            self.assertIs(type(error), kind)
            self.assertEqual((error.errno, error.strerror), (code, "text"))
            self.assertTrue(kind.remedy and kind.__doc__)
            self.assertIs(getattr(rmem, kind.__name__), kind)
            self.assertIsInstance(error, type(OSError(code, "")) if code != errno.ESHUTDOWN
                                  else OSError)
        self.assertIs(type(errors.failure(errno.EIO, "text", 0)), rmem.Error)

    def test_has_the_text_of_the_library(self):
        with self.assertRaisesRegex(rmem.NotFound, "rmem_attach.*none") as caught:
            self.session.attach("none")
        self.assertEqual(caught.exception.errno, errno.ENOENT)
        with self.assertRaises(FileNotFoundError):
            self.session.stat("none")

    def test_range_is_a_value_error(self):
        with self.assertRaises(ValueError) as caught:
            self.lease.write(b"12345", self.lease.bytes - 4)
        self.assertIs(type(caught.exception), rmem.Invalid)

    def test_reason_of_an_ended_lease(self):
        name = f"errors/{os.getpid()}"
        lease = self.session.alloc(4096, name=name)
        with rmem.open(os.environ["URI"]) as other:
            other.remove(name)
        with self.assertRaises(rmem.Stale) as caught:
            lease.read_into(bytearray(1))
        self.assertEqual(caught.exception.reason, 1)
        self.assertTrue(lease.ended)
