# SPDX-License-Identifier: BSD-3-Clause
"""A client: its control connection."""

import socket
import struct

import frame

SECONDS = 20  # for what must come
REFUSED = set()  # requests and the errors that have answered them


class Closed(Exception):
    """The peer has closed the connection."""


class Refused(Exception):
    """A request was answered by error."""

    def __init__(self, code, text):
        super().__init__(f"error {code}: {text}")
        self.code = code
        self.text = text


def receive(sock, n):
    """n bytes; Closed: there are fewer."""
    data = b""
    while len(data) < n:
        try:
            part = sock.recv(n - len(data))
        except ConnectionError:
            part = b""
        if not part:
            raise Closed("the connection is closed")
        data += part
    return data


class Link:
    """A connection that carries frames, of either side."""

    def __init__(self, page, sock):
        self.page = page
        self.sock = sock
        sock.settimeout(SECONDS)

    def read(self, n):
        return receive(self.sock, n)

    def send_bytes(self, data):
        self.sock.sendall(data)

    def send(self, name, id_, /, behind=b"", **values):
        """Send a message; behind: bytes behind its fields."""
        message = self.page.messages[name]
        self.send_bytes(frame.frame(message.number, id_,
                                    frame.encode(self.page, message, values) + behind))

    def receive(self):
        """The next message: its name, its id and its fields."""
        length, number, zero, id_ = frame.HEADER.unpack(self.read(frame.HEADER.size))
        if not frame.HEADER.size <= length <= 65536 or zero != 0:
            raise frame.Unreadable(f"a header of {length} bytes, zero {zero}")
        reader = frame.Reader(self.read(length - frame.HEADER.size))
        message = self.page.by_number.get(number)
        if message is None:
            raise frame.Unreadable(f"a message of type {number:#x}")
        values = frame.decode(self.page, message, reader)
        if reader.at < len(reader.data):
            raise frame.Unreadable(f"{message.name} is {len(reader.data) - reader.at} bytes longer "
                                   "than on the page")
        return message.name, id_, values

    def ended(self):
        """Whether the peer closes the connection, with nothing but events before that."""
        try:
            while True:
                name = self.receive()[0]
                if self.page.messages[name].number < 0x80:
                    return False
        except Closed:
            return True
        except TimeoutError:
            return False

    def close(self):
        self.sock.close()


class Client(Link):
    """A session.  open() does what a client does; to break rules, use the parts."""

    def __init__(self, server, sock=None):
        """sock: a connection that is there."""
        super().__init__(server.page,
                         sock or socket.create_connection((server.host, server.port), SECONDS))
        self.server = server
        self.next_id = 1
        self.asked = {}
        self.replies = {}
        self.events = []
        self.welcome = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, name, id_=None, /, behind=b"", **values):
        """Send a request; its id."""
        if id_ is None:
            id_, self.next_id = self.next_id, self.next_id + 1
        self.asked[id_] = name
        self.send(name, id_, behind=behind, **values)
        return id_

    def listed(self, id_, code):
        """The page has this error among those of the request."""
        name, error = self.asked.get(id_), self.page.statuses.get(code)
        if name and error not in self.page.messages[name].errors:
            raise frame.Unreadable(f"{name} is refused with {code}, {error}, "
                                   "which is not of its errors")
        REFUSED.add((name, error))

    def take(self):
        """Receive one message into replies or events."""
        name, id_, values = self.receive()
        if self.page.messages[name].number >= 0x80:
            if id_ != 0:
                raise frame.Unreadable(f"the event {name} has the id {id_}")
            self.events.append((name, values))
        else:
            self.replies.setdefault(id_, []).append((name, values))

    def answer(self, id_, want=None):
        """The reply to a request; want: its name."""
        while id_ not in self.replies:
            self.take()
        name, values = self.replies[id_].pop(0)
        if not self.replies[id_]:
            del self.replies[id_]
        if name == "error":
            self.listed(id_, values["code"])
        if name == "error" and want != "error":
            raise Refused(values["code"], values["text"])
        if want not in (None, name):
            raise frame.Unreadable(f"{name} answers instead of {want}")
        return values

    def call(self, name, id_=None, /, behind=b"", **values):
        """A request and the reply that the page names."""
        return self.answer(self.ask(name, id_, behind=behind, **values),
                           self.page.messages[name].reply)

    def event(self, name, /, **values):
        """The next event of this name with these values; those of other names stay, in their
        order."""
        at = 0
        while True:
            while at == len(self.events):
                self.take()
            got, fields = self.events[at]
            if got == name and all(fields[key] == value for key, value in values.items()):
                del self.events[at]
                return fields
            at += 1

    def sync(self):
        """All events that the server has sent so far are in events afterwards."""
        self.call("ping")

    def hello(self, **values):
        """Open a session, or resume that of another client."""
        fields = {"magic": 0x6d656d72, "version_min": 1, "version_max": 1, "client": "conformance",
                  "tenant": self.server.tenant}
        fields.update(values)
        self.welcome = self.call("hello", **fields)
        return self

    def resume(self, other, **values):
        """Open the session of another client here."""
        self.next_id = other.next_id + 1000
        self.hello(resume=other.welcome["session"], token=other.welcome["token"], **values)
        self.next_id = other.next_id
        return self

    def endpoint(self, fabric=1):
        """The number of the first endpoint of a fabric."""
        return [e["fabric"] for e in self.welcome["endpoints"]].index(fabric)

    def address(self, endpoint):
        """The address of an endpoint, or of the answer channel."""
        if endpoint["family"] == 0:
            return self.sock.getpeername()[0], endpoint["port"]
        family, n = {4: (socket.AF_INET, 4), 6: (socket.AF_INET6, 16)}[endpoint["family"]]
        return socket.inet_ntop(family, endpoint["address"][:n]), endpoint["port"]


class Server:
    """Where a daemon listens."""

    def __init__(self, page, host, port, tenant="default"):
        self.page = page
        self.host = host
        self.port = port
        self.tenant = tenant

    def connect(self):
        return Client(self)

    def open(self, **values):
        return Client(self).hello(**values)


def u64(value):
    return struct.pack("<Q", value)
