/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening and closing a cache. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own_fd.h"
#include "base/utf8.h"
#include "cache/client.h"
#include "cache/spread.h"

#define DEPTH 4096u
#define PLACES 65536u
#define TIMEOUT_MS 10000u
#define CLOSE_MS 1000u
#define LEASE_PREFIX "cache/"

static int options_check(const struct rmem_cache_options *options)
{
	unsigned known = RMEM_CACHE_IMMUTABLE | RMEM_CACHE_READ_ONLY;

	if (options->size < offsetof(struct rmem_cache_options, session))
		return err_set(-EINVAL, "options: size is not set");
	if (options->flags & ~known)
		return err_set(-EINVAL, "options: flags has unknown ones");
	if (options->depth > RMEM_CACHE_DEPTH_MAX)
		return err_set(-EINVAL, "options: depth is at most %d",
			       RMEM_CACHE_DEPTH_MAX);
	if (options->segment_bytes &&
	    (options->segment_bytes & (options->segment_bytes - 1) ||
	     options->segment_bytes < 4096 ||
	     options->segment_bytes > UINT64_C(64) << 20))
		return err_set(
			-EINVAL,
			"options: segment_bytes is a power of two of 4096 to 67108864");
	if (options->session && options->session->flags & RMEM_NO_THREAD)
		return err_set(-EINVAL,
			       "options: sessions of a cache have their threads");
	return 0;
}

/* What the program gave, and the defaults. */
static int options_take(const struct rmem_cache_options *given,
			struct rmem_cache_options *ret_options)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	const char *more = (const char *)given;
	int err;

	if (given) {
		if (given->size == 0)
			return err_set(-EINVAL, "options: size is not set");
		for (size_t i = sizeof(options); i < given->size; i++)
			if (more[i])
				return err_set(-EINVAL,
					       "options: a member is not known");
		memcpy(&options, given,
		       given->size < sizeof(options) ? given->size : sizeof(options));
	}
	err = options_check(&options);
	if (err)
		return err;
	options.depth = options.depth ? options.depth : DEPTH;
	options.places = options.places ? options.places : PLACES;
	*ret_options = options;
	return 0;
}

static int arguments_check(const char *const *servers, unsigned n, const char *name,
			   rmem_cache **ret_cache)
{
	if (!ret_cache)
		return err_set(-EINVAL, "ret_cache is NULL");
	if (n > RMEM_CACHE_SERVERS_MAX || (n && !servers))
		return err_set(-EINVAL, "servers are up to %d URIs",
			       RMEM_CACHE_SERVERS_MAX);
	for (unsigned i = 0; i < n; i++)
		if (!servers[i])
			return err_set(-EINVAL, "server %u is NULL", i);
	if (!name || !name[0] || strlen(name) > RMEM_CACHE_NAME_MAX)
		return err_set(-EINVAL, "name has 1 to %d bytes", RMEM_CACHE_NAME_MAX);
	return 0;
}

/* ---- the descriptors ---- */

static int fds_open(rmem_cache *cache)
{
	struct epoll_event event = { .events = EPOLLIN };

	cache->event_fd = own_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	cache->epfd = own_fd(epoll_create1(EPOLL_CLOEXEC));
	if (cache->event_fd < 0 || cache->epfd < 0 ||
	    epoll_ctl(cache->epfd, EPOLL_CTL_ADD, cache->event_fd, &event))
		return err_errno(-errno, "the descriptor of the cache");
	return 0;
}

static void cache_free(rmem_cache *cache)
{
	/* together, as each may wait for its server */
	for (unsigned i = 0; i < cache->n; i++)
		link_end(cache->links[i]);
	for (unsigned i = 0; i < cache->n; i++)
		link_free(cache->links[i]);
	list_for_each_entry_safe(struct request, request, &cache->requests, all)
		cache_request_free(cache, request);
	for (unsigned i = 0; i < cache->n && cache->servers; i++)
		server_free(&cache->servers[i]);
	if (cache->epfd >= 0)
		(void)close(cache->epfd);
	if (cache->event_fd >= 0)
		(void)close(cache->event_fd);
	free(cache->servers);
	free(cache->links);
	free(cache->seeds);
	error_texts_free(&cache->errors);
	free(cache);
}

static rmem_cache *cache_alloc(unsigned n, unsigned depth)
{
	rmem_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return NULL;
	cache->pid = getpid();
	cache->depth = depth;
	cache->epfd = cache->event_fd = -1;
	list_init(&cache->requests);
	cache->servers = calloc(n, sizeof(*cache->servers));
	cache->links = calloc(n, sizeof(struct link *));
	cache->seeds = calloc(n, sizeof(*cache->seeds));
	if (cache->servers && cache->links && cache->seeds &&
	    !error_texts_init(&cache->errors, ERROR_TEXTS_MAX))
		return cache;
	cache_free(cache);
	return NULL;
}

