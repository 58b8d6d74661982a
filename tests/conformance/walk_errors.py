# SPDX-License-Identifier: BSD-3-Clause
"""What the table of answers says: the errors that a request may have, of which each is seen, and
the
right to change.  The last walk beside this daemon."""

import os

from case import case, disconnected, equal, holds, refused
from client import REFUSED
from walk_leases import OTHERS, PAGE, lent

# Errors that the requests of these walks do not get: requests, errors, and where they are seen,
# FILE or, of a unit test, FILE CASE.
ELSEWHERE = (
    ("each", "no_memory failed", "sweep/sweep.c"),
    ("allocate resize", "draining", "conformance/walk_end.py"),
    ("hello", "draining", "unit/rmemd/control/test-drain.c drain__opens_no_session"),
    ("hello open_channel free attach detach renew rename remove share fix_atomic_device watch "
     "unwatch",
     "no_room",
     "unit/rmemd/control/test-refusals.c full_ledger__is_no_room"),
    ("free attach detach rename remove share list", "quota",
     "unit/rmemd/control/test-refusals.c waiting_requests__beyond_the_limit_are_over_a_quota"),
    ("attach resize", "no_device",
     "unit/rmemd/control/test-refusals.c device__that_is_gone_gives_no_keys"),
    ("open_channel", "no_device",
     "unit/rmemd/control/test-refusals.c device__that_is_gone_opens_no_channel"),
    ("resize", "busy", "unit/rmemd/lease/test-lease-resize.c grow__waits_for_memory"),
    ("attach", "unsupported",
     "unit/rmemd/lease/test-lease-keys.c keys__are_made_for_the_ports_of_the_memory"),
    ("fix_atomic_device", "unsupported",
     "unit/rmemd/lease/test-lease.c atomic_device__is_fixed_by_the_first_client"),
    ("join_channel", "busy forbidden no_device unreachable timed_out",
     "unit/rmemd/control/test-session-channels.c join__is_answered_when_the_channel_is_connected"),
    ("join_channel", "stale",
     "unit/rmemd/control/test-session-channels.c join__of_a_channel_that_is_closed_fails"),
)


@case
def tenant__that_may_only_read_changes_nothing(world):
    with world.tenant("viewer").open() as viewer, world.tenant("viewer").open() as other:
        for request in world.page.requests():
            lent(viewer, name=f"viewed/{request.name}")
        world.configure("access", "read-only")
        for entry in viewer.call("list", prefix="viewed/")["entries"]:
            request = world.page.messages[entry["name"].partition("/")[2]]
            fields = {"lease": entry["lease"], **OTHERS.get(request.name, {})}
            if request.name == "fix_atomic_device":
                fields["endpoint"] = viewer.endpoint()
            if request.needs in ("write", "own"):
                refused(viewer, "forbidden", request.name, **fields)
            elif request.needs == "hold":
                viewer.call(request.name, **fields)
        refused(viewer, "forbidden", "allocate", bytes=PAGE, node=-1)
        refused(viewer, "forbidden", "remove", name="viewed/remove")
        refused(other, "forbidden", "attach", name="viewed/attach", rights=3)
        other.call("attach", name="viewed/attach", rights=1)
        other.call("stat", name="viewed/stat")
        world.configure("access", "read-write")
        for entry in viewer.call("list", prefix="viewed/")["entries"]:
            viewer.call("remove", name=entry["name"])


@case
def requests__that_are_not_kept_any_more_are_forgotten(world):
    fields = {"allocate": {"bytes": 0, "node": -1}, "attach": {"name": "none", "rights": 1},
              "remove": {"name": "none"}}
    with world.open() as client:
        kept = [r.name for r in world.page.requests() if "forgotten" in r.errors]
        for id_, name in enumerate(kept, 1):
            client.answer(client.ask(name, id_, **fields.get(name, {})),
                          "lease" if name == "allocate" else "error")
        for id_ in range(100, 100 + client.welcome["requests_max"]):
            client.answer(client.ask("renew", id_), "error")
        client.next_id = 1000
        for id_, name in enumerate(kept, 1):
            code = client.answer(client.ask(name, id_, **fields.get(name, {})), "error")["code"]
            equal(world.page.statuses[code], "forgotten", f"the error of an old {name}")
        client.sync()


@case
def limits__of_a_tenant_are_a_quota(world):
    small = world.tenant("small")
    with small.open() as client, small.open():
        with small.connect() as more:
            hello = more.ask("hello", magic=0x6d656d72, version_min=1, version_max=1,
                             tenant="small")
            disconnected(more, hello, "quota")
        lease = lent(client, name="small")["lease"]
        refused(client, "quota", "allocate", bytes=1 << 20, node=-1)
        refused(client, "quota", "resize", lease=lease, bytes=1 << 20)
        refused(client, "quota", "renew", lease=lease, ttl_ms=1 << 32)
        client.call("remove", name="small")


@case
def names__of_what_there_is_not_are_refused(world):
    with world.open() as client:
        refused(client, "invalid", "close_channel", channel=12345)
        lease = lent(client, name="errors")["lease"]
        refused(client, "missing", "share", lease=lease, rights=1, tenant="nobody")
        client.call("free", lease=lease)


def elsewhere(world):
    """The requests and errors of that table."""
    found = set()
    for requests, errors, where in ELSEWHERE:
        file, _, function = where.partition(" ")
        with open(os.path.join(os.environ["top_srcdir"], "tests", file),
                  encoding="utf-8") as source:
            holds(f"START_TEST({function})" in source.read() or not function, f"there is {where}")
        names = [r.name for r in world.page.requests()] if requests == "each" else requests.split()
        found |= {(name, error) for name in names for error in errors.split()}
    return found


@case
def errors__of_the_table_are_all_seen(world):
    table = {(r.name, error) for r in world.page.requests() for error in r.errors}
    equal(sorted(table - REFUSED - elsewhere(world)), [], "errors of the page that nobody has seen")
    equal(sorted(elsewhere(world) & REFUSED), [], "errors that are seen here, too")
    equal(sorted(elsewhere(world) - table), [], "errors that the page does not have")
