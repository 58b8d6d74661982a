/* SPDX-License-Identifier: BSD-3-Clause */
/* Atomics through the public API, against a running server:
 *
 *   atomics URI [OTHER_URI]
 *
 * Several sessions add to one number and change another one under a lock, and no change is lost.
 * If the device has no atomics, they are refused with its name.  OTHER_URI is the same server over
 * another fabric, where the atomics of a lease are refused: one device executes all of them.
 * Prints a line per promise; the exit status is 1 at the first that is broken. */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "program.h"

#define SESSIONS 3
#define ADDS 3000
#define DEPTH 16
#define TURNS 60

/* Offsets of the numbers in the lease, and its length. */
enum { COUNTER = 0, LOCK = 8, GUARDED = 64, BYTES = 4096 };

static const char *uri, *other;

static rmem *session_open(const char *where)
{
	rmem *session;

	must(rmem_open(where, NULL, &session), "open");
	return session;
}

static rmem_lease *lease_of(rmem *session, const char *name, bool make, unsigned rights)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	params.bytes = BYTES;
	params.name = name;
	if (make)
		must(rmem_alloc(session, &params, &lease), "alloc");
	else
		must(rmem_attach(session, name, rights, &lease), "attach");
	return lease;
}

static uint64_t number_at(rmem_lease *lease, uint64_t offset)
{
	uint64_t number;

	must(rmem_read(lease, offset, &number, sizeof(number)), "read");
	return number;
}

/* ---- counting ---- */

static void adds_submit(rmem_queue *queue, rmem_lease *lease, uint64_t *olds,
			unsigned n)
{
	const struct rmem_atomic one = { .operand = 1 };
	struct rmem_op ops[DEPTH];
	int taken;

	for (unsigned i = 0; i < n; i++)
		ops[i] = (struct rmem_op){ .opcode = RMEM_OP_FETCH_ADD,
					   .lease = lease,
					   .offset = COUNTER,
					   .addr = &olds[i],
					   .bytes = sizeof(olds[i]),
					   .atomic = &one };
	taken = rmem_submit(queue, ops, n);
	if (taken != (int)n)
		fail("submit", taken);
}

/* Keep many atomics outstanding on a queue.  It has one channel, so each old value must be higher
 * than the one before. */
static void add_many(rmem *session, rmem_lease *lease)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	struct rmem_completion done[DEPTH];
	uint64_t olds[DEPTH], last = 0;
	rmem_queue *queue;
	bool first = true;

	params.depth = DEPTH;
	params.channels = 1;
	must(rmem_queue_create(session, &params, &queue), "queue");
	for (unsigned n = 0; n < ADDS; n += DEPTH) {
		unsigned now = ADDS - n < DEPTH ? ADDS - n : DEPTH;

		adds_submit(queue, lease, olds, now);
		if (rmem_wait(queue, done, now, now, -1) != (int)now)
			fail("wait", 0);
		for (unsigned i = 0; i < now; i++) {
			must_complete(queue, &done[i]);
			if (!first && olds[i] <= last)
				fail("an old value came twice", (int)olds[i]);
			last = olds[i];
			first = false;
		}
	}
	rmem_queue_free(queue);
}

/* Add to a number by reads and writes, under a lock. */
static void take_turns(rmem_lease *lease, uint64_t id)
{
	for (unsigned i = 0; i < TURNS; i++) {
		uint64_t owner, guarded;

		do {
			must(rmem_compare_swap(lease, LOCK, 0, id, &owner), "lock");
		} while (owner != 0);
		guarded = number_at(lease, GUARDED) + 1;
		must(rmem_write(lease, GUARDED, &guarded, sizeof(guarded)), "write");
		must(rmem_compare_swap(lease, LOCK, id, 0, &owner), "unlock");
		if (owner != id)
			fail("another session had the lock", (int)owner);
	}
}

static void *worker(void *arg)
{
	uint64_t id = *(uint64_t *)arg;
	rmem *session = session_open(uri);
	rmem_lease *lease = lease_of(session, "atomics", false, RMEM_READ | RMEM_WRITE);

	add_many(session, lease);
	take_turns(lease, id);
	rmem_close(session);
	return NULL;
}

static void check_workers(rmem_lease *lease)
{
	pthread_t threads[SESSIONS];
	uint64_t ids[SESSIONS];

	for (unsigned i = 0; i < SESSIONS; i++) {
		ids[i] = i + 1;
		if (pthread_create(&threads[i], NULL, worker, &ids[i]))
			fail("pthread_create", 0);
	}
	for (unsigned i = 0; i < SESSIONS; i++)
		(void)pthread_join(threads[i], NULL);
	if (number_at(lease, COUNTER) != SESSIONS * ADDS)
		fail("additions are lost", (int)number_at(lease, COUNTER));
	kept("every addition of several sessions counts");
	if (number_at(lease, GUARDED) != SESSIONS * TURNS)
		fail("turns are lost", (int)number_at(lease, GUARDED));
	kept("a lock made of compare-and-swap excludes");
}

