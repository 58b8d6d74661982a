# SPDX-License-Identifier: BSD-3-Clause
"""Leases that a tenant shares with another one."""

from case import case, equal, refused
from walk_leases import PAGE, lent


@case
def share__gives_another_tenant_these_rights(world):
    with world.open() as owner, world.tenant("red").open() as red, \
            world.tenant("blue").open() as blue:
        lease = lent(owner, name="shared")["lease"]
        refused(red, "missing", "attach", name="shared", rights=1)
        refused(red, "missing", "attach", name="shared", rights=1, tenant="default")
        owner.call("share", lease=lease, rights=1, tenant="red")
        refused(red, "forbidden", "attach", name="shared", rights=3, tenant="default")
        refused(blue, "missing", "attach", name="shared", rights=1, tenant="default")
        got = red.call("attach", name="shared", rights=1, tenant="default")
        equal((got["lease"], got["rights"], got["bytes"]), (lease, 1, PAGE))
        equal(red.call("stat", name="shared", tenant="default")["entries"][0]["lease"], lease)
        equal(red.call("list", prefix="shared")["entries"], [], "the leases of the tenant itself")
        owner.call("share", lease=lease, rights=3, tenant="red")
        red.call("detach", lease=lease)
        red.call("attach", name="shared", rights=3, tenant="default")
        owner.call("share", lease=lease, rights=1, tenant="red")
        equal(red.event("revoked"), {"lease": lease, "reason": 9})
        refused(red, "stale", "attach", lease=lease)
        red.call("attach", name="shared", rights=1, tenant="default")
        owner.call("share", lease=lease, rights=0, tenant="red")
        equal(red.event("revoked"), {"lease": lease, "reason": 9})
        refused(red, "missing", "attach", name="shared", rights=1, tenant="default")
        owner.call("free", lease=lease)


@case
def share__is_refused_by_its_fields(world):
    with world.open() as owner, world.open() as reader:
        lease = lent(owner, name="shared/fields")["lease"]
        for rights in (2, 4, 5, 7, 8, 255):
            refused(owner, "invalid", "share", lease=lease, rights=rights, tenant="red")
        refused(owner, "invalid", "share", lease=lease, rights=1, tenant="")
        refused(owner, "invalid", "share", lease=lease, rights=1, tenant="default")
        refused(owner, "invalid", "share", lease=lent(owner)["lease"], rights=1, tenant="red")
        reader.call("attach", name="shared/fields", rights=1)
        refused(reader, "forbidden", "share", lease=lease, rights=1, tenant="red")
        owner.call("free", lease=lease)


@case
def lease__that_is_shared_is_its_owner_s(world):
    with world.open() as owner, world.tenant("red").open() as red:
        lease = lent(owner, name="shared/owner")["lease"]
        owner.call("share", lease=lease, rights=3, tenant="red")
        red.call("attach", name="shared/owner", rights=3, tenant="default")
        refused(red, "forbidden", "share", lease=lease, rights=1, tenant="blue")
        refused(red, "missing", "remove", name="shared/owner")
        owner.call("free", lease=lease)
        equal(red.event("revoked"), {"lease": lease, "reason": 1})
