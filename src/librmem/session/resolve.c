/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/resolve.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/thread.h"

/* Longer look-ups wait for name servers, without a lock. */
#define FORK_WAIT_MS 200u

/* The calls of getaddrinfo() with a name. */
struct running {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	unsigned n, forks; /* none begins while there are forks */
	uint64_t begun_ns; /* the last one */
};

#define RUNNING_INIT \
	{ .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

static struct running running = RUNNING_INIT;

/* A look-up by a thread of its own.  Whoever comes last frees it: the caller that waits, or the
 * thread, which nothing can stop. */
struct lookup {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, abandoned; /* under `lock` */
	struct wakeup wake;   /* closed: none */
	int code, saved_errno;
	struct addrinfo *list; /* if code is 0 */
	char port[8];
	char host[];
};

/* Returns a code of getaddrinfo(). */
static int lookup_try(const char *host, const char *port, int flags,
		      struct addrinfo **ret_list)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };

	return getaddrinfo(host, port, &hints, ret_list);
}

static int lookup_try_name(const struct lookup *lookup, int flags,
			   struct addrinfo **ret_list)
{
	int code;

	(void)pthread_mutex_lock(&running.lock);
	while (running.forks > 0)
		(void)pthread_cond_wait(&running.changed, &running.lock);
	running.n++;
	running.begun_ns = clock_now_ns();
	(void)pthread_mutex_unlock(&running.lock);
	code = lookup_try(lookup->host, lookup->port, flags, ret_list);
	(void)pthread_mutex_lock(&running.lock);
	running.n--;
	(void)pthread_cond_broadcast(&running.changed);
	(void)pthread_mutex_unlock(&running.lock);
	return code;
}

static void lookup_free(struct lookup *lookup)
{
	(void)pthread_cond_destroy(&lookup->changed);
	(void)pthread_mutex_destroy(&lookup->lock);
	free(lookup);
}

static void *lookup_run(void *arg)
{
	struct lookup *lookup = arg;
	struct addrinfo *list = NULL;
	int code = lookup_try_name(lookup, AI_ADDRCONFIG, &list);
	bool abandoned;

	/* last, loopback without other interfaces */
	if (code == EAI_NONAME || code == EAI_ADDRFAMILY)
		code = lookup_try_name(lookup, 0, &list);
	(void)pthread_mutex_lock(&lookup->lock);
	lookup->code = code;
	lookup->saved_errno = errno;
	lookup->list = list;
	lookup->done = true;
	abandoned = lookup->abandoned;
	if (!abandoned && lookup->wake.fd >= 0)
		(void)wakeup_set(&lookup->wake);
	(void)pthread_cond_signal(&lookup->changed);
	(void)pthread_mutex_unlock(&lookup->lock);
	if (!abandoned)
		return NULL;
	if (code == 0)
		freeaddrinfo(list);
	lookup_free(lookup);
	return NULL;
}

static struct lookup *lookup_new(const char *host, unsigned port,
				 const struct wakeup *wake)
{
	size_t bytes = strlen(host) + 1;
	struct lookup *lookup = calloc(1, sizeof(*lookup) + bytes);

	if (!lookup) {
		(void)err_set(-ENOMEM, "resolving %s: no memory", host);
		return NULL;
	}
	memcpy(lookup->host, host, bytes);
	(void)snprintf(lookup->port, sizeof(lookup->port), "%u", port);
	lookup->wake = *wake;
	(void)pthread_mutex_init(&lookup->lock, NULL);
	(void)pthread_cond_init(&lookup->changed, NULL);
	return lookup;
}

static int lookup_start(struct lookup *lookup)
{
	pthread_t thread;
	int err = thread_start("rmem-resolve", lookup_run, lookup, &thread);

	if (!err)
		(void)pthread_detach(thread);
	return err;
}

int lookup_begin(const char *host, unsigned port, const struct wakeup *wake,
		 struct lookup **ret_lookup)
{
	struct lookup *lookup = lookup_new(host, port, wake);
	int err;

	if (!lookup)
		return -ENOMEM;
	err = lookup_start(lookup);
	if (err) {
		lookup_free(lookup);
		return err;
	}
	*ret_lookup = lookup;
	return 0;
}

