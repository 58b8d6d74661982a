# SPDX-License-Identifier: BSD-3-Clause
"""Processes: after fork(), at the exit, and a signal."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
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


def stop(pid):
    """Stop all threads of a process."""
    os.kill(pid, signal.SIGSTOP)
    while True:
        states = []
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
                states.append(file.read().rpartition(") ")[2][0])
        if set(states) == {"T"}:
            return
        time.sleep(0.01)


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

    def test_fork_beside_threads(self):
        ends, failed = threading.Event(), []

        def work():
            data = bytearray(PAGE)
            with self.session.queue() as queue:
                while not ends.is_set():
                    self.lease.write(data)
                    queue.submit([rmem.Op(rmem.READ, self.lease, data)])
                    queue.wait()

        def worker():
            try:
                work()
            except BaseException as why:  # pylint: disable=broad-except
                failed.append(why)

        def use():
            try:
                self.lease.read_into(bytearray(8))
            except rmem.Stale:
                self.session.close()
                with rmem.open(URI) as mine:
                    mine.alloc(PAGE).write(b"x")
                return 0
            return 1
        threads = [threading.Thread(target=worker) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            self.assertEqual([child(use) for _ in range(20)], [0] * 20)
        finally:
            ends.set()
            for thread in threads:
                thread.join()
        self.assertEqual(failed, [])

    def test_processes_of_a_pool_open_their_own(self):
        for method in ("fork", "spawn", "forkserver"):
            status, text = run(f"""
                import multiprocessing, rmem, sys
                if __name__ == "__main__":
                    print("begun", flush=True)
                    context = multiprocessing.get_context("{method}")
                    with rmem.open("{URI}") as session, context.Pool(2) as pool:
                        session.ping()
                        try:
                            pool.map(print, [session])
                        except TypeError as why:
                            print(why)
            """)
            self.assertEqual(status, 0, text)
            self.assertIn("open a session there", text)

    @unittest.skipUnless(find_spec("_xxsubinterpreters"), "of Python 3.11 and 3.12")
    def test_subinterpreter(self):
        status, text = run(f"""
            import _xxsubinterpreters as interpreters
            print("begun", flush=True)
            interpreter = interpreters.create(isolated=False)
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

    def test_free_threaded_is_refused(self):
        for flags, says in ("t", "needs a Python with its global lock"), ("", "_rmem"):
            status, text = run(f"""
                import sys
                sys.abiflags = "{flags}"
                sys._is_gil_enabled = lambda: {not flags}
                sys.modules["rmem._rmem"] = None
                import rmem
            """)
            self.assertEqual(status, 1)
            self.assertIn("Error: ", text)
            self.assertIn(says, text.splitlines()[-1])

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

    def test_interrupt_ends_calls_beside_a_silent_server(self):
        script = textwrap.dedent(f"""
            import time, rmem
            from concurrent.futures import ThreadPoolExecutor
            # a thread opens it, and the main thread uses it
            opened = ThreadPoolExecutor(1).submit(rmem.open, "{URI}", timeout=900)
            with opened.result() as session, session.queue() as queue:
                lease, into = session.alloc(1 << 20), bytearray(4096)
                lease.read_many([into], [0])  # makes its queue
                first = bytearray(1)
                queue.submit([rmem.Op(rmem.READ, lease, first)])
                time.sleep(0.3)  # it has completed by then
                print("ready", flush=True)
                input()
                queue.submit([rmem.Op(rmem.READ, lease, into)])
                for call in (lambda: queue.wait(2), lambda: lease.read_into(into), session.ping,
                             lambda: lease.read_many([into], [0]), lambda: session.alloc(4096),
                             session.notified):
                    try:
                        print("calls", flush=True)
                        print(call(), "without an interrupt", flush=True)
                    except KeyboardInterrupt:
                        print("interrupted", flush=True)
                input()
                taken = []
                while queue.outstanding:
                    taken += [one.op.memory for one in queue.wait()]
                assert taken == [first, into], taken
                lease.read_into(into)
        """)
        server = int(os.environ["SERVER_PID"])
        with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            try:
                stop(server)
                print(file=process.stdin, flush=True)
                for _ in range(6):
                    self.assertEqual(process.stdout.readline(), "calls\n")
                    time.sleep(0.3)  # it may wait by then
                    process.send_signal(signal.SIGINT)
                    self.assertEqual(process.stdout.readline(), "interrupted\n")
            finally:
                os.kill(server, signal.SIGCONT)
            print(file=process.stdin, flush=True)
            self.assertEqual(process.wait(), 0)

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