/* ---- opening ---- */

/* Add a server, which begins to open. */
static int server_add(rmem_cache *cache, const char *uri, const char *lease,
		      const struct rmem_cache_options *options)
{
	struct link_params params = {
		.uri = uri,
		.name = lease,
		.options = *options,
		.news = &cache->news,
		.event_fd = cache->event_fd,
	};
	const char *known = uri ? uri : secure_getenv("RMEM_SERVER");
	uint64_t seed = spread_seed(known ? known : "");
	int err;

	for (unsigned i = 0; i < cache->n; i++)
		if (cache->seeds[i] == seed)
			return err_set(-EINVAL, "server %u is server %u again: %s",
				       cache->n, i, known);
	if (server_init(&cache->servers[cache->n], options->places))
		return err_errno(-ENOMEM, "a server of the cache");
	cache->seeds[cache->n] = seed;
	err = link_create(&params, &cache->links[cache->n]);
	if (err) {
		server_free(&cache->servers[cache->n]);
		return err;
	}
	cache->n++;
	return 0;
}

/* Whether all attempts have ended; *ret_open: one succeeded; *ret_err: of one that did not. */
static bool links_ended(rmem_cache *cache, bool *ret_open, int *ret_err, char *text,
			size_t bytes)
{
	bool all = true;

	*ret_open = false;
	for (unsigned i = 0; i < cache->n; i++) {
		char why[160];
		bool ended;
		int err = link_result(cache->links[i], &ended, why, sizeof(why));

		all &= ended;
		*ret_open |= ended && !err;
		if (ended && err) {
			*ret_err = err;
			(void)snprintf(text, bytes, "%s", why);
		}
	}
	return all;
}

/* Wait until each server is open or has failed. */
static int links_wait(rmem_cache *cache, uint64_t timeout_ms)
{
	struct pollfd fd = { .fd = cache->event_fd, .events = POLLIN };
	uint64_t end_ms = clock_now_ms() + timeout_ms, now_ms;
	char text[160] = "no server has answered in time";
	int err = -ETIMEDOUT;
	bool open;

	while (!links_ended(cache, &open, &err, text, sizeof(text))) {
		now_ms = clock_now_ms();
		if (now_ms >= end_ms)
			break;
		cache_run(cache);
		(void)poll(&fd, 1,
			   (int)(end_ms - now_ms < 1000 ? end_ms - now_ms : 1000));
	}
	cache_run(cache);
	return open ? 0 : err_set(err, "%s", text);
}

int rmem_cache_open(const char *const *servers, unsigned n, const char *name,
		    const struct rmem_cache_options *options, rmem_cache **ret_cache)
{
	struct rmem_cache_options chosen;
	char lease[RMEM_NAME_MAX + 1];
	rmem_cache *cache;
	int err = arguments_check(servers, n, name, ret_cache);

	if (!err)
		err = options_take(options, &chosen);
	if (err)
		return err_end(err);
	(void)snprintf(lease, sizeof(lease), "%s%s", LEASE_PREFIX, name);
	cache = cache_alloc(n ? n : 1, chosen.depth);
	if (!cache)
		return err_errno(-ENOMEM, "a cache");
	err = fds_open(cache);
	for (unsigned i = 0; !err && i < (n ? n : 1); i++)
		err = server_add(cache, n ? servers[i] : NULL, lease, &chosen);
	if (!err)
		err = links_wait(cache,
				 UINT64_C(2) * (chosen.timeout_ms ? chosen.timeout_ms
								  : TIMEOUT_MS));
	if (err) {
		struct err_saved saved;

		err_save(&saved, err);
		cache_free(cache);
		return err_restore(&saved);
	}
	*ret_cache = cache;
	return err_end(0);
}

/* ---- closing ---- */

static bool cache_is_quiet(const rmem_cache *cache)
{
	for (unsigned i = 0; i < cache->n; i++)
		if (cache->servers[i].up && !server_is_quiet(&cache->servers[i]))
			return false;
	return true;
}

void rmem_cache_close(rmem_cache *cache)
{
	uint64_t end_ms;

	if (!cache)
		return;
	if (cache->pid != getpid())
		return; /* threads and sessions are the parent's */
	for (unsigned i = 0; i < cache->n; i++)
		if (cache->servers[i].up)
			server_leave(&cache->servers[i]);
	end_ms = clock_now_ms() + CLOSE_MS;
	while (!cache_is_quiet(cache) && clock_now_ms() < end_ms) {
		cache_run(cache);
		if (!cache_is_quiet(cache))
			cache_sleep(cache, (int)CLOSE_MS / 10);
	}
	cache_free(cache);
}
