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

/* A look-up by a thread of its own.  Whoever comes last frees it: the caller that waits, or the
 * thread, which nothing can stop. */
struct lookup {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	bool done, abandoned; /* under `lock` */
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
	int code = lookup_try(lookup->host, lookup->port, AI_ADDRCONFIG, &list);
	bool abandoned;

	/* last, loopback without other interfaces */
	if (code == EAI_NONAME || code == EAI_ADDRFAMILY)
		code = lookup_try(lookup->host, lookup->port, 0, &list);
	(void)pthread_mutex_lock(&lookup->lock);
	lookup->code = code;
	lookup->saved_errno = errno;
	lookup->list = list;
	lookup->done = true;
	abandoned = lookup->abandoned;
	(void)pthread_cond_signal(&lookup->changed);
	(void)pthread_mutex_unlock(&lookup->lock);
	if (!abandoned)
		return NULL;
	if (code == 0)
		freeaddrinfo(list);
	lookup_free(lookup);
	return NULL;
}

static struct lookup *lookup_new(const char *host, const char *port)
{
	size_t bytes = strlen(host) + 1;
	struct lookup *lookup = calloc(1, sizeof(*lookup) + bytes);

	if (!lookup)
		return NULL;
	memcpy(lookup->host, host, bytes);
	(void)snprintf(lookup->port, sizeof(lookup->port), "%s", port);
	(void)pthread_mutex_init(&lookup->lock, NULL);
	(void)pthread_cond_init(&lookup->changed, NULL);
	return lookup;
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

static int lookup_thread(const char *host, const char *port, uint64_t end_ns,
			 struct addrinfo **ret_list)
{
	struct lookup *lookup = lookup_new(host, port);
	pthread_t thread;
	int err;

	if (!lookup)
		return err_set(-ENOMEM, "resolving %s: no memory", host);
	err = thread_start("rmem-resolve", lookup_run, lookup, &thread);
	if (err) /* without a thread the time is that of the resolver */
		(void)lookup_run(lookup);
	else
		(void)pthread_detach(thread);
	if (!lookup_await(lookup, end_ns))
		return err_set(-ETIMEDOUT,
			       "resolving %s: the name servers do not answer", host);
	errno = lookup->saved_errno;
	err = lookup->code ? lookup_error(host, lookup->code) : 0;
	if (!err)
		*ret_list = lookup->list;
	lookup_free(lookup);
	return err;
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
	return lookup_thread(host, text, end_ns, ret_list);
}
