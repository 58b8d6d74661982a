/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/bytes.h"

#include <errno.h>
#include <string.h>

#include "base/checked.h"
#include "base/crc32c.h"
#include "rmemd/lease/lease_table.h"
#include "simulate/clients.h"
#include "simulate/daemon.h"
#include "simulate/fabric.h"
#include "simulate/sim.h"
#include "unit/borders.h"

#define BATCH 8
#define PART_BYTES 1500u

static const int moving[] = { -ECONNRESET, 0 };
/* held_ended() checks the reason */
static const int ended[] = { -ESTALE, 0 };
static const int cancelled[] = { -ECONNRESET, -ECANCELED, 0 };

/* How long an operation may take: see "Ended operations" in rmem.h. */
static uint64_t limit_ms(const struct program *program, uint64_t bytes)
{
	return 2 * (program->timeout_ms + 2 * daemon_config.fence_ms) + 4000 +
	       bytes / 4096 * program->timeout_ms;
}

/* A resize whose outcome is unknown may have made it shorter. */
static bool in_doubt(const struct held *held)
{
	return !held->model.bytes_known;
}

static uint64_t reachable(const struct held *held)
{
	uint64_t now = rmem_lease_bytes(held->lease);

	return now < held->model.bytes ? now : held->model.bytes;
}

/* It may have ended while it was read, and until its keys are dead others may write. */
static bool has_ended(const struct held *held)
{
	return !daemon_up || !leases_find_id(daemon_control.leases, held->model.id);
}

void bytes_check(struct program *program, struct held *held, uint64_t offset,
		 uint64_t bytes)
{
	static unsigned char bufs[SIM_CLIENTS][MODEL_BYTES_MAX];
	unsigned char *buf = bufs[program->number];
	int err;

	if (in_doubt(held) || offset + bytes > reachable(held))
		return;
	client_call_begin("rmem_read", limit_ms(program, bytes));
	err = rmem_read(held->lease, offset, buf, bytes);
	client_call_end();
	if (program_failed(program, "rmem_read", err,
			   program->proving ? ended : moving))
		held_failed(program, held, err);
	else if (!has_ended(held))
		model_read(&held->model, offset, bytes, buf);
}

static bool draw_range(const struct held *held, uint64_t *ret_offset,
		       uint64_t *ret_bytes)
{
	uint64_t room = reachable(held), bytes;

	if (in_doubt(held) || !room)
		return false;
	*ret_offset = sim_random(room);
	bytes = 1 + sim_random(room - *ret_offset);
	if (bytes > PART_BYTES && !sim_chance(8))
		bytes = 1 + bytes % PART_BYTES;
	*ret_bytes = bytes;
	return true;
}

static void write_range(struct program *program, struct held *held, uint64_t offset,
			uint64_t bytes)
{
	static unsigned char bufs[SIM_CLIENTS][MODEL_BYTES_MAX];
	unsigned char *buf = bufs[program->number];
	int err;

	model_write_begin(&held->model, offset, bytes, buf);
	client_call_begin("rmem_write", limit_ms(program, bytes));
	err = rmem_write(held->lease, offset, buf, bytes);
	client_call_end();
	model_write_end(&held->model, offset, bytes, !err);
	if (program_failed(program, "rmem_write", err, moving))
		held_failed(program, held, err);
}

void bytes_use(struct program *program, struct held *held)
{
	uint64_t offset, bytes;

	if (!draw_range(held, &offset, &bytes))
		return;
	if (sim_chance(2))
		write_range(program, held, offset, bytes);
	else
		bytes_check(program, held, offset, bytes);
}

/* An operation outside of the lease is refused before it touches a byte, here or at the server. */
void bytes_use_outside(struct program *program, struct held *held)
{
	static const int refused[] = { -EINVAL, 0 };
	static unsigned char bufs[SIM_CLIENTS][MODEL_BYTES_MAX];
	const uint64_t lengths[] = { held->model.bytes, MODEL_BYTES_MAX };
	const struct borders borders = { lengths, 2 };
	uint64_t offset = border_at(&borders, sim_random(borders_count(&borders)));
	uint64_t bytes = sim_chance(2) ? 8 : 1 + sim_random(PART_BYTES), old;
	int err;

	if (in_doubt(held) ||
	    range_inside(rmem_lease_bytes(held->lease), offset, bytes))
		return;
	client_call_begin("an operation outside", limit_ms(program, bytes));
	switch (sim_random(bytes == 8 ? 3 : 2)) {
	case 0:
		err = rmem_read(held->lease, offset, bufs[program->number], bytes);
		break;
	case 1:
		err = rmem_write(held->lease, offset, bufs[program->number], bytes);
		break;
	default:
		err = rmem_fetch_add(held->lease, offset, 1, &old);
		break;
	}
	client_call_end();
	if (program_failed(program, "an operation outside", err, refused))
		held_failed(program, held, err);
	else
		sim_fail("client %u: %llu bytes at %llu, outside of lease %llu, are "
			 "not refused",
			 program->number, (unsigned long long)bytes,
			 (unsigned long long)offset,
			 (unsigned long long)held->model.id);
}

