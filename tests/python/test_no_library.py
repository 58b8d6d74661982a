# SPDX-License-Identifier: BSD-3-Clause
"""A wheel on a host without the libraries of RDMA."""

import errno
import unittest

import rmem
from stage import URI

MISSING = r"libibverbs\.so\.1, which cannot be loaded .*: install the Debian package libibverbs1"


class NoLibrary(unittest.TestCase):
    def test_tcp_is_used(self):
        with rmem.open(URI) as session:
            self.assertEqual(session.info["fabric"], "tcp")
            self.assertRegex(session.info["downgrade"], MISSING)
            lease = session.alloc(4096)
            lease.write(b"x")
            data = bytearray(1)
            lease.read_into(data)
            self.assertEqual(data, b"x")

    def test_rdma_is_refused(self):
        with self.assertRaisesRegex(rmem.Error, MISSING) as caught:
            rmem.open(URI.replace("fabric=auto", "fabric=rdma"))
        self.assertEqual(caught.exception.errno, errno.ENODEV)
