# SPDX-License-Identifier: BSD-3-Clause
"""Sessions, and calls on them."""

import asyncio
import gc
import os
import select
import socket
import threading
import weakref

import rmem
import rmem.aio
from stage import PAGE, URI, Case


class Relay:
    """The server's control port behind another one, whose connections the test can end."""

    def __init__(self, server):
        self.server = server
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.ends = []
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            for end in select.select([self.listener, *self.ends], [], [])[0]:
                if end is self.listener:
                    self.ends += [end.accept()[0], socket.create_connection(self.server)]
                    continue
                data = end.recv(65536)
                if not data:
                    return
                self.ends[self.ends.index(end) ^ 1].sendall(data)

    def end(self):
        self.ends[0].shutdown(socket.SHUT_RDWR)
        self.thread.join()
        for end in self.listener, *self.ends:
            end.close()


class Sessions(Case):
    def test_nothing_listens(self):
        with self.assertRaises(ConnectionRefusedError):
            rmem.open("rmem://127.0.0.1:1?fabric=tcp", timeout=5)

    def test_uri_is_malformed(self):
        with self.assertRaises(rmem.Invalid):
            rmem.open("rmem://127.0.0.1?fabric=none")

    def test_environment_names_the_server(self):
        os.environ["RMEM_SERVER"] = URI
        self.addCleanup(os.environ.pop, "RMEM_SERVER")
        with rmem.open() as session:
            self.assertEqual(session.info["server"], self.session.info["server"])

    def test_info(self):
        info = self.session.info
        self.assertEqual(info["fabric"], "tcp")
        self.assertGreater(info["fence_ms"], 0)
        self.assertFalse(info["draining"])
        self.assertEqual(info["copied_bytes"], 0)
        self.assertGreater(self.session.ping(), 0)

    def test_does_not_resume(self):
        host, port = self.session.info["server"].rsplit(":", 1)
        for opener in rmem.open, self.open_by_loop:
            relay = Relay((host, int(port)))
            with opener(f"rmem://127.0.0.1:{relay.listener.getsockname()[1]}?fabric=tcp",
                        resume=False) as session:
                self.assertGreater(session.ping(), 0)
                relay.end()
                with self.assertRaises(rmem.Stale):
                    session.ping()

    @staticmethod
    def open_by_loop(uri, **options):
        async def run():
            return (await rmem.aio.open(uri, **options)).sync
        return asyncio.run(run())

    def test_leases_by_name(self):
        name = f"session/{os.getpid()}"
        lease = self.session.alloc(PAGE, name=name, ttl_ms=3600000)
        self.addCleanup(lease.destroy)
        with self.assertRaises(rmem.Exists):
            self.session.alloc(PAGE, name=name)
        self.assertEqual(self.session.alloc(1, name=name, attach=True).id, lease.id)
        stat = self.session.stat(name)
        self.assertEqual((stat.name, stat.bytes, stat.id), (name, PAGE, lease.id))
        self.assertGreater(stat.ttl_ms, 0)
        listed, = self.session.list("session/")
        self.assertEqual(listed, stat._replace(age_ms=listed.age_ms, ttl_ms=listed.ttl_ms))
        with rmem.open(URI) as other:
            read = other.attach(name)
            self.assertFalse(read.writable)
            with self.assertRaises(PermissionError):
                read.write(b"x")
            other.attach(name, write=False).detach()

    def test_list_of_many(self):
        leases = [self.session.alloc(4096, name=f"many/{i}") for i in range(100)]
        self.assertEqual({stat.name for stat in self.session.list("many/")},
                         {f"many/{i}" for i in range(100)})
        for lease in leases:
            lease.destroy()
        self.assertEqual(self.session.list("many/"), [])

    def test_attach_many(self):
        leases = [self.session.alloc(4096, name=f"attached/{i}") for i in range(20)]
        with rmem.open(URI) as other:
            names = [f"attached/{i % 21}" for i in range(5000)]
            attached = other.attach_many(names, write=True)
            for i, one in enumerate(attached):
                if i % 21 == 20:
                    self.assertIsInstance(one, rmem.NotFound)
                else:
                    self.assertEqual((one.name, one.id), (names[i], leases[i % 21].id))
            attached[21].write(b"x")
        with rmem.open(URI) as other:
            self.assertFalse(other.attach_many(["attached/3"])[0].writable)
            self.assertEqual(other.attach_many([]), [])
            with self.assertRaises(TypeError):
                other.attach_many(["attached/0", 1])
        with self.assertRaises(rmem.Stale):
            other.attach_many([])
        for lease in leases:
            lease.destroy()

    def test_closed_ends_what_it_has(self):
        queue, buffer = self.session.queue(), self.session.buffer(4096)
        with self.session:
            pass
        self.session.close()
        self.assertTrue(self.session.closed)
        for call in (self.session.ping, lambda: self.session.alloc(1),
                     lambda: self.lease.read_into(bytearray(1)), lambda: self.lease.bytes,
                     lambda: queue.submit([]), lambda: self.session.buffer(1),
                     lambda: self.session.info, self.session.queue):
            with self.assertRaisesRegex(rmem.Stale, "closed"):
                call()
        self.lease.detach()
        queue.close()
        buffer.close()

    def test_closed_while_threads_read(self):
        failures, begun = [], threading.Barrier(5)

        def read():
            data = bytearray(PAGE)
            begun.wait()
            try:
                while True:
                    self.lease.read_into(data)
            except rmem.Stale:
                pass
            except BaseException as why:  # pylint: disable=broad-except
                failures.append(why)
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        begun.wait()
        self.session.close()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_is_not_pickled(self):
        import pickle
        for one in (self.session, self.lease, self.session.queue(), self.session.buffer(1),
                    rmem.aio.Session(self.session), rmem.aio.Lease(self.lease)):
            with self.assertRaisesRegex(TypeError, "open a session there"):
                pickle.dumps(one)

    def test_is_freed(self):
        session = rmem.open(URI)
        lease = session.alloc(4096)
        gone = weakref.ref(session)
        del session
        self.assertIsNotNone(gone())
        del lease
        gc.collect()
        self.assertIsNone(gone())

    def test_cannot_be_made(self):
        for kind in (rmem.Session, rmem.Lease, rmem.Buffer, rmem.Queue):
            with self.assertRaises(TypeError):
                kind()
            self.assertTrue(kind.__doc__)
