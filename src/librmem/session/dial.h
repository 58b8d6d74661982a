/* SPDX-License-Identifier: BSD-3-Clause */
/* Connects to one of several addresses, side by side as in RFC 8305: each has 250 ms before the
 * next one is tried beside it, and the next one begins at once when none is left.  The first socket
 * that is connected is the result, and the others are closed.
 *
 * Threads: everything under the session's lock. */
#ifndef LIBRMEM_SESSION_DIAL_H
#define LIBRMEM_SESSION_DIAL_H

#include <netdb.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct dial;

/* The sockets are put into the epoll set `epfd`; epfd and the list, which is not empty, are
 * borrowed.  `first` (may be NULL) goes before the others if it is in the list.  -ENOMEM */
int dial_create(int epfd, const struct addrinfo *list, const struct sockaddr *first,
		struct dial **ret_dial);
/* Close the sockets, but not the result.  NULL: nothing. */
void dial_free(struct dial *dial);

/* Go on without blocking.
 *   0        *ret_fd is connected, of dial_address(), and belongs to the caller
 *   -EAGAIN  call again when the epoll set reports an event, or at dial_due()
 *   -errno   the error of the last one that failed; the text names all */
int dial_work(struct dial *dial, uint64_t now_ns, int *ret_fd);
/* When the next address is due; UINT64_MAX: none is left. */
uint64_t dial_due(const struct dial *dial);
/* dial_work() until deadline_ns.  -ETIMEDOUT: an address has not answered. */
int dial_wait(struct dial *dial, uint64_t deadline_ns, int *ret_fd);

/* The address of the result. */
const struct addrinfo *dial_address(const struct dial *dial);
/* The number of addresses that have not failed, with the result. */
unsigned dial_left(const struct dial *dial);
/* The result was of no use, with this error of the thread: go on with the other addresses. */
void dial_reject(struct dial *dial, int err);

#define DIAL_TEXT_BYTES 80u
/* "address:port" */
void dial_address_text(const struct addrinfo *at, char ret_text[DIAL_TEXT_BYTES]);

#endif
