/* SPDX-License-Identifier: BSD-3-Clause */
/* One key: a segment as far as its lease used it, for one holder through one port.
 * Threads: [loop]. */
#ifndef RMEMD_LEASE_EXPOSURE_H
#define RMEMD_LEASE_EXPOSURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "fabric/fabric.h"
#include "rmemd/lease/segment.h"

struct attachment;
struct holder;
struct lease;

enum exposure_state { EXPOSURE_PENDING, EXPOSURE_LIVE, EXPOSURE_DYING };

struct exposure {
	struct lease *lease;
	struct attachment *attachment; /* NULL when dying */
	struct holder *holder;
	struct segment *segment; /* holds a reference */
	const struct fabric_server_ops *ops;
	struct fabric_mr *fabric;
	struct list link; /* in attachment->exposures or lease->dying */
	enum exposure_state state;
	unsigned port;
	uint64_t bytes; /* from the segment's start */
	struct fabric_key key;
};

/* Begin to expose; the news come to lease_exposed(), unless it is live at once.  Belongs to
 * the attachment, and is counted for the holder until it is freed.  -EDQUOT, -ENOMEM, or what the fabric says */
int exposure_create(struct attachment *attachment, struct segment *segment,
		    unsigned port);
/* The key dies; the news come to lease_withdrawn(), unless it is dead and the exposure gone
 * at once.  fenced: the fabric_session is
 * about to be closed, which withdraws by itself. */
void exposure_end(struct exposure *exposure, bool fenced);
/* Forget it; no news will come. */
void exposure_free(struct exposure *exposure);

#endif
