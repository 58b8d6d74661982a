/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr_map.h"

#include <errno.h>

#include "base/err.h"

int verbs_ranges_add(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;
	int err;

	verbs_gate_enter(&session->gate);
	err = map_insert(&session->ranges, &exposure->range,
			 map_hash_u64(exposure->mr->rkey));
	verbs_gate_leave(&session->gate);
	if (err)
		return err_errno(err, "an exposure's place among the others");
	exposure->ranged = true;
	return 0;
}

void verbs_ranges_remove(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;

	if (!exposure->ranged)
		return;
	exposure->ranged = false;
	verbs_gate_enter(&session->gate);
	map_remove(&session->ranges, &exposure->range);
	verbs_gate_leave(&session->gate);
}

/* The exposure of the key, if it has the rights and holds the range. */
static struct fabric_mr *range_find(const struct fabric_session *session, uint64_t rkey,
				    uint64_t addr, uint32_t bytes, unsigned rights)
{
	struct map_node *node = map_find(&session->ranges, map_hash_u64(rkey));

	for (; node; node = map_find_next(node)) {
		struct fabric_mr *exposure =
			container_of(node, struct fabric_mr, range);
		/* an address below the range wraps to an offset far beyond it */
		uint64_t offset = addr - (uintptr_t)exposure->addr;

		if (exposure->mr->rkey == rkey &&
		    (exposure->rights & rights) == rights &&
		    offset <= exposure->bytes && bytes <= exposure->bytes - offset)
			return exposure;
	}
	return NULL;
}

static char *memory_find(void *ctx, uint64_t rkey, uint64_t addr, uint32_t bytes,
			 unsigned rights)
{
	const struct fabric_mr *exposure = range_find(ctx, rkey, addr, bytes, rights);

	return exposure ? (char *)exposure->addr + (addr - (uintptr_t)exposure->addr)
			: NULL;
}

static bool memory_notify(void *ctx, uint64_t rkey, uint64_t addr, uint32_t value)
{
	struct fabric_session *session = ctx;
	struct fabric_mr *exposure =
		range_find(session, rkey, addr, 0, FABRIC_RIGHT_WRITE);

	if (!exposure)
		return false;
	if (fabric_notifications_add(&exposure->notes, value))
		mailbox_post(&session->endpoint->server->mailbox,
			     &exposure->noted.link);
	return true;
}

struct inband_memory verbs_ranges_memory(struct fabric_session *session)
{
	return (struct inband_memory){
		.find = memory_find,
		.notify = memory_notify,
		.ctx = session,
	};
}
