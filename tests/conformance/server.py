# SPDX-License-Identifier: BSD-3-Clause
"""A server: control connections and channels over TCP, with memory of its own.

A case changes what it does: more, noise, hooks.  What a client does against the page is in
faults."""

import contextlib
import os
import socket
import struct
import threading
import time

import channel
import frame
from client import Closed, Link, Refused

ATOMICS, INBAND = 2, 4  # flags of an endpoint

# values that the page allows, of fields that take few
ALLOWED = {("detach", "flags"): (0, 1), ("renew", "flags"): (0, 1), ("rename", "flags"): (0, 1),
           ("attach", "rights"): (0, 1, 3), ("share", "rights"): (0, 1, 2, 3),
           ("allocate", "placement"): (0, 1, 2),
           ("hello", "capabilities"): (0,), ("hello", "channel"): (0, 1, 2),
           ("hello", "magic"): (0x6d656d72,)}


class Lease:
    """Memory in segments."""

    def __init__(self, id_, name, length, segment_bytes):
        self.id = id_
        self.name = name
        self.generation = 1
        self.ttl_ms = 0
        self.node = -1
        self.placement = 0
        self.segments = []
        self.segment_bytes = segment_bytes
        self.resize(length)

    @property
    def bytes(self):
        return sum(len(s) for s in self.segments)

    def resize(self, length):
        whole = b"".join(bytes(s) for s in self.segments)[:length].ljust(length, b"\0")
        step = self.segment_bytes
        self.segments = [bytearray(whole[at:at + step]) for at in range(0, length, step)]

    def entry(self, server):
        return {"lease": self.id, "bytes": self.bytes, "age_ms": 1, "ttl_ms": self.ttl_ms,
                "sessions": sum(self.id in s.held for s in server.sessions.values()),
                "segments": len(self.segments), "name": self.name}


class Session:
    """What outlasts a connection."""

    def __init__(self, id_):
        self.id = id_
        self.token = os.urandom(16)
        self.secret = None  # of its connection
        self.held = {}      # rights, by the lease's id
        self.link = None
        self.last_id = 0
        self.replies = {}


