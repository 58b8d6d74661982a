/* SPDX-License-Identifier: BSD-3-Clause */
/* One key: a segment as far as its lease used it, for one client through one port.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_MR_H
#define RMEMD_LEASE_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "rmemd/lease/segment.h"

struct attachment;
struct lease_client;
struct lease;

enum mr_state { MR_PENDING, MR_LIVE, MR_DYING };

struct mr {
	struct lease *lease;
	struct attachment *attachment; /* NULL when dying */
	struct lease_client *client;
	struct segment *segment; /* holds a reference */
	const struct fabric_server_ops *ops;
	struct fabric_mr *fabric;
	struct list link; /* in attachment->mrs or lease->dying */
	enum mr_state state;
	unsigned port;
	uint64_t bytes; /* from the segment's start */
	struct fabric_key key;
};

/* Begin to expose; the news come to lease_mr_registered(), unless it is live at once.  Belongs to
 * the attachment, and is counted for the client until it is freed.  -EDQUOT, -ENOMEM, or what the fabric says */
int mr_register(struct attachment *attachment, struct segment *segment, unsigned port);
/* The key dies; the news come to lease_mr_deregistered(), unless it is dead and the mr gone
 * at once.  fenced: the fabric_session is
 * about to be closed, which withdraws by itself. */
void mr_deregister(struct mr *mr, bool fenced);
/* Forget it; no news will come. */
void mr_free(struct mr *mr);

#endif
