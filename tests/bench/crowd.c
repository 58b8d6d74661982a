/* SPDX-License-Identifier: BSD-3-Clause */
/* crowd URI SESSIONS SECONDS PAUSE_MS: sessions that come and go: the oldest is closed and another
 * opened, with a pause between.  Prints "ready", waits for a line, and prints {"opened": N} in the
 * end. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "integration/program.h"

static void descriptors_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		fail("getrlimit", -errno);
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		fail("setrlimit", -errno);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 5 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	rmem **sessions = calloc(n + 1, sizeof(*sessions));
	struct timespec pause = { 0 };
	uint64_t opened = 0;
	time_t until;

	if (n == 0 || !sessions) {
		(void)fprintf(stderr, "usage: crowd URI SESSIONS SECONDS PAUSE_MS\n");
		return 2;
	}
	descriptors_raise();
	for (unsigned i = 0; i < n; i++)
		must(rmem_open(argv[1], NULL, &sessions[i]), "open");
	step("ready");
	pause.tv_nsec = strtol(argv[4], NULL, 10) * 1000000;
	until = time(NULL) + (time_t)strtoul(argv[3], NULL, 10);
	for (unsigned i = 0; time(NULL) < until; i = (i + 1) % n, opened++) {
		(void)nanosleep(&pause, NULL);
		rmem_close(sessions[i]);
		must(rmem_open(argv[1], NULL, &sessions[i]), "open");
	}
	(void)printf("{\"opened\": %" PRIu64 "}\n", opened);
	(void)fflush(stdout);
	for (unsigned i = 0; i < n; i++)
		rmem_close(sessions[i]);
	free(sessions);
	return 0;
}
