# SPDX-License-Identifier: BSD-3-Clause
"""librmem with many requests at a time, and with replies that come too late: threads of
callers.c."""

import os
import subprocess

from case import case, equal
from server import Server
from walk_library import clean, good

TIMEOUT_MS = 60000
BEAT_MS = 50


class Callers:
    """A process of which n threads make one call."""

    def __init__(self, server, call, n, timeout_ms=TIMEOUT_MS):
        uri = f"rmem://127.0.0.1:{server.port}?fabric=tcp"
        self.process = subprocess.Popen([os.environ["CALLERS"], uri, str(timeout_ms), str(n), call],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def end(self, done, late):
        """What the calls gave, and the end of the session."""
        self.said(done, late)
        self.process.stdin.close()
        equal(self.process.wait(20), 0, "the exit status")

    def said(self, done, late):
        equal(self.process.stdout.readline().decode(), f"{done} done, {late} late\n",
              "what the calls gave")


class Held:
    """Requests of one type that are answered when the case says so."""

    def __init__(self, server, name):
        self.server = server
        self.name = name
        self.waiting = {}  # (link, values), by id
        self.most = 0      # at a time
        server.hooks[name] = self.hold

    def hold(self, link, id_, values):
        self.waiting[id_] = link, values
        self.most = max(self.most, len(self.waiting))
        return True

    def answer(self, id_):
        with self.server.lock:
            link, values = self.waiting.pop(id_)
            self.server.answer(link, self.name, id_, values)

    def lose(self):
        """Cut the connection; the values of the requests that have no answer, by id."""
        with self.server.lock:
            lost = {id_: values for id_, (_, values) in self.waiting.items()}
            self.server.cut(next(iter(self.waiting.values()))[0].session)
            self.waiting.clear()
            return lost


def beats(server, n):
    """Wait for this number of heartbeats: what the client sends without being asked has come
    then."""
    server.asked("ping", n + sum(name == "ping" for _, name, _, _ in server.requests))


@case
def requests__are_no_more_than_welcome_says(world):
    for most in (1, 7, 256):
        with Server(world.page) as server:
            server.welcome = {"requests_max": most, "heartbeat_ms": BEAT_MS}
            held = Held(server, "allocate")
            n = most + 30
            with Callers(server, "alloc", n) as callers:
                server.asked("allocate", most)
                beats(server, 5)
                for k in range(n):
                    server.asked("allocate", min(most + k, n))
                    held.answer(next(iter(held.waiting)))
                callers.end(n, 0)
            equal(held.most, most, "the requests without a reply")
            clean(server)


@case
def repeats__come_first_in_their_order_with_their_ids(world):
    with Server(world.page) as server:
        server.welcome = {"requests_max": 30}
        held = Held(server, "allocate")
        with Callers(server, "alloc", 50) as callers:
            server.asked("allocate", 30)
            for id_ in sorted(held.waiting)[::3]:
                held.answer(id_)
            server.asked("allocate", 40)  # so the client has the answers
            lost = held.lose()
            server.asked("allocate", 40 + 30)
            equal({id_: values for id_, (_, values) in held.waiting.items()}, lost,
                  "what is repeated")
            for k in range(40):
                server.asked("allocate", min(40 + 30 + k, 80))
                held.answer(max(held.waiting))
            callers.end(50, 0)
        names = [name for _, name, _, _ in server.requests]
        again = [id_ for _, name, id_, _ in server.requests[names.index("hello", 1) + 1:]]
        equal(again, sorted(set(again)), "the ids after the second hello")
        equal([id_ for id_ in again if id_ in lost], sorted(lost), "those of before")
        clean(server)


@case
def lease__that_comes_too_late_is_given_back(world):
    for name, call, flags in (("allocate", "alloc", 1), ("attach", "attach", 0)):
        for last in ("ok", "stale"):
            with Server(world.page) as server:
                good(server, "put", "x", data=b"x")
                server.welcome = {"heartbeat_ms": BEAT_MS}
                server.requests.clear()
                held = Held(server, name)
                answers = ["busy", "no_memory", "failed"] + (["stale"] if last == "stale" else [])

                def detach(link, id_, values, answers=answers, server=server):
                    if not answers:
                        return False
                    link.send("error", id_, code=server.page.errors[answers.pop(0)],
                              text="refused by the test")
                    return True
                server.hooks["detach"] = detach
                with Callers(server, call, 1, 300) as callers:
                    callers.said(0, 1)
                    held.answer(next(iter(held.waiting)))
                    server.asked("detach", 4)
                    beats(server, 6)
                    sent = [values for _, asked, _, values in server.requests if asked == "detach"]
                    equal(len(sent), 4, "the requests to detach")
                    equal([values["flags"] for values in sent], 4 * [flags], "their flags")
                    equal(len({values["lease"] for values in sent}), 1, "their leases")
                clean(server)
