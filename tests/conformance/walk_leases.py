# SPDX-License-Identifier: BSD-3-Clause
"""Leases: each request about them, with values that are right and wrong."""

from case import case, equal, holds, refused

PAGE = 4096
# requests about a lease that do not end it, with values
OTHERS = {"watch": {}, "unwatch": {}, "renew": {"ttl_ms": 1000}, "rename": {"name": "holds/new"},
          "resize": {"bytes": 2 * PAGE}, "share": {"rights": 1, "tenant": "red"},
          "fix_atomic_device": {}}


def lent(client, **values):
    """A new lease."""
    fields = {"bytes": PAGE, "node": -1}
    fields.update(values)
    return client.call("allocate", **fields)


def allocate_refused(client, error, **values):
    fields = {"bytes": PAGE, "node": -1}
    fields.update(values)
    refused(client, error, "allocate", **fields)


def sound(client, lease):
    """A lease is as the page says."""
    holds(lease["lease"] != 0, "a lease has an id")
    equal(sum(s["bytes"] for s in lease["segments"]), lease["bytes"], "the bytes of all segments")
    n_endpoints = len(client.welcome["endpoints"])
    for segment in lease["segments"]:
        holds(segment["bytes"] > 0, "a segment has bytes")
        size = segment["page_bytes"]
        holds(size > 0 and size & (size - 1) == 0, "a page's size is a power of two")
        equal(segment["endpoints"] >> n_endpoints, 0, "the endpoints of a segment that are none")
    seen = set()
    for key in lease["keys"]:
        holds(key["segment"] < len(lease["segments"]), "the segment of a key")
        holds(lease["segments"][key["segment"]]["endpoints"] >> key["endpoint"] & 1,
              "it is lent there")
        holds((key["segment"], key["endpoint"]) not in seen, "one key per segment and endpoint")
        seen.add((key["segment"], key["endpoint"]))
    return seen


@case
def allocate__lends_the_exact_length(world):
    with world.open() as client:
        for n in (0, 1, 7, PAGE - 1, PAGE, PAGE + 1, 3 << 20):
            lease = lent(client, bytes=n)
            sound(client, lease)
            equal(lease["bytes"], n)
            equal((lease["rights"], lease["name"], lease["ttl_ms"]), (3, "", 0))
            equal(lease["keys"], [], "the keys of a session without a channel")
            equal((lease["placement"], lease["node"]), (0, -1), "placement and node")


@case
def lease__has_keys_for_the_session_s_channels(world):
    with world.open() as client:
        before = lent(client)
        endpoint = client.endpoint()
        client.call("open_channel", endpoint=endpoint)
        keys = sound(client, lent(client))
        equal({e for _, e in keys}, {endpoint}, "the endpoints that have keys")
        again = client.call("attach", lease=before["lease"])
        equal(len(sound(client, again)), len(again["segments"]),
              "the keys of a lease from before the channel")
        equal(again["generation"], before["generation"], "the generation when the keys are new")


@case
def ids__are_never_used_twice(world):
    with world.open() as client:
        ids = []
        for _ in range(20):
            ids.append(lent(client)["lease"])
            client.call("free", lease=ids[-1])
        equal(len(set(ids)), len(ids), "the number of ids")


@case
def allocate__takes_each_field_to_its_limits(world):
    with world.open() as client:
        most = client.welcome["lease_bytes_max"]
        for n in (most + 1, 1 << 63, (1 << 64) - 1):
            allocate_refused(client, "no_room", bytes=n)
        for align in (0, 1, 2, PAGE, 1 << 21, 1 << 25):
            lease = lent(client, align=align)
            client.call("free", lease=lease["lease"])
        for align in (3, 5, PAGE + 1, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1):
            allocate_refused(client, "invalid", align=align)
        for node in (-2, -(1 << 31)):
            allocate_refused(client, "invalid", node=node)
        for placement in (3, 4, 255):
            allocate_refused(client, "invalid", placement=placement)
        allocate_refused(client, "invalid", placement=2, node=0)
        allocate_refused(client, "invalid", placement=1, node=0, device="rxe0")
        allocate_refused(client, "invalid", placement=1)
        allocate_refused(client, "invalid", placement=0, device="rxe0")
        allocate_refused(client, "invalid", placement=2, device="rxe0")
        allocate_refused(client, "no_device", placement=1, device="none0")
        striped = lent(client, placement=2)
        equal(striped["placement"], 2)
        equal(lent(client, node=0)["node"], 0)


