# SPDX-License-Identifier: BSD-3-Clause
"""Events to the library: what `rmem watch` makes of them."""

import time

from case import case, equal, holds
from server import Server
from walk_library import clean, good, start

BEAT_MS, FENCE_MS = 50, 800


class Watch:
    """A server, and a command that watches a lease of it."""

    def __init__(self, world, *words):
        self.server = Server(world.page)
        self.server.welcome = {"heartbeat_ms": BEAT_MS, "fence_ms": 10000}
        good(self.server, "put", "watched", data=b"x")
        self.server.requests.clear()
        self.process = start(self.server, "watch", *words, "watched")
        self.session = self.server.asked("watch")
        self.lease = next(iter(self.server.leases))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()
        self.server.close()

    def event(self, name, **values):
        self.server.event(self.session, name, **values)

    def line(self, want):
        equal(self.process.stdout.readline().decode(), want + "\n", "the line of watch")

    def ends(self, status):
        equal(self.process.wait(20), status, "the exit status")
        clean(self.server)

    def hellos(self):
        return [values["resume"] for _, name, _, values in self.server.requests if name == "hello"]


@case
def revoked__ends_the_lease(world):
    for reason, word in ((1, "freed"), (2, "expired"), (3, "revoked"), (8, "replaced")):
        with Watch(world) as watch:
            watch.event("revoked", lease=watch.lease, reason=reason)
            watch.line("ended: " + word)
            watch.ends(0)


@case
def revoked__of_an_unknown_reason_ends_it_too(world):
    for reason in (0, 10, 99, 255):
        with Watch(world) as watch:
            watch.event("revoked", lease=watch.lease, reason=reason)
            holds(watch.process.stdout.readline().startswith(b"ended: "),
                  f"reason {reason} ends the lease")
            watch.ends(0)


@case
def notified__is_told_in_order_with_what_was_lost(world):
    with Watch(world, "-c", "4") as watch:
        first = {"lease": watch.lease, "value": 7, "lost": 0}
        watch.event("notified", notices=[first, {**first, "value": 0xffffffff, "lost": 3}])
        watch.event("notified", notices=[])
        watch.event("notified", notices=[{**first, "lease": watch.lease + 1}])
        watch.event("notified", notices=[{**first, "value": 0}, first])
        for line in ("7", "lost: 3", "4294967295", "0", "7"):
            watch.line(line)
        watch.ends(0)


@case
def shrinking__is_told(world):
    with Watch(world) as watch:
        for n in (4096, 0):
            watch.event("shrinking", lease=watch.lease, bytes=n, wait_ms=1000, revoke=0)
            watch.line(f"wanted: {n}")


@case
def fenced__is_resumed(world):
    with Watch(world) as watch:
        watch.event("fenced")
        watch.server.cut(watch.session)
        watch.line("lost: unknown")
        equal(watch.hellos(), [0, watch.session.id])
        watch.event("notified", notices=[{"lease": watch.lease, "value": 5, "lost": 0}])
        watch.line("5")
        clean(watch.server)


@case
def closing__is_the_end_of_the_session(world):
    for reason in (3, 4, 77):
        with Watch(world) as watch:
            watch.event("closing", reason=reason)
            watch.server.cut(watch.session)
            watch.line("server lost")
            watch.ends(1)
            equal(watch.hellos(), [0], "the hellos")


@case
def session__that_is_not_resumed_is_the_end(world):
    with Watch(world) as watch:
        watch.server.sessions.clear()
        watch.server.cut(watch.session)
        watch.line("server lost")
        watch.ends(1)
        equal(watch.hellos()[:2], [0, watch.session.id])


@case
def events__without_meaning_for_a_client_change_nothing(world):
    with Watch(world) as watch:
        other = watch.lease + 1
        for name, values in (("draining", {"deadline_ms": 0xffffffff}), ("serving", {}),
                             ("channel_ended", {"channel": 12345}),
                             ("revoked", {"lease": other, "reason": 1}),
                             ("changed", {"lease": other, "reason": 5}),
                             ("shrinking", {"lease": other, "bytes": 1})):
            watch.event(name, **values)
        watch.event("notified", notices=[{"lease": watch.lease, "value": 1, "lost": 0}])
        watch.line("1")
        clean(watch.server)


@case
def heartbeats__are_sent(world):
    with Watch(world) as watch:
        watch.server.asked("ping", 10)
        clean(watch.server)


@case
def rkeys__are_not_used_without_answers(world):
    with Server(world.page) as server:
        server.welcome = {"heartbeat_ms": BEAT_MS, "fence_ms": FENCE_MS}
        answered = [None, 0]
        late = []

        def ping(link, id_, values):
            return answered[0] is not None

        def operate(link, request):
            now = time.monotonic()
            if answered[0] is None:
                answered[0] = now  # nothing is answered from now on
            elif now - answered[0] > FENCE_MS / 1000 + 1.5:
                late.append(now - answered[0])
        server.hooks["ping"] = ping
        server.hooks["hello"] = lambda link, id_, values: answered[0] is not None
        server.stream_hook = operate
        process = start(server, "--timeout", "5s", "bench", "--op", "read", "--duration", "6s")
        process.communicate(timeout=40)
        holds(server.operations, "there were operations")
        equal(late, [], "operations after the fence")
        clean(server)
