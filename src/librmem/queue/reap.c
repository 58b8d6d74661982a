/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/reap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "librmem/lease/lease.h"
#include "librmem/queue/inband.h"
#include "librmem/queue/vec.h"
#include "librmem/session/session.h"

static const char *given_up_text(const struct rmem_queue *queue, const struct op *op)
{
	if (op->end.status != -ETIMEDOUT)
		return op->end.status == -ECANCELED ? "it was cancelled" : NULL;
	if (session_usable(queue->session, queue->now_ns))
		return "its time was over, and the session has lost its server";
	return op->end.unheard ? "its time was over: the server is there, but what was "
				 "sent for it was not acknowledged; rmem doctor tells "
				 "if long packets are lost"
			       : "its time was over";
}

/* rmem.h documents ENOTSUP; the C library names this number EOPNOTSUPP. */
static const char *error_name(int err)
{
	return err == ENOTSUP ? "ENOTSUP" : strerrorname_np(err);
}

/* Part of the operation must not be done twice. */
static bool op_is_once(const struct op *op)
{
	return opcode_is_atomic(op->todo.opcode) ||
	       op->todo.opcode == RMEM_OP_WRITE_NOTIFY;
}

/* What the operation changes at the server may have been changed, though it has failed. */
static bool op_outcome_unknown(const struct op *op)
{
	int status = op->end.status;

	if (opcode_is_atomic(op->todo.opcode))
		return op->unknown;
	return op->started && opcode_changes(op->todo.opcode) &&
	       (status == -ETIMEDOUT || status == -ECONNRESET || status == -ECANCELED ||
		status == -EIO);
}

static enum rmem_reason op_reason(const struct op *op)
{
	enum rmem_reason reason = RMEM_REASON_NONE;

	if (op->end.status != -ESTALE)
		return op_outcome_unknown(op) ? RMEM_REASON_OUTCOME : RMEM_REASON_NONE;
	reason = rmem_lease_reason(op->todo.lease);
	if (reason == RMEM_REASON_NONE && op->todo.opcode == RMEM_OP_COPY)
		reason = rmem_lease_reason(op->inband.source.lease);
	return reason;
}

/* Returns the number of the text. */
static uint32_t error_store(struct rmem_queue *queue, const struct op *op)
{
	char vendor[32] = "", range[96 + LEASE_LABEL_BYTES] = "";
	char label[LEASE_LABEL_BYTES];
	const char *reason = op->end.why;
	uint32_t number;
	char *text;
	int bytes;

	if (op->end.given_up == op->end.status)
		reason = given_up_text(queue, op);
	if (!reason)
		reason = strerrordesc_np(-op->end.status);

	if (op->end.vendor)
		(void)snprintf(vendor, sizeof(vendor), " (vendor error 0x%x)",
			       op->end.vendor);
	/* a ping has no range */
	if (op->todo.opcode != RMEM_OP_PING)
		(void)snprintf(range, sizeof(range),
			       " of %" PRIu64 " bytes at offset %" PRIu64 " of %s",
			       op->todo.bytes, op->todo.offset,
			       lease_label(op->todo.lease, label));
	text = error_texts_next(&queue->errors, &number);
	bytes = snprintf(
		text, ERROR_TEXT_BYTES, "%s%s at %s: %s%s%s: %s",
		op_kinds[op->todo.opcode].text, range, queue->session->server, reason,
		vendor,
		op_is_once(op) && op->unknown ? "; whether it was done is unknown" : "",
		error_name(-op->end.status));
	/* a name may be long: then the end is cut */
	if (bytes < 0)
		*text = '\0';
	return number;
}

/* Add to the completion what only an operation that has failed has. */
static void completion_fail(struct rmem_queue *queue, const struct op *op,
			    struct rmem_completion *completion)
{
	completion->status = op->end.status;
	completion->vendor = op->end.vendor;
	completion->reason = (uint16_t)op_reason(op);
	completion->error = error_store(queue, op);
}

void reap_done(struct reaper *reaper)
{
	struct rmem_queue *queue = reaper->queue;

	while (reaper->next < reaper->end && queue->table.n_done > 0) {
		struct op *op = optable_done_pop(&queue->table);

		completion_fill(reaper->next, op->todo.lease, op->todo.opcode,
				op->todo.bytes, op->todo.cookie);
		/* the library's placeholder */
		if (op->todo.opcode == RMEM_OP_PING)
			reaper->next->lease = NULL;
		if (op->end.status)
			completion_fail(queue, op, reaper->next);
		reaper->next++;
		inflight_end(op->inflight, op->todo.lease, op->todo.buffer, 1);
		vec_leave(op);
		inband_leave(op);
		op->end = (struct op_end){ 0 };
		optable_release(&queue->table, op);
	}
}
