/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads of one session that make the same call at the same time:
 *
 *   callers URI TIMEOUT N alloc | attach
 *
 * Each allocates a lease, or attaches the one named x, within TIMEOUT ms.  It prints how many were
 * done, and how many had no answer in time, and ends with its standard input. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "../integration/program.h"

static rmem *session;
static unsigned timeout_ms;
static bool attaches;
static atomic_uint n_done, n_late;

static void *run(void *arg)
{
	const struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;
	int err;

	(void)rmem_thread_timeout(timeout_ms);
	err = attaches ? rmem_attach(session, "x", RMEM_READ, &lease)
		       : rmem_alloc(session, &params, &lease);
	if (err != -ETIMEDOUT)
		must(err, "the call");
	atomic_fetch_add(err ? &n_late : &n_done, 1);
	return arg;
}

int main(int argc, char **argv)
{
	pthread_t *threads;
	unsigned n;

	if (argc != 5)
		return 2;
	timeout_ms = (unsigned)strtoul(argv[2], NULL, 10);
	n = (unsigned)strtoul(argv[3], NULL, 10);
	attaches = strcmp(argv[4], "attach") == 0;
	threads = calloc(n, sizeof(*threads));
	must(rmem_open(argv[1], NULL, &session), "rmem_open");
	for (unsigned i = 0; i < n; i++)
		must(threads ? -pthread_create(&threads[i], NULL, run, NULL) : -ENOMEM,
		     "a thread");
	for (unsigned i = 0; i < n; i++)
		must(-pthread_join(threads[i], NULL), "a thread");
	(void)printf("%u done, %u late\n", n_done, n_late);
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	rmem_close(session);
	free(threads);
	return 0;
}
