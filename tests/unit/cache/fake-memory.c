/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/cache/fake-memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/random.h"

struct flight {
	struct list link;
	struct list all; /* of the memory, while it is in flight */
	struct fake_queue *queue;
	struct rmem_op op;
	struct rmem_atomic atomic;
	uint64_t from; /* of a copy */
	uint64_t bytes;
	unsigned n_words, n_left;
	int status;
	bool unknown;
	bool late; /* its deadline is forgotten */
	uint64_t started;
	bool shuffled;
	uint16_t *order;
};

static uint64_t draw(struct fake_memory *memory, uint64_t below)
{
	return random_next(&memory->random) % below;
}

void fake_queue_init(struct fake_queue *queue, struct fake_memory *memory)
{
	*queue = (struct fake_queue){ .memory = memory };
	list_init(&queue->done);
	list_init(&queue->kept);
}

/* ---- flights ---- */

static void flight_free(struct flight *flight)
{
	free(flight->order);
	free(flight);
}

/* Begin, or begin again. */
static void flight_start(struct flight *flight)
{
	struct fake_memory *memory = flight->queue->memory;
	bool shuffle = draw(memory, 5) < 3;

	flight->n_left = flight->n_words;
	flight->started = flight->started ? flight->started : memory->now;
	for (unsigned i = 0; i < flight->n_words; i++)
		flight->order[i] = (uint16_t)(flight->n_words - 1 - i);
	for (unsigned i = flight->n_words; shuffle && i > 1; i--) {
		unsigned j = (unsigned)draw(memory, i);
		uint16_t word = flight->order[j];

		flight->order[j] = flight->order[i - 1];
		flight->order[i - 1] = word;
	}
}

static void flight_enter(struct flight *flight)
{
	struct fake_memory *memory = flight->queue->memory;

	flight_start(flight);
	list_append(&memory->flights, &flight->all);
	memory->n_flights++;
	flight->queue->n_flights++;
}

static void flight_leave(struct flight *flight)
{
	list_remove(&flight->all);
	flight->queue->memory->n_flights--;
	flight->queue->n_flights--;
}

/* It is done: its completion waits. */
static void flight_finish(struct flight *flight, int status)
{
	flight->status = status;
	list_move(&flight->queue->done, &flight->link);
}

/* The local memory of byte i of the operation. */
static unsigned char *local_at(const struct flight *flight, uint64_t i)
{
	const struct rmem_op *op = &flight->op;

	if (op->opcode != RMEM_OP_READV && op->opcode != RMEM_OP_WRITEV)
		return (unsigned char *)op->addr + i;
	for (unsigned v = 0; v < op->n_vec; v++) {
		if (i < op->vec[v].bytes)
			return (unsigned char *)op->vec[v].addr + i;
		i -= op->vec[v].bytes;
	}
	abort();
}

static void flight_swap(struct flight *flight)
{
	struct fake_memory *memory = flight->queue->memory;
	unsigned char *at = memory->bytes + flight->op.offset;
	uint64_t found;

	memcpy(&found, at, 8);
	memcpy(flight->op.addr, &found, 8);
	if (found != flight->atomic.compare)
		return;
	memcpy(at, &flight->atomic.operand, 8);
	if (memory->swapped)
		memory->swapped(memory, flight->op.offset, flight->atomic.operand);
}

/* Apply one word. */
static void flight_step(struct flight *flight)
{
	struct fake_memory *memory = flight->queue->memory;
	uint64_t from = 8 * (uint64_t)flight->order[--flight->n_left];
	uint64_t to = from + 8 < flight->bytes ? from + 8 : flight->bytes;

	if (flight->op.opcode == RMEM_OP_CAS) {
		flight_swap(flight);
		return;
	}
	for (uint64_t i = from; i < to; i++) {
		unsigned char *at = memory->bytes + flight->op.offset + i;

		switch (flight->op.opcode) {
		case RMEM_OP_READ:
		case RMEM_OP_READV:
			*local_at(flight, i) = *at;
			break;
		case RMEM_OP_COPY:
			*at = memory->bytes[flight->from + i];
			break;
		default:
			*at = *local_at(flight, i);
			break;
		}
	}
}

static bool writes(const struct flight *flight)
{
	return flight->op.opcode == RMEM_OP_WRITE ||
	       flight->op.opcode == RMEM_OP_WRITEV || flight->op.opcode == RMEM_OP_COPY;
}

static bool flight_is_over(const struct flight *flight)
{
	const struct fake_memory *memory = flight->queue->memory;

	return writes(flight) && !flight->late &&
	       memory->now - flight->started > memory->deadline;
}

void fake_memory_step(struct fake_memory *memory)
{
	unsigned i;

	if (!memory->n_flights)
		return;
	i = (unsigned)draw(memory, memory->n_flights);
	list_for_each_entry(struct flight, flight, &memory->flights, all) {
		if (i-- > 0)
			continue;
		if (flight_is_over(flight)) {
			flight_leave(flight);
			flight_finish(flight, -ETIMEDOUT);
			return;
		}
		if (flight->n_left)
			flight_step(flight);
		if (flight->n_left == 0) {
			flight_leave(flight);
			flight_finish(flight, 0);
		}
		return;
	}
}

/* ---- what goes wrong ---- */

