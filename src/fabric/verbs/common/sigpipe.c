/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/sigpipe.h"

#include <pthread.h>
#include <time.h>

static sigset_t sigpipe_set(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	return set;
}

static bool sigpipe_pending(void)
{
	sigset_t pending;

	return !sigpending(&pending) && sigismember(&pending, SIGPIPE) == 1;
}

bool verbs_sigpipe_ignored(void)
{
	struct sigaction action;

	return !sigaction(SIGPIPE, NULL, &action) && action.sa_handler == SIG_IGN;
}

void verbs_sigpipe_begin(struct verbs_sigpipe *sigpipe, bool guard)
{
	const sigset_t set = sigpipe_set();
	sigset_t before;

	sigpipe->guarded = guard;
	if (!guard)
		return;
	(void)pthread_sigmask(SIG_BLOCK, &set, &before);
	sigpipe->blocked = sigismember(&before, SIGPIPE) == 1;
	/* one that is not held off does not wait */
	sigpipe->pending = sigpipe->blocked && sigpipe_pending();
}

void verbs_sigpipe_end(const struct verbs_sigpipe *sigpipe)
{
	const sigset_t set = sigpipe_set();
	const struct timespec now = { 0 };

	if (!sigpipe->guarded)
		return;
	if (!sigpipe->pending)
		(void)sigtimedwait(&set, NULL, &now);
	if (!sigpipe->blocked)
		(void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}