@case
def reach__may_name_endpoints_that_are_none(world):
    with world.open() as client:
        for bits in (1 << client.endpoint(), 1 << len(client.welcome["endpoints"]), 0xff):
            lease = lent(client, reach=bits)["lease"]
            client.call("resize", lease=lease, bytes=2 * PAGE, reach=bits)
            client.call("attach", lease=lease, reach=bits)


@case
def name__is_unique_in_the_tenant(world):
    with world.open() as client:
        lease = lent(client, name="leases/name", ttl_ms=60000)
        equal(lease["name"], "leases/name")
        holds(0 < lease["ttl_ms"] <= 60000, "the time to live counts")
        allocate_refused(client, "exists", name="leases/name")
        other = world.tenant("red").open()
        lent(other, name="leases/name")
        other.call("remove", name="leases/name")
        client.call("remove", name="leases/name")
        lent(client, name="leases/name")
        client.call("remove", name="leases/name")


@case
def attach__gives_the_rights_asked_for(world):
    with world.open() as client, world.open() as other:
        lease = lent(client, name="leases/attach")["lease"]
        for rights in (1, 3):
            got = other.call("attach", name="leases/attach", rights=rights)
            equal((got["lease"], got["rights"], got["name"]), (lease, rights, "leases/attach"))
            equal(other.call("attach", lease=lease)["rights"], rights, "the rights by id")
            other.call("detach", lease=lease)
        for rights in (0, 2, 4, 5, 7, 255):
            refused(other, "invalid", "attach", name="leases/attach", rights=rights)
        other.call("attach", name="leases/attach", rights=1)
        for rights in (1, 2, 3, 4):
            refused(other, "invalid", "attach", lease=lease, rights=rights)
        refused(other, "missing", "attach", name="leases/none", rights=1)
        refused(other, "invalid", "attach", name="leases/attach", lease=lease, rights=1)
        refused(other, "invalid", "attach", rights=1)
        client.call("free", lease=lease)
        equal(other.event("revoked"), {"lease": lease, "reason": 1})


@case
def detach__gives_up_and_frees_what_is_ephemeral(world):
    with world.open() as client:
        lease = lent(client)["lease"]
        refused(client, "invalid", "detach", lease=lease, flags=2)
        refused(client, "invalid", "detach", lease=lease, flags=0xffffffff)
        client.call("detach", lease=lease)
        refused(client, "stale", "detach", lease=lease)
        named = lent(client, name="leases/detach")["lease"]
        client.call("detach", lease=named)
        equal(client.call("attach", name="leases/detach", rights=3)["lease"], named)
        client.call("detach", lease=named, flags=1)
        equal(client.call("attach", name="leases/detach", rights=3)["lease"], named,
              "a lease that was attached")
        client.call("free", lease=named)
        unused = lent(client, name="leases/unused")["lease"]
        client.call("detach", lease=unused, flags=1)
        refused(client, "missing", "stat", name="leases/unused")


@case
def renew__starts_the_time_to_live_again(world):
    with world.open() as client:
        lease = lent(client, name="leases/renew", ttl_ms=50000)["lease"]
        client.call("renew", lease=lease, ttl_ms=90000)
        holds(50000 < client.call("stat", name="leases/renew")["entries"][0]["ttl_ms"] <= 90000,
              "it is longer")
        client.call("renew", lease=lease, ttl_ms=1000000)
        client.call("renew", lease=lease, ttl_ms=5, flags=1)
        holds(client.call("stat", name="leases/renew")["entries"][0]["ttl_ms"] > 900000,
              "ttl_ms is ignored")
        client.call("renew", lease=lease, ttl_ms=0)
        equal(client.call("stat", name="leases/renew")["entries"][0]["ttl_ms"], 0, "0 is for ever")
        for flags in (2, 3, 0x80000000):
            refused(client, "invalid", "renew", lease=lease, ttl_ms=1, flags=flags)
        refused(client, "invalid", "renew", lease=lent(client)["lease"], ttl_ms=1000)
        client.call("renew", lease=lease, ttl_ms=1)
        equal(client.event("revoked"), {"lease": lease, "reason": 2})
        refused(client, "missing", "stat", name="leases/renew")


