/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous operations: a submit and a wait on the session's own queue, which has
 * one channel.  [any] */
#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/rare.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"
#include "librmem/queue/alone.h"
#include "librmem/queue/device.h"
#include "librmem/session/session.h"

/* Memory of the program of up to so many bytes passes through a buffer of the session, where the
 * fabric wants it registered; that costs less than to wait for a free chunk. */
#define COPY_MAX 65536u
/* Up to so many bytes are copied at once: to look for a buffer that holds them takes longer. */
#define COPY_UNSEEN_MAX 512u

/* The operation was submitted: its own time-out ends the wait. */
static __attribute__((noinline)) int op_await(struct rmem_queue *queue)
{
	struct rmem_completion completion;
	int result;

	do {
		result = rmem_wait(queue, &completion, 1, 1, -1);
	} while (result == 0);
	if (completion.status)
		return err_set(completion.status, "%s", rmem_completion_error(queue));
	return 0;
}

static int op_run(struct rmem_queue *queue, const struct rmem_op *op)
{
	struct rmem_completion completion;
	int got = 0;

	alone_begin(queue);
	if (!alone_submit(queue, op)) {
		int result = rmem_submit(queue, op, 1);

		return result < 0 ? result : op_await(queue);
	}
	/* where nothing is registered, the peer's program answers, and not at once */
	if (queue->ops->needs_local_mr && alone_poll(queue, &completion, &got) && got)
		return 0;
	return op_await(queue);
}

/* Take turns with other threads. */
static int op_turn(struct rmem *session, const struct rmem_op *op)
{
	int err;

	(void)pthread_mutex_lock(&session->sync_lock);
	err = op_run(session->sync_queue, op);
	(void)pthread_mutex_unlock(&session->sync_lock);
	device_sync_leave(session);
	return err;
}

/* Where it cannot be made, the queue's own registered memory has to do. */
static RARE struct rmem_buffer *copy_create(struct rmem *session)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;

	params.bytes = COPY_MAX;
	if (rmem_buffer_create(session, &params, &session->sync_buffer))
		return NULL;
	return session->sync_buffer;
}

/* As op_turn(), through the session's buffer. */
static int op_copy(struct rmem *session, struct rmem_op *op)
{
	struct rmem_buffer *buffer;
	void *addr = op->addr;
	int err;

	(void)pthread_mutex_lock(&session->sync_lock);
	buffer = session->sync_buffer ? session->sync_buffer : copy_create(session);
	if (buffer) {
		op->buffer = buffer;
		op->addr = buffer->addr;
		if (op->opcode != RMEM_OP_READ)
			memcpy(buffer->addr, addr, op->bytes);
	}
	err = op_run(session->sync_queue, op);
	if (buffer && op->opcode == RMEM_OP_READ && !err)
		memcpy(addr, buffer->addr, op->bytes);
	(void)pthread_mutex_unlock(&session->sync_lock);
	device_sync_leave(session);
	return err;
}

/* A read or a write, with or without a notification. */
static inline int transfer_run(struct rmem_op *op)
{
	struct rmem *session = op->lease->session;
	int err;

	session_nudge(session);
	if (!session->domains.ops->needs_local_mr || op->bytes == 0 || !op->addr)
		return op_turn(session, op);
	if (op->bytes > COPY_UNSEEN_MAX)
		op->buffer = buffer_find(session, op->addr, op->bytes);
	if (!op->buffer && op->bytes <= COPY_MAX)
		return op_copy(session, op);
	err = op_turn(session, op);
	if (op->buffer)
		(void)atomic_fetch_sub_explicit(&op->buffer->outstanding, 1,
						memory_order_release);
	return err;
}

/* As transfer_run(), for the call of that name. */
static inline int transfer(const char *call, struct rmem_op *op)
{
	int err;

	if (!op->lease)
		return err_set(-EINVAL, "%s: the lease is NULL", call);
	err = transfer_run(op);
	return err ? err_prefix(err, "%s", call) : 0;
}

/* Any other operation, for the call of that name. */
static int lease_run(const char *call, const struct rmem_op *op)
{
	int err;

	if (!op->lease)
		return err_set(-EINVAL, "%s: the lease is NULL", call);
	session_nudge(op->lease->session);
	err = op_turn(op->lease->session, op);
	return err ? err_prefix(err, "%s", call) : 0;
}

/* A write does not touch what it reads from. */
static void *untouched(const void *src)
{
	union {
		const void *in;
		void *out;
	} addr = { .in = src };

	return addr.out;
}

int rmem_read(rmem_lease *lease, uint64_t offset, void *dst, uint64_t bytes)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_READ,
		.lease = lease,
		.offset = offset,
		.addr = dst,
		.bytes = bytes,
	};

	return transfer("rmem_read", &op);
}

