# SPDX-License-Identifier: BSD-3-Clause
"""Sessions: hello, welcome, resuming, bye."""

import socket

import frame
from case import case, disconnected, equal, holds, refused
from client import Closed, Refused, u64
from walk_channels import INBAND_MOST, MOST


def hello_refused(world, error, **values):
    """A hello with these values opens no session; the connection ends, or goes on."""
    with world.server.connect() as client:
        try:
            client.hello(**values)
        except Refused as why:
            equal(why.code, world.page.errors[error], f"the error of hello {values} ({why.text})")
            holds(why.text, "a text")
        else:
            raise AssertionError(f"hello with {values} opens a session")


@case
def welcome__has_what_a_client_needs(world):
    with world.open() as client:
        got = client.welcome
        equal(got["version"], 1)
        equal(got["capabilities"], 0)
        holds(got["session"] != 0, "the session has an id")
        holds(got["token"] != bytes(16), "the token is random")
        equal(got["resumed"], 0)
        holds(0 < got["heartbeat_ms"] <= got["fence_ms"] <= 600000, "times make sense")
        holds(got["channels_max"] > 0, "a session may have channels")
        holds(got["lease_bytes_max"] > 0, "a lease may have bytes")
        for limit in ("requests_max", "stream_bytes_max", "inband_bytes_max",
                      "inband_requests_max"):
            holds(got[limit] > 0, limit)
        equal((got["requests_max"], got["stream_bytes_max"], got["inband_bytes_max"]),
              (256, MOST, INBAND_MOST), "limits")
        holds(got["endpoints"], "there are endpoints")
        for endpoint in got["endpoints"]:
            holds(endpoint["fabric"] in (1, 2), "a fabric")
            equal(endpoint["version"], 1)
            holds(endpoint["family"] in (0, 4, 6), "a family")
            holds(endpoint["port"], "a port")
            holds(endpoint["flags"] < 64, "flags are those of the page")
            if endpoint["fabric"] == 1:
                equal(endpoint["device"], "")
        equal((got["channel"], got["endpoint"]), (0, 0), "the channel that was not asked for")
        with world.open() as other:
            holds(other.welcome["session"] != got["session"], "ids differ")
            holds(other.welcome["token"] != got["token"], "tokens differ")


@case
def hello__grants_a_channel(world):
    with world.open(channel=1) as client:
        holds(client.welcome["channel"] != 0, "a channel is granted")
        equal(client.welcome["endpoints"][client.welcome["endpoint"]]["fabric"], 1)
        more = client.call("open_channel", endpoint=client.welcome["endpoint"])
        holds(more["channel"] != client.welcome["channel"], "channels have numbers of their own")
    with world.open(channel=2) as client:
        if 2 not in [e["fabric"] for e in client.welcome["endpoints"]]:
            equal(client.welcome["channel"], 0, "the channel of a fabric that is not served")


@case
def hello__is_refused_by_its_fields(world):
    hello_refused(world, "malformed", magic=0)
    hello_refused(world, "malformed", magic=0x72656d6d)
    for versions in ((0, 0), (2, 2), (2, 65535), (1, 0), (65535, 65535)):
        hello_refused(world, "unsupported", version_min=versions[0], version_max=versions[1])
    hello_refused(world, "invalid", channel=3)
    hello_refused(world, "invalid", channel=255)
    for name in ("nobody", ""):
        hello_refused(world, "forbidden", tenant=name)
    hello_refused(world, "malformed", tenant="x" * 65)
    hello_refused(world, "malformed", client="x" * 65)


@case
def hello__chooses_version_and_capabilities(world):
    for versions in ((1, 1), (0, 1), (0, 65535), (1, 2)):
        with world.open(version_min=versions[0], version_max=versions[1]) as client:
            equal(client.welcome["version"], 1, f"the version of {versions}")
    for bits in (1, 0x80000000, 0xffffffff):
        with world.open(capabilities=bits) as client:
            equal(client.welcome["capabilities"], 0, f"what the server knows of {bits:#x}")


@case
def hello__takes_names_up_to_their_limit(world):
    for name in ("", "x" * 64, "\u00e4" * 32):
        with world.open(client=name):
            pass


@case
def hello__comes_first_and_once(world):
    for message in world.page.requests():
        if message.name != "hello":
            with world.server.connect() as client:
                disconnected(client, client.ask(message.name))
    with world.open() as client:
        id_ = client.next_id
        client.next_id += 1
        try:
            client.hello()
        except Refused:
            holds(client.ended(), f"the second hello {id_} ends the connection")
        else:
            raise AssertionError("a second hello opens a session")


@case
def hello__of_a_client_that_has_gone_opens_nothing(world):
    def sessions():
        return {s["id"] for s in world.rmemctl("sessions")["sessions"]}
    before = sessions()
    for _ in range(10):
        with world.server.connect() as client:
            message = world.page.messages["hello"]
            body = frame.encode(world.page, message,
                                {"magic": 0x6d656d72, "version_min": 1, "version_max": 1,
                                                      "tenant": "default", "client": "gone"})
            client.send_bytes(frame.frame(message.number, 1, body)[:-1])
            client.send_bytes(frame.frame(message.number, 1, body)[-1:])
            client.sock.shutdown(socket.SHUT_WR)
            try:
                client.answer(1)
            except (Closed, Refused):
                pass
    named = [s for s in world.rmemctl("sessions")["sessions"] if s["client"] == "gone"
             and s["id"] not in before]
    equal(named, [], "the sessions of those that have gone")


@case
def resume__needs_session_token_and_tenant(world):
    with world.open() as client:
        session, token = client.welcome["session"], client.welcome["token"]
        lease = client.call("allocate", bytes=4096, node=-1)
        client.close()
        hello_refused(world, "stale", resume=session + 1, token=token)
        hello_refused(world, "stale", resume=0xffffffffffffffff, token=token)
        hello_refused(world, "stale", resume=session, token=bytes(16))
        hello_refused(world, "stale", resume=session, token=token[:15] + bytes([token[15] ^ 1]))
        for name in ("red", ""):
            hello_refused(world, "forbidden", resume=session, token=token, tenant=name)
        with world.server.connect() as again:
            again.resume(client)
            equal(again.welcome["resumed"], 1)
            equal(again.welcome["session"], session, "the session")
            equal(again.call("attach", lease=lease["lease"])["bytes"], 4096, "the lease")
            again.call("bye")


@case
def resume__takes_the_session_from_a_connection_that_lives(world):
    with world.open() as client, world.server.connect() as again:
        again.resume(client)
        holds(client.ended(), "the former connection ends")
        again.sync()
        again.call("bye")


@case
def bye__ends_the_session(world):
    with world.open() as client:
        lease = client.call("allocate", bytes=4096, node=-1, name="bye/named")
        client.call("allocate", bytes=4096, node=-1)
        client.call("bye")
        holds(client.ended(), "the connection ends")
        hello_refused(world, "stale", resume=client.welcome["session"],
                      token=client.welcome["token"])
    with world.open() as client:
        equal(client.call("attach", name="bye/named", rights=3)["lease"], lease["lease"],
              "the named lease stays")
        client.call("free", lease=lease["lease"])


@case
def ping__is_answered_in_any_number(world):
    with world.open() as client:
        ids = [client.ask("ping") for _ in range(256)]
        for id_ in ids:
            client.answer(id_, "ok")


@case
def hello__ignores_what_it_does_not_know(world):
    with world.server.connect() as client:
        client.call("hello", behind=u64(1) * 3, magic=0x6d656d72, version_min=1, version_max=1,
                    tenant="default")
        client.sync()
