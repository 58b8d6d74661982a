/* SPDX-License-Identifier: BSD-3-Clause */
/* A client that reads and writes its leases at random for SECONDS and checks every byte against
 * a local copy.  The seed is printed; equal seeds make equal decisions.
 *
 *   soak URI SECONDS SEED [LEASES [LEASE_BYTES_MAX]]
 *
 * The last line has the totals; the exit status is 1 after a mismatch or an error. */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rmem/rmem.h>

#include "base/random.h"

#define DEPTH 64
#define SLOT_BYTES (256u << 10)

struct soak_lease {
	rmem_lease *lease;
	uint8_t *copy; /* the expected bytes; of lease_bytes_max bytes */
	uint64_t bytes;
	/* the operation that is outstanding, if busy */
	bool busy;
	bool write;
	uint64_t offset, length;
	uint8_t *local;
};

struct soak {
	rmem *session;
	rmem_queue *queue;
	rmem_buffer *buffer; /* registered memory: a slot for each lease */
	uint8_t *plain;      /* unregistered memory: a slot for each lease */
	struct soak_lease *leases;
	unsigned n_leases, outstanding;
	uint64_t lease_bytes_max, random;
	uint64_t reads, writes, bytes, grants, resizes, mismatches;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "soak: %s: %s\n", what, rmem_error());
	exit(1);
}

static uint64_t random_below(struct soak *s, uint64_t limit)
{
	return random_next(&s->random) % limit;
}

/* Draws the number of bits, then the value, so that small lengths are as frequent as large ones. */
static uint64_t random_length(struct soak *s, uint64_t max)
{
	unsigned bits = (unsigned)random_below(s, 64 - (unsigned)__builtin_clzll(max));
	uint64_t length = 1 + random_below(s, UINT64_C(2) << bits);

	return length < max ? length : max;
}

static void fill(struct soak *s, uint8_t *dst, uint64_t bytes)
{
	uint64_t value;

	for (; bytes >= sizeof(value); bytes -= sizeof(value), dst += sizeof(value)) {
		value = random_next(&s->random);
		memcpy(dst, &value, sizeof(value));
	}
	value = random_next(&s->random);
	memcpy(dst, &value, bytes);
}

static void check(struct soak *s, const struct soak_lease *l, const uint8_t *got)
{
	if (memcmp(got, l->copy + l->offset, l->length) == 0)
		return;
	for (uint64_t i = 0; i < l->length; i++) {
		if (got[i] == l->copy[l->offset + i])
			continue;
		(void)fprintf(stderr,
			      "soak: MISMATCH lease %" PRIu64 " offset %" PRIu64
			      " (%" PRIu64 " of %" PRIu64
			      " bytes): 0x%02x, not 0x%02x\n",
			      rmem_lease_id(l->lease), l->offset + i, i, l->length,
			      got[i], l->copy[l->offset + i]);
		break;
	}
	s->mismatches++;
}

/* A new lease must be zeroed. */
static void lease_alloc(struct soak *s, struct soak_lease *l)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	uint8_t *all;

	params.bytes = random_length(s, s->lease_bytes_max);
	if (rmem_alloc(s->session, &params, &l->lease))
		die("alloc");
	l->bytes = params.bytes;
	memset(l->copy, 0, s->lease_bytes_max);
	l->offset = 0;
	l->length = l->bytes;
	all = malloc(l->bytes);
	if (!all || rmem_read(l->lease, 0, all, l->bytes))
		die("read of a new lease");
	check(s, l, all);
	free(all);
	s->grants++;
}

static void lease_resize(struct soak *s, struct soak_lease *l)
{
	uint64_t bytes = random_length(s, s->lease_bytes_max);
	int err = 0;

	if (bytes > l->bytes) {
		err = rmem_grow(l->lease, bytes);
		/* a lease that has grown often has no free segment any more */
		if (err == -ENOSPC)
			return;
	} else if (bytes < l->bytes) {
		err = rmem_shrink(l->lease, bytes);
		memset(l->copy + bytes, 0, l->bytes - bytes);
	}
	if (err)
		die("resize");
	l->bytes = bytes;
	s->resizes++;
}

static void op_account(struct soak *s, const struct soak_lease *l)
{
	s->bytes += l->length;
	if (l->write)
		s->writes++;
	else
		s->reads++;
}

static void op_choose(struct soak *s, struct soak_lease *l)
{
	uint64_t max = l->bytes < SLOT_BYTES ? l->bytes : SLOT_BYTES;
	size_t slot = (size_t)(l - s->leases) * SLOT_BYTES;

	l->length = random_length(s, max);
	l->offset = random_below(s, l->bytes - l->length + 1);
	l->write = random_below(s, 2);
	l->local = random_below(s, 2) ? (uint8_t *)rmem_buffer_addr(s->buffer) + slot
				      : s->plain + slot;
	if (l->write) {
		fill(s, l->copy + l->offset, l->length);
		memcpy(l->local, l->copy + l->offset, l->length);
	} else {
		memset(l->local, 0xee, l->length);
	}
}

static void op_sync(struct soak *s, struct soak_lease *l)
{
	int err = l->write ? rmem_write(l->lease, l->offset, l->local, l->length)
			   : rmem_read(l->lease, l->offset, l->local, l->length);

	if (err)
		die(l->write ? "write" : "read");
	if (!l->write)
		check(s, l, l->local);
	op_account(s, l);
}

