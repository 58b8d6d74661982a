/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory regions of a session.  Threads: [loop]. */
#ifndef FABRIC_TCP_SESSION_MRS_H
#define FABRIC_TCP_SESSION_MRS_H

#include "fabric/tcp/session.h"

/* fabric_server_ops.reg_mr, dereg_mr */
int tcp_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
	       unsigned rights, void *cookie, struct fabric_mr **ret_mr,
	       struct fabric_key *ret_key);
bool tcp_mr_dereg(struct fabric_mr *mr);
/* Free it: it is in no table, and no stream uses it. */
void tcp_mr_remove(struct fabric_mr *mr);

#endif
