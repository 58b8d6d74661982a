/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "cache/parts.h"
#include "cache/spread.h"

/* a wait for one server does not see the news of a link */
#define WAIT_MAX_MS 100
/* a wait looks again, whatever the descriptors say */
#define IDLE_MAX_MS 1000

_Static_assert(FORMAT_VALUE_MAX == RMEM_CACHE_VALUE_MAX &&
		       FORMAT_KEY_MAX == RMEM_CACHE_KEY_MAX,
	       "limits of the format");

int cache_own(const rmem_cache *cache)
{
	if (cache->pid != getpid())
		return err_set(-ESTALE, "the parent process has opened the cache");
	return 0;
}

int cache_check(const struct rmem_cache_op *op)
{
	static const uint8_t zeros[sizeof(op->reserved)];

	if (op->opcode < RMEM_CACHE_GET || op->opcode > RMEM_CACHE_DELETE)
		return err_set(-EINVAL, "opcode %u is unknown", op->opcode);
	if (!op->key || op->key_bytes == 0)
		return err_set(-EINVAL, "a key has 1 to %d bytes", RMEM_CACHE_KEY_MAX);
	if (memcmp(op->reserved, zeros, sizeof(zeros)) != 0)
		return err_set(-EINVAL, "a reserved member is not 0");
	if (op->bytes && !op->value)
		return err_set(-EINVAL, "value is NULL, and bytes is not 0");
	if (op->opcode == RMEM_CACHE_PUT && op->bytes > RMEM_CACHE_VALUE_MAX)
		return err_set(-EINVAL, "a value has up to %d bytes",
			       RMEM_CACHE_VALUE_MAX);
	return 0;
}

struct request *cache_request(rmem_cache *cache, const struct rmem_cache_op *op)
{
	static char nothing;
	struct request *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	list_init(&r->link);
	r->opcode = (enum rmem_cache_opcode)op->opcode;
	r->key_bytes = op->key_bytes;
	memcpy(r->key, op->key, op->key_bytes);
	r->hash = format_hash(r->key, r->key_bytes, 0);
	r->cookie = op->cookie;
	r->expiry_ms = op->ttl_ms;
	if (r->opcode == RMEM_CACHE_GET || r->opcode == RMEM_CACHE_PUT) {
		r->value = op->value ? op->value : &nothing;
		r->bytes = op->bytes;
	}
	list_append(&cache->requests, &r->all);
	return r;
}

void cache_request_free(rmem_cache *cache, struct request *r)
{
	list_remove(&r->link);
	list_remove(&r->all);
	parts_forget(r);
	free(r);
	cache->outstanding--;
}

void cache_flush(rmem_cache *cache)
{
	for (unsigned i = 0; i < cache->n; i++)
		server_flush(&cache->servers[i]);
}

/* ---- sessions that come and go ---- */

static void server_take(rmem_cache *cache, unsigned i)
{
	struct server *server = &cache->servers[i];
	struct opened opened;
	struct epoll_event event = { .events = EPOLLIN };
	bool ended;

	if (!link_take(cache->links[i], &opened)) {
		(void)link_result(cache->links[i], &ended, server->reason,
				  sizeof(server->reason));
		return;
	}
	if (server_begin(server, &opened) ||
	    epoll_ctl(cache->epfd, EPOLL_CTL_ADD, rmem_queue_fd(opened.queue),
		      &event)) {
		server->up = false;
		link_reopen(cache->links[i]);
	}
}

static void server_lose(rmem_cache *cache, unsigned i)
{
	struct server *server = &cache->servers[i];

	(void)epoll_ctl(cache->epfd, EPOLL_CTL_DEL, rmem_queue_fd(server->io.queue),
			NULL);
	server_end(server,
		   server->io.text[0] ? server->io.text : "the server was lost");
	link_reopen(cache->links[i]);
}

static void news_take(rmem_cache *cache)
{
	uint64_t number;

	if (!atomic_exchange(&cache->news, false))
		return;
	(void)!read(cache->event_fd, &number, sizeof(number));
	for (unsigned i = 0; i < cache->n; i++) {
		if (cache->servers[i].up)
			cache->servers[i].clock_ms = link_clock_ms(cache->links[i]);
		else
			server_take(cache, i);
	}
}

void cache_run(rmem_cache *cache)
{
	news_take(cache);
	for (unsigned i = 0; i < cache->n; i++) {
		(void)server_poll(&cache->servers[i]);
		if (server_is_over(&cache->servers[i]))
			server_lose(cache, i);
	}
}

void cache_begin(rmem_cache *cache, struct request *r)
{
	unsigned i = spread_choose(cache->seeds, cache->n, r->key, r->key_bytes);

	cache->outstanding++;
	/* it may have come back, which a program that only submits would not see */
	if (!server_answers(&cache->servers[i]))
		cache_run(cache);
	server_request(&cache->servers[i], r);
}

/* ---- waiting ---- */

/* The only server that is waited for, or NULL. */
static struct server *server_alone(rmem_cache *cache)
{
	struct server *alone = NULL;

	for (unsigned i = 0; i < cache->n; i++) {
		if (server_is_quiet(&cache->servers[i]))
			continue;
		if (alone)
			return NULL;
		alone = &cache->servers[i];
	}
	return alone && alone->up ? alone : NULL;
}

int cache_arm(rmem_cache *cache)
{
	if (atomic_load(&cache->news))
		return 1;
	for (unsigned i = 0; i < cache->n; i++) {
		struct server *server = &cache->servers[i];
		int armed = server->up ? rmem_queue_arm(server->io.queue) : 0;

		if (armed)
			return armed < 0 ? err_set(armed, "%s", rmem_error()) : 1;
	}
	return 0;
}

void cache_sleep(rmem_cache *cache, int timeout_ms)
{
	struct server *alone = server_alone(cache);
	struct pollfd fd = { .fd = cache->epfd, .events = POLLIN };

	if (alone) {
		if (timeout_ms < 0 || timeout_ms > WAIT_MAX_MS)
			timeout_ms = WAIT_MAX_MS;
		(void)io_wait(&alone->io, timeout_ms);
		return;
	}
	if (timeout_ms < 0 || timeout_ms > IDLE_MAX_MS)
		timeout_ms = IDLE_MAX_MS;
	if (cache_arm(cache) == 0)
		(void)poll(&fd, 1, timeout_ms);
}