@case
def rename__names_and_replaces(world):
    with world.open() as client, world.open() as other:
        first = lent(client)["lease"]
        client.call("rename", lease=first, name="leases/first")
        equal(client.call("stat", name="leases/first")["entries"][0]["lease"], first)
        second = lent(client, name="leases/second")["lease"]
        refused(client, "exists", "rename", lease=second, name="leases/first")
        other.call("attach", name="leases/first", rights=1)
        for flags in (2, 3, 0x80000000):
            refused(client, "invalid", "rename", lease=second, name="leases/first", flags=flags)
        refused(client, "invalid", "rename", lease=second)
        client.call("rename", lease=second, name="leases/first", flags=1)
        equal(client.call("stat", name="leases/first")["entries"][0]["lease"], second)
        refused(client, "missing", "stat", name="leases/second")
        equal(other.event("revoked"), {"lease": first, "reason": 8})
        client.call("rename", lease=second, name="leases/first", flags=1)
        client.call("remove", name="leases/first")


@case
def resize__keeps_what_stays(world):
    with world.open() as client, world.open() as other:
        lease = lent(client, name="leases/resize")
        other.call("attach", name="leases/resize", rights=1)
        generation, before = lease["generation"], PAGE
        for n in (2 * PAGE, PAGE + 1, 0, 10 * PAGE, 10 * PAGE):
            got = client.call("resize", lease=lease["lease"], bytes=n)
            sound(client, got)
            equal((got["lease"], got["bytes"]), (lease["lease"], n))
            if n != before:
                holds(got["generation"] > generation, "the generation rises")
                equal(other.event("changed"),
                      {"lease": lease["lease"], "reason": 6 if n > before else 5})
            generation, before = got["generation"], n
        most = client.welcome["lease_bytes_max"]
        refused(client, "no_room", "resize", lease=lease["lease"], bytes=most + 1)
        refused(client, "no_room", "resize", lease=lease["lease"], bytes=(1 << 64) - 1)
        client.call("remove", name="leases/resize")


@case
def remove__ends_a_named_lease(world):
    with world.open() as client, world.open() as other:
        lease = lent(client, name="leases/remove")["lease"]
        other.call("attach", name="leases/remove", rights=1)
        client.call("remove", name="leases/remove")
        equal(other.event("revoked"), {"lease": lease, "reason": 1})
        refused(client, "missing", "remove", name="leases/remove")
        refused(client, "missing", "remove", name="")


@case
def stat__describes_one_lease(world):
    with world.open() as client, world.open() as other:
        lease = lent(client, name="leases/stat", bytes=5000, ttl_ms=100000)
        got = client.call("stat", name="leases/stat")
        equal(got["more"], 0)
        equal(len(got["entries"]), 1)
        entry = got["entries"][0]
        equal((entry["lease"], entry["bytes"], entry["sessions"], entry["name"], entry["segments"]),
              (lease["lease"], 5000, 1, "leases/stat", len(lease["segments"])))
        holds(entry["age_ms"] < 60000 and 0 < entry["ttl_ms"] <= 100000, "the times")
        other.call("attach", name="leases/stat", rights=1)
        equal(client.call("stat", name="leases/stat")["entries"][0]["sessions"], 2)
        refused(client, "missing", "stat", name="leases/sta")
        refused(client, "missing", "stat", name="")
        client.call("remove", name="leases/stat")


def listed(client, **values):
    """All entries, page by page."""
    entries, after = [], 0
    while True:
        got = client.call("list", after=after, **values)
        entries += got["entries"]
        if not got["more"]:
            return entries
        after = got["entries"][-1]["lease"]


