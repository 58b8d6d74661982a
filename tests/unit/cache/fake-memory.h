/* SPDX-License-Identifier: BSD-3-Clause */
/* The queues of librmem over an array of bytes.  What is submitted is applied 8 bytes at a time, in
 * any order, when the test says so; again after a lost channel, late after a stop. */
#ifndef TESTS_UNIT_CACHE_FAKE_MEMORY_H
#define TESTS_UNIT_CACHE_FAKE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>
#include <rmem/rmem.h>

#include "base/list.h"

struct fake_memory {
	unsigned char *bytes;
	uint64_t n_bytes;
	uint64_t random;
	struct list flights; /* operations of all queues that are not applied yet */
	unsigned n_flights;
	uint64_t now, deadline; /* steps; those that change memory end after so many */
	/* an atomic has changed the word at the offset; may be NULL */
	void (*swapped)(struct fake_memory *memory, uint64_t offset, uint64_t word);
	void *ctx;
};

/* What rmem_queue and rmem_lease are. */
struct fake_queue {
	struct fake_memory *memory;
	struct list done; /* completions that were not taken */
	struct list kept; /* operations of a queue that is stopped */
	bool stopped;     /* what is submitted is kept */
	bool lost;        /* the session has ended */
	unsigned n_flights;
	bool *stops; /* is set by a submission that stops the client, by chance */
	unsigned stop_share; /* one of so many does; 0: none */
};

void fake_queue_init(struct fake_queue *queue, struct fake_memory *memory);
/* Apply 8 bytes of an operation, or end one whose deadline has passed. */
void fake_memory_step(struct fake_memory *memory);
/* The queue's channel is lost: reads and writes are done again, what became of atomics is
 * unknown. */
void fake_queue_lose_channel(struct fake_queue *queue);
/* The server fences the client: what is outstanding is posted again when it goes on.
 *   late  writes too, although their deadline has passed */
void fake_queue_fence(struct fake_queue *queue, bool late);
/* The client goes on after a stop: what it submitted meanwhile begins. */
void fake_queue_go_on(struct fake_queue *queue);
/* The session ends: what is outstanding ends in ESTALE. */
void fake_queue_end(struct fake_queue *queue);
/* The client is killed: what is outstanding is applied in part, and forgotten. */
void fake_queue_kill(struct fake_queue *queue);

#endif