/* ---- several at a time ---- */

struct part {
	uint64_t offset, bytes;
	unsigned char buf[PART_BYTES];
};
static struct part parts[SIM_CLIENTS][BATCH];

static bool queue_open(struct program *program)
{
	static const int also[] = { -EDQUOT, -ECONNRESET, -ECONNREFUSED, -EACCES, 0 };
	struct rmem_queue_params params = rmem_queue_params_init();
	int err;

	if (program->queue)
		return true;
	params.channels = 1 + (unsigned)sim_random(3);
	client_call_begin("rmem_queue_create", program->timeout_ms + 6000);
	err = rmem_queue_create(program->session, &params, &program->queue);
	client_call_end();
	if (!program_failed(program, "rmem_queue_create", err, also))
		return true;
	program->queue = NULL;
	return false;
}

/* Writes of one version, which do not overlap. */
static unsigned batch_make(struct program *program, struct held *held,
			   struct rmem_op ops[BATCH])
{
	uint64_t room = reachable(held), at = sim_random(room);
	unsigned n = 0;

	while (n < BATCH && at < room) {
		struct part *part = &parts[program->number][n];
		uint64_t bytes = 1 + sim_random(PART_BYTES);

		if (bytes > room - at)
			bytes = room - at;
		part->offset = at;
		part->bytes = bytes;
		model_write_begin(&held->model, at, bytes, part->buf);
		ops[n] = rmem_op_write(held->lease, at, part->buf, bytes);
		ops[n].cookie = n << 4 | held->model.version;
		if (sim_chance(4))
			ops[n].flags |= RMEM_OP_FENCE;
		n++;
		at += bytes + sim_random(100);
	}
	return n;
}

static int batch_wait(struct program *program, struct held *held, unsigned n)
{
	struct rmem_completion completion;
	int err = 0;

	while (n > 0) {
		const struct part *part;

		if (rmem_wait(program->queue, &completion, 1, 1, -1) != 1)
			sim_fail("client %u: rmem_wait() returns without a completion",
				 program->number);
		n--;
		part = &parts[program->number][completion.cookie >> 4];
		for (uint64_t i = 0; !completion.status && i < part->bytes; i++)
			held->model.may[part->offset + i] =
				(uint16_t)(1u << (completion.cookie & 15));
		if (completion.status)
			err = completion.status;
	}
	return err;
}

void bytes_queue(struct program *program, struct held *held)
{
	struct rmem_op ops[BATCH];
	unsigned n;
	int sent, err;

	if (in_doubt(held) || !reachable(held) || !queue_open(program))
		return;
	n = batch_make(program, held, ops);
	client_call_begin("a batch", 2 * limit_ms(program, 0));
	sent = rmem_submit(program->queue, ops, n);
	if (sent < 0) {
		client_call_end();
		(void)program_failed(program, "rmem_submit", sent, moving);
		return;
	}
	if (sim_chance(20))
		(void)rmem_cancel(program->queue, NULL);
	err = batch_wait(program, held, (unsigned)sent);
	client_call_end();
	if (program_failed(program, "a batch", err, cancelled))
		held_failed(program, held, err);
	if (sim_chance(10)) {
		client_call_begin("rmem_queue_free", 8000);
		rmem_queue_free(program->queue);
		client_call_end();
		program->queue = NULL;
	}
}

/* ---- at the server ---- */

void bytes_inband(struct program *program, struct held *held)
{
	static unsigned char bufs[SIM_CLIENTS][MODEL_BYTES_MAX];
	unsigned char *buf = bufs[program->number];
	uint64_t offset, bytes;
	uint32_t crc;
	int err;

	if (!draw_range(held, &offset, &bytes))
		return;
	client_call_begin("rmem_read", limit_ms(program, bytes));
	err = rmem_read(held->lease, offset, buf, bytes);
	client_call_end();
	if (program_failed(program, "rmem_read", err, moving)) {
		held_failed(program, held, err);
		return;
	}
	if (has_ended(held))
		return;
	model_read(&held->model, offset, bytes, buf);
	client_call_begin("rmem_crc32c", limit_ms(program, bytes));
	err = rmem_crc32c(held->lease, offset, bytes, &crc);
	client_call_end();
	if (program_failed(program, "rmem_crc32c", err, moving))
		held_failed(program, held, err);
	else if (crc != crc32c(0, buf, bytes) && !has_ended(held))
		sim_fail("client %u: lease %llu has another checksum at the server",
			 program->number, (unsigned long long)held->model.id);
}

void bytes_check_unreached(uint64_t lease)
{
	if (fabric_reaches_lease(lease))
		sim_fail("lease %llu was freed, and a key reaches it",
			 (unsigned long long)lease);
}
