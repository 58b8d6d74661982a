/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/reap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "librmem/queue/inband.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"
#include "librmem/queue/vec.h"

/* ---- counting ---- */

static bool inflight_same(const struct reaper *reaper, const struct op *op)
{
	return reaper->inflight == op->inflight && reaper->lease == op->todo.lease &&
	       reaper->buffer == op->todo.buffer;
}

static void inflight_switch(struct reaper *reaper, const struct op *op)
{
	reap_end(reaper);
	reaper->n_run = 0;
	reaper->inflight = op->inflight;
	reaper->lease = op->todo.lease;
	reaper->buffer = op->todo.buffer;
}

static void took(struct reaper *reaper, unsigned n)
{
	reaper->next += n;
	reaper->n_run += n;
}

/* ---- whole operations ---- */

/* Those of n fragments, at least one, side by side in memory, that are of the run. */
static unsigned wholes_take(struct reaper *reaper, struct fragment *const *fragments,
			    unsigned n)
{
	struct optable *table = &reaper->queue->table;
	const struct inflight *inflight = reaper->inflight;
	struct rmem_completion *next = reaper->next;
	struct op **free = &table->free[table->n_free];
	struct fragment *const *at = fragments, *const *end = fragments + n;

	do {
		struct op *op = (*at)->op;

		if (!op->whole || op->inflight != inflight)
			break;
		*next++ = (struct rmem_completion){ .cookie = op->todo.cookie,
						    .bytes = op->todo.bytes };
		op->state = OP_FREE;
		*free++ = op;
	} while (++at < end);
	n = (unsigned)(at - fragments);
	table->n_free += n;
	reaper->queue->active -= n;
	took(reaper, n);
	return n;
}

unsigned reap_wholes(struct reaper *reaper, struct send_side *side, unsigned n)
{
	const struct channel_set *set = &reaper->queue->channels;
	unsigned to_end = set->mask + 1 - side->first;

	if (n > reap_room(reaper))
		n = reap_room(reaper);
	if (n > to_end)
		n = to_end;
	if (n == 0)
		return 0;
	if (!inflight_same(reaper, side->fragments[side->first]->op))
		inflight_switch(reaper, side->fragments[side->first]->op);
	/* those without may be of any lease */
	if (!reaper->inflight)
		n = 1;
	n = wholes_take(reaper, &side->fragments[side->first], n);
	side->first = (side->first + n) & set->mask;
	side->in_flight -= n;
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

void reap_done(struct reaper *reaper)
{
	struct rmem_queue *queue = reaper->queue;

	while (reaper->next < reaper->end && queue->table.n_done > 0) {
		struct op *op = optable_done_take(&queue->table);

		*reaper->next = (struct rmem_completion){
			.cookie = op->todo.cookie,
			.status = op->end.status,
			.vendor = op->end.vendor,
			.bytes = op->todo.bytes,
		};
		if (op->end.status)
			error_keep(queue, op);
		if (!inflight_same(reaper, op))
			inflight_switch(reaper, op);
		took(reaper, 1);
		vec_leave(op);
		inband_leave(op);
		op->end = (struct op_end){ 0 };
		optable_give(&queue->table, op);
	}
}
