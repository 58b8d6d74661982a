# SPDX-License-Identifier: BSD-3-Clause
"""Requests that are repeated, on one connection and after it was lost."""

from case import case, disconnected, equal, holds, refused
from client import Refused
from walk_leases import PAGE, lent


def error_of(client, name, id_, /, **values):
    """The code of the error of a request that is sent with this id."""
    try:
        reply = client.call(name, id_, **values)
    except Refused as why:
        return why.code
    raise AssertionError(f"{name} is answered by {reply}")


@case
def request__with_its_id_again_is_done_once(world):
    with world.open() as client:
        allocate = {"bytes": PAGE, "node": -1, "name": "repeat"}
        first = client.call("allocate", 1, **allocate)
        second = client.call("allocate", 1, **allocate)
        equal(second["lease"], first["lease"], "the lease of the repeated request")
        client.call("rename", 2, lease=first["lease"], name="repeat/new")
        client.call("rename", 2, lease=first["lease"], name="repeat/new")
        grown = client.call("resize", 3, lease=first["lease"], bytes=2 * PAGE)
        equal(client.call("resize", 3, lease=first["lease"], bytes=2 * PAGE)["generation"],
              grown["generation"])
        equal(client.call("allocate", 1, **allocate)["bytes"], 2 * PAGE, "the lease as it is now")
        client.call("renew", 4, lease=first["lease"], ttl_ms=60000)
        client.call("share", 5, lease=first["lease"], rights=1, tenant="red")
        client.call("share", 5, lease=first["lease"], rights=1, tenant="red")
        equal(error_of(client, "attach", 6, name="repeat/new", rights=1),
              world.page.errors["attached"])
        client.call("detach", 7, lease=first["lease"])
        client.call("detach", 7, lease=first["lease"])
        equal(error_of(client, "attach", 6, name="repeat/new", rights=1),
              world.page.errors["attached"], "a kept error")
        client.call("attach", 8, name="repeat/new", rights=3)
        client.call("attach", 8, name="repeat/new", rights=3)
        client.call("remove", 9, name="repeat/new")
        client.call("remove", 9, name="repeat/new")
        equal(error_of(client, "allocate", 1, **allocate), world.page.errors["stale"],
              "a lease that has ended")
        equal(error_of(client, "attach", 8, name="repeat/new", rights=3),
              world.page.errors["stale"])
        client.call("free", 10, lease=client.call("allocate", 20, bytes=1, node=-1)["lease"])
        client.call("free", 10, lease=1)


@case
def request__is_repeated_by_its_id_alone(world):
    with world.open() as client:
        one = client.call("allocate", 1, bytes=PAGE, node=-1)
        equal(client.call("allocate", 1, bytes=3 * PAGE, node=-1)["bytes"], PAGE,
              "a repeated request")
        holds(client.call("allocate", 2, bytes=PAGE, node=-1)["lease"] != one["lease"],
              "another id is another request")


@case
def others__are_done_each_time(world):
    with world.open() as client:
        endpoint = client.endpoint()
        first = client.call("open_channel", 1, endpoint=endpoint)["channel"]
        holds(client.call("open_channel", 1, endpoint=endpoint)["channel"] != first,
              "a channel of its own")
        lease = lent(client, name="repeat/others")["lease"]
        equal(client.call("stat", 50, name="repeat/others")["entries"][0]["bytes"], PAGE)
        client.call("resize", 51, lease=lease, bytes=2 * PAGE)
        equal(client.call("stat", 50, name="repeat/others")["entries"][0]["bytes"], 2 * PAGE)
        client.call("remove", 52, name="repeat/others")


@case
def id__of_another_request_ends_the_connection(world):
    with world.open() as client:
        client.call("allocate", 1, bytes=PAGE, node=-1)
        disconnected(client, client.ask("free", 1, lease=1), "malformed")


@case
def id__of_zero_ends_the_connection(world):
    for message in world.page.requests():
        if message.name != "hello":
            with world.open() as client:
                disconnected(client, client.ask(message.name, 0), "malformed")


@case
def replies__of_256_requests_are_kept(world):
    with world.open() as client:
        client.next_id = 1000
        for id_ in range(1, 258):
            client.call("allocate", id_, bytes=0, node=-1)
        equal(error_of(client, "allocate", 1, bytes=0, node=-1), world.page.errors["forgotten"],
              "the oldest one")
        client.sync()
        newest = client.call("allocate", 257, bytes=0, node=-1)["lease"]
        holds(client.call("allocate", 2, bytes=0, node=-1)["lease"] < newest,
              "the oldest that is kept")


@case
def requests__that_are_not_kept_take_no_room(world):
    with world.open() as client:
        lease = client.call("allocate", 1, bytes=0, node=-1)["lease"]
        for id_ in range(2, 600):
            client.ask("ping", id_)
            client.answer(id_, "ok")
        equal(client.call("allocate", 1, bytes=0, node=-1)["lease"], lease)


@case
def session__that_resumes_repeats_its_requests(world):
    with world.open() as client, world.server.connect() as again:
        lease = client.call("allocate", 1, bytes=PAGE, node=-1, name="repeat/cut")["lease"]
        client.ask("renew", 2, lease=lease, ttl_ms=60000)
        client.ask("resize", 3, lease=lease, bytes=2 * PAGE)
        client.ask("detach", 4, lease=lease)
        client.close()
        client.next_id = 10
        again.resume(client)
        again.call("renew", 2, lease=lease, ttl_ms=60000)
        again.ask("resize", 3, lease=lease, bytes=2 * PAGE)
        again.call("detach", 4, lease=lease)
        try:
            again.answer(3, "lease")
        except Refused as why:
            equal(why.code, world.page.errors["stale"],
                  "the error of a lease that is not held any more")
        equal(again.call("stat", name="repeat/cut")["entries"][0]["bytes"], 2 * PAGE)
        refused(again, "stale", "attach", lease=lease)
        again.call("remove", name="repeat/cut")


@case
def session__that_resumes_holds_what_it_held(world):
    with world.open(channel=1) as client, world.server.connect() as again:
        lease = lent(client)
        holds(lease["keys"], "a session with a channel has rkeys")
        client.close()
        again.resume(client)
        got = again.call("attach", lease=lease["lease"])
        equal((got["lease"], got["generation"]), (lease["lease"], lease["generation"]))
        holds(all(key["rkey"] not in [k["rkey"] for k in lease["keys"]] for key in got["keys"]),
              "old rkeys are dead")
