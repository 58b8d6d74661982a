# SPDX-License-Identifier: BSD-3-Clause
"""Answers to the library that need care: other endpoints, unreadable ones, lists that do not
end."""

import frame
from case import case, equal, holds
from channel import ADD, PING, SWAP
from server import ATOMICS, INBAND, Server
from walk_library import DATA, clean, good, rmem, tour


@case
def endpoint__of_another_version_is_left_out(world):
    with Server(world.page) as server:
        port = server.trap()
        server.endpoints = [server.tcp(version=2, port=port), server.tcp(),
                            server.tcp(version=0, port=port)]
        server.served = 1
        tour(server)
        clean(server)


@case
def endpoint__may_be_the_last_of_32(world):
    """Those before it are of a fabric that the client cannot use."""
    with Server(world.page) as server:
        server.endpoints = [dict(server.tcp(), fabric=2, port=9,
                                 device="none")] * 31 + [server.tcp()]
        server.served = 31
        tour(server)
        clean(server)


@case
def endpoint__of_family_0_is_at_the_address_of_the_control_connection(world):
    with Server(world.page) as server:
        server.endpoints = [server.tcp(family=0, address=bytes(16))]
        tour(server)
        clean(server)


@case
def endpoint__without_inband_requests_gets_none(world):
    with Server(world.page) as server:
        server.endpoints = [server.tcp(flags=ATOMICS)]
        good(server, "put", "x", data=DATA)
        for words in (("crc", "x"), ("copy", "x", "y"), ("fill", "x", "00"), ("notify", "x", "1"),
                      ("ping", "-c", "1", "--data")):
            rmem(server, *words)
        equal([op for op in server.operations if op[0] >= PING], [], "in-band requests")
        clean(server)


@case
def atomics__come_after_their_device_was_asked_for(world):
    with Server(world.page) as server:
        for op in ("faa", "cas"):
            good(server, "-q", "bench", "--op", op, "--duration", "100ms", "--region", "64K")
        atomics = [op for op in server.operations if op[0] in (SWAP, ADD)]
        holds({op for op, _, _ in atomics} == {SWAP, ADD}, "both atomics")
        holds(all(n == 16 and addr % 8 == 0 for _, n, addr in atomics), "their length and place")
        holds(any(name == "fix_atomic_device" for _, name, _, _ in server.requests),
              "the device is asked for")
        clean(server)


@case
def endpoint__without_atomics_gets_none(world):
    with Server(world.page) as server:
        server.endpoints = [server.tcp(flags=INBAND)]

        def fix(link, id_, values):
            link.send("error", id_, code=world.page.errors["unsupported"], text="no atomics")
            return True
        server.hooks["fix_atomic_device"] = fix
        holds(rmem(server, "bench", "--op", "faa", "--duration", "100ms").status != 0, "it fails")
        equal([op for op in server.operations if op[0] in (SWAP, ADD)], [], "atomics")
        clean(server)


@case
def hello__that_is_refused_tells_why(world):
    with Server(world.page) as server:
        def hello(link, id_, values):
            link.send("error", id_, code=world.page.errors["forbidden"],
                      text="a stranger of the test")
            link.sock.shutdown(2)
            return True
        server.hooks["hello"] = hello
        ended = rmem(server, "ls")
        equal(ended.status, 1)
        holds("a stranger of the test" in ended.err, f"the text: {ended.err}")
        equal(len(server.requests), 1, "the number of hellos")


@case
def reply__that_cannot_be_read_fails_the_request(world):
    entries = world.page.messages["entries"]
    body = frame.encode(world.page, entries, {"entries": [{"lease": 1, "name": "x"}]})
    bad = {"cut": (entries.number, body[:-1]), "empty": (entries.number, b""),
           "of another type": (0x43, bytes(64)),
           "of an unknown type": (0x7e, bytes(8)),
           "without its string": (entries.number, body[:-1] + b"\xff"),
           "with too many items": (entries.number, b"\0\xff\xff" + body[3:])}
    for what, (number, data) in bad.items():
        with Server(world.page) as server:
            good(server, "put", "x", data=b"x")
            server.requests.clear()

            def stat(link, id_, values, number=number, data=data):
                link.send_bytes(frame.frame(number, id_, data))
                return True
            server.hooks["stat"] = stat
            ended = rmem(server, "stat", "x")
            equal(ended.status, 1, f"the end of stat after a reply {what}")
            equal(sum(name == "stat" for _, name, _, _ in server.requests), 1,
                  f"requests after a reply {what}")
            clean(server)


@case
def list__that_does_not_go_on_is_refused(world):
    for ids in ((), (5, 4), (5, 5)):
        reply = {"more": 1, "entries": [{"lease": id_, "name": "x"} for id_ in ids]}
        with Server(world.page) as server:
            def list_(link, id_, values, reply=reply):
                link.send("entries", id_, **reply)
                return True
            server.hooks["list"] = list_
            ended = rmem(server, "ls")
            equal(ended.status, 1, f"the end of ls after {reply}")
            holds(sum(name == "list" for _, name, _, _ in server.requests) < 4,
                  "it does not ask on and on")


@case
def changed__lets_the_client_attach_again(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=DATA * 20)
        server.requests.clear()
        told = []

        def operate(link, request):
            if not told:
                told.append(request)
                for session in server.sessions.values():
                    if session.held:
                        server.event(session, "changed", lease=next(iter(session.held)), reason=6)
        server.stream_hook = operate
        good(server, "-q", "crc", "x")
        holds(told, "there were operations")
        holds(any(name == "attach" and values["lease"] for _, name, _, values in server.requests),
              "attach by the id")
        clean(server)


@case
def session__that_resumes_finds_other_endpoints(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=DATA)
        server.requests.clear()

        def stat(link, id_, values):
            server.hooks.clear()
            server.endpoints = [server.tcp(version=9, port=server.trap()), server.tcp()]
            server.served = 1
            link.sock.shutdown(2)
            return True
        server.hooks["attach"] = stat
        holds(good(server, "get", "x") == DATA, "the bytes")
        clean(server)


@case
def channel__that_ends_is_replaced(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=DATA)
        server.requests.clear()
        ended = []

        def operate(link, request):
            if not ended:
                ended.append(request)
                link.sock.shutdown(2)
        server.stream_hook = operate
        holds(good(server, "get", "x") == DATA, "the bytes")
        holds(ended, "a channel ended")
        holds(any(name == "open_channel" for _, name, _, _ in server.requests),
              "another one is asked for")
        equal([values["resume"] for _, name, _, values in server.requests if name == "hello"], [0],
              "the hellos")
        clean(server)
