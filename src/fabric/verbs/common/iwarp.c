/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/iwarp.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define DEVICES_MAX 8

/* At 32 bytes each more than 0x90000; the kernel makes it a power of two. */
#define COVER_ENTRIES 20000

struct reservation {
	const struct ibv_context *verbs; /* NULL: free */
	struct ibv_cq *cq;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct reservation reservations[DEVICES_MAX]; /* [lock] */

/* The reservation on that context (NULL: a free one); NULL: none. */
static struct reservation *reservation_find(const struct ibv_context *verbs)
{
	for (unsigned i = 0; i < DEVICES_MAX; i++)
		if (reservations[i].verbs == verbs)
			return &reservations[i];
	return NULL;
}

void verbs_siw_reserve(struct ibv_context *verbs, uint32_t vendor)
{
	struct reservation *reservation;

	if (vendor != VERBS_SIW_VENDOR)
		return;
	(void)pthread_mutex_lock(&lock);
	reservation = reservation_find(verbs) ? NULL : reservation_find(NULL);
	if (reservation) {
		/* without it the first 140 pages of queues can still be created */
		reservation->cq = ibv_create_cq(verbs, COVER_ENTRIES, NULL, NULL, 0);
		reservation->verbs = reservation->cq ? verbs : NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}

void verbs_siw_unreserve(const struct ibv_context *verbs)
{
	struct reservation *reservation;

	(void)pthread_mutex_lock(&lock);
	reservation = reservation_find(verbs);
	if (reservation) {
		(void)ibv_destroy_cq(reservation->cq);
		reservation->verbs = NULL;
	}
	(void)pthread_mutex_unlock(&lock);
}

/* ---- SIGPIPE ---- */

static sigset_t sigpipe_set(void)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGPIPE);
	return set;
}

bool verbs_sigpipe_ignored(void)
{
	struct sigaction action;

	return !sigaction(SIGPIPE, NULL, &action) && action.sa_handler == SIG_IGN;
}

void verbs_sigpipe_begin(struct verbs_sigpipe *sigpipe, bool guard)
{
	const sigset_t set = sigpipe_set();
	sigset_t before, pending;

	sigpipe->guarded = guard;
	if (!guard)
		return;
	(void)pthread_sigmask(SIG_BLOCK, &set, &before);
	sigpipe->blocked = sigismember(&before, SIGPIPE) == 1;
	/* a signal that is not blocked does not wait */
	sigpipe->pending = sigpipe->blocked && !sigpending(&pending) &&
			   sigismember(&pending, SIGPIPE) == 1;
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
