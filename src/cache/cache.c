/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations and results. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "cache/client.h"

const char *rmem_cache_error(void)
{
	return err_text();
}

int rmem_cache_submit(rmem_cache *cache, const struct rmem_cache_op *ops, unsigned n)
{
	unsigned done = 0;
	int err = cache_own(cache);

	for (; done < n && !err; done++) {
		struct request *request = NULL;

		err = cache_check(&ops[done]);
		if (!err && cache->outstanding >= cache->depth)
			err = err_set(-EOVERFLOW,
				      "%u operations are outstanding: take results",
				      cache->depth);
		if (!err)
			request = cache_request(cache, &ops[done]);
		if (!err && !request)
			err = err_errno(-ENOMEM, "an operation");
		if (err)
			break;
		cache_begin(cache, request);
	}
	if (done)
		cache_flush(cache);
	return err_end(done ? (int)done : err);
}

/* ---- results ---- */

static struct rmem_cache_result result_of(rmem_cache *cache, const struct request *r)
{
	struct rmem_cache_result result = {
		.cookie = r->cookie,
		.status = r->status,
		.outcome = (uint16_t)r->outcome,
		.opcode = (uint16_t)r->opcode,
	};

	if (r->outcome == RMEM_CACHE_HIT || r->status == -EMSGSIZE)
		result.bytes = r->result_bytes;
	if (r->status)
		memcpy(error_texts_next(&cache->errors, &result.error), r->text,
		       sizeof(r->text));
	return result;
}

/* Take what has ended, of the servers in turn. */
static unsigned results_take(rmem_cache *cache, struct rmem_cache_result *results,
			     unsigned n)
{
	unsigned done = 0;

	for (unsigned i = 0; i < cache->n && done < n; i++) {
		struct list *finished =
			&cache->servers[(cache->turn + i) % cache->n].finished;

		while (done < n && !list_empty(finished)) {
			struct request *r = list_first(finished, struct request, link);

			results[done++] = result_of(cache, r);
			cache_request_free(cache, r);
		}
	}
	cache->turn++;
	return done;
}

int rmem_cache_poll(rmem_cache *cache, struct rmem_cache_result *results, unsigned n)
{
	int err = cache_own(cache);

	if (err)
		return err;
	cache_run(cache);
	return err_end((int)results_take(cache, results, n));
}

int rmem_cache_wait(rmem_cache *cache, struct rmem_cache_result *results, unsigned n,
		    unsigned min, int timeout_ms)
{
	uint64_t end_ms = clock_now_ms() + (unsigned)timeout_ms;
	int done = rmem_cache_poll(cache, results, n), left = timeout_ms;

	if (done < 0)
		return done;
	min = min < n ? min : n;
	while ((unsigned)done < min && cache->outstanding) {
		uint64_t now_ms = clock_now_ms();

		if (timeout_ms >= 0) {
			if (now_ms >= end_ms)
				break;
			left = (int)(end_ms - now_ms);
		}
		cache_sleep(cache, left);
		done += rmem_cache_poll(cache, results + done, n - (unsigned)done);
	}
	return err_end(done);
}

const char *rmem_cache_result_error(const rmem_cache *cache,
				    const struct rmem_cache_result *result)
{
	const char *text = error_texts_find(&cache->errors, result->error);

	if (text)
		return text;
	text = result->error ? strerrordesc_np(-result->status) : NULL;
	return text ? text : "";
}

unsigned rmem_cache_outstanding(const rmem_cache *cache)
{
	return cache->outstanding;
}

int rmem_cache_fd(const rmem_cache *cache)
{
	int err = cache_own(cache);

	return err ? err : err_end(cache->epfd);
}

int rmem_cache_arm(rmem_cache *cache)
{
	int err = cache_own(cache);

	if (err)
		return err;
	for (unsigned i = 0; i < cache->n; i++)
		if (!list_empty(&cache->servers[i].finished))
			return err_end(1);
	return err_end(cache_arm(cache));
}
