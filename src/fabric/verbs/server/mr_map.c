/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr_map.h"

#include <errno.h>

#include "base/err.h"

int verbs_mr_map_add(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	int err;

	fair_lock_acquire(&session->lock);
	err = map_insert(&session->mrs_by_rkey, &mr->by_rkey,
			 map_hash_u64(mr->ibv_mr->rkey));
	fair_lock_release(&session->lock);
	if (err)
		return err_errno(err, "an entry for a memory region");
	mr->in_map = true;
	return 0;
}

void verbs_mr_map_remove(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (!mr->in_map)
		return;
	mr->in_map = false;
	fair_lock_acquire(&session->lock);
	map_remove(&session->mrs_by_rkey, &mr->by_rkey);
	fair_lock_release(&session->lock);
}

/* The memory region of the rkey, if it has the rights and contains the range. */
static struct fabric_mr *range_find(const struct fabric_session *session, uint64_t rkey,
				    uint64_t addr, uint32_t bytes, unsigned rights)
{
	struct map_node *node = map_find(&session->mrs_by_rkey, map_hash_u64(rkey));

	for (; node; node = map_find_next(node)) {
		struct fabric_mr *mr = container_of(node, struct fabric_mr, by_rkey);
		/* an address below the range wraps to an offset far beyond it */
		uint64_t offset = addr - (uintptr_t)mr->addr;

		if (mr->ibv_mr->rkey == rkey && (mr->rights & rights) == rights &&
		    offset <= mr->bytes && bytes <= mr->bytes - offset)
			return mr;
	}
	return NULL;
}

static char *memory_find(void *ctx, uint64_t rkey, uint64_t addr, uint32_t bytes,
			 unsigned rights)
{
	const struct fabric_mr *mr = range_find(ctx, rkey, addr, bytes, rights);

	return mr ? (char *)mr->addr + (addr - (uintptr_t)mr->addr) : NULL;
}

static bool memory_notify(void *ctx, uint64_t rkey, uint64_t addr, uint32_t value)
{
	struct fabric_session *session = ctx;
	struct fabric_mr *mr = range_find(session, rkey, addr, 0, FABRIC_RIGHT_WRITE);

	if (!mr)
		return false;
	if (fabric_notifications_add(&mr->notes, value))
		mailbox_post(&session->endpoint->server->mailbox, &mr->noted.link);
	return true;
}

struct inband_memory verbs_mr_map_memory(struct fabric_session *session)
{
	return (struct inband_memory){
		.find = memory_find,
		.notify = memory_notify,
		.ctx = session,
	};
}
