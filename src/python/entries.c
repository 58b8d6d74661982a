// SPDX-License-Identifier: BSD-3-Clause
#include "python/entries.h"

#include <errno.h>
#include <stdlib.h>

struct found {
	char key[RMEM_CACHE_KEY_MAX];
	uint8_t key_bytes;
	unsigned server;
	uint64_t bytes;
	uint64_t ttl_ms;
};

int entries_add(const struct rmem_cache_entry *entry, void *arg)
{
	struct entries *entries = arg;
	struct found *found;

	if (entries->n == entries->room) {
		size_t room = entries->room ? 2 * entries->room : 64;
		struct found *all = realloc(entries->all, room * sizeof(*all));

		if (!all)
			return -ENOMEM;
		entries->all = all;
		entries->room = room;
	}
	found = &entries->all[entries->n++];
	memcpy(found->key, entry->key, entry->key_bytes);
	found->key_bytes = (uint8_t)entry->key_bytes;
	found->server = entry->server;
	found->bytes = entry->bytes;
	found->ttl_ms = entry->ttl_ms;
	return 0;
}

PyObject *entries_list(const struct module *module, const struct entries *entries)
{
	PyObject *list = PyList_New((Py_ssize_t)entries->n);

	for (size_t i = 0; list && i < entries->n; i++) {
		const struct found *found = &entries->all[i];
		PyObject *entry = PyObject_CallFunction(
			module->cache_entry, "y#KKI", found->key,
			(Py_ssize_t)found->key_bytes, (unsigned long long)found->bytes,
			(unsigned long long)found->ttl_ms, found->server);

		if (!entry)
			Py_CLEAR(list);
		else
			(void)PyList_SetItem(list, (Py_ssize_t)i, entry);
	}
	return list;
}

void entries_free(struct entries *entries)
{
	free(entries->all);
}
