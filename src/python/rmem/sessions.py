# SPDX-License-Identifier: BSD-3-Clause
"""Opening sessions."""

import atexit
import os
import urllib.parse
import weakref
from typing import Callable, Optional

from . import _rmem

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


def open(uri: Optional[str] = None, *, timeout: float = 10, client: Optional[str] = None,
         psk: Optional[Callable[[str], bytes]] = None) -> "_rmem.Session":
    """Open a session with a memory server, and wait.

      uri      [rmem://]HOST[:PORT][?fabric=auto|rdma|tcp&tenant=NAME&...], see rmem_open(3);
               None: the environment variable RMEM_SERVER
      timeout  of set-up, calls and operations, in seconds
      client   how rmemctl shows the session; None: program and process id
      psk      returns the pre-shared key of a tenant
    Use the session in a `with`, or close() it.  A session that is open at the exit is closed.
    """
    return watched(_rmem.open(uri, max(1, round(timeout * 1000)), client, key_of(uri, psk)))


def _close_all() -> None:
    for session in list(_open):
        session.close()


atexit.register(_close_all)
