/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the program that values are moved from and to in place. */
#include <errno.h>

#include "base/err.h"
#include "cache/client.h"

static int arguments_check(const rmem_cache *cache, const void *addr, uint64_t bytes)
{
	int err = cache_own(cache);

	if (err)
		return err;
	if (!addr || bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)addr)
		return err_set(-EINVAL, "addr and bytes are no memory");
	return 0;
}

/* Whether an operation that is outstanding has its value in the memory. */
static bool is_used(const rmem_cache *cache, const void *addr, uint64_t bytes)
{
	uintptr_t begin = (uintptr_t)addr;

	list_for_each_entry(struct request, r, &cache->requests, all) {
		uintptr_t value = (uintptr_t)r->value;

		if (value && value < begin + bytes && begin < value + r->bytes)
			return true;
	}
	return false;
}

int rmem_cache_register(rmem_cache *cache, void *addr, uint64_t bytes)
{
	int err = arguments_check(cache, addr, bytes);

	for (unsigned i = 0; !err && i < cache->n; i++) {
		struct err_saved saved;

		err = memory_add(link_memory(cache->links[i]), addr, bytes);
		if (!err)
			continue;
		err_save(&saved, err);
		while (i-- > 0)
			(void)memory_remove(link_memory(cache->links[i]), addr, bytes);
		return err_restore(&saved);
	}
	return err_end(err);
}

int rmem_cache_unregister(rmem_cache *cache, void *addr, uint64_t bytes)
{
	int err = arguments_check(cache, addr, bytes);

	if (!err && is_used(cache, addr, bytes))
		err = err_set(-EBUSY, "operations on the memory are outstanding");
	for (unsigned i = 0; !err && i < cache->n; i++)
		err = memory_remove(link_memory(cache->links[i]), addr, bytes);
	return err_end(err);
}
