/* SPDX-License-Identifier: BSD-3-Clause */
/* Data connections of a session: granted by number, connected once, gone for good; for
 * control/ alone.  Threads: [loop].  Functions return 0 or -errno with err_text(). */
#ifndef RMEMD_CONTROL_SESSION_CHANNELS_H
#define RMEMD_CONTROL_SESSION_CHANNELS_H

#include "fabric/fabric.h"
#include "rmemd/control/session_table.h"

/* Have a fabric_session at an endpoint.  Nothing to do when there is one. */
int session_open_port(struct session *session, unsigned endpoint);
/* All channels are forgotten and all keys die. */
void session_close_ports(struct session *session);
/* One of its fabric_sessions is closed: the channels that it had there are dead. */
void session_port_closed(struct session_port *port);
void session_forget_channels(struct session *session);
/* Admit a channel that presents this hello.  session NULL: there is none with its id.
 * NULL: refused; ret_why says why without telling a guesser how close the hello was. */
struct fabric_session *session_admit(struct session *session, unsigned endpoint,
				     const struct fabric_hello *hello,
				     const char **ret_why);

#endif