@case
def list__is_in_the_order_of_ids(world):
    with world.open() as client:
        ids = [lent(client, name=f"list/{i:03}", bytes=0)["lease"] for i in range(150)]
        lent(client, name="other", bytes=0)
        lent(client, bytes=0)
        equal([e["lease"] for e in listed(client, prefix="list/")], sorted(ids),
              "the leases with the prefix")
        everything = [e["lease"] for e in listed(client)]
        equal(everything, sorted(everything), "all leases")
        holds(set(ids) < set(everything), "all are there")
        got = client.call("list", after=ids[100], prefix="list/")["entries"]
        equal([e["lease"] for e in got][:49], ids[101:101 + len(got)], "those after one")
        equal(client.call("list", after=(1 << 64) - 1), {"more": 0, "entries": []},
              "those after the last")
        equal(client.call("list", prefix="list/none"), {"more": 0, "entries": []},
              "those of no prefix")
        equal(listed(world.tenant("red").open(), prefix="list/"), [], "those of another tenant")
        for id_ in ids:
            client.call("free", lease=id_)
        client.call("remove", name="other")


@case
def session__holds_a_lease_as_the_table_says(world):
    outcomes = {"held from now on": None, "its rkeys": None, "not held from now on": None,
                "done": None}
    requests = {"attach by name": {"attach": {"name": "holds", "rights": 3}},
                "attach by id": {"attach": {}},
                "detach , free": {"detach": {}, "free": {}}, "all others by id": OTHERS}
    equal([row[0] for row in world.page.holds[1:]], list(requests), "the rows of the table")
    for title, held, not_held in world.page.holds[1:]:
        for name, values in requests[title].items():
            for outcome, does_hold in ((held, True), (not_held, False)):
                with world.open() as client:
                    lease = lent(client, name="holds")["lease"]
                    if not does_hold:
                        client.call("detach", lease=lease)
                    fields = dict(values)
                    if title != "attach by name":
                        fields["lease"] = lease
                    if name == "fix_atomic_device":
                        fields["endpoint"] = client.endpoint()
                    if outcome in outcomes:
                        client.call(name, **fields)
                    else:
                        refused(client, outcome, name, **fields)
                    with world.open() as tidy:
                        for entry in tidy.call("list", prefix="holds")["entries"]:
                            tidy.call("remove", name=entry["name"])


@case
def request__needs_what_the_table_says(world):
    may = {"hold": ("reader", "guest", "owner"), "write": ("guest", "owner"), "own": ("owner",)}
    for request in [r for r in world.page.requests() if r.needs in may]:
        with world.open() as owner, world.open() as reader, world.tenant("red").open() as guest:
            lease = lent(owner, name="holds")["lease"]
            owner.call("share", lease=lease, rights=3, tenant="red")
            reader.call("attach", name="holds", rights=1)
            guest.call("attach", name="holds", rights=3, tenant="default")
            fields = {"lease": lease, **OTHERS.get(request.name, {})}
            if request.name == "fix_atomic_device":
                fields["endpoint"] = owner.endpoint()
            for who, client in (("reader", reader), ("guest", guest), ("owner", owner)):
                if who in may[request.needs]:
                    client.call(request.name, **fields)
                else:
                    refused(client, "forbidden", request.name, **fields)
            for entry in owner.call("list", prefix="holds")["entries"]:
                owner.call("remove", name=entry["name"])


@case
def lease__of_another_session_is_not_held(world):
    with world.open() as client, world.open() as other, world.tenant("red").open() as stranger:
        lease = lent(client)["lease"]
        for who in (other, stranger):
            for name in ("free", "detach", "watch", "unwatch", "attach"):
                refused(who, "stale", name, lease=lease)
        for id_ in (0, 1, lease + 1, (1 << 64) - 1):
            refused(client, "stale", "free", lease=id_)


@case
def atomic_device__is_decided_once(world):
    with world.open() as client:
        lease = lent(client)["lease"]
        endpoint = client.endpoint()
        for wrong in (len(client.welcome["endpoints"]), 255):
            refused(client, "invalid", "fix_atomic_device", lease=lease, endpoint=wrong)
        for _ in range(2):
            equal(client.call("fix_atomic_device", lease=lease, endpoint=endpoint),
                  {"fabric": 1, "device": ""})
