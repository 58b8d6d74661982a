/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/taker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "librmem/inband.h"
#include "librmem/lease.h"
#include "librmem/session.h"
#include "librmem/vec.h"

/* ---- counting ---- */

static bool use_same(const struct taker *taker, const struct op *op)
{
	return taker->use == op->use && taker->lease == op->todo.lease &&
	       taker->buffer == op->todo.buffer;
}

static void use_switch(struct taker *taker, const struct op *op)
{
	taker_end(taker);
	taker->n_run = 0;
	taker->use = op->use;
	taker->lease = op->todo.lease;
	taker->buffer = op->todo.buffer;
}

static void took(struct taker *taker, unsigned n)
{
	taker->next += n;
	taker->n_run += n;
}

/* ---- whole operations ---- */

/* Those of n pieces, at least one, side by side in memory, that are of the run. */
static unsigned wholes_take(struct taker *taker, struct piece *const *pieces,
			    unsigned n)
{
	struct optable *table = &taker->queue->table;
	const struct use *use = taker->use;
	struct rmem_completion *next = taker->next;
	struct op **free = &table->free[table->n_free];
	struct piece *const *at = pieces, *const *end = pieces + n;

	do {
		struct op *op = (*at)->op;

		if (!op->whole || op->use != use)
			break;
		*next++ = (struct rmem_completion){ .cookie = op->todo.cookie,
						    .bytes = op->todo.bytes };
		op->state = OP_FREE;
		*free++ = op;
	} while (++at < end);
	n = (unsigned)(at - pieces);
	table->n_free += n;
	taker->queue->active -= n;
	took(taker, n);
	return n;
}

unsigned taker_wholes(struct taker *taker, struct channel_slot *slot, unsigned n)
{
	const struct channelset *set = &taker->queue->channels;
	unsigned to_end = set->mask + 1 - slot->first;

	if (n > taker_room(taker))
		n = taker_room(taker);
	if (n > to_end)
		n = to_end;
	if (n == 0)
		return 0;
	if (!use_same(taker, slot->pieces[slot->first]->op))
		use_switch(taker, slot->pieces[slot->first]->op);
	/* those without may be of any lease */
	if (!taker->use)
		n = 1;
	n = wholes_take(taker, &slot->pieces[slot->first], n);
	slot->first = (slot->first + n) & set->mask;
	slot->in_flight -= n;
	return n;
}

/* ---- all others ---- */

static const char *verdict_text(const struct rmem_queue *queue, int status)
{
	if (status != -ETIMEDOUT)
		return status == -ECANCELED ? "it was cancelled" : NULL;
	return session_usable(queue->session, queue->now_ns)
		       ? "its time was over, and the session has lost its server"
		       : "its time was over";
}

/* As rmem.h has it: Linux has another name for the same number. */
static const char *error_name(int err)
{
	return err == ENOTSUP ? "ENOTSUP" : strerrorname_np(err);
}

static void error_keep(struct rmem_queue *queue, const struct op *op)
{
	char vendor[32] = "", range[96] = "";
	bool unknown = (opcode_is_atomic(op->todo.opcode) ||
			op->todo.opcode == RMEM_OP_WRITE_NOTIFY) &&
		       op->unknown;
	const char *words = op->end.why;

	if (op->end.verdict == op->end.status)
		words = verdict_text(queue, op->end.status);
	if (!words)
		words = strerrordesc_np(-op->end.status);

	if (op->end.vendor)
		(void)snprintf(vendor, sizeof(vendor), " (vendor error 0x%x)",
			       op->end.vendor);
	/* a ping is of no range */
	if (op->todo.opcode != RMEM_OP_PING)
		(void)snprintf(range, sizeof(range),
			       " of %" PRIu64 " bytes at offset %" PRIu64
			       " of lease %" PRIu64,
			       op->todo.bytes, op->todo.offset, op->todo.lease->id);
	(void)snprintf(queue->error, sizeof(queue->error), "%s%s at %s: %s%s%s: %s",
		       op_kinds[op->todo.opcode].text, range, queue->session->server,
		       words, vendor, unknown ? "; whether it was done is unknown" : "",
		       error_name(-op->end.status));
}

void taker_done(struct taker *taker)
{
	struct rmem_queue *queue = taker->queue;

	while (taker->next < taker->end && queue->table.n_done > 0) {
		struct op *op = optable_done_take(&queue->table);

		*taker->next = (struct rmem_completion){
			.cookie = op->todo.cookie,
			.status = op->end.status,
			.vendor = op->end.vendor,
			.bytes = op->todo.bytes,
		};
		if (op->end.status)
			error_keep(queue, op);
		if (!use_same(taker, op))
			use_switch(taker, op);
		took(taker, 1);
		vec_leave(op);
		inband_leave(op);
		op->end = (struct op_end){ 0 };
		optable_give(&queue->table, op);
	}
}
