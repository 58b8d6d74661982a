# SPDX-License-Identifier: BSD-3-Clause
"""Control connections and channels under TLS, with pre-shared keys of tenants default and red."""

import os
import socket

from case import case, equal, holds, refused
from channel import READ, Channel, derive
from client import SECONDS, Client, Refused
from tls import ALPN, Failed, Tls, identity
from walk_events import keyed


def key_of(world, tenant):
    with open(os.path.join(world.folder, tenant + ".psk"), encoding="ascii") as file:
        return bytes.fromhex(file.read().strip().split(":")[1])


def connect(world, name, key, protocol=ALPN):
    """A control connection whose handshake is done."""
    sock = Tls(socket.create_connection((world.host, world.port), SECONDS), name, key, protocol)
    return Client(world.server, sock)


def opened(world, tenant="default"):
    key = key_of(world, tenant)
    client = connect(world, identity(tenant, key), key)
    return client.hello(tenant=tenant)


def not_admitted(function, what):
    """The handshake fails, or the connection ends without an answer."""
    try:
        client = function()
        client.call("hello", magic=0x6d656d72, version_min=1, version_max=1, tenant="default")
    except (Refused, TimeoutError):
        raise AssertionError(f"{what} gets an answer") from None
    except Exception:  # pylint: disable=broad-except
        return
    raise AssertionError(f"{what} opens a session")


@case
def key__opens_sessions_of_its_tenant(world):
    for tenant in ("default", "red"):
        with opened(world, tenant) as client:
            equal(client.sock.protocol(), ALPN, "the protocol that was chosen")
            client.sync()
    key = key_of(world, "red")
    with connect(world, identity("red", key), key) as client:
        try:
            client.hello(tenant="default")
        except Refused as why:
            equal(why.code, world.page.errors["forbidden"])
        else:
            raise AssertionError("a key opens a session of another tenant")


@case
def handshake__needs_identity_key_and_protocol(world):
    key = key_of(world, "default")
    name = identity("default", key)
    for what, arguments in (("a wrong key", (name, bytes(32))),
                            ("the key of another tenant", (name, key_of(world, "red"))),
                            ("a tenant that is none", (identity("nobody", key), key)),
                            ("a tenant alone", ("default", key)),
                            ("a hash that is wrong", (name[:-1] + "x", key)),
                            ("a hash in capitals", (name.upper(), key)),
                            ("more behind it", (name + " ", key)),
                            ("no protocol", (name, key, None)),
                            ("another protocol", (name, key, "rmem/2"))):
        not_admitted(lambda arguments=arguments: connect(world, *arguments), what)


@case
def hello__without_tls_gets_an_error_without_it(world):
    with world.server.connect() as client:
        try:
            client.hello()
        except Refused as why:
            holds(why.text, "a text")
        else:
            raise AssertionError("a hello without TLS opens a session")


@case
def channel__is_under_tls_with_its_own_key(world):
    with opened(world) as client:
        holds(client.welcome["endpoints"][client.endpoint()]["flags"] & 32,
              "channels are under TLS")
        with Channel(client) as channel:
            equal(channel.status, "done")
            channel.secure(client)
            _, key = keyed(client, channel, bytes=1 << 20)
            data = os.urandom(1 << 20)
            channel.store(key, 0, data)
            holds(channel.load(key, 0, 1 << 20) == data, "the bytes")
            equal(channel.sock.protocol(), ALPN, "the protocol of a channel")
        for wrong in ({"key": derive(bytes(32), "rmem key", 1, 1)}, {"protocol": None},
                      {"protocol": "rmem/2"}):
            with Channel(client) as channel:
                try:
                    channel.secure(client, **wrong)
                except Failed:
                    continue
                raise AssertionError(f"a channel with {wrong} goes on")
        with Channel(client) as channel:
            channel.send(READ, key, 0, 8)
            data = b""
            try:
                data = channel.sock.recv(24)
            except ConnectionError:
                pass
            holds(data[:4] != bytes(4), "a request in clear is not done")


@case
def session__resumes_with_the_key_of_its_tenant_alone(world):
    with opened(world) as client:
        lease = client.call("allocate", bytes=4096, node=-1)["lease"]
        token, session = client.welcome["token"], client.welcome["session"]
        key = key_of(world, "red")
        with connect(world, identity("red", key), key) as thief:
            try:
                thief.hello(tenant="red", resume=session, token=token)
            except Refused:
                pass
            else:
                raise AssertionError("another tenant resumes a session")
        key = key_of(world, "default")
        with connect(world, identity("default", key), key) as again:
            again.resume(client)
            equal(again.call("attach", lease=lease)["lease"], lease)
            refused(again, "stale", "attach", lease=lease + 1)
            again.call("bye")


@case
def key__that_is_withdrawn_fences_its_sessions(world):
    path = os.path.join(world.folder, "rmemd.psk")
    with open(path, encoding="ascii") as file:
        keys = file.read()
    with opened(world, "red") as client, opened(world) as other:
        with open(path, "w", encoding="ascii") as file:
            file.writelines(line for line in keys.splitlines(True) if not line.startswith("red:"))
        world.rmemctl("reload")
        equal(client.event("fenced"), {})
        holds(client.ended(), "the connection ends")
        other.sync()
        not_admitted(lambda: opened(world, "red"), "a key that was withdrawn")
        with open(path, "w", encoding="ascii") as file:
            file.write(keys)
        world.rmemctl("reload")
        key = key_of(world, "red")
        with connect(world, identity("red", key), key) as again:
            again.resume(client, tenant="red")
            again.call("bye")
