# SPDX-License-Identifier: BSD-3-Clause
"""Processes: after fork(), at the exit, and a signal."""

import signal
import subprocess
import sys
import textwrap
import unittest
from importlib.util import find_spec

import rmem
from stage import PAGE, URI, Case, child


def run(script, *signals):
    """The exit status and the output of a script in a new process; signals after its first line."""
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        line = process.stdout.readline()
        for number in signals:
            process.send_signal(number)
        return process.wait(), line + process.stdout.read()


class Processes(Case):
    def test_child_cannot_use_it(self):
        queue, buffer = self.session.queue(), self.session.buffer(PAGE)

        def use():
            for call in (self.session.ping, lambda: self.lease.read_into(bytearray(8)),
                         lambda: self.lease.read_many([bytearray(8)], [0]),
                         lambda: queue.submit([]), queue.poll, lambda: self.session.buffer(8)):
                try:
                    call()
                except rmem.Stale as why:
                    assert "open a session in the child" in str(why), why
                else:
                    return 1
            self.session.close()
            buffer.close()
            with rmem.open(URI) as mine:
                mine.alloc(PAGE).write(b"x")
            return 0
        self.assertEqual(child(use), 0)
        self.lease.write(b"y")
        self.assertFalse(self.lease.ended)

    @unittest.skipUnless(find_spec("_xxsubinterpreters"), "of Python 3.11 and 3.12")
    def test_subinterpreter(self):
        status, text = run(f"""
            import _xxsubinterpreters as interpreters
            print("begun", flush=True)
            interpreter = interpreters.create()
            interpreters.run_string(interpreter, '''if True:
                import rmem
                with rmem.open("{URI}") as session:
                    lease = session.alloc(4096)
                    lease.write(b"x", 1)
                    buffer = session.buffer(4096)
                    capsule = buffer.__dlpack__()
                    del capsule
                    assert buffer.exports == 0
                ''')
            interpreters.destroy(interpreter)
        """)
        self.assertEqual((status, text), (0, "begun\n"))

    def test_exit_closes_it(self):
        status, text = run(f"""
            import rmem
            session = rmem.open("{URI}")
            lease = session.alloc(4096)
            queue = session.queue()
            queue.submit([rmem.Op(rmem.READ, lease, bytearray(4096))] * 64)
            print("done", flush=True)
        """)
        self.assertEqual((status, text), (0, "done\n"))

    def test_interrupt_ends_asyncio(self):
        status, text = run(f"""
            import asyncio, rmem, rmem.aio
            async def main():
                lease = rmem.aio.Lease(session.alloc(1 << 20))
                print("ready", flush=True)
                while True:
                    await lease.read_into(bytearray(1 << 20))
            with rmem.open("{URI}") as session:
                try:
                    asyncio.run(main())
                except KeyboardInterrupt:
                    print("interrupted")
        """, signal.SIGINT)
        self.assertEqual((status, text), (0, "ready\ninterrupted\n"))

    def test_interrupt_ends_a_wait(self):
        status, text = run(f"""
            import rmem
            with rmem.open("{URI}") as session, session.queue() as queue:
                lease = session.alloc(1 << 20)
                try:
                    print("ready", flush=True)
                    while True:
                        queue.submit([rmem.Op(rmem.READ, lease, bytearray(1 << 20))])
                        queue.wait()
                except KeyboardInterrupt:
                    print("interrupted")
        """, signal.SIGINT)
        self.assertEqual((status, text), (0, "ready\ninterrupted\n"))
