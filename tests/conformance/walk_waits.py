# SPDX-License-Identifier: BSD-3-Clause
"""Whatever the server answers: the library waits before it tries again, and longer each time."""

import itertools
import time

from case import case, equal, holds
from server import Server
from walk_library import clean, good, rmem

# one try, and one at once; then the waits are half of 20 ms, or more, twice that each time, and at
# last half a second
QUICK, LAST = 9, 0.5
PING = "ping", "-c", "1", "--data"  # on one channel


def paced(server, name, *words):
    """The command fails in 2 s, and has made few of these requests meanwhile."""
    begin = time.monotonic()
    ended = rmem(server, "--timeout", "2s", *words)
    most = QUICK + (time.monotonic() - begin) / LAST
    tries = sum(got == name for _, got, _, _ in server.requests)
    equal(ended.status, 1, f"the end of rmem {words}")
    holds(3 < tries <= most, f"{tries} times {name}, {most:.0f} at most")


@case
def channel__that_is_granted_at_another_port_each_time(world):
    with Server(world.page) as server:
        server.welcome = {"channel": 0}
        ports = itertools.cycle((9, 10))

        def move(link, id_, values):
            fields = server.do_open_channel(link, values)[1]
            link.send("channel", id_, **dict(fields, port=next(ports)))
            return True
        server.hooks["open_channel"] = move
        paced(server, "open_channel", *PING)
        clean(server)


@case
def channel__that_is_refused_at_its_hello(world):
    for error in ("timed_out", "no_memory"):
        with Server(world.page) as server:
            def operate(link, request, server=server, error=error):
                server.status = (world.page.errors[error], "refused by the test")
                link.sock.shutdown(2)
            server.stream_hook = operate
            paced(server, "open_channel", *PING)
            clean(server)


@case
def first_channel__that_is_refused_at_its_hello(world):
    with Server(world.page) as server:
        server.status = (world.page.errors["timed_out"], "refused by the test")
        paced(server, "open_channel", *PING)
        clean(server)


@case
def session__that_ends_soon_after_each_welcome(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=b"x")
        server.requests.clear()
        server.welcome = {"heartbeat_ms": 5, "fence_ms": 15}
        pings = itertools.count()

        def ping(link, id_, values):
            if next(pings) % 8 == 7:
                link.sock.shutdown(2)
                return True
            return False
        server.hooks["ping"] = ping
        server.hooks["attach"] = lambda link, id_, values: values["lease"] == 0
        paced(server, "hello", "get", "x")
        clean(server)