static void op_async(struct soak *s, struct soak_lease *l)
{
	bool registered = l->local < s->plain ||
			  l->local >= s->plain + (size_t)s->n_leases * SLOT_BYTES;
	struct rmem_op op = {
		.opcode = l->write ? RMEM_OP_WRITE : RMEM_OP_READ,
		.flags = random_below(s, 50) == 0 ? RMEM_OP_FENCE : 0,
		.lease = l->lease,
		.offset = l->offset,
		.addr = l->local,
		.bytes = l->length,
		.buffer = registered ? s->buffer : NULL,
		.cookie = (uint64_t)(l - s->leases),
	};

	if (rmem_submit(s->queue, &op, 1) != 1)
		die("submit");
	l->busy = true;
	s->outstanding++;
}

static void complete(struct soak *s, unsigned min)
{
	struct rmem_completion done[DEPTH];
	int n = rmem_wait(s->queue, done, DEPTH, min, -1);

	if (n < 0)
		die("wait");
	for (int i = 0; i < n; i++) {
		struct soak_lease *l = &s->leases[done[i].cookie];

		if (done[i].status) {
			(void)fprintf(stderr, "soak: completion: %s\n",
				      rmem_completion_error(s->queue, NULL));
			exit(1);
		}
		if (!l->write)
			check(s, l, l->local);
		op_account(s, l);
		l->busy = false;
		s->outstanding--;
	}
}

static void step(struct soak *s)
{
	struct soak_lease *l = &s->leases[random_below(s, s->n_leases)];
	uint64_t choice = random_below(s, 100);

	while (l->busy)
		complete(s, 1);
	if (choice == 0) {
		if (rmem_destroy(l->lease))
			die("free");
		lease_alloc(s, l);
	} else if (choice == 1) {
		lease_resize(s, l);
	} else {
		op_choose(s, l);
		if (choice < 20)
			op_sync(s, l);
		else
			op_async(s, l);
	}
	if (s->outstanding >= DEPTH / 2)
		complete(s, 1);
}

static void soak_open(struct soak *s, const char *uri)
{
	struct rmem_queue_params queue = rmem_queue_params_init();
	struct rmem_buffer_params buffer = rmem_buffer_params_init();
	size_t slots = (size_t)s->n_leases * SLOT_BYTES;

	if (rmem_open(uri, NULL, &s->session))
		die("open");
	queue.depth = DEPTH;
	if (rmem_queue_create(s->session, &queue, &s->queue))
		die("queue");
	buffer.bytes = slots;
	if (rmem_buffer_create(s->session, &buffer, &s->buffer))
		die("buffer");
	s->plain = malloc(slots);
	s->leases = calloc(s->n_leases, sizeof(*s->leases));
	if (!s->plain || !s->leases)
		die("memory");
	for (unsigned i = 0; i < s->n_leases; i++) {
		s->leases[i].copy = malloc(s->lease_bytes_max);
		if (!s->leases[i].copy)
			die("memory");
		lease_alloc(s, &s->leases[i]);
	}
}

/* Reads every lease completely, so that every byte is checked at least once. */
static void soak_close(struct soak *s)
{
	while (s->outstanding)
		complete(s, 1);
	for (unsigned i = 0; i < s->n_leases; i++) {
		struct soak_lease *l = &s->leases[i];
		uint8_t *all = malloc(l->bytes);

		if (!all || rmem_read(l->lease, 0, all, l->bytes))
			die("last read");
		l->offset = 0;
		l->length = l->bytes;
		check(s, l, all);
		free(all);
		if (rmem_destroy(l->lease))
			die("free");
		free(l->copy);
	}
	rmem_queue_free(s->queue);
	if (rmem_buffer_free(s->buffer))
		die("buffer");
	rmem_close(s->session);
	free(s->plain);
	free(s->leases);
}

int main(int argc, char **argv)
{
	struct soak s = { .n_leases = 64, .lease_bytes_max = 1 << 20 };
	uint64_t seed, seconds;
	time_t end;

	if (argc < 4) {
		(void)fprintf(stderr,
			      "usage: soak URI SECONDS SEED [LEASES [BYTES]]\n");
		return 2;
	}
	seconds = strtoull(argv[2], NULL, 10);
	seed = strtoull(argv[3], NULL, 0);
	if (argc > 4)
		s.n_leases = (unsigned)strtoul(argv[4], NULL, 10);
	if (argc > 5)
		s.lease_bytes_max = strtoull(argv[5], NULL, 10);
	/* the generator cannot leave the state zero */
	s.random = seed ? seed : 1;
	(void)printf("soak: seed %" PRIu64 ", %u leases of up to %" PRIu64 " bytes\n",
		     seed, s.n_leases, s.lease_bytes_max);
	soak_open(&s, argv[1]);
	end = time(NULL) + (time_t)seconds;
	while (time(NULL) < end)
		for (unsigned i = 0; i < 100; i++)
			step(&s);
	soak_close(&s);
	(void)printf("soak: seed %" PRIu64 ": %" PRIu64 " reads, %" PRIu64
		     " writes, %" PRIu64 " MiB, %" PRIu64 " grants, %" PRIu64
		     " resizes, %" PRIu64 " mismatches\n",
		     seed, s.reads, s.writes, s.bytes >> 20, s.grants, s.resizes,
		     s.mismatches);
	return s.mismatches ? 1 : 0;
}
