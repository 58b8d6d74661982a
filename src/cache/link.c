/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/link.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"

#define CLAIM_MS 30000u
#define REST_EXTRA_MS 5000u
#define CLOCK_EVERY_MS 60000u
#define REOPEN_MAX_MS 30000u
#define OPEN_MIN_MS 1000u
#define QUEUE_DEPTH 1024u
#define QUEUE_CHANNELS 4u

struct link {
	struct link_params params;
	char *uri, name[RMEM_NAME_MAX + 1]; /* of the parameters */
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	bool ending, reopen;
	bool taken, ended; /* the last attempt */
	int err;
	char text[160];
	struct opened opened; /* of the thread, until link_take() */
	bool is_open;
	int64_t clock_ms;
	uint64_t copied_bytes; /* by sessions that were closed */
	struct backoff pause;  /* the thread's */
	struct memory memory;
};

/* ---- opening ---- */

/* The call of librmem failed: its text is the reason. */
static int failed(int err, const char *what)
{
	return err_set(err, "%s: %s", what, rmem_error());
}

static int lease_open(const struct link_params *params, struct opened *opened)
{
	struct rmem_alloc_params want = rmem_alloc_params_init();
	unsigned rights = RMEM_READ | RMEM_WRITE;
	struct geometry geometry;
	int err;

	if (opened->read_only)
		rights = RMEM_READ;
	err = rmem_attach(opened->session, params->name, rights, &opened->lease);
	if (err != -ENOENT)
		return err ? failed(err, params->name) : 0;
	if (!params->options.bytes || opened->read_only)
		return err_set(
			-ENOENT,
			"there is no cache of that name: its lease %s is missing",
			params->name);
	/* before there is a lease that no cache fits in */
	err = geometry_choose(params->options.bytes, params->options.segment_bytes,
			      params->options.flags & RMEM_CACHE_IMMUTABLE, 0,
			      &geometry);
	if (err)
		return err;
	want.bytes = params->options.bytes;
	want.name = params->name;
	want.flags = RMEM_ALLOC_ATTACH;
	err = rmem_alloc(opened->session, &want, &opened->lease);
	return err < 0 ? failed(err, params->name) : 0;
}

/* The winner of the swap decides what the cache is like. */
static int super_make(const struct link_params *params, struct opened *opened,
		      uint64_t *word)
{
	struct geometry geometry;
	uint64_t found;
	int err = geometry_choose(rmem_lease_bytes(opened->lease),
				  params->options.segment_bytes,
				  params->options.flags & RMEM_CACHE_IMMUTABLE,
				  (uint32_t)random_u64(), &geometry);

	if (err)
		return err;
	err = rmem_compare_swap(opened->lease, 0, 0, geometry_encode(&geometry),
				&found);
	if (err)
		return failed(err, "beginning the cache");
	*word = found ? found : geometry_encode(&geometry);
	return 0;
}

static int super_open(const struct link_params *params, struct opened *opened)
{
	bool immutable = params->options.flags & RMEM_CACHE_IMMUTABLE;
	unsigned char bytes[8];
	uint64_t word;
	int err;

	if (rmem_lease_bytes(opened->lease) < FORMAT_TABLE_AT)
		return err_set(-EPROTO, "the lease %s of %llu bytes is no cache",
			       params->name,
			       (unsigned long long)rmem_lease_bytes(opened->lease));
	err = rmem_read(opened->lease, 0, bytes, sizeof(bytes));
	if (err)
		return failed(err, "reading the cache's first word");
	word = word_read(bytes);
	if (word == 0 && opened->read_only)
		return err_set(-ENOENT,
			       "the cache has not begun: nobody has written to it");
	if (word == 0) {
		err = super_make(params, opened, &word);
		if (err)
			return err;
	}
	err = geometry_decode(word, rmem_lease_id(opened->lease),
			      rmem_lease_bytes(opened->lease), &opened->geometry);
	if (!err && opened->geometry.immutable != immutable)
		err = err_set(-ENOTSUP, "the cache is %simmutable: open it as such",
			      immutable ? "not " : "");
	return err;
}

static int client_open(struct opened *opened)
{
	uint64_t number;
	int err;

	if (opened->read_only)
		return 0;
	err = rmem_fetch_add(opened->lease, FORMAT_NEXT_CLIENT_AT, 1, &number);
	opened->client = number % FORMAT_CLIENTS;
	return err ? failed(err, "numbering the client") : 0;
}

/* Ask how old the lease is: a time that all clients have in common. */
static int clock_ask(const struct link_params *params, const struct opened *opened,
		     int64_t *ret_clock_ms)
{
	struct rmem_stat stat = rmem_stat_init();
	uint64_t before = clock_now_ms(), after;
	int err = rmem_stat(opened->session, params->name, &stat);

	if (err)
		return failed(err, params->name);
	if (stat.id != rmem_lease_id(opened->lease))
		return err_set(-ESTALE, "%s is another lease now", params->name);
	after = clock_now_ms();
	*ret_clock_ms = (int64_t)(stat.age_ms - (before + (after - before) / 2));
	return 0;
}

