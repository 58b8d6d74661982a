/* SPDX-License-Identifier: BSD-3-Clause */
/* Fabrics that write into the pools' memory: through any key, until the daemon has been told
 * that it is dead.  What is written is what the lease is to have there. */
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "unit/rmemd/zeros.h"

enum state { PENDING, LIVE, DYING };

struct fabric_session {
	struct list link;
	void *cookie;
	bool closing;
};

struct fabric_mr {
	struct list link;
	struct fabric_session *session;
	void *cookie;
	char *addr;
	size_t bytes;
	unsigned rights;
	enum state state;
	bool told;
	uint64_t rkey;
	uint64_t lease, offset; /* whose it is, and where in it */
};

static struct list sessions = LIST_INIT(sessions);
static struct list mrs = LIST_INIT(mrs);
static uint64_t next_rkey = 1;

static void *room(size_t bytes)
{
	void *memory = calloc(1, bytes);

	if (!memory)
		zeros_fail("no memory");
	return memory;
}

static int begin(struct fabric_server *server, unsigned endpoint, void *cookie,
		 struct fabric_session **ret_session)
{
	struct fabric_session *session = room(sizeof(*session));

	(void)server;
	(void)endpoint;
	session->cookie = cookie;
	list_append(&sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void end(struct fabric_session *session)
{
	session->closing = true;
	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->session == session)
			at->state = DYING;
	}
}

static int channel_close(struct fabric_session *session, uint32_t channel)
{
	(void)session;
	(void)channel;
	return 0;
}

/* Where in its lease a segment begins. */
static uint64_t segment_offset(const struct lease *lease, const struct segment *segment)
{
	uint64_t offset = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		if (lease->segments[i] == segment)
			return offset;
		offset += lease->segments[i]->bytes;
	}
	zeros_fail("a segment that is not its lease's is exposed");
}

static int expose(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	const struct mr *of = cookie;
	struct fabric_mr *mr;

	if (zeros_random(200) == 0)
		return err_set(-ENOMEM, "the fabric was told to fail");
	mr = room(sizeof(*mr));
	*mr = (struct fabric_mr){
		.session = session,
		.cookie = cookie,
		.addr = addr,
		.bytes = bytes,
		.rights = rights,
		.rkey = next_rkey++,
		.lease = of->lease->id,
		.offset = segment_offset(of->lease, of->segment),
	};
	list_append(&mrs, &mr->link);
	*ret_mr = mr;
	return 0;
}

static void withdraw(struct fabric_mr *mr)
{
	mr->state = DYING;
}

static struct fabric_key key_of(const struct fabric_mr *mr)
{
	return (struct fabric_key){ .addr = (uintptr_t)mr->addr, .rkey = mr->rkey };
}

static int reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		      struct fabric_key *ret_key)
{
	int err = expose(session, addr, bytes, rights, cookie, ret_mr);

	if (err)
		return err;
	(*ret_mr)->state = LIVE;
	*ret_key = key_of(*ret_mr);
	return 0;
}

static bool dereg_mr_now(struct fabric_mr *mr)
{
	mr->state = DYING;
	if (zeros_random(3) == 0)
		return false;
	list_remove(&mr->link);
	free(mr);
	return true;
}

const struct fabric_server_ops zeros_fabrics[ZEROS_ENDPOINTS] = {
	{
		.name = "slow",
		.kind = FABRIC_VERBS,
		.session_open = begin,
		.session_close = end,
		.channel_close = channel_close,
		.reg_mr = expose,
		.dereg_mr = withdraw,
	},
	{
		.name = "quick",
		.kind = FABRIC_TCP,
		.session_open = begin,
		.session_close = end,
		.channel_close = channel_close,
		.reg_mr = expose,
		.dereg_mr = withdraw,
		.reg_mr_now = reg_mr_now,
		.dereg_mr_now = dereg_mr_now,
	},
};

/* ---- news ---- */

static void deliver(struct fabric_mr *mr)
{
	const struct fabric_key key = key_of(mr);
	void *cookie = mr->cookie;

	if (mr->state == PENDING && zeros_random(100) > 0) {
		mr->state = LIVE;
		lease_mr_registered(cookie, 0, "", &key);
		return;
	}
	list_remove(&mr->link);
	if (mr->state == DYING)
		lease_mr_deregistered(cookie);
	else
		lease_mr_registered(cookie, -EIO, "the fabric was told to fail later",
				    NULL);
	free(mr);
}

/* One that something is to be said of, at random. */
static struct fabric_mr *exposure_pick(void)
{
	struct fabric_mr *picked = NULL;
	uint64_t n = 0;

	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->state != LIVE && zeros_random(++n) == 0)
			picked = at;
	}
	return picked;
}

static bool session_is_empty(const struct fabric_session *session)
{
	list_for_each(node, &mrs)
		if (container_of(node, struct fabric_mr, link)->session == session)
			return false;
	return true;
}

bool zeros_fabric_step(void)
{
	struct fabric_mr *mr = exposure_pick();

	if (mr) {
		deliver(mr);
		return true;
	}
	list_for_each(node, &sessions) {
		struct fabric_session *session =
			container_of(node, struct fabric_session, link);
		void *cookie = session->cookie;

		if (!session->closing || !session_is_empty(session))
			continue;
		list_remove(&session->link);
		free(session);
		session_closed(cookie);
		return true;
	}
	return false;
}

/* ---- writing ---- */

/* Another session may have the longer lease, and write to it, before who asked for it is
 * answered; not through a key that is to reach less. */
static void excuse(const struct fabric_mr *mr, uint64_t end)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS && mr->state == LIVE; i++) {
		struct asking *asking = &world->clients[i].asking;

		if (asking->type == WIRE_TYPE_resize &&
		    world->leases[asking->lease].id == mr->lease &&
		    asking->old_bytes < end)
			asking->old_bytes = UINT64_MAX;
	}
}

static void write_range(const struct fabric_mr *mr, uint64_t from, uint64_t bytes)
{
	for (uint64_t i = from; i < from + bytes; i++)
		mr->addr[i] = (char)zeros_pattern(mr->lease, mr->offset + i);
	excuse(mr, mr->offset + from + bytes);
}

void zeros_fabric_told(uint64_t rkey)
{
	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		at->told |= at->rkey == rkey;
	}
}

void zeros_fabric_write(void)
{
	struct fabric_mr *picked = NULL;
	uint64_t n = 0, from;

	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if ((at->rights & FABRIC_RIGHT_WRITE) && at->told &&
		    zeros_random(++n) == 0)
			picked = at;
	}
	if (!picked)
		return;
	world->late += picked->state == DYING;
	from = zeros_random(picked->bytes);
	write_range(picked, from, zeros_random(picked->bytes - from) + 1);
}

/* One that reaches this place of the lease, and beyond. */
static struct fabric_mr *exposure_at(uint64_t lease, uint64_t offset)
{
	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->lease == lease && at->state == LIVE && at->told &&
		    (at->rights & FABRIC_RIGHT_WRITE) && at->offset <= offset &&
		    offset < at->offset + at->bytes)
			return at;
	}
	return NULL;
}

uint64_t zeros_fabric_fill(uint64_t lease)
{
	const struct fabric_mr *mr;
	uint64_t offset = 0;

	while ((mr = exposure_at(lease, offset))) {
		write_range(mr, 0, mr->bytes);
		offset = mr->offset + mr->bytes;
	}
	return offset;
}
