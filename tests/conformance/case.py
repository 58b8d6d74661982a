# SPDX-License-Identifier: BSD-3-Clause
"""Cases and what they assert; the results are TAP."""

import os
import sys
import traceback

from client import Closed, Refused

CASES = []


def case(function):
    """A case, run in the order of the file; its name says what must hold."""
    CASES.append(function)
    return function


def equal(got, want, what="it"):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, not {want!r}")


def holds(condition, what):
    if not condition:
        raise AssertionError(f"not so: {what}")


def refused(client, error, name, /, **values):
    """The request is refused with this error of the page, and a text; the connection goes on."""
    what = f"{name} {values}"
    try:
        reply = client.call(name, **values)
    except Refused as why:
        equal(why.code, client.page.errors[error], f"the error of {what} ({why.text})")
        holds(why.text, f"a text with the error of {what}")
    else:
        raise AssertionError(f"{what} is answered by {reply}, not refused with {error}")
    client.sync()


def disconnected(client, id_, error=None):
    """An error with this id is the next reply, and then the connection ends."""
    try:
        client.answer(id_)
    except Refused as why:
        if error:
            equal(why.code, client.page.errors[error], f"the error ({why.text})")
        holds(client.ended(), "the server ends the connection")
    else:
        raise AssertionError("the request was done")


def place(function):
    file = os.path.basename(function.__code__.co_filename)
    return f"{file}:{function.__module__}:{function.__name__}"


def run(world, cases):
    """Run cases; whether none has failed."""
    good = True
    print(f"1..{len(cases)}")
    for number, function in enumerate(cases, 1):
        try:
            function(world)
        except Exception as why:  # pylint: disable=broad-except
            good = False
            line = traceback.extract_tb(why.__traceback__)
            at = [f"{os.path.basename(f.filename)}:{f.lineno}" for f in line[1:]]
            kind = "" if isinstance(why, (AssertionError, Refused,
                                          Closed)) else type(why).__name__ + ": "
            print(f"not ok {number} - {place(function)}: {kind}{why} ({', '.join(at)})")
        else:
            print(f"ok {number} - {place(function)}")
        sys.stdout.flush()
    return good
