/* SPDX-License-Identifier: BSD-3-Clause */
/* Honest sessions beside strangers:
 *
 *   pings URI FILE
 *
 * Each of them pings every 100 ms, until SIGTERM, and leaves the round trips in FILE: pings.h.  A
 * session notices a ping that fails or takes longer than half the time after which the server
 * fences a silent session, and that it was lost.  Prints what was noticed, a line each; the exit
 * status is 1 if that is anything. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rmem/rmem.h>

#include "pings.h"

#define SESSIONS 20
#define PAUSE_NS 100000000L

static struct pings *pings;
static atomic_bool stop;
static atomic_uint noticed;

static bool notice(const char *what)
{
	noticed++;
	(void)printf("noticed: %s (%s)\n", what, rmem_error());
	(void)fflush(stdout);
	return false;
}

static bool ping(rmem *session)
{
	struct rmem_info info = rmem_info_init();
	/* not n++, whose value is wrong at times under the sanitizers of clang 14 */
	uint32_t at = atomic_fetch_add(&pings->n, 1);
	uint64_t ns = 0;

	if (rmem_ping(session, &ns) < 0)
		return notice("a ping failed");
	if (at < PINGS_MAX)
		pings->us[at] = (uint32_t)(ns / 1000) + 1;
	(void)rmem_info(session, &info);
	if (ns > (uint64_t)info.fence_ms * 1000000 / 2)
		return notice("a ping took too long");
	return !info.resumes || notice("the session was lost and resumed");
}

static void *session_run(void *session)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };

	while (!stop && ping(session))
		(void)nanosleep(&pause, NULL);
	return NULL;
}

static bool pings_map(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	if (fd < 0 || ftruncate(fd, sizeof(*pings)))
		return false;
	pings = mmap(NULL, sizeof(*pings), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);
	return pings != MAP_FAILED;
}

int main(int argc, char **argv)
{
	pthread_t threads[SESSIONS];
	rmem *sessions[SESSIONS];
	sigset_t signals;
	int signal;

	if (argc != 3 || !pings_map(argv[2]))
		return 2;
	(void)sigemptyset(&signals);
	(void)sigaddset(&signals, SIGTERM);
	(void)pthread_sigmask(SIG_BLOCK, &signals, NULL);
	for (unsigned i = 0; i < SESSIONS; i++)
		if (rmem_open(argv[1], NULL, &sessions[i]) < 0)
			return notice("it cannot open a session") ? 0 : 1;
	for (unsigned i = 0; i < SESSIONS; i++)
		if (pthread_create(&threads[i], NULL, session_run, sessions[i]))
			return 2;
	(void)printf("ready\n");
	(void)fflush(stdout);
	(void)sigwait(&signals, &signal);
	stop = true;
	for (unsigned i = 0; i < SESSIONS; i++) {
		(void)pthread_join(threads[i], NULL);
		(void)rmem_close(sessions[i]);
	}
	return noticed > 0;
}
