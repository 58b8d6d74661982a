# SPDX-License-Identifier: BSD-3-Clause
"""The specification: rmem-protocol(7).  Its tables are read from the source of the page, in
mdoc."""

import re


class Field:
    """A row of a message's table.  size: of raw, or the most that a str or list has."""

    def __init__(self, name, type_, text):
        words = type_.split()
        self.name = name
        self.kind = words[0]
        self.size = int(words[1]) if len(words) > 1 else None
        self.item = words[2] if len(words) > 2 else None
        self.text = text

    def __repr__(self):
        return f"{self.name} {self.kind}"


class Message:
    """A message, an item of lists, or a structure of channels.  Of a request also needs and reply,
    the
    cells of the table of answers, and errors, the names of those that may answer it."""

    def __init__(self, name, number=None):
        self.name = name
        self.number = number
        self.fields = []
        self.text = ""


def plain(line):
    """The text of a line of mdoc."""
    if not line.startswith("."):
        return line
    words = line.split()[1:]
    quote = line.split()[0] in (".Dq", ".Qq")
    text = " ".join(w for w in words if not re.fullmatch(r"Ta|No|Ns|[A-Z][a-z]", w))
    return f'"{text}"' if quote else text


def rows_of(lines):
    """The items of the lists among lines, each a list of columns; later lines are of the last one,
    or
    the second one of an item with a tag."""
    rows, open_, tag = [], False, False
    for line in lines:
        if line.startswith(".It"):
            rows.append([plain(".It " + part) for part in line[4:].split(" Ta ")])
            open_, tag = True, len(rows[-1]) == 1
        elif line.startswith((".El", ".Bl")):
            open_ = False
        elif open_ and tag:
            rows[-1].append(plain(line))
            tag = False
        elif open_:
            rows[-1][-1] += " " + plain(line)
    return rows


class Page:
    """messages: by name, those of the control connection, and items of lists; structures: by name,
    those of channels; reasons, errors, holds: tables of these names;
    statuses: the names of errors by their numbers."""

    def __init__(self, path):
        self.messages, self.structures = {}, {}
        with open(path, encoding="utf-8") as file:
            sections = self.sections(file.read().splitlines())
        for (part, title), lines in sections.items():
            self.section(part, title, lines)
        self.by_number = {m.number: m for m in self.messages.values() if m.number is not None}
        self.reasons = self.numbers(sections["EVENTS", "Reasons"])
        self.errors = {row[1]: int(row[0]) for row in rows_of(sections["ERROR CODES", ""])
                       if len(row) == 4 and row[0].isdigit()}
        self.statuses = {number: name for name, number in self.errors.items()}
        self.statuses[0] = "done"
        self.answers([row for row in rows_of(sections["DESCRIPTION", "Answers"]) if len(row) == 4])
        self.holds = rows_of(sections["DESCRIPTION", "What a session holds"])
        self.vectors = dict(rows_of(sections["VECTORS", ""]))
        self.example = sections["EXAMPLES", ""]
        self.text = "\n".join(plain(line) for lines in sections.values() for line in lines)

    @staticmethod
    def sections(lines):
        """The lines of each subsection, by the titles of its section and its own."""
        found, part, title = {}, "", ""
        for line in lines:
            if line.startswith((".Sh ", ".Ss ")):
                part = line[4:] if line.startswith(".Sh") else part
                title = line[4:] if line.startswith(".Ss") else ""
            else:
                found.setdefault((part, title), []).append(line)
        return found

    def section(self, part, title, lines):
        """Take the table of a message, an item or a structure."""
        head = re.fullmatch(r"(\w+) \((0x[0-9a-f]+), version 1\)", title)
        message = Message(head[1], int(head[2], 16)) if head else Message(title)
        message.text = " ".join(plain(line) for line in lines)
        for row in rows_of(lines):
            if len(row) == 3 and row[1].split()[0] in (
                    "u8", "u16", "u32", "u64", "i32", "raw", "str", "list"):
                message.fields.append(Field(*row))
        if part in ("REQUESTS", "REPLIES", "EVENTS", "LIST ITEMS"):
            self.messages[message.name] = message
        elif message.fields:
            self.structures[message.name] = message

    def answers(self, rows):
        """Take the table of answers: of each request, and of those in its row."""
        each = re.findall(r"\w+", rows[1][3])
        for name, needs, reply, errors in rows[2:]:
            request = self.messages[name]
            request.needs, request.reply = needs, reply
            request.errors = each + re.findall(r"\w+", errors.replace("\\(en", ""))

    @staticmethod
    def numbers(lines):
        """A table of numbers and their meanings."""
        return {int(number): text for number, text in rows_of(lines)}

    def requests(self):
        return [m for m in self.by_number.values() if m.number < 0x40]
