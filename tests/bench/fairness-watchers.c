/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-watchers ADDRESS CONTROL_PORT DATA_PORT SESSIONS: sessions that all watch one lease,
 * which several of these programs share, and one of them notifies without a pause.  Prints "ready"
 * when they watch. */
#include <inttypes.h>
#include <signal.h>

#include "integration/program.h"

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
	(void)number;
	stopped = 1;
}

static void watcher_open(const char *uri, rmem **ret_session, rmem_lease **ret_lease)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = 4096;
	params.name = "watched";
	params.flags = RMEM_ALLOC_ATTACH;
	must(rmem_open(uri, NULL, ret_session), "open");
	must(rmem_alloc(*ret_session, &params, ret_lease), "alloc");
	must(rmem_watch(*ret_lease), "watch");
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = on_signal };
	uint64_t done = 0, refused = 0;
	unsigned long n = argc == 5 ? strtoul(argv[4], NULL, 10) : 0;
	rmem_lease *lease = NULL;
	rmem **sessions;
	char uri[128];

	if (n == 0) {
		(void)fprintf(stderr, "usage: fairness-watchers ADDRESS CONTROL_PORT "
				      "DATA_PORT SESSIONS\n");
		return 2;
	}
	sessions = calloc(n, sizeof(rmem *));
	if (!sessions || sigaction(SIGTERM, &action, NULL))
		fail("the start", 0);
	(void)snprintf(uri, sizeof(uri), "rmem://%s:%s?fabric=tcp", argv[1], argv[2]);
	for (unsigned long i = 0; i < n; i++)
		watcher_open(uri, &sessions[i], &lease);
	(void)printf("ready\n");
	(void)fflush(stdout);
	while (!stopped) {
		if (rmem_write_notify(lease, 0, NULL, 0, (uint32_t)done) == 0)
			done++;
		else
			refused++;
	}
	(void)printf("done %" PRIu64 " refused %" PRIu64 "\n", done, refused);
	for (unsigned long i = 0; i < n; i++)
		rmem_close(sessions[i]);
	free(sessions);
	return 0;
}
