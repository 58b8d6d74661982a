# SPDX-License-Identifier: BSD-3-Clause
"""Control connections under TLS with certificates: red.pem is one of the tenant red."""

import os
import socket
import ssl

from case import case, equal
from client import SECONDS, Client, Refused
from tls import ALPN
from walk_leases import lent
from walk_tls import not_admitted


def context_of(world, name="red"):
    """What a client with this certificate uses."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(os.path.join(world.folder, "server.pem"))
    context.set_alpn_protocols([ALPN])
    if name:
        context.load_cert_chain(*(os.path.join(world.folder, f"{name}.{end}")
                                  for end in ("pem", "key")))
    return context


def connect(world, context):
    sock = socket.create_connection((world.host, world.port), SECONDS)
    return Client(world.server, context.wrap_socket(sock, server_hostname=world.host))


@case
def certificate__opens_sessions_of_its_tenant(world):
    with connect(world, context_of(world)) as client:
        equal((client.sock.version(), client.sock.selected_alpn_protocol()), ("TLSv1.3", ALPN),
              "version and protocol")
        client.hello(tenant="red")
        lease = lent(client)["lease"]
        with connect(world, context_of(world)) as again:
            again.resume(client, tenant="red")
            equal(again.call("attach", lease=lease)["lease"], lease)
            again.call("bye")


@case
def certificate__that_fits_no_pattern_is_refused(world):
    with connect(world, context_of(world)) as client:
        try:
            client.hello(tenant="default")
        except Refused as why:
            equal(why.code, world.page.errors["forbidden"])
        else:
            raise AssertionError("a certificate opens a session of another tenant")


@case
def handshake__needs_a_certificate_version_and_protocol(world):
    not_admitted(lambda: connect(world, context_of(world, None)), "a client without a certificate")
    not_admitted(lambda: connect(world, context_of(world, "stranger")),
                 "a certificate that nobody trusts")
    not_admitted(lambda: connect(world, context_of(world, "server")), "a certificate of servers")
    old = context_of(world)
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    not_admitted(lambda: connect(world, old), "an old version")
    for protocols in (["rmem/2"], ["http/1.1"]):
        other = context_of(world)
        other.set_alpn_protocols(protocols)
        not_admitted(lambda: connect(world, other), f"a client of {protocols}")
