/* SPDX-License-Identifier: BSD-3-Clause */
/* One function per request of request_types.h.  Threads: [loop].
 * Each returns -errno with err_text() for a request that failed. */
#ifndef RMEMD_CONTROL_HANDLERS_H
#define RMEMD_CONTROL_HANDLERS_H

#include "rmemd/control/request_types.h"

struct connection;
struct lease_waiter;
struct session;

#define HANDLER_REPLY 0 /* ret_reply is the reply, but for its id */
#define HANDLER_LATER 1 /* the reply was sent or will be */

typedef int request_handler(struct session *session, const struct wire_msg *msg,
			    struct wire_msg *ret_reply);
/* 0: the waiter has the reply when it is done. */
typedef int request_starter(struct session *session, const struct wire_msg *msg,
			    struct lease_waiter *waiter);

#define DECLARE_HANDLER(name, flags) request_handler handle_##name;
#define DECLARE_STARTER(name, flags) request_starter start_##name;
REQUEST_TYPES(DECLARE_HANDLER, DECLARE_STARTER)
#undef DECLARE_HANDLER
#undef DECLARE_STARTER

/* Opens or resumes a session for a connection that has none.  It answers by itself. */
void handle_hello(struct connection *connection, const struct wire_msg *msg);

#endif
