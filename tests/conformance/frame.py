# SPDX-License-Identifier: BSD-3-Clause
"""Bytes of the types of the page, and frames."""

import struct

HEADER = struct.Struct("<IHHQ")
NUMBERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q", "i32": "<i"}


class Unreadable(Exception):
    """Bytes that the page does not allow."""


class Reader:
    """The bytes of a body that are not read yet."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise Unreadable(f"{n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n:self.at]

    def number(self, kind):
        return struct.unpack(NUMBERS[kind], self.take(struct.calcsize(NUMBERS[kind])))[0]


def default(field):
    return {"str": "", "list": (), "raw": bytes(field.size or 0)}.get(field.kind, 0)


def encode_field(page, field, value):
    if field.kind in NUMBERS:
        return struct.pack(NUMBERS[field.kind], value)
    if field.kind == "raw":
        if len(value) != field.size:
            raise ValueError(f"{field.name} has {field.size} bytes")
        return value
    if field.kind == "str":
        text = value if isinstance(value, bytes) else value.encode()
        return struct.pack("<H", len(text)) + text
    return struct.pack("<H", len(value)) + b"".join(
        encode(page, page.messages[field.item], item) for item in value)


def encode(page, message, values):
    """The body of a message; fields that values do not have are 0 or empty."""
    unknown = set(values) - {field.name for field in message.fields}
    if unknown:
        raise ValueError(f"{message.name} has no {unknown}")
    return b"".join(encode_field(page, field, values.get(field.name, default(field)))
                    for field in message.fields)


def decode_field(page, field, reader):
    if field.kind in NUMBERS:
        return reader.number(field.kind)
    if field.kind == "raw":
        return reader.take(field.size)
    n = reader.number("u16")
    if n > field.size:
        raise Unreadable(f"{field.name} has {n}, more than {field.size}")
    if field.kind == "str":
        return reader.take(n).decode()
    return [decode(page, page.messages[field.item], reader) for _ in range(n)]


def decode(page, message, reader):
    return {field.name: decode_field(page, field, reader) for field in message.fields}


def frame(number, id_, body=b"", zero=0, length=None):
    """A frame; length: instead of the true one."""
    return HEADER.pack(HEADER.size + len(body) if length is None else length, number, zero,
                       id_) + body


def size(message):
    """Bytes of a structure of channels, which have numbers and raw bytes alone."""
    return sum(f.size if f.kind == "raw" else struct.calcsize(NUMBERS[f.kind])
               for f in message.fields)
