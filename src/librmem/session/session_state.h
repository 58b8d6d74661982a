/* SPDX-License-Identifier: BSD-3-Clause */
/* A session's link to its server: connecting, the hello, heartbeats, and coming back after
 * a loss.
 *
 * The lease clock runs from the sending of the last request that was answered: once
 * fence_ms have passed, nothing is posted any more and the channels are aborted, before
 * the server, which counts from the receipt, may lend the memory to others.  Then the link
 * is made anew with the session's id and token, until fence_ms and grace_ms are over: by
 * then the server has given the session up. */
#ifndef LIBRMEM_SESSION_SESSION_STATE_H
#define LIBRMEM_SESSION_SESSION_STATE_H

#include <rmem/rmem.h>

struct fabric_qp_info;

/* Resolve and connect, and have `greet` call session_hello(); blocks.  The session is nobody
 * else's yet. */
int session_connect(struct rmem *session, int (*greet)(struct rmem *session));
/* Say hello, with this end of a first data connection, which may be NULL, and wait for the
 * welcome.  Once on each connection. */
int session_hello(struct rmem *session, const struct fabric_qp_info *end);
/* Receive, answer and send what is due.  Under the lock. */
void session_state_work(struct rmem *session, uint64_t now_ns);
/* When session_state_work() has something to do next.  Under the lock. */
uint64_t session_state_due(const struct rmem *session);

#endif
