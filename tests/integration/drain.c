/* SPDX-License-Identifier: BSD-3-Clause */
/* drain URI: a client that is told that its server stops, and resumes at the next one. */
#include <poll.h>

#include "program.h"

#define LIMIT_MS 60000
#define STEP_MS 10

static rmem *session;

static struct rmem_info info(void)
{
	struct rmem_info now = rmem_info_init();

	must(rmem_info(session, &now), "rmem_info");
	return now;
}

static void await_draining(int draining)
{
	for (unsigned ms = 0; info().draining != draining; ms += STEP_MS) {
		if (ms > LIMIT_MS)
			fail("draining does not become", draining);
		(void)poll(NULL, 0, STEP_MS);
	}
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	rmem_lease *lease;
	char byte = 1;

	if (argc != 2)
		return 2;
	must(rmem_open(argv[1], NULL, &session), "rmem_open");
	want.bytes = 4096;
	must(rmem_alloc(session, &want, &lease), "rmem_alloc");
	must(rmem_write(lease, 0, &byte, 1), "rmem_write");
	if (info().draining)
		fail("draining from the start", 1);
	step("open");
	await_draining(1);
	step("draining");
	/* the operation waits for the next server */
	must(rmem_read(lease, 0, &byte, 1), "rmem_read");
	await_draining(0);
	if (info().resumes != 1 || byte != 1)
		fail("resumes", (long)info().resumes);
	step("resumed");
	rmem_close(session);
	return 0;
}
