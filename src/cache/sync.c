/* SPDX-License-Identifier: BSD-3-Clause */
/* One key, and wait. */
#include <errno.h>
#include <unistd.h>

#include "base/err.h"
#include "cache/client.h"

/* Do it.  Returns the outcome, or -errno with text; *ret_bytes is the length of the value. */
static int key_do(rmem_cache *cache, struct rmem_cache_op *op, const void *key,
		  size_t key_bytes, uint64_t *ret_bytes)
{
	struct request *r;
	int result;

	if (key_bytes > RMEM_CACHE_KEY_MAX)
		return err_set(-EINVAL, "a key has 1 to %d bytes", RMEM_CACHE_KEY_MAX);
	op->key = key;
	op->key_bytes = (uint8_t)key_bytes;
	result = cache_own(cache);
	if (!result)
		result = cache_check(op);
	if (result)
		return result;
	r = cache_request(cache, op);
	if (!r)
		return err_errno(-ENOMEM, "an operation");
	cache_begin(cache, r);
	cache_flush(cache);
	while (!r->outcome) {
		cache_sleep(cache, -1);
		cache_run(cache);
	}
	if (ret_bytes && (r->outcome == RMEM_CACHE_HIT || r->status == -EMSGSIZE))
		*ret_bytes = r->result_bytes;
	result = r->outcome == RMEM_CACHE_FAILED ? err_set(r->status, "%s", r->text)
						 : (int)r->outcome;
	cache_request_free(cache, r);
	return err_end(result);
}

int rmem_cache_get(rmem_cache *cache, const void *key, size_t key_bytes, void *value,
		   uint64_t bytes, uint64_t *ret_bytes)
{
	struct rmem_cache_op op = { .opcode = RMEM_CACHE_GET,
				    .value = value,
				    .bytes = bytes };
	int result = key_do(cache, &op, key, key_bytes, ret_bytes);

	return result < 0 ? result : result == RMEM_CACHE_HIT;
}

int rmem_cache_put(rmem_cache *cache, const void *key, size_t key_bytes,
		   const void *value, uint64_t bytes, uint64_t ttl_ms)
{
	struct rmem_cache_op op = {
		.opcode = RMEM_CACHE_PUT,
		.value = (void *)(uintptr_t)value, /* is only read */
		.bytes = bytes,
		.ttl_ms = ttl_ms,
	};
	int result = key_do(cache, &op, key, key_bytes, NULL);

	return result < 0 ? result : 0;
}

int rmem_cache_exists(rmem_cache *cache, const void *key, size_t key_bytes,
		      uint64_t *ret_bytes)
{
	struct rmem_cache_op op = { .opcode = RMEM_CACHE_EXISTS };
	int result = key_do(cache, &op, key, key_bytes, ret_bytes);

	return result < 0 ? result : result == RMEM_CACHE_HIT;
}

int rmem_cache_delete(rmem_cache *cache, const void *key, size_t key_bytes)
{
	struct rmem_cache_op op = { .opcode = RMEM_CACHE_DELETE };
	int result = key_do(cache, &op, key, key_bytes, NULL);

	return result < 0 ? result : result == RMEM_CACHE_DELETED;
}
