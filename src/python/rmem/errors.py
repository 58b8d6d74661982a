# SPDX-License-Identifier: BSD-3-Clause
"""Exceptions, by errno: subclasses of OSError, and of what Python has for the same.

`strerror` is librmem's text: the call, the lease, the server, and why.  `remedy` says what a
program or its user can do.
"""

import errno
from typing import Dict, Type


class Error(OSError):
    """A failure of rmem.  Those without a class of their own are of this one."""
    remedy = "see the text"
    reason = 0  # enum rmem_reason of rmem.h: why a lease ended, or what is not known


class Invalid(Error, ValueError):
    """An argument is out of its range."""
    remedy = "the text names the argument"


class NoMemory(Error, MemoryError):
    """This host or the server lacks memory, or may not register it."""
    remedy = "free memory, or raise RLIMIT_MEMLOCK if the text names it"


class Denied(Error, PermissionError):
    """Authentication failed, or lease or tenant do not permit it."""
    remedy = "attach with write=True, or ask who runs the server for the rights of the tenant"


class NotFound(Error, FileNotFoundError):
    """No lease has that name."""
    remedy = "look at list(); a lease with a time to live has to be renewed"


class Exists(Error, FileExistsError):
    """The name is taken."""
    remedy = "attach() that lease, give attach=True to alloc(), or choose another name"


class NoSpace(Error):
    """The server's pools cannot hold it."""
    remedy = "ask for less, free leases, or ask another server"


class Draining(Error):
    """The server is to stop, and grants nothing new."""
    remedy = "ask another server"


class Quota(Error):
    """A limit of the tenant or session would be exceeded."""
    remedy = "free leases, or let the limit be raised that the text names"


class Stale(Error):
    """The lease or session has ended, or is of the parent process."""
    remedy = "open a session, and attach leases by their names"


class Busy(Error):
    """Operations are outstanding, or the object is in use."""
    remedy = "wait for operations and calls, or cancel them, and try again"


class TimedOut(Error, TimeoutError):
    """No answer in time.  Whether a write was done is not known; it is not done later."""
    remedy = "look at the server and the network between, or give a longer timeout to open()"


class Lost(Error, ConnectionResetError):
    """The connection was lost.  Whether a write was done is not known; it is not done later."""
    remedy = "read, or write, again"


class Refused(Error, ConnectionRefusedError):
    """Nothing listens at the address."""
    remedy = "start rmemd there, or correct the URI"


class Cancelled(Error):
    """The operation was cancelled.  Whether a write was done is not known."""
    remedy = "submit it again"


class NotSupported(Error):
    """Fabric, device or server cannot do this."""
    remedy = "the text names what cannot"


class QueueFull(Error):
    """As many operations are outstanding as may be."""
    remedy = "take completions first, or make a deeper queue"


class Protocol(Error):
    """The server broke the protocol."""
    remedy = "report it, with the versions of both sides"


class Fault(Error):
    """Local memory is not mapped, or not with the access that is needed."""
    remedy = "give memory that can be read, or written for read_into()"


_classes: Dict[int, Type[Error]] = {
    errno.EINVAL: Invalid,
    errno.ENOMEM: NoMemory,
    errno.EACCES: Denied,
    errno.ENOENT: NotFound,
    errno.EEXIST: Exists,
    errno.ENOSPC: NoSpace,
    errno.ESHUTDOWN: Draining,
    errno.EDQUOT: Quota,
    errno.ESTALE: Stale,
    errno.EBUSY: Busy,
    errno.ETIMEDOUT: TimedOut,
    errno.ECONNRESET: Lost,
    errno.ECONNREFUSED: Refused,
    errno.ECANCELED: Cancelled,
    errno.ENOTSUP: NotSupported,
    errno.EOVERFLOW: QueueFull,
    errno.EPROTO: Protocol,
    errno.EFAULT: Fault,
}


def failure(code: int, text: str, reason: int) -> Error:
    """The exception of a result of librmem."""
    error = _classes.get(code, Error)(code, text)
    if reason:
        error.reason = reason
    return error
