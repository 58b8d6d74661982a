# SPDX-License-Identifier: BSD-3-Clause
"""Notices of leases."""

import asyncio
import gc
import select

import rmem
from rmem import NoticeType, aio
from stage import PAGE, URI, Case


class Notices(Case):
    def setUp(self):
        super().setUp()
        self.mine = self.session.alloc(PAGE, name="notices")
        self.other = rmem.open(URI)
        self.addCleanup(self.other.close)
        self.theirs = self.other.attach("notices", write=True)
        self.addCleanup(lambda: self.other.list("notices") and self.other.remove("notices"))

    def test_value(self):
        self.assertEqual(self.session.notified(timeout_ms=0), [])
        self.mine.watch()
        self.theirs.write_notify(b"news", 8, value=7)
        select.select([self.session.notified_fileno()], [], [])
        notice, = self.session.notified()
        self.assertIs(notice.lease, self.mine)
        self.assertEqual((notice.type, notice.value, notice.lost), (NoticeType.VALUE, 7, 0))

    def test_end(self):
        self.mine.watch()
        self.theirs.destroy()
        notice, = self.session.notified()
        self.assertEqual((notice.type, notice.reason), (NoticeType.ENDED, 1))
        self.assertIs(notice.lease, self.mine)

    def test_of_a_lease_that_was_dropped(self):
        self.mine.watch()
        del self.mine
        gc.collect()
        self.theirs.write_notify(b"", 0, value=8)
        notice, = self.session.notified()
        self.assertEqual((notice.lease, notice.value), (None, 8))

    def test_one_of_two_objects_is_dropped(self):
        again = self.session.attach("notices")
        self.mine.watch()
        again.detach()
        self.theirs.write_notify(b"", 0, value=9)
        self.assertEqual(self.session.notified()[0].value, 9)

    def test_awaited(self):
        async def main():
            async with await aio.open(URI) as session:
                lease = await session.attach("notices")
                await lease.watch()
                waiting = asyncio.ensure_future(session.notified())
                await asyncio.sleep(0)
                self.theirs.write_notify(b"", 0, value=10)
                notice, = await waiting
                self.assertEqual((notice.lease, notice.value), (lease.sync, 10))
        asyncio.run(main())
