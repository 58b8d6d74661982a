/* SPDX-License-Identifier: BSD-3-Clause */
/* A memory region: one segment of a lease, as far as the lease used it, registered for one
 * client through one endpoint.  It carries the key.  Threads: [loop]. */
#ifndef RMEMD_LEASE_MR_H
#define RMEMD_LEASE_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "rmemd/lease/segment.h"

struct attachment;
struct lease;
struct lease_client;

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

/* Begin to register.  It is live at once, or lease_mr_registered() is called later.  It belongs
 * to the attachment, and counts as a key of the client until it is freed.  -EDQUOT, -ENOMEM, or
 * an error of the fabric */
int mr_register(struct attachment *attachment, struct segment *segment, unsigned port);
/* The key dies.  The MR is freed at once, or lease_mr_deregistered() is called later.
 * session_closing: nothing is to be done, as session_close() follows, which deregisters. */
void mr_deregister(struct mr *mr, bool session_closing);
/* The fabric has forgotten it. */
void mr_free(struct mr *mr);

#endif
