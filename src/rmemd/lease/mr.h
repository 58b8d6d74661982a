/* SPDX-License-Identifier: BSD-3-Clause */
/* A memory region with its key: the used part of one segment of a lease, registered for one client
 * through one endpoint.  Threads: [loop]. */
#ifndef RMEMD_LEASE_MR_H
#define RMEMD_LEASE_MR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/server.h"
#include "rmemd/lease/segment.h"

struct attachment;
struct lease_client;

enum mr_state { MR_PENDING, MR_LIVE, MR_DYING };

struct mr {
	struct attachment *attachment; /* NULL when dying */
	struct lease_client *client;
	struct segment *segment; /* holds a reference */
	const struct fabric_server_ops *ops;
	struct fabric_mr *fabric;
	struct list link; /* in attachment->mrs or lease->dying */
	enum mr_state state;
	unsigned port;
	uint64_t bytes;    /* from the segment's start */
	uint64_t begun_ns; /* clock_now_ns(), when its registration began */
	struct fabric_key key;
};

/* Its key is live. */
void mr_set_live(struct mr *mr);
/* Begin to register.  The MR is live at once, or lease_mr_registered() is called later.  The
 * attachment owns the MR, which counts as a key of the client until it is freed.  -EDQUOT,
 * -ENOMEM, or an error of the fabric */
int mr_register(struct attachment *attachment, struct segment *segment, unsigned port);
/* Deregister.  The MR is freed at once, or lease_mr_deregistered() is called later. */
void mr_deregister(struct mr *mr);
/* Free an MR whose fabric_mr does not exist any more. */
void mr_free(struct mr *mr);

/* Add what went through it so far, as far as its fabric knows. */
void mr_add_traffic(const struct mr *mr, struct fabric_mr_traffic *sum);

#endif
