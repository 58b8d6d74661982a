# SPDX-License-Identifier: BSD-3-Clause
"""librmem, by the commands of rmem, over the server of this folder."""

import os
import random
import subprocess
import threading

import frame
from case import case, equal, holds
from channel import PING
from server import Server

DATA = random.Random(1).randbytes(300000)


class Ended:
    """What a command did."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err.decode()


def start(server, *words, options=""):
    uri = f"rmem://127.0.0.1:{server.port}?fabric=tcp{options}"
    return subprocess.Popen([os.environ["RMEM"], "-s", uri, *words], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def rmem(server, *words, data=b"", options=""):
    process = start(server, *words, options=options)
    try:
        out, err = process.communicate(data, 40)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"rmem {' '.join(words)} does not end") from None
    return Ended(process.returncode, out, err)


def good(server, *words, data=b"", options=""):
    ended = rmem(server, *words, data=data, options=options)
    equal((ended.status, ended.err), (0, ""), f"the end of rmem {' '.join(words)}")
    return ended.out


def tour(server, options=""):
    """All commands that store, read and change."""
    good(server, "put", "tour", data=DATA, options=options)
    holds(good(server, "get", "tour", options=options) == DATA, "the bytes come back")
    good(server, "put", "tour", data=DATA[::-1], options=options)
    holds(good(server, "get", "--offset", "1000", "--length", "99999", "tour", options=options) ==
          DATA[::-1][1000:100999], "a part comes back")
    good(server, "copy", "tour", "copy", options=options)
    holds(good(server, "get", "copy", options=options) == DATA[::-1], "the bytes of the copy")
    good(server, "fill", "--offset", "3", "--length", "1001", "copy", "0102", options=options)
    holds(good(server, "get", "--length", "1004", "copy", options=options) ==
          DATA[::-1][:3] + (b"\1\2" * 501)[:1001], "the bytes of the fill")
    good(server, "put", "check", data=b"123456789", options=options)
    equal(good(server, "crc", "check", options=options), b"e3069283  check\n")
    good(server, "touch", "--ttl", "10min", "check", options=options)
    good(server, "mv", "check", "checked", options=options)
    equal(good(server, "ls", options=options).split(), [b"checked", b"copy", b"tour"])
    good(server, "share", "checked", "red", options=options)
    good(server, "unshare", "checked", "red", options=options)
    good(server, "stat", "checked", options=options)
    good(server, "ping", "-c", "2", "-i", "10ms", options=options)
    good(server, "ping", "-c", "2", "-i", "10ms", "--data", options=options)
    good(server, "notify", "checked", "7", options=options)
    good(server, "rm", "-y", "checked", "copy", "tour", options=options)
    equal(server.leases, {}, "what is left")


def clean(server):
    equal(server.faults, [], "what the library did against the page")


@case
def library__does_as_the_page_says(world):
    with Server(world.page) as server:
        tour(server)
        clean(server)
        names = {name for _, name, _, _ in server.requests}
        equal(sorted(m.name for m in world.page.requests() if m.name not in names),
              ["fix_atomic_device", "free", "join_channel", "unwatch", "watch"],
              "requests that no command made")


@case
def ids__rise_from_1(world):
    with Server(world.page) as server:
        good(server, "put", "ids", data=DATA)
        ids = [id_ for _, name, id_, _ in server.requests if name != "hello"]
        equal(ids, sorted(set(ids)), "the ids")
        holds(ids[0] >= 1, "the first one")
        clean(server)


@case
def requests__stay_within_a_segment(world):
    for n in (100000, 65536 + 4096):
        with Server(world.page) as server:
            server.segment_bytes = n
            tour(server)
            clean(server)


@case
def limits__are_those_of_welcome(world):
    with Server(world.page) as server:
        server.welcome = {"stream_bytes_max": 10000, "inband_bytes_max": 4096, "requests_max": 1}
        tour(server)
        clean(server)
        for inband, most in ((False, 10000), (True, 4096)):
            equal(max(n for op, n, _ in server.operations if (op >= PING) == inband), most,
                  "the longest request")


@case
def messages__may_have_more_fields(world):
    with Server(world.page) as server:
        server.more = b"later\0\1\2\3" * 5
        tour(server)
        clean(server)


@case
def events__that_are_unknown_are_ignored(world):
    with Server(world.page) as server:
        server.noise = [frame.frame(n, 0, os.urandom(n - 0x80)) for n in (0x90, 0xbf, 0xff)] + [
            frame.frame(0x7fff, 0), frame.frame(0xffff, 0, bytes(65536 - 16))]
        tour(server)
        clean(server)


@case
def replies__may_be_late(world):
    with Server(world.page) as server:
        def late(link, id_, values):
            def send():
                with server.lock:
                    server.answer(link, "allocate", id_, values)
            threading.Timer(0.5, send).start()
            return True
        server.hooks["allocate"] = late
        tour(server)
        clean(server)


@case
def error__that_is_unknown_fails_the_request_with_its_text(world):
    for code in (1, 9999, 0x7fffffff, 0xffffffff):
        with Server(world.page) as server:
            server.hooks["stat"] = lambda link, id_, values, c=code: link.send(
                "error", id_, code=c, text="a later reason") or True
            ended = rmem(server, "stat", "x")
            equal(ended.status, 1)
            holds("a later reason" in ended.err, f"the text is told: {ended.err}")
            equal(sum(name == "stat" for _, name, _, _ in server.requests), 1,
                  f"requests after error {code}")
            clean(server)


@case
def status__that_is_unknown_fails_the_operation(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=DATA)
        for status in (999, 0xffffffff):
            server.stream_hook = lambda link, request, s=status: s
            equal(rmem(server, "get", "x", "/dev/null").status, 1)
        clean(server)


@case
def status__of_a_dead_key_is_fixed_by_attach(world):
    with Server(world.page) as server:
        good(server, "put", "x", data=DATA)
        once = []

        def dead(link, request):
            if once:
                return None
            once.append(request)
            server.keys = {}
            return world.page.errors["dead_key"]
        server.stream_hook = dead
        holds(good(server, "get", "x") == DATA, "the bytes come")
        holds(any(name == "attach" and values["lease"] for _, name, _, values in server.requests),
              "attach by the id")
        clean(server)


@case
def channel__that_is_refused_tells_why(world):
    for name in ("no_memory", "forbidden", "malformed", "stale", "later"):
        status = world.page.errors.get(name, 7777)
        with Server(world.page) as server:
            good(server, "put", "x", data=b"x")
            server.status = (status, "the text of the test")
            ended = rmem(server, "--timeout", "2s", "get", "x")
            equal(ended.status, 1)
            holds("the text of the test" in ended.err, f"the text is told: {ended.err}")
            clean(server)


@case
def channel__whose_grant_is_of_no_use_is_asked_for_again(world):
    for name in ("stale", "invalid"):
        with Server(world.page) as server:
            server.status = world.page.errors[name], "refused by the test"

            def again(*_, server=server):
                server.status = 0, ""
                return False
            server.hooks["open_channel"] = again
            good(server, "put", "x", data=DATA)
            clean(server)


@case
def session__resumes_and_repeats_its_requests(world):
    for name, words in (("allocate", ("put", "y")), ("rename", ("put", "y")),
                        ("attach", ("get", "x")),
                        ("detach", ("get", "x")), ("remove", ("rm", "x")), ("stat", ("stat", "x"))):
        for done in (False, True):
            with Server(world.page) as server:
                good(server, "put", "x", data=DATA)
                cut = []

                def hook(link, id_, values, name=name, done=done, cut=cut, server=server):
                    if cut:
                        return False
                    cut.append((id_, values))
                    if done:
                        reply, fields = getattr(server, "do_" + name)(link, values) or ("ok", {})
                        cut.append((reply, fields))
                        server.hooks[name] = lambda link, id_, values: again(link, id_, values,
                                                                             reply, fields)
                    link.sock.shutdown(2)
                    return True

                def again(link, id_, values, reply, fields, cut=cut, server=server):
                    if id_ != cut[0][0]:
                        return False
                    if reply == "lease":
                        lease = server.leases[fields["lease"]]
                        reply, fields = server.lease(link, lease, fields["rights"])
                    link.send(reply, id_, **fields)
                    return True
                server.requests.clear()
                server.hooks[name] = hook
                ended = rmem(server, *words, data=DATA)
                equal((ended.status, ended.err), (0, ""),
                      f"the end of rmem {words} after the cut in {name}")
                sent = [(id_, values) for _, n, id_, values in server.requests if n == name]
                equal(sent[1][0], sent[0][0], f"the id of the repeated {name}")
                equal(sent[1][1], sent[0][1], f"the fields of the repeated {name}")
                hellos = [values for _, n, _, values in server.requests if n == "hello"]
                equal(len(hellos), 2, "the hellos")
                holds(hellos[1]["resume"] in [link.session.id for link, *_ in server.requests],
                      "the session resumes")
                clean(server)
