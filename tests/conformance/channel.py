# SPDX-License-Identifier: BSD-3-Clause
"""A channel over TCP."""

import hashlib
import hmac
import socket
import struct

import frame
from client import SECONDS, receive
from tls import ALPN, Tls

READ, WRITE, SWAP, ADD, PING, FILL, COPY, CRC, NOTIFY = range(1, 10)


def derive(secret, label, channel, session, more=b""):
    """What the secret of the control connection gives for a channel."""
    text = label.encode().ljust(12, b"\0") + struct.pack("<IQ", channel, session) + more
    return hmac.new(secret, text, hashlib.sha256).digest()


def crc_of(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    return byte


CRC_TABLE = [crc_of(byte) for byte in range(256)]


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ CRC_TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


class Channel:
    """A stream of requests and responses."""

    def __init__(self, client, granted=None, address=None, **hello):
        """granted: an answer channel, or a new one is asked for; hello: other values in the
        hello."""
        self.page = client.page
        self.number = client.endpoint()
        self.granted = granted or client.call("open_channel", endpoint=self.number)
        address = address or client.address(self.granted if self.granted["family"] else
                                            client.welcome["endpoints"][self.number])
        self.sock = socket.create_connection(address, SECONDS)
        self.cookie = 0
        fields = {"magic": 0x686d6d72, "bytes": 44, "version": 1,
                  "session": client.welcome["session"],
                  "channel": self.granted["channel"],
                  "token": self.token(client, self.granted["channel"])}
        fields.update(hello)
        self.sock.sendall(self.pack("Hello", **fields))
        admitted = self.unpack("Status")
        self.status = self.page.statuses[admitted["status"]]
        self.why = self.read(admitted["bytes"]).decode()

    @staticmethod
    def token(client, channel):
        return derive(client.welcome["secret"], "rmem channel", channel,
                      client.welcome["session"])[:16]

    def secure(self, client, key=None, protocol=ALPN):
        """Put the stream under TLS; key: instead of its own."""
        key = key or derive(client.welcome["secret"], "rmem key", self.granted["channel"],
                            client.welcome["session"])
        self.sock = Tls(self.sock, "channel", key, protocol)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def pack(self, name, **values):
        return frame.encode(self.page, self.page.structures[name], values)

    def unpack(self, name):
        structure = self.page.structures[name]
        return frame.decode(self.page, structure, frame.Reader(self.read(frame.size(structure))))

    def read(self, n):
        return receive(self.sock, n)

    def ended(self):
        """Whether the server ends the stream without a response."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def send(self, op, key, offset, length, data=b"", **values):
        """Send a read, a write or an atomic; its cookie."""
        self.cookie += 1
        fields = {"op": op, "bytes": length, "rkey": key["rkey"], "addr": key["addr"] + offset,
                  "cookie": self.cookie}
        fields.update(values)
        self.sock.sendall(self.pack("Request", **fields) + data)
        return fields["cookie"]

    def response(self, cookie=None):
        """The next response: the name of its status, and the bytes that follow."""
        values = self.unpack("Response")
        if cookie is not None and values["cookie"] != cookie:
            raise frame.Unreadable(f"the response has the cookie {values['cookie']}, not {cookie}")
        return self.page.statuses[values["status"]], self.read(values["bytes"])

    def do(self, op, key, offset, length, data=b"", **values):
        return self.response(self.send(op, key, offset, length, data, **values))

    def load(self, key, offset, length):
        return self.done(self.do(READ, key, offset, length))

    def store(self, key, offset, data):
        return self.done(self.do(WRITE, key, offset, len(data), data))

    def swap(self, key, offset, expected, new):
        return self.do(SWAP, key, offset, 16, struct.pack("<QQ", expected, new))

    def add(self, key, offset, summand, ignored=0):
        return self.do(ADD, key, offset, 16, struct.pack("<QQ", ignored, summand))

    def inband(self, op, key=None, offset=0, length=0, **values):
        """An in-band request: its status and result."""
        self.cookie += 1
        fields = {"op": op, "bytes": length, "cookie": self.cookie}
        if key:
            fields.update(rkey=key["rkey"], addr=key["addr"] + offset)
        fields.update(values)
        self.sock.sendall(self.pack("In-band request", **fields))
        status, data = self.response(fields["cookie"])
        if len(data) != (8 if status == "done" else 0):
            raise frame.Unreadable(f"{len(data)} bytes follow an in-band answer of status {status}")
        return status, int.from_bytes(data, "little")

    @staticmethod
    def done(response):
        status, data = response
        if status != "done":
            raise AssertionError(f"the status is {status}")
        return data
