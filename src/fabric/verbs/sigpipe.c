/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/sigpipe.h"

#include <pthread.h>
#include <time.h>

static bool sigpipe_pending(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGPIPE) == 1;
}

void verbs_sigpipe_begin(struct verbs_sigpipe *sigpipe, bool guard)
{
	sigset_t set;

	sigpipe->guarded = guard;
	if (!guard)
		return;
	sigpipe->pending = sigpipe_pending();
	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	(void)pthread_sigmask(SIG_BLOCK, &set, &sigpipe->mask);
}

void verbs_sigpipe_end(const struct verbs_sigpipe *sigpipe)
{
	const struct timespec now = { 0 };
	sigset_t set;

	if (!sigpipe->guarded)
		return;
	if (!sigpipe->pending && sigpipe_pending()) {
		(void)sigemptyset(&set);
		(void)sigaddset(&set, SIGPIPE);
		(void)sigtimedwait(&set, NULL, &now);
	}
	(void)pthread_sigmask(SIG_SETMASK, &sigpipe->mask, NULL);
}
