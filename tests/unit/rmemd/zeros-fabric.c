/* SPDX-License-Identifier: BSD-3-Clause */
/* The fake server of the other tests, with faults at random and with writes into the
 * memory of the pools: through any key that a client has, until the daemon has the event
 * that the key is dead.  What is written is the pattern of the lease. */
#include <errno.h>
#include <limits.h>

#include "rmemd/lease/attachment.h"
#include "rmemd/lease/lease_table.h"
#include "unit/rmemd/stage-fabric.h"
#include "unit/rmemd/zeros.h"

/* The offset of a segment in its lease. */
static uint64_t segment_offset(const struct lease *lease, const struct segment *segment)
{
	uint64_t offset = 0;

	for (unsigned i = 0; i < lease->n_segments; i++) {
		if (lease->segments[i] == segment)
			return offset;
		offset += lease->segments[i]->bytes;
	}
	zeros_fail("a segment is registered for a lease that does not have it");
}

/* ---- faults at random ---- */

static void mr_locate(struct fabric_mr *fabric_mr)
{
	const struct mr *mr = fabric_mr->cookie;

	fabric_mr->lease = mr->segment->lease->id;
	fabric_mr->offset = segment_offset(mr->segment->lease, mr->segment);
}

static int at_reg(struct fabric_mr *mr)
{
	bool later = mr->session->server->kind == FABRIC_VERBS;

	mr_locate(mr);
	if (zeros_random(200) == 0)
		return -ENOMEM;
	if (later && zeros_random(100) == 0)
		mr->err = -EIO;
	return later;
}

static bool at_dereg(struct fabric_mr *mr)
{
	return mr->session->server->kind == FABRIC_VERBS || zeros_random(3) == 0;
}

/* Each has one endpoint. */
static void at_open(struct fabric_server *server)
{
	server->endpoints += server->kind == FABRIC_TCP;
	server->n_endpoints = 1;
}

void zeros_fabrics_init(void)
{
	static const enum fabric_kind kinds[ZEROS_ENDPOINTS] = { FABRIC_VERBS,
								 FABRIC_TCP };

	for (unsigned i = 0; i < ZEROS_ENDPOINTS; i++)
		fake_endpoints[i] = (struct fabric_endpoint){
			.kind = kinds[i], .address = { .family = 4 }, .node = -1
		};
	fake_server_hooks = (struct fake_server_hooks){ .at_open = at_open,
							.at_reg = at_reg,
							.at_dereg = at_dereg };
}

bool zeros_fabric_step(void)
{
	return fake_fabric_step((unsigned)zeros_random(UINT_MAX));
}

/* ---- writing ---- */

/* A lease grows before the client gets the reply, and another session may have the new
 * keys and write.  Then the new part need not be zero at the reply. */
static void growth_written(const struct fabric_mr *mr, uint64_t end)
{
	for (unsigned i = 0; i < ZEROS_CLIENTS && mr->state == FAKE_MR_LIVE; i++) {
		struct zeros_request *request = &world->clients[i].request;

		if (request->type == WIRE_TYPE_resize &&
		    world->leases[request->lease].id == mr->lease &&
		    request->old_bytes < end)
			request->old_bytes = UINT64_MAX;
	}
}

static void write_range(const struct fabric_mr *mr, uint64_t from, uint64_t bytes)
{
	for (uint64_t i = from; i < from + bytes; i++)
		mr->addr[i] = (char)zeros_pattern(mr->lease, mr->offset + i);
	growth_written(mr, mr->offset + from + bytes);
}

void zeros_key_sent(uint64_t rkey)
{
	struct fabric_mr *mr = fake_mr_find(rkey);

	if (mr)
		mr->known = true;
}

/* Whether a client can write through it. */
static bool mr_writable(const struct fabric_mr *mr)
{
	return mr->known && (mr->rights & FABRIC_RIGHT_WRITE);
}

void zeros_fabric_write(void)
{
	struct fabric_mr *picked = NULL;
	uint64_t n = 0, from;

	list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link) {
		if (mr_writable(mr) && zeros_random(++n) == 0)
			picked = mr;
	}
	if (!picked)
		return;
	world->late += picked->state == FAKE_MR_DYING;
	from = zeros_random(picked->bytes);
	write_range(picked, from, zeros_random(picked->bytes - from) + 1);
}

/* A live mr that contains this offset of the lease; NULL: none. */
static const struct fabric_mr *mr_at(uint64_t lease, uint64_t offset)
{
	list_for_each_entry(const struct fabric_mr, mr, &fake_mrs, link) {
		if (mr->lease == lease && mr->state == FAKE_MR_LIVE &&
		    mr_writable(mr) && mr->offset <= offset &&
		    offset < mr->offset + mr->bytes)
			return mr;
	}
	return NULL;
}

uint64_t zeros_fabric_fill(uint64_t lease)
{
	const struct fabric_mr *mr;
	uint64_t offset = 0;

	while ((mr = mr_at(lease, offset))) {
		write_range(mr, 0, mr->bytes);
		offset = mr->offset + mr->bytes;
	}
	return offset;
}
