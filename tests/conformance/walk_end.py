# SPDX-License-Identifier: BSD-3-Clause
"""A server that is drained, becomes smaller, is killed and stops; the last case ends it."""

import signal

from case import case, equal, holds, refused
from channel import READ, Channel
from client import Refused
from walk_events import keyed
from walk_leases import PAGE, lent

NEVER = 0xffffffff


@case
def daemon__starts(world):
    world.start()


@case
def draining__is_told_and_taken_back(world):
    with world.open() as client:
        lease = lent(client)["lease"]
        gone = world.open()
        gone.call("allocate", bytes=PAGE, node=-1)
        gone.close()
        world.rmemctl("drain")
        equal(client.event("draining"), {"deadline_ms": NEVER})
        refused(client, "draining", "allocate", bytes=PAGE, node=-1)
        refused(client, "draining", "resize", lease=lease, bytes=2 * PAGE)
        client.call("attach", lease=lease)
        client.call("rename", lease=lease, name="end/drained")
        with world.server.connect() as late:
            try:
                late.hello()
            except Refused as why:
                equal(why.code, world.page.errors["draining"])
            else:
                raise AssertionError("a session opens")
        with world.server.connect() as again:
            again.resume(gone)
            equal(again.event("draining"), {"deadline_ms": NEVER},
                  "the event of a session that resumes")
            again.call("bye")
        world.rmemctl("drain", "--deadline", "10min")
        holds(0 < client.event("draining")["deadline_ms"] <= 600000, "another deadline")
        world.rmemctl("undrain")
        equal(client.event("serving"), {})
        client.call("free", lease=client.call("allocate", bytes=PAGE, node=-1)["lease"])
        client.call("remove", name="end/drained")


@case
def shrinking__asks_for_memory(world):
    with world.open() as client:
        lease = lent(client, bytes=150 << 20)["lease"]
        world.configure("size", "64M")
        wanted = client.event("shrinking", lease=lease)
        holds(0 < wanted["bytes"] <= 150 << 20, "bytes that are in the way")
        equal(wanted["revoke"], 0)
        holds(0 < wanted["wait_ms"] <= 60000, "how long the server waits")
        client.call("resize", lease=lease, bytes=1 << 20)
        equal(client.event("shrinking", lease=lease)["bytes"], 0, "what is wanted then")
        world.configure("size", "192M")
        client.call("bye")


@case
def server__that_was_killed_knows_sessions_leases_and_replies(world):
    with world.open() as client, Channel(client) as channel:
        lease, key = keyed(client, channel, name="end/killed")
        channel.store(key, 0, b"kept")
        client.call("renew", 2000, lease=lease["lease"], ttl_ms=90000)
        refused_id = client.ask("rename", lease=lease["lease"], name="")
        client.answer(refused_id, "error")
        world.end(signal.SIGKILL)
        world.start()
        with world.server.connect() as again:
            again.resume(client)
            equal((again.welcome["session"], again.welcome["resumed"]),
                  (client.welcome["session"], 1))
            again.call("renew", 2000, lease=lease["lease"], ttl_ms=1)
            try:
                again.call("rename", refused_id, lease=lease["lease"], name="")
            except Refused as why:
                equal(why.code, world.page.errors["invalid"], "the kept error")
            with Channel(again) as fresh:
                got = again.call("attach", lease=lease["lease"])
                equal(got["generation"], lease["generation"])
                equal(fresh.load(got["keys"][0], 0, 4), b"kept")
                equal(fresh.do(READ, key, 0, 4)[0], "dead_key")
            holds(again.call("stat", name="end/killed")["entries"][0]["ttl_ms"] > 10000,
                  "renew was done once")
            holds(lent(again)["lease"] > lease["lease"], "ids are never used twice")
            again.call("remove", name="end/killed")
            again.call("bye")


@case
def stop__is_told(world):
    with world.open() as client:
        world.daemon.terminate()
        equal(client.event("draining"), {"deadline_ms": 0})
        holds(client.ended(), "the connection ends")
    equal(world.end(), 0, "the exit status")
    world.start()
    with world.server.connect() as again:
        again.resume(client)
        again.call("bye")


@case
def drain__revokes_at_its_deadline(world):
    with world.open() as client:
        lease = lent(client, name="end/last")["lease"]
        world.rmemctl("drain", "--deadline", "100ms")
        equal(client.event("revoked"), {"lease": lease, "reason": 3})
        equal(client.event("closing"), {"reason": 4})
        holds(client.ended(), "the connection ends")
    equal(world.end(), 0, "the exit status")