class Server:
    """Listens on two ports of loopback; close() ends it."""

    def __init__(self, page):
        self.page = page
        self.lock = threading.RLock()
        self.sessions, self.leases, self.keys, self.grants = {}, {}, {}, {}
        self.closed = set()         # channels that were granted and not connected
        self.next = 1000
        self.faults = []            # rules that a client broke
        self.requests = []          # (link, name, id, values)
        self.operations = []        # (op, bytes, addr)
        self.more = b""             # behind the fields of each reply and event
        self.noise = []             # frames before each reply
        self.hooks = {}             # by request: called before; True if they have answered
        self.stream_hook = None     # (stream, request): a status instead of doing it, or None
        self.status = (0, "")       # of channels
        self.welcome = {}           # other values in welcome
        self.most = 0, 0            # bytes of a request of a channel, and of one in-band
        self.endpoints = None       # other endpoints
        self.served = 0             # the endpoint to which keys belong
        self.segment_bytes = 1 << 30
        self.control = socket.create_server(("127.0.0.1", 0))
        self.data = socket.create_server(("127.0.0.1", 0))
        self.port = self.control.getsockname()[1]
        self.data_port = self.data.getsockname()[1]
        self.socks = [self.control, self.data]
        self.start(self.accept, self.control, self.serve)
        self.start(self.accept, self.data, self.stream)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    @staticmethod
    def start(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def accept(self, listener, serve):
        while True:
            try:
                sock = listener.accept()[0]
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socks.append(sock)
            self.start(self.guarded, serve, sock)

    def guarded(self, serve, sock):
        """Serve a connection to its end."""
        try:
            serve(sock)
        except (Closed, OSError):
            pass
        except Exception as why:  # pylint: disable=broad-except
            self.fault(f"{type(why).__name__}: {why}")
        finally:
            sock.close()

    def fault(self, text):
        self.faults.append(text)

    def number(self):
        self.next += 1
        return self.next

    # ---- control ----

    def serve(self, sock):
        link = Link(self.page, sock)
        link.session = None
        link.sock.settimeout(None)
        while True:
            name, id_, values = link.receive()
            with self.lock:
                self.check(link, name, id_, values)
                self.requests.append((link, name, id_, values))
                hook = self.hooks.get(name)
                if not (hook and hook(link, id_, values)):
                    self.answer(link, name, id_, values)

    def check(self, link, name, id_, values):
        """The client may send this."""
        if self.page.messages[name].number >= 0x40:
            self.fault(f"a client sends {name}")
        if (link.session is None) != (name == "hello"):
            self.fault(f"{name} is sent {'before' if link.session is None else 'after'} the hello")
        if id_ == 0:
            self.fault(f"{name} has the id 0")
        for field, value in values.items():
            if value not in ALLOWED.get((name, field), (value,)):
                self.fault(f"{name} has {field} {value}")
        if name == "attach" and (values["lease"] == 0) != (values["rights"] != 0):
            self.fault(f"attach of lease {values['lease']} has rights {values['rights']}")

    def answer(self, link, name, id_, values):
        """Answer a request as the page says."""
        try:
            reply, fields = getattr(self, "do_" + name)(link, values) or ("ok", {})
        except Refused as why:
            reply, fields = "error", {"code": why.code, "text": why.text}
        for data in self.noise:
            link.send_bytes(data)
        link.send(reply, id_, self.more, **fields)
        if name == "bye":
            link.sock.shutdown(socket.SHUT_RDWR)

    def event(self, session, name, **fields):
        with self.lock:
            session.link.send(name, 0, self.more, **fields)

    def cut(self, session):
        """Close the connection of a session."""
        with self.lock, contextlib.suppress(OSError):  # the client may have closed it
            session.link.sock.shutdown(socket.SHUT_RDWR)

    def asked(self, name, n=1):
        """Wait until n requests of this name have come; the last one's session."""
        for _ in range(2000):
            with self.lock:
                found = [link.session for link, got, _,
                         _ in self.requests if got == name and link.session]
                if len(found) >= n:
                    return found[-1]
            time.sleep(0.01)
        raise AssertionError(f"the client does not send {name}")

    def refuse(self, error, text="refused by the test"):
        raise Refused(error if isinstance(error, int) else self.page.errors[error], text)

    def do_hello(self, link, values):
        if values["resume"]:
            session = self.sessions.get(values["resume"])
            if session is None or session.token != values["token"]:
                self.refuse("stale", "no such session")
            self.keys = {k: v for k, v in self.keys.items() if v[0] is not session}
        else:
            session = Session(self.number() << 32)
            self.sessions[session.id] = session
        link.session, session.link = session, link
        endpoints = self.endpoints or [self.tcp()]
        fields = {"version": 1, "session": session.id, "token": session.token,
                  "resumed": 1 if values["resume"] else 0,
                  "heartbeat_ms": 500, "fence_ms": 10000, "grace_ms": 10000, "channels_max": 64,
                  "lease_bytes_max": 1 << 30, "requests_max": 256, "stream_bytes_max": 1 << 20,
                  "inband_bytes_max": 1 << 18, "inband_requests_max": 8, "server": "fake",
                  "endpoints": endpoints}
        fields["secret"] = session.secret = os.urandom(32)
        if values["channel"] == 1 and not values["resume"]:
            fields.update(channel=self.grant(session), endpoint=self.served)
        fields.update(self.welcome)
        self.most = fields["stream_bytes_max"], fields["inband_bytes_max"]
        return "welcome", fields

    def tcp(self, **values):
        """An endpoint at the data port."""
        fields = {"fabric": 1, "version": 1, "family": 4,
                  "address": socket.inet_aton("127.0.0.1") + bytes(12),
                  "port": self.data_port, "node": -1, "flags": ATOMICS + INBAND}
        fields.update(values)
        return fields

    def trap(self):
        """A port to which no client may connect."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.socks.append(listener)
        self.start(self.accept, listener,
                   lambda sock: self.fault("a client uses an endpoint that it must leave out"))
        return listener.getsockname()[1]

    def grant(self, session):
        number = self.number()
        self.grants[number] = session
        return number

    def do_open_channel(self, link, values):
        endpoint = (self.endpoints or [self.tcp()])[values["endpoint"]]
        return "channel", {"channel": self.grant(link.session), "family": endpoint["family"],
                           "address": endpoint["address"], "port": endpoint["port"]}

    def do_close_channel(self, link, values):
        if self.grants.pop(values["channel"], None):
            self.closed.add(values["channel"])

    def lease(self, link, lease, rights):
        """A lease message, with new keys."""
        keys = []
        for number, segment in enumerate(lease.segments):
            rkey = int.from_bytes(os.urandom(8), "little")
            addr = (lease.id << 40) + (number << 34)
            self.keys[rkey] = (link.session, lease, segment, addr, rights)
            keys.append({"segment": number, "endpoint": self.served, "addr": addr, "rkey": rkey})
        segments = [{"bytes": len(s), "node": -1, "page_bytes": 4096, "endpoints": 1 << self.served}
                    for s in lease.segments]
        return "lease", {"lease": lease.id, "generation": lease.generation, "rights": rights,
                         "bytes": lease.bytes,
                         "ttl_ms": lease.ttl_ms, "name": lease.name, "keys": keys,
                         "placement": lease.placement,
                         "node": lease.node, "segments": segments}

    def held(self, link, values):
        if values["lease"] not in link.session.held:
            self.refuse("stale", "the session does not hold it")
        return self.leases[values["lease"]]

    def named(self, name):
        for lease in self.leases.values():
            if name and lease.name == name:
                return lease
        return self.refuse("missing", "no such name")

    def end(self, lease, reason, but=None):
        del self.leases[lease.id]
        self.keys = {k: v for k, v in self.keys.items() if v[1] is not lease}
        for session in self.sessions.values():
            if session.held.pop(lease.id, None) and session is not but:
                self.event(session, "revoked", lease=lease.id, reason=reason)

    def do_allocate(self, link, values):
        if values["name"] and any(x.name == values["name"] for x in self.leases.values()):
            self.refuse("exists")
        lease = Lease(self.number(), values["name"], values["bytes"], self.segment_bytes)
        lease.ttl_ms, lease.node = values["ttl_ms"], values["node"]
        lease.placement = values["placement"]
        self.leases[lease.id] = lease
        link.session.held[lease.id] = 3
        return self.lease(link, lease, 3)

    def do_free(self, link, values):
        self.end(self.held(link, values), 1, link.session)

    def do_attach(self, link, values):
        if values["lease"]:
            lease = self.held(link, values)
            return self.lease(link, lease, link.session.held[lease.id])
        lease = self.named(values["name"])
        if lease.id in link.session.held:
            self.refuse("attached")
        link.session.held[lease.id] = values["rights"]
        return self.lease(link, lease, values["rights"])

    def do_detach(self, link, values):
        lease = self.held(link, values)
        del link.session.held[lease.id]
        if not lease.name:
            self.end(lease, 1)

    def do_renew(self, link, values):
        lease = self.held(link, values)
        lease.ttl_ms = lease.ttl_ms if values["flags"] else values["ttl_ms"]

    def do_rename(self, link, values):
        lease = self.held(link, values)
        for other in list(self.leases.values()):
            if other.name == values["name"] and other is not lease:
                if not values["flags"]:
                    self.refuse("exists", "the name is taken")
                self.end(other, 8)
        lease.name = values["name"]

    def do_resize(self, link, values):
        lease = self.held(link, values)
        lease.resize(values["bytes"])
        lease.generation += 1
        self.keys = {k: v for k, v in self.keys.items() if v[1] is not lease}
        return self.lease(link, lease, 3)

    def do_remove(self, link, values):
        self.end(self.named(values["name"]), 1)

    def do_stat(self, link, values):
        return "entries", {"more": 0, "entries": [self.named(values["name"]).entry(self)]}

    def do_list(self, link, values):
        """Two entries at a time."""
        found = sorted((x.id, x) for x in self.leases.values()
                       if x.name and x.name.startswith(values["prefix"]) and x.id > values["after"])
        return "entries", {"more": int(len(found) > 2),
                           "entries": [x.entry(self) for _, x in found[:2]]}

    def do_ping(self, link, values):
        return None

    def do_bye(self, link, values):
        self.sessions.pop(link.session.id, None)

    def do_fix_atomic_device(self, link, values):
        return "atomic_device", {"fabric": 1, "device": ""}

    def do_watch(self, link, values):
        self.held(link, values)

    do_unwatch = do_watch

    def do_share(self, link, values):
        self.held(link, values)

    def do_join_channel(self, link, values):
        self.refuse("unsupported")

    # ---- channels ----

    def stream(self, sock):
        """A channel over TCP."""
        link = Link(self.page, sock)
        link.sock.settimeout(None)
        hello = self.take(link, "Hello")
        with self.lock:
            session = self.grants.pop(hello["channel"], None)
            if hello["channel"] in self.closed:
                return  # the client has given up, on the other connection
        if (hello["magic"], hello["bytes"], hello["version"]) != (0x686d6d72, 44, 1):
            self.fault(f"the hello of a channel is {hello}")
        if session is None or session.id != hello["session"]:
            self.fault(f"the hello names a channel that was not granted: {hello}")
        elif hello["token"] != channel.derive(session.secret, "rmem channel", hello["channel"],
                                              session.id)[:16]:
            self.fault("the hello of a channel has a wrong token")
        sock.settimeout(0.02)
        try:
            if sock.recv(1, socket.MSG_PEEK):
                self.fault("the client sends before the status has arrived")
        except TimeoutError:
            pass
        sock.settimeout(None)
        code, text = self.status
        sock.sendall(struct.pack("<II", code, len(text)) + text.encode())
        while code == 0:
            self.operate(link, session)

    def take(self, link, name, begin=b""):
        structure = self.page.structures[name]
        data = begin + link.read(frame.size(structure) - len(begin))
        return frame.decode(self.page, structure, frame.Reader(data))

    def operate(self, link, session):
        """Serve one request of a channel."""
        begin = link.read(frame.size(self.page.structures["Request"]))
        op = struct.unpack("<H", begin[:2])[0]
        inband = channel.PING <= op <= channel.NOTIFY
        request = self.take(link, "In-band request" if inband else "Request", begin)
        most = self.most[inband]
        if request["flags"] or not 1 <= op <= 9 or request["bytes"] > most or (
                request["bytes"] == 0) != (op in (channel.PING, channel.NOTIFY)):
            self.fault(f"a request is {request}")
        carries = op in (channel.WRITE, channel.SWAP, channel.ADD)
        data = link.read(request["bytes"]) if carries else b""
        with self.lock:
            self.operations.append((op, request["bytes"], request["addr"]))
            status = self.stream_hook(link, request) if self.stream_hook else None
            if status is None:
                status, answer = self.execute(session, request, data)
            else:
                answer = b""
        link.send_bytes(struct.pack("<IIQ", status, len(answer), request["cookie"]) + answer)

    def part(self, session, rkey, addr, length, rights):
        """The bytes that a request is about: a view, or a status."""
        owner, _, segment, begin, granted = self.keys.get(rkey, (None,) * 5)
        if owner is not session:
            return self.page.errors["dead_key"], None
        if not begin <= addr <= addr + length <= begin + len(segment):
            self.fault(f"a request of {length} bytes at {addr - begin} of a segment of "
                       f"{len(segment)}")
            return self.page.errors["outside"], None
        if rights & ~granted:
            return self.page.errors["forbidden"], None
        return 0, memoryview(segment)[addr - begin:addr - begin + length]

    def execute(self, session, request, data):
        """The status of a request, and the bytes that answer it."""
        op, n = request["op"], request["bytes"]
        if op == channel.PING:
            return 0, bytes(8)
        atomic = op in (channel.SWAP, channel.ADD)
        rights = {channel.READ: 1, channel.CRC: 1, channel.SWAP: 3, channel.ADD: 3}.get(op, 2)
        status, part = self.part(session, request["rkey"], request["addr"], 8 if atomic else n,
                                 rights)
        if status:
            return status, b""
        if op == channel.READ:
            return 0, bytes(part)
        if op == channel.WRITE:
            part[:] = data
            return 0, b""
        if atomic:
            return 0, self.atomic(op, part, *struct.unpack("<QQ", data))
        return self.near(session, op, request, part)

    @staticmethod
    def atomic(op, part, first, second):
        found = bytes(part)
        number = int.from_bytes(found, "little")
        if op == channel.ADD:
            part[:] = ((number + second) % (1 << 64)).to_bytes(8, "little")
        elif number == first:
            part[:] = second.to_bytes(8, "little")
        return found

    def near(self, session, op, request, part):
        """An in-band request."""
        if op == channel.FILL:
            word = request["operand"].to_bytes(8, "little")
            part[:] = (word * (len(part) // 8 + 1))[:len(part)]
        elif op == channel.COPY:
            status, source = self.part(session, request["source_rkey"], request["source_addr"],
                                       len(part), 1)
            if status:
                return status, b""
            part[:] = bytes(source)
        elif op == channel.CRC:
            return 0, channel.crc32c(part).to_bytes(8, "little")
        else:
            lease = self.keys[request["rkey"]][1]
            for other in self.sessions.values():
                if other is not session and lease.id in other.held:
                    self.event(other, "notified", notices=[
                        {"lease": lease.id, "value": request["operand"] & 0xffffffff, "lost": 0}])
        return 0, bytes(8)
