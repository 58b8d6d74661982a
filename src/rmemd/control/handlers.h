/* SPDX-License-Identifier: BSD-3-Clause */
/* One function per request.  Threads: [loop]. */
#ifndef RMEMD_CONTROL_HANDLERS_H
#define RMEMD_CONTROL_HANDLERS_H

#include "wire/msg.h"

struct connection;

#define HANDLER_ANSWER 0 /* out is the answer, but for its id */
#define HANDLER_LATER 1  /* the answer was sent or will be */

/* Or -errno with err_text(), which is answered as an error.  All but hello come from a connection
 * with a session. */
typedef int handler(struct connection *connection, const struct wire_msg *msg,
		    struct wire_msg *out);

/* greet.c */
handler handle_hello, handle_ping, handle_bye, handle_open_channel,
	handle_close_channel, handle_join_channel;
/* lend.c */
handler handle_allocate, handle_free, handle_attach, handle_detach, handle_renew;
handler handle_rename, handle_resize, handle_remove, handle_stat, handle_list;
handler handle_fix_home, handle_watch, handle_unwatch;

#endif