/* Of an atomic it is unknown whether it was done. */
static void flight_lose_atomic(struct flight *flight)
{
	if (draw(flight->queue->memory, 2))
		flight_step(flight);
	flight_leave(flight);
	flight->unknown = true;
	flight_finish(flight, -ECONNRESET);
}

#define FLIGHTS_OF(queue, flight)                                                  \
	list_for_each_entry_safe(struct flight, flight, &(queue)->memory->flights, \
				 all)                                              \
		if (flight->queue == (queue))

void fake_queue_lose_channel(struct fake_queue *queue)
{
	FLIGHTS_OF(queue, flight)
	{
		if (flight->op.opcode == RMEM_OP_CAS)
			flight_lose_atomic(flight);
		else
			flight_start(flight);
	}
}

void fake_queue_fence(struct fake_queue *queue, bool late)
{
	FLIGHTS_OF(queue, flight)
	{
		if (flight->op.opcode == RMEM_OP_CAS) {
			flight_lose_atomic(flight);
			continue;
		}
		flight_leave(flight);
		if (writes(flight) && !late)
			flight_finish(flight, -ETIMEDOUT);
		else
			list_move(&queue->kept, &flight->link);
		flight->late = late;
	}
}

void fake_queue_go_on(struct fake_queue *queue)
{
	queue->stopped = false;
	list_for_each_entry_safe(struct flight, flight, &queue->kept, link) {
		list_remove(&flight->link);
		flight_enter(flight);
	}
}

void fake_queue_end(struct fake_queue *queue)
{
	queue->lost = true;
	FLIGHTS_OF(queue, flight)
	{
		flight_leave(flight);
		flight->unknown = flight->op.opcode == RMEM_OP_CAS;
		flight_finish(flight, -ESTALE);
	}
	list_for_each_entry_safe(struct flight, flight, &queue->kept, link)
		flight_finish(flight, -ESTALE);
}

void fake_queue_kill(struct fake_queue *queue)
{
	FLIGHTS_OF(queue, flight)
	{
		while (flight->n_left && draw(queue->memory, 2))
			flight_step(flight);
		flight_leave(flight);
		flight_free(flight);
	}
	list_for_each_entry_safe(struct flight, flight, &queue->kept, link)
		flight_free(flight);
	list_for_each_entry_safe(struct flight, flight, &queue->done, link)
		flight_free(flight);
	list_init(&queue->kept);
	list_init(&queue->done);
}

/* ---- the functions of rmem.h ---- */

static uint64_t op_bytes(const struct rmem_op *op)
{
	uint64_t bytes = 0;

	if (op->opcode != RMEM_OP_READV && op->opcode != RMEM_OP_WRITEV)
		return op->bytes;
	for (unsigned i = 0; i < op->n_vec; i++)
		bytes += op->vec[i].bytes;
	return bytes;
}

static void op_submit(struct fake_queue *queue, const struct rmem_op *op)
{
	struct flight *flight = calloc(1, sizeof(*flight));

	assert(flight);
	list_init(&flight->link);
	list_init(&flight->all);
	flight->queue = queue;
	flight->op = *op;
	flight->bytes = op_bytes(op);
	assert(op->offset + flight->bytes <= queue->memory->n_bytes);
	if (op->opcode == RMEM_OP_CAS)
		flight->atomic = *op->atomic;
	if (op->opcode == RMEM_OP_COPY)
		flight->from = op->source->offset;
	flight->n_words = (unsigned)((flight->bytes + 7) / 8);
	flight->order = calloc(flight->n_words ? flight->n_words : 1, sizeof(uint16_t));
	assert(flight->order);
	if (queue->lost)
		flight_finish(flight, -ESTALE);
	else if (queue->stopped)
		list_append(&queue->kept, &flight->link);
	else
		flight_enter(flight);
}

int rmem_submit(rmem_queue *handle, const struct rmem_op *ops, unsigned n)
{
	struct fake_queue *queue = (struct fake_queue *)(void *)handle;

	if (n && queue->stop_share && !queue->stopped &&
	    draw(queue->memory, queue->stop_share) == 0)
		queue->stopped = *queue->stops = true;
	for (unsigned i = 0; i < n; i++)
		op_submit(queue, &ops[i]);
	return (int)n;
}

int rmem_poll(rmem_queue *handle, struct rmem_completion *completions, unsigned n)
{
	struct fake_queue *queue = (struct fake_queue *)(void *)handle;
	unsigned done = 0;

	while (done < n && !list_empty(&queue->done)) {
		struct flight *flight = list_first(&queue->done, struct flight, link);

		completions[done++] = (struct rmem_completion){
			.cookie = flight->op.cookie,
			.opcode = flight->op.opcode,
			.status = flight->status,
			.reason = flight->unknown ? RMEM_REASON_OUTCOME
						  : RMEM_REASON_NONE,
		};
		list_remove(&flight->link);
		flight_free(flight);
	}
	return (int)done;
}

int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
	      unsigned, int)
{
	return rmem_poll(queue, completions, n);
}

const char *rmem_completion_error(const rmem_queue *, const struct rmem_completion *)
{
	return "made to fail";
}

const char *rmem_error(void)
{
	return "made to fail";
}

int rmem_lease_status(const rmem_lease *lease)
{
	return ((const struct fake_queue *)(const void *)lease)->lost ? -ESTALE : 0;
}