/* ---- refusals ---- */

static void expect(int result, int wanted, const char *text, const char *what)
{
	if (result != wanted || !strstr(rmem_error(), text))
		fail(what, result);
	(void)printf("kept: %s: %s\n", what, rmem_error());
}

static void check_refusals(rmem_lease *lease)
{
	rmem *reader = session_open(uri);
	rmem_lease *shared = lease_of(reader, "atomics", false, RMEM_READ);
	uint64_t old = 77;

	expect(rmem_fetch_add(shared, COUNTER, 1, &old), -EACCES, "right",
	       "attached for reading only");
	rmem_close(reader);
	expect(rmem_fetch_add(lease, 4, 1, &old), -EINVAL, "multiple of 8",
	       "not aligned");
	expect(rmem_compare_swap(lease, BYTES, 0, 1, &old), -EINVAL, "beyond",
	       "outside of the lease");
	if (old != 77)
		fail("an old value without an atomic", (int)old);
}

/* The atomics of `lease` are executed by `device`, which executed the first one. */
static void check_device(rmem_lease *lease, const char *device, const char *other_uri)
{
	rmem *second = session_open(other_uri);
	rmem_lease *shared = lease_of(second, "atomics", false, RMEM_READ | RMEM_WRITE);
	uint64_t before = number_at(lease, COUNTER);

	expect(rmem_fetch_add(shared, COUNTER, 1, NULL), -ENOTSUP, device,
	       "an atomic over another fabric is refused with the device's name");
	if (number_at(lease, COUNTER) != before)
		fail("the number changed", 0);
	rmem_close(second);
}

static void check_other_device(rmem *session)
{
	rmem *first = session_open(other);
	rmem_lease *far = lease_of(first, "atomics-far", true, 0);
	rmem_lease *near =
		lease_of(session, "atomics-far", false, RMEM_READ | RMEM_WRITE);

	must(rmem_fetch_add(far, COUNTER, 5, NULL), "over the other fabric");
	expect(rmem_fetch_add(near, COUNTER, 1, NULL), -ENOTSUP, "is tcp",
	       "the first atomic decides which device executes all");
	if (number_at(near, COUNTER) != 5)
		fail("the number", (int)number_at(near, COUNTER));
	must(rmem_destroy(near), "free");
	rmem_close(first);
}

/* The device has no atomics: they are refused by rmem_submit() with its name. */
static void check_without(rmem *session, rmem_lease *lease, const char *device)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	const struct rmem_atomic one = { .operand = 1 };
	uint64_t old;
	struct rmem_op op = { .opcode = RMEM_OP_FETCH_ADD,
			      .lease = lease,
			      .addr = &old,
			      .bytes = sizeof(old),
			      .atomic = &one };
	rmem_queue *queue;

	must(rmem_queue_create(session, &params, &queue), "queue");
	expect(rmem_submit(queue, &op, 1), -ENOTSUP, device,
	       "refused with the device's name");
	if (rmem_queue_outstanding(queue) != 0)
		fail("a refused atomic is outstanding", 1);
	rmem_queue_free(queue);
	expect(rmem_compare_swap(lease, COUNTER, 0, 1, NULL), -ENOTSUP, "atomic_cap",
	       "refused with the name of the capability");
	if (number_at(lease, COUNTER) != 0)
		fail("the number changed", 0);
	if (other) {
		rmem *over_tcp = session_open(other);
		rmem_lease *shared =
			lease_of(over_tcp, "atomics", false, RMEM_READ | RMEM_WRITE);

		must(rmem_fetch_add(shared, COUNTER, 3, NULL), "over the other fabric");
		if (number_at(lease, COUNTER) != 3)
			fail("the number", (int)number_at(lease, COUNTER));
		rmem_close(over_tcp);
		kept("the other fabric has atomics");
	}
}

int main(int argc, char **argv)
{
	struct rmem_info info = rmem_info_init();
	rmem_lease *lease;
	rmem *session;
	int result;

	if (argc < 2 || argc > 3) {
		(void)fprintf(stderr, "usage: atomics URI [OTHER_URI]\n");
		return 2;
	}
	uri = argv[1];
	other = argc > 2 ? argv[2] : NULL;
	session = session_open(uri);
	must(rmem_info(session, &info), "info");
	lease = lease_of(session, "atomics", true, 0);
	result = rmem_fetch_add(lease, COUNTER, 0, NULL);
	if (result == -ENOTSUP && info.fabric == RMEM_FABRIC_RDMA) {
		check_without(session, lease, info.device);
	} else {
		must(result, "fetch_add");
		check_workers(lease);
		check_refusals(lease);
		if (other) {
			check_device(lease, "the server's RDMA device", other);
			check_other_device(session);
		}
	}
	must(rmem_destroy(lease), "free");
	rmem_close(session);
	return 0;
}