static int times_ask(struct opened *opened)
{
	struct rmem_info info = rmem_info_init();
	int err = rmem_info(opened->session, &info);

	if (err)
		return failed(err, "the session's times");
	opened->claim_ms =
		info.fence_ms > CLAIM_MS / 8 ? UINT64_C(8) * info.fence_ms : CLAIM_MS;
	/* no session of a writer is resumed */
	opened->rest_ms = (uint64_t)info.fence_ms + REST_EXTRA_MS;
	return 0;
}

static int queue_open(struct opened *opened)
{
	struct rmem_buffer_params memory = rmem_buffer_params_init();
	struct rmem_queue_params queue = rmem_queue_params_init();
	struct rmem_info info = rmem_info_init();
	int err = rmem_info(opened->session, &info);

	if (err)
		return failed(err, "the session's channels");
	memory.bytes = scratch_bytes(&opened->geometry);
	err = rmem_buffer_create(opened->session, &memory, &opened->buffer);
	if (err)
		return failed(err, "registering memory");
	opened->scratch = rmem_buffer_addr(opened->buffer);
	queue.depth = QUEUE_DEPTH;
	queue.channels = info.channels;
	/* over RDMA reads and atomics share what one channel may have outstanding */
	if (info.fabric == RMEM_FABRIC_RDMA && queue.channels == 1)
		queue.channels = QUEUE_CHANNELS;
	err = rmem_queue_create(opened->session, &queue, &opened->queue);
	return err ? failed(err, "making a queue") : 0;
}

static uint64_t session_copied_bytes(rmem *session)
{
	struct rmem_info info = rmem_info_init();

	(void)rmem_info(session, &info); /* it cannot fail */
	return info.copied_bytes;
}

static void session_close(struct opened *opened)
{
	if (opened->queue)
		rmem_queue_free(opened->queue);
	rmem_close(opened->session);
	*opened = (struct opened){ 0 };
}

static int session_open(const struct link_params *params, struct opened *opened)
{
	const struct rmem_options *given = params->options.session;
	struct rmem_options session = rmem_options_init();
	int err;

	if (given)
		memcpy(&session, given,
		       given->size < sizeof(session) ? given->size : sizeof(session));
	session.size = sizeof(session);
	session.flags |= RMEM_NO_RESUME;
	if (params->options.timeout_ms)
		session.timeout_ms = params->options.timeout_ms;
	err = rmem_open(params->uri, &session, &opened->session);

	if (err)
		return err_set(err, "%s", rmem_error());
	(void)rmem_thread_timeout(params->options.timeout_ms);
	opened->read_only = params->options.flags & RMEM_CACHE_READ_ONLY;
	err = lease_open(params, opened);
	if (!err)
		err = super_open(params, opened);
	if (!err)
		err = client_open(opened);
	if (!err)
		err = clock_ask(params, opened, &opened->clock_ms);
	if (!err)
		err = times_ask(opened);
	if (!err)
		err = queue_open(opened);
	if (err)
		session_close(opened);
	return err;
}

/* ---- the thread ---- */

static void link_notify(const struct link *link)
{
	uint64_t one = 1;

	atomic_store(link->params.news, true);
	/* full: it is readable already */
	(void)!write(link->params.event_fd, &one, sizeof(one));
}

/* Wait for a change, at most so long.  The lock is held. */
static void link_sleep(struct link *link, uint64_t ms)
{
	struct timespec until =
		clock_monotonic_timespec(clock_now_ns() + ms * NS_PER_MS);

	(void)pthread_cond_timedwait(&link->changed, &link->lock, &until);
}

/* Wait before the next attempt.  The lock is held. */
static void link_rest(struct link *link)
{
	uint64_t until = clock_now_ms() + backoff_next(&link->pause);

	while (!link->ending && clock_now_ms() < until)
		link_sleep(link, until - clock_now_ms());
}

/* Attempts until one succeeds or the link ends.  The lock is held, but not during an attempt. */
static void link_open(struct link *link)
{
	struct opened opened;
	int err;

	while (!link->ending) {
		opened = (struct opened){ 0 };
		(void)pthread_mutex_unlock(&link->lock);
		err = session_open(&link->params, &opened);
		if (!err)
			memory_begin(&link->memory, opened.session);
		(void)pthread_mutex_lock(&link->lock);
		link->ended = true;
		link->err = err;
		(void)snprintf(link->text, sizeof(link->text), "%s",
			       err ? err_text() : "");
		link->is_open = !err;
		link->opened = opened;
		link->clock_ms = opened.clock_ms;
		link_notify(link);
		if (!err)
			return;
		link_rest(link);
	}
}