int rmem_write(rmem_lease *lease, uint64_t offset, const void *src, uint64_t bytes)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE,
		.lease = lease,
		.offset = offset,
		.addr = untouched(src),
		.bytes = bytes,
	};

	return transfer("rmem_write", &op);
}

int rmem_write_notify(rmem_lease *lease, uint64_t offset, const void *src,
		      uint64_t bytes, uint32_t value)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE_NOTIFY,
		.lease = lease,
		.offset = offset,
		.addr = untouched(src),
		.bytes = bytes,
		.value = value,
	};

	return transfer("rmem_write_notify", &op);
}

int rmem_readv(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
	       unsigned n)
{
	const struct rmem_op op = {
		.opcode = RMEM_OP_READV,
		.lease = lease,
		.offset = offset,
		.n_vec = n,
		.vec = vec,
	};

	return lease_run("rmem_readv", &op);
}

int rmem_writev(rmem_lease *lease, uint64_t offset, const struct rmem_vec *vec,
		unsigned n)
{
	const struct rmem_op op = {
		.opcode = RMEM_OP_WRITEV,
		.lease = lease,
		.offset = offset,
		.n_vec = n,
		.vec = vec,
	};

	return lease_run("rmem_writev", &op);
}

static int atomic_run(const char *call, struct rmem_lease *lease,
		      enum rmem_opcode opcode, uint64_t offset,
		      const struct rmem_atomic *atomic, uint64_t *ret_old)
{
	uint64_t old = 0;
	const struct rmem_op op = {
		.opcode = (uint16_t)opcode,
		.lease = lease,
		.offset = offset,
		.addr = &old,
		.bytes = sizeof(old),
		.atomic = atomic,
	};
	int err = lease_run(call, &op);

	if (!err && ret_old)
		*ret_old = old;
	return err;
}

int rmem_compare_swap(rmem_lease *lease, uint64_t offset, uint64_t expected,
		      uint64_t desired, uint64_t *ret_old)
{
	const struct rmem_atomic atomic = { .compare = expected, .operand = desired };

	return atomic_run("rmem_compare_swap", lease, RMEM_OP_CAS, offset, &atomic,
			  ret_old);
}

int rmem_fetch_add(rmem_lease *lease, uint64_t offset, uint64_t add, uint64_t *ret_old)
{
	const struct rmem_atomic atomic = { .operand = add };

	return atomic_run("rmem_fetch_add", lease, RMEM_OP_FETCH_ADD, offset, &atomic,
			  ret_old);
}

/* ---- in-band ---- */

int rmem_fill(rmem_lease *lease, uint64_t offset, uint64_t bytes, uint64_t pattern)
{
	const struct rmem_op op = {
		.opcode = RMEM_OP_FILL,
		.lease = lease,
		.offset = offset,
		.bytes = bytes,
		.pattern = pattern,
	};

	return lease_run("rmem_fill", &op);
}

int rmem_copy(rmem_lease *lease, uint64_t offset, rmem_lease *source,
	      uint64_t source_offset, uint64_t bytes)
{
	const struct rmem_place place = { .lease = source, .offset = source_offset };
	const struct rmem_op op = {
		.opcode = RMEM_OP_COPY,
		.lease = lease,
		.offset = offset,
		.bytes = bytes,
		.source = &place,
	};

	if (!source)
		return err_set(-EINVAL, "rmem_copy: a lease is NULL");
	return lease_run("rmem_copy", &op);
}

int rmem_crc32c(rmem_lease *lease, uint64_t offset, uint64_t bytes, uint32_t *ret_crc)
{
	uint32_t crc = 0;
	const struct rmem_op op = {
		.opcode = RMEM_OP_CRC,
		.lease = lease,
		.offset = offset,
		.addr = &crc,
		.bytes = bytes,
	};
	int err;

	if (!ret_crc)
		return err_set(-EINVAL, "rmem_crc32c: an argument is NULL");
	err = lease_run("rmem_crc32c", &op);
	if (!err)
		*ret_crc = crc;
	return err;
}

int rmem_ping_data(rmem *session, uint64_t *ret_ns)
{
	const struct rmem_op op = { .opcode = RMEM_OP_PING };
	uint64_t start_ns;
	int err;

	if (!session)
		return err_set(-EINVAL, "rmem_ping_data: the session is NULL");
	start_ns = clock_now_ns();
	session_nudge(session);
	err = op_turn(session, &op);
	if (err)
		return err_prefix(err, "rmem_ping_data");
	if (ret_ns)
		*ret_ns = clock_now_ns() - start_ns;
	return 0;
}
