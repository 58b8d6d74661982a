# SPDX-License-Identifier: BSD-3-Clause
"""Opening sessions."""

import atexit
import contextlib
import os
import select
import urllib.parse
import weakref
from typing import Callable, List, Optional, Sequence, Tuple, Union

from . import _rmem
from .errors import Busy, Error

_NO_RESUME = 2  # rmem.h
_open = weakref.WeakSet()


def key_of(uri: Optional[str], psk: Optional[Callable[[str], bytes]]) -> Optional[bytes]:
    """The key of the tenant that the URI names: fetched now, as no thread of librmem may call."""
    if psk is None:
        return None
    text = uri if uri is not None else os.environ.get("RMEM_SERVER", "")
    query = urllib.parse.parse_qs(text.partition("?")[2])
    return psk(query.get("tenant", ["default"])[-1])


def watched(session: "_rmem.Session") -> "_rmem.Session":
    """Close it at the exit."""
    _open.add(session)
    return session


def milliseconds(timeout: float) -> int:
    """Of a time-out in seconds."""
    if not 0 <= timeout < 1 << 22:
        raise ValueError(f"timeout is 0 to {(1 << 22) - 1} seconds")
    return max(1, round(timeout * 1000))


def params(uri: Optional[str], timeout: float, client: Optional[str],
           psk: Optional[Callable[[str], bytes]],
           resume: bool) -> Tuple[int, int, Optional[str], Optional[bytes]]:
    """What the extension takes, from the arguments of open()."""
    flags = 0 if resume else _NO_RESUME
    return flags, milliseconds(timeout), client, key_of(uri, psk)


def open(uri: Optional[str] = None, *, timeout: float = 10, client: Optional[str] = None,
         psk: Optional[Callable[[str], bytes]] = None, resume: bool = True) -> "_rmem.Session":
    """Open a session with a memory server, and wait.

      uri      [rmem://]HOST[:PORT][?fabric=auto|rdma|tcp&tenant=NAME&...], see rmem_open(3);
               None: the environment variable RMEM_SERVER
      timeout  of set-up, calls and operations, in seconds
      client   how rmemctl shows the session; None: program and process id
      psk      returns the pre-shared key of a tenant
      resume   False: a session that loses its server has ended, instead of being resumed
    Use the session in a `with`, or close() it.  A session that is open at the exit is closed.
    """
    return watched(_rmem.open(uri, *params(uri, timeout, client, psk, resume)))


_ATTACH = 6  # enum rmem_call
_CALLS = 4096  # that are outstanding


class _Answer:
    """What a call is answered to."""
    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = None

    def complete(self, error: Optional[Error], result: Optional["_rmem.Lease"]) -> None:
        self.value = result if error is None else error


def attach_many(session: "_rmem.Session", names: Sequence[str],
                write: bool) -> List[Union["_rmem.Lease", Error]]:
    """What Session.attach_many() does."""
    answers = []
    readable = select.poll()
    with contextlib.closing(_rmem.calls()) as calls:
        readable.register(calls.fileno(), select.POLLIN)
        for first in range(0, len(names), _CALLS):
            for name in names[first:first + _CALLS]:
                answers.append(_Answer())
                calls.begin(answers[-1], _ATTACH, session, name, None, 3 if write else 1, None)
            calls.flush()
            for answer in answers[first:]:
                while answer.value is None:
                    readable.poll()
                    calls.take()
    return [answer.value for answer in answers]


def _close_all() -> None:
    for session in list(_open):
        with contextlib.suppress(Busy):  # of a loop that runs still, in another thread
            session.close()


atexit.register(_close_all)