bool lookup_is_done(struct lookup *lookup)
{
	bool done;

	(void)pthread_mutex_lock(&lookup->lock);
	done = lookup->done;
	(void)pthread_mutex_unlock(&lookup->lock);
	return done;
}

static int lookup_error(const char *host, int code)
{
	int err = code == EAI_SYSTEM   ? -errno
		  : code == EAI_MEMORY ? -ENOMEM
				       : -EHOSTUNREACH;

	return err_set(err, "resolving %s: %s", host, gai_strerror(code));
}

/* Wait for the thread until end_ns.  False: it frees the look-up. */
static bool lookup_await(struct lookup *lookup, uint64_t end_ns)
{
	const struct timespec end = clock_monotonic_timespec(end_ns);
	int err = 0;
	bool done;

	(void)pthread_mutex_lock(&lookup->lock);
	while (!lookup->done && !err)
		err = pthread_cond_clockwait(&lookup->changed, &lookup->lock,
					     CLOCK_MONOTONIC, &end);
	done = lookup->done;
	lookup->abandoned = !done;
	(void)pthread_mutex_unlock(&lookup->lock);
	return done;
}

int lookup_end(struct lookup *lookup, struct addrinfo **ret_list)
{
	int err;

	errno = lookup->saved_errno;
	err = lookup->code ? lookup_error(lookup->host, lookup->code) : 0;
	if (!err)
		*ret_list = lookup->list;
	lookup_free(lookup);
	return err;
}

void lookup_abandon(struct lookup *lookup)
{
	struct addrinfo *list = NULL;

	/* until now: it is over if it is not abandoned */
	if (lookup && lookup_await(lookup, 0) && !lookup_end(lookup, &list))
		freeaddrinfo(list);
}

static int lookup_name(const char *host, unsigned port, uint64_t end_ns,
		       struct addrinfo **ret_list)
{
	const struct wakeup none = WAKEUP_CLOSED;
	struct lookup *lookup = lookup_new(host, port, &none);

	if (!lookup)
		return -ENOMEM;
	if (lookup_start(
		    lookup)) /* without a thread the time is that of the resolver */
		(void)lookup_run(lookup);
	if (!lookup_await(lookup, end_ns))
		return err_set(-ETIMEDOUT,
			       "resolving %s: the name servers do not answer", host);
	return lookup_end(lookup, ret_list);
}

bool resolve_is_address(const char *host)
{
	struct addrinfo *list;

	if (lookup_try(host, NULL, AI_NUMERICHOST, &list) != 0)
		return false;
	freeaddrinfo(list);
	return true;
}

int resolve_host(const char *host, unsigned port, uint64_t end_ns,
		 struct addrinfo **ret_list)
{
	char text[8];
	int code;

	(void)snprintf(text, sizeof(text), "%u", port);
	/* a numeric address needs no name server, and no look at this host's interfaces */
	code = lookup_try(host, text, AI_NUMERICHOST, ret_list);
	if (code == 0)
		return 0;
	if (code != EAI_NONAME && code != EAI_ADDRFAMILY)
		return lookup_error(host, code);
	/* names have no % */
	if (strchr(host, '%'))
		return err_set(-EHOSTUNREACH,
			       "resolving %s: this host has no interface '%s', or what "
			       "stands before it is no link-local address",
			       host, strchr(host, '%') + 1);
	return lookup_name(host, port, end_ns, ret_list);
}

/* ---- fork ---- */

void lookups_before_fork(void)
{
	struct timespec until;

	(void)pthread_mutex_lock(&running.lock);
	running.forks++;
	until = clock_monotonic_timespec(running.begun_ns + FORK_WAIT_MS * NS_PER_MS);
	while (running.n > 0 && pthread_cond_clockwait(&running.changed, &running.lock,
						       CLOCK_MONOTONIC, &until) == 0)
		;
}

void lookups_after_fork(void)
{
	running.forks--;
	(void)pthread_cond_broadcast(&running.changed);
	(void)pthread_mutex_unlock(&running.lock);
}

void lookups_reset(void)
{
	const struct running none = RUNNING_INIT;

	/* threads of the parent may wait for these objects: do not destroy them */
	running = none;
}
