# SPDX-License-Identifier: BSD-3-Clause
"""Events: what the server tells unasked."""

from case import case, equal, holds, refused
from channel import NOTIFY, Channel
from client import Refused
from walk_leases import PAGE, lent


def keyed(client, channel, **values):
    """A lease and its first key."""
    lease = lent(client, **values)
    holds(lease["keys"], "there is a key")
    equal(lease["keys"][0]["endpoint"], channel.number)
    return lease, lease["keys"][0]


def notify(channel, key, value):
    equal(channel.inband(NOTIFY, key, operand=value), ("done", 0),
          "status and result of a notification")


@case
def revoked__tells_why(world):
    with world.open() as client, world.open() as other:
        for reason, name in ((1, "free"), (1, "remove"), (8, "replace"), (3, "revoke"),
                             (2, "expire")):
            lease = lent(client, name="events/" + name,
                         ttl_ms=300 if name == "expire" else 0)["lease"]
            other.call("attach", name="events/" + name, rights=1)
            if name == "free":
                client.call("free", lease=lease)
            elif name == "remove":
                client.call("remove", name="events/remove")
            elif name == "replace":
                client.call("rename", lease=lent(client)["lease"], name="events/replace", flags=1)
                client.call("remove", name="events/replace")
            elif name == "revoke":
                world.rmemctl("revoke", str(lease))
            equal(other.event("revoked"), {"lease": lease, "reason": reason},
                  f"the event of {name}")
            refused(other, "stale", "attach", lease=lease)


@case
def changed__tells_the_direction(world):
    with world.open() as client, world.open() as other:
        lease = lent(client, name="events/changed")["lease"]
        other.call("attach", name="events/changed", rights=1)
        for n, reason in ((2 * PAGE, 6), (PAGE, 5), (0, 5), (PAGE, 6)):
            client.call("resize", lease=lease, bytes=n)
            equal(other.event("changed"), {"lease": lease, "reason": reason})
            equal(other.call("attach", lease=lease)["bytes"], n)
        client.sync()
        equal(client.events, [], "what the session that asked is told by events")
        client.call("remove", name="events/changed")


@case
def closing__ends_the_session(world):
    with world.open() as client:
        world.rmemctl("kick", str(client.welcome["session"]))
        equal(client.event("closing"), {"reason": 3})
        holds(client.ended(), "the connection ends")
        with world.server.connect() as again:
            try:
                again.resume(client)
            except Refused as why:
                equal(why.code, world.page.errors["stale"])
            else:
                raise AssertionError("a session that was ended resumes")


@case
def session__that_is_fenced_can_be_ended_too(world):
    with world.open() as client, world.open() as again:
        lent(client, name="events/fenced")
        client.close()
        world.rmemctl("kick", str(client.welcome["session"]))
        again.call("remove", name="events/fenced")
        with world.server.connect() as late:
            try:
                late.resume(client)
            except Refused as why:
                equal(why.code, world.page.errors["stale"])
            else:
                raise AssertionError("a session that was ended resumes")


@case
def notified__comes_to_those_who_watch(world):
    with world.open() as client, world.open() as watcher, Channel(client) as channel:
        lease, key = keyed(client, channel, name="events/notified")
        watcher.call("attach", name="events/notified", rights=1)
        for _ in range(2):
            watcher.call("watch", lease=lease["lease"])
        client.call("watch", lease=lease["lease"])
        for value in (0, 1, 0xffffffff):
            notify(channel, key, value)
        for session in (client, watcher):
            got = []
            while len(got) < 3:
                got += session.event("notified")["notices"]
            equal(got, [{"lease": lease["lease"], "value": value, "lost": 0}
                        for value in (0, 1, 0xffffffff)])
        watcher.call("unwatch", lease=lease["lease"])
        notify(channel, key, 4)
        equal(client.event("notified")["notices"][0]["value"], 4)
        watcher.sync()
        equal(watcher.events, [], "the events after unwatch")
        watcher.call("watch", lease=lease["lease"])
        watcher.call("detach", lease=lease["lease"])
        notify(channel, key, 5)
        client.event("notified")
        watcher.sync()
        equal(watcher.events, [], "the events after detach")
        client.call("remove", name="events/notified")


@case
def notified__counts_what_it_lost(world):
    with world.open() as client, world.open() as watcher, world.open() as last, \
            Channel(client) as channel:
        lease, key = keyed(client, channel, name="events/lost")
        for session in (watcher, last):
            session.call("attach", name="events/lost", rights=1)
        for session in (client, watcher, last):
            session.call("watch", lease=lease["lease"])
        watcher.close()
        with world.server.connect() as again:
            for value in range(300):
                notify(channel, key, value)
                if value % 50 == 49:
                    for session in (client, last):
                        while session.event("notified")["notices"][-1]["value"] != value:
                            pass
            again.resume(watcher)
            notices = []
            while not notices or notices[-1]["value"] != 299:
                notices += again.event("notified")["notices"]
            equal(sum(n["lost"] for n in notices) + len(notices), 300,
                  "those that came and those that were lost")
            equal(len(notices), 257, "256 that are kept, and the latest")
            equal([n["value"] for n in notices[:256]], list(range(256)), "those that are kept")
            notify(channel, key, 1000)
            equal(again.event("notified")["notices"],
                  [{"lease": lease["lease"], "value": 1000, "lost": 0}])
        client.call("remove", name="events/lost")


@case
def notified__ends_with_the_lease(world):
    with world.open() as client, world.open() as watcher, Channel(client) as channel:
        lease, key = keyed(client, channel, name="events/ends")
        watcher.call("attach", name="events/ends", rights=1)
        watcher.call("watch", lease=lease["lease"])
        watcher.close()
        notify(channel, key, 1)
        client.call("free", lease=lease["lease"])
        with world.server.connect() as again:
            again.resume(watcher)
            again.sync()
            equal([name for name, _ in again.events if name == "notified"], [],
                  "notifications of an ended lease")
