# SPDX-License-Identifier: BSD-3-Clause
"""Clients that are silent, over a daemon whose fence is short."""

from case import case, equal, holds
from channel import PING, READ, Channel
from client import Closed, Refused
from walk_events import keyed
from walk_leases import PAGE, lent


def resumes(world, client):
    """The session of a client goes on here, or None."""
    again = world.server.connect()
    try:
        return again.resume(client)
    except Refused as why:
        equal(why.code, world.page.errors["stale"])
        again.close()
        return None


@case
def session__that_is_silent_is_fenced(world):
    with world.open() as client, Channel(client) as channel:
        lease, key = keyed(client, channel)
        channel.store(key, 0, b"kept")
        equal(client.event("fenced"), {})
        holds(client.ended(), "the connection ends")
        holds(channel.ended(), "the channel ends")
        again = resumes(world, client)
        holds(again, "the session resumes")
        equal(again.welcome["resumed"], 1)
        with Channel(again) as fresh:
            got = again.call("attach", lease=lease["lease"])
            equal(got["generation"], lease["generation"])
            equal(fresh.do(READ, key, 0, 4)[0], "dead_key", "the rkey from before the fence")
            equal(fresh.load(got["keys"][0], 0, 4), b"kept")
        again.call("bye")


@case
def frames__of_any_kind_keep_a_session(world):
    with world.open() as client:
        client.sock.settimeout(client.welcome["heartbeat_ms"] / 1000)
        for i in range(2 * client.welcome["fence_ms"] // client.welcome["heartbeat_ms"]):
            client.ask(("ping", "list", "stat")[i % 3])
            try:
                while True:
                    client.take()
            except TimeoutError:
                pass
        equal(client.events, [], "the events of a client that is heard")


@case
def channel__keeps_no_session(world):
    with world.open() as client, Channel(client) as channel:
        try:
            while True:
                channel.inband(PING)
        except Closed:
            pass
        equal(client.event("fenced"), {})
        resumes(world, client).call("bye")


@case
def session__ends_after_its_grace(world):
    with world.open() as client, world.open() as other:
        named = lent(client, name="silence/named")["lease"]
        client.close()
        other.call("attach", name="silence/named", rights=1)
        other.sock.settimeout(client.welcome["heartbeat_ms"] / 1000)
        for _ in range(2 * (client.welcome["fence_ms"]
                            + client.welcome["grace_ms"]) // client.welcome["heartbeat_ms"]):
            other.ask("ping")
            try:
                while True:
                    other.take()
            except TimeoutError:
                pass
        equal(resumes(world, client), None, "a session whose grace is over")
        other.sock.settimeout(20)
        equal(other.call("attach", lease=named)["bytes"], PAGE, "the named lease")
        other.call("detach", lease=named)
        other.call("remove", name="silence/named")