/* While it is open: the clock, now and then.  The lock is held. */
static void link_keep(struct link *link)
{
	struct opened opened = link->opened;
	int64_t clock_ms;
	uint64_t next = clock_now_ms() + CLOCK_EVERY_MS;

	while (!link->ending && !link->reopen) {
		uint64_t now = clock_now_ms();

		if (now < next) {
			link_sleep(link, next - now);
			continue;
		}
		next = now + CLOCK_EVERY_MS;
		(void)pthread_mutex_unlock(&link->lock);
		if (clock_ask(&link->params, &opened, &clock_ms))
			clock_ms = INT64_MIN; /* as it was */
		(void)pthread_mutex_lock(&link->lock);
		if (clock_ms != INT64_MIN)
			link->clock_ms = clock_ms;
		link_notify(link);
	}
}

static void *link_run(void *arg)
{
	struct link *link = arg;
	struct opened opened;
	uint64_t open_ms;

	(void)pthread_mutex_lock(&link->lock);
	while (!link->ending) {
		link_open(link);
		if (!link->is_open)
			break;
		open_ms = clock_now_ms();
		link_keep(link);
		opened = link->opened;
		link->copied_bytes += session_copied_bytes(opened.session);
		link->is_open = link->reopen = link->taken = link->ended = false;
		(void)pthread_mutex_unlock(&link->lock);
		memory_end(&link->memory);
		session_close(&opened);
		(void)pthread_mutex_lock(&link->lock);
		/* lost at once: others may end the lease again and again */
		if (clock_now_ms() - open_ms < OPEN_MIN_MS)
			link_rest(link);
		else
			backoff_reset(&link->pause);
	}
	(void)pthread_mutex_unlock(&link->lock);
	return NULL;
}

static void link_release(struct link *link)
{
	(void)pthread_cond_destroy(&link->changed);
	(void)pthread_mutex_destroy(&link->lock);
	memory_free(&link->memory);
	free(link->uri);
	free(link);
}

int link_create(const struct link_params *params, struct link **ret_link)
{
	struct link *link = calloc(1, sizeof(*link));
	pthread_condattr_t attr;
	int err;

	if (!link)
		return err_errno(-ENOMEM, "a server of the cache");
	link->params = *params;
	link->pause = (struct backoff)BACKOFF_INIT(REOPEN_MAX_MS);
	link->uri = params->uri ? strdup(params->uri) : NULL;
	if (params->uri && !link->uri) {
		free(link);
		return err_errno(-ENOMEM, "a server of the cache");
	}
	link->params.uri = link->uri;
	(void)snprintf(link->name, sizeof(link->name), "%s", params->name);
	link->params.name = link->name;
	(void)pthread_mutex_init(&link->lock, NULL);
	memory_init(&link->memory);
	(void)pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&link->changed, &attr);
	(void)pthread_condattr_destroy(&attr);
	err = thread_start("rmem-cache", link_run, link, &link->thread);
	if (err) {
		link_release(link);
		return err;
	}
	*ret_link = link;
	return 0;
}

void link_end(struct link *link)
{
	(void)pthread_mutex_lock(&link->lock);
	link->ending = true;
	(void)pthread_cond_signal(&link->changed);
	(void)pthread_mutex_unlock(&link->lock);
}

void link_free(struct link *link)
{
	if (!link)
		return;
	link_end(link);
	(void)pthread_join(link->thread, NULL);
	link_release(link);
}

int link_result(struct link *link, bool *ret_ended, char *text, size_t bytes)
{
	int err;

	(void)pthread_mutex_lock(&link->lock);
	err = link->err;
	*ret_ended = link->ended;
	(void)snprintf(text, bytes, "%s", link->text);
	(void)pthread_mutex_unlock(&link->lock);
	return err;
}

bool link_take(struct link *link, struct opened *ret_opened)
{
	bool taken;

	(void)pthread_mutex_lock(&link->lock);
	taken = link->is_open && !link->taken && !link->reopen;
	if (taken) {
		*ret_opened = link->opened;
		link->taken = true;
	}
	(void)pthread_mutex_unlock(&link->lock);
	return taken;
}

void link_reopen(struct link *link)
{
	(void)pthread_mutex_lock(&link->lock);
	link->reopen = true;
	(void)pthread_cond_signal(&link->changed);
	(void)pthread_mutex_unlock(&link->lock);
}

int64_t link_clock_ms(struct link *link)
{
	int64_t clock_ms;

	(void)pthread_mutex_lock(&link->lock);
	clock_ms = link->clock_ms;
	(void)pthread_mutex_unlock(&link->lock);
	return clock_ms;
}

struct memory *link_memory(struct link *link)
{
	return &link->memory;
}

uint64_t link_copied_bytes(struct link *link)
{
	uint64_t bytes;

	(void)pthread_mutex_lock(&link->lock);
	bytes = link->copied_bytes;
	if (link->is_open)
		bytes += session_copied_bytes(link->opened.session);
	(void)pthread_mutex_unlock(&link->lock);
	return bytes;
}
