/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory regions that in-band requests of a session reach, by rkey.  Protected by the
 * session's lock, which these functions acquire. */
#ifndef FABRIC_VERBS_SERVER_MR_MAP_H
#define FABRIC_VERBS_SERVER_MR_MAP_H

#include "fabric/inband.h"
#include "fabric/verbs/server/mr.h"

/* -ENOMEM with text.  [loop] */
int verbs_mr_map_add(struct fabric_mr *mr);
/* On return no request is at it, and none will be.  It waits for the request that the poller
 * may be in the middle of.  One that was not added: nothing.  [loop] */
void verbs_mr_map_remove(struct fabric_mr *mr);

/* How requests of the session find memory.  [loop]; what it gives: [poller], inside the
 * gate */
struct inband_memory verbs_mr_map_memory(struct fabric_session *session);

#endif
