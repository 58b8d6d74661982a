/* SPDX-License-Identifier: BSD-3-Clause */
/* acting URI NAME: a client at work while an administrator acts.  It writes to a lease with that
 * name and verifies what it reads back, until an operation fails or SIGTERM.  A line for each of
 *
 *   ready
 *   draining             the server has told that it drains
 *   alloc ERRNO TEXT     what another allocation gives then
 *   serving              the server has told that it goes on
 *   ended ERRNO TEXT     an operation has failed
 *   ping ERRNO TEXT      what a call gives then
 *   done                 SIGTERM: nothing has failed, and the lease is freed
 *
 * The time-outs of its calls and operations are so long that an error that comes did not come from
 * them. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "program.h"

#define BYTES 65536
#define TIMEOUT_MS 600000

static volatile sig_atomic_t stop;

static void on_signal(int)
{
	stop = 1;
}

static void say(const char *what, int result)
{
	if (result < 0)
		(void)printf("%s %s %s\n", what, strerrorname_np(-result),
			     rmem_error());
	else
		(void)printf("%s\n", what);
	(void)fflush(stdout);
}

/* Look whether the server drains, and print a change. */
static void look(rmem *session)
{
	static int draining;
	struct rmem_info info = rmem_info_init();
	struct rmem_alloc_params want = rmem_alloc_params_init();
	rmem_lease *lease;

	must(rmem_info(session, &info), "rmem_info");
	if (info.draining == draining)
		return;
	draining = info.draining;
	say(draining ? "draining" : "serving", 0);
	want.bytes = BYTES;
	if (!draining)
		return;
	say("alloc", rmem_alloc(session, &want, &lease));
}

/* The result of the first operation that fails. */
static int work(rmem *session, rmem_lease *lease)
{
	static uint8_t bytes[BYTES], back[BYTES];
	int err = 0;

	for (uint64_t round = 1; !stop && !err; round++) {
		uint64_t seed = round;

		for (size_t i = 0; i < BYTES; i += sizeof(seed))
			memcpy(bytes + i, &(uint64_t){ random_next(&seed) },
			       sizeof(seed));
		err = rmem_write(lease, 0, bytes, BYTES);
		if (!err)
			err = rmem_read(lease, 0, back, BYTES);
		if (!err && memcmp(bytes, back, BYTES) != 0)
			fail("other bytes came back", (long)round);
		if (!err)
			look(session);
	}
	return err;
}

int main(int argc, char **argv)
{
	struct rmem_options params = rmem_options_init();
	struct rmem_alloc_params want = rmem_alloc_params_init();
	struct rmem_info info = rmem_info_init();
	rmem_lease *lease;
	rmem *session;
	int err;

	if (argc != 3)
		return 2;
	(void)signal(SIGTERM, on_signal);
	params.timeout_ms = TIMEOUT_MS;
	must(rmem_open(argv[1], &params, &session), "rmem_open");
	want.bytes = BYTES;
	want.name = argv[2];
	must(rmem_alloc(session, &want, &lease), "rmem_alloc");
	say("ready", 0);
	err = work(session, lease);
	if (err) {
		say("ended", err);
		say("ping", rmem_ping(session, NULL));
	} else {
		must(rmem_destroy(lease), "rmem_destroy");
	}
	/* nothing was lost, and found again, meanwhile */
	must(rmem_info(session, &info), "rmem_info");
	if (info.resumes)
		fail("resumes", (long)info.resumes);
	rmem_close(session);
	if (!err)
		say("done", 0);
	return 0;
}
