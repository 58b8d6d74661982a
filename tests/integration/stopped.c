/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that is stopped beyond the deadline of its writes, and beyond the fence:
 *
 *   stopped URI resumes|ends  post writes of 'a', with RMEM_NO_RESUME for "ends", and look at their
 *                             results, in steps
 *   stopped URI fills         write 'b' everywhere
 *   stopped URI looks         all bytes are 'b' */
#include <poll.h>
#include <stdbool.h>
#include <string.h>

#include "program.h"

#define LEASE "stopped"
#define WRITES 8u
#define BYTES (2u << 20)

static char bytes[WRITES * BYTES];
static rmem *session;
static rmem_lease *lease;

static void fills(void)
{
	memset(bytes, 'b', sizeof(bytes));
	must(rmem_write(lease, 0, bytes, sizeof(bytes)), "write");
}

static void looks(void)
{
	must(rmem_read(lease, 0, bytes, sizeof(bytes)), "read");
	for (size_t i = 0; i < sizeof(bytes); i++)
		if (bytes[i] != 'b')
			fail("a write was posted after its deadline", (long)i);
}

static void writes_post(rmem_queue *queue)
{
	memset(bytes, 'a', sizeof(bytes));
	for (unsigned i = 0; i < WRITES; i++) {
		struct rmem_op op = rmem_op_write(lease, (uint64_t)i * BYTES,
						  bytes + i * BYTES, BYTES);

		op.flags = RMEM_OP_DEADLINE;
		op.timeout_ms = 1000;
		if (rmem_submit(queue, &op, 1) != 1)
			fail("submit", i);
	}
}

/* Wait until the session has been resumed, or has ended. */
static void return_await(bool resumes)
{
	struct rmem_info info = rmem_info_init();

	while (resumes && info.resumes == 0) {
		must(rmem_info(session, &info), "info");
		(void)poll(NULL, 0, 10);
	}
	while (!resumes && rmem_lease_status(lease) == 0)
		(void)poll(NULL, 0, 10);
	if (rmem_ping(session, NULL) != (resumes ? 0 : -ESTALE))
		fail("the session", resumes);
}

static void writes_end(rmem_queue *queue, bool resumes)
{
	for (unsigned i = 0; i < WRITES; i++) {
		struct rmem_completion done;

		if (rmem_wait(queue, &done, 1, 1, -1) != 1)
			fail("wait", i);
		if (done.status != -ETIMEDOUT && (resumes || done.status != -ESTALE))
			fail("the status of a write", done.status);
	}
}

static void stops(bool resumes)
{
	struct rmem_queue_params params = rmem_queue_params_init();
	rmem_queue *queue;

	params.depth = WRITES;
	must(rmem_queue_create(session, &params, &queue), "queue");
	step("stop the server");
	writes_post(queue);
	step("stop the client");
	return_await(resumes);
	writes_end(queue, resumes);
}

int main(int argc, char **argv)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_alloc_params params = rmem_alloc_params_init();
	bool ends;

	if (argc != 3)
		return 2;
	ends = strcmp(argv[2], "ends") == 0;
	options.flags = ends ? RMEM_NO_RESUME : 0;
	must(rmem_open(argv[1], &options, &session), "open");
	params.bytes = sizeof(bytes);
	params.name = LEASE;
	params.flags = RMEM_ALLOC_ATTACH;
	must(rmem_alloc(session, &params, &lease), "alloc");
	if (strcmp(argv[2], "fills") == 0)
		fills();
	else if (strcmp(argv[2], "looks") == 0)
		looks();
	else
		stops(!ends);
	rmem_close(session);
	return 0;
}
