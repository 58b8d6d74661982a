// SPDX-License-Identifier: BSD-3-Clause
#include "python/stat.h"

PyObject *stat_new(const struct module *module, const struct rmem_stat *stat)
{
	return PyObject_CallFunction(
		module->stat, "sKKKKII", stat->name, (unsigned long long)stat->id,
		(unsigned long long)stat->bytes, (unsigned long long)stat->age_ms,
		(unsigned long long)stat->ttl_ms, stat->sessions, stat->segments);
}

PyObject *stat_of_cache(const struct rmem_cache_stat *stat)
{
	const struct {
		const char *name;
		uint64_t value;
	} all[] = {
		{ "servers", stat->servers },
		{ "servers_open", stat->servers_open },
		{ "bytes", stat->bytes },
		{ "segment_bytes", stat->segment_bytes },
		{ "segments", stat->segments },
		{ "segments_free", stat->segments_free },
		{ "segments_open", stat->segments_open },
		{ "hits", stat->hits },
		{ "misses", stat->misses },
		{ "stored", stat->stored },
		{ "deleted", stat->deleted },
		{ "failed", stat->failed },
		{ "reads", stat->reads },
		{ "writes", stat->writes },
		{ "swaps", stat->swaps },
		{ "copies", stat->copies },
		{ "hints", stat->hints },
		{ "torn", stat->torn },
		{ "stale", stat->stale },
		{ "contended", stat->contended },
		{ "unknown", stat->unknown },
		{ "claims", stat->claims },
		{ "seals", stat->seals },
		{ "evictions", stat->evictions },
		{ "dropped", stat->dropped },
		{ "moved", stat->moved },
		{ "losses", stat->losses },
		{ "copied_bytes", stat->copied_bytes },
	};
	PyObject *dict = PyDict_New();

	for (size_t i = 0; dict && i < sizeof(all) / sizeof(all[0]); i++) {
		PyObject *value = PyLong_FromUnsignedLongLong(all[i].value);

		if (!value || PyDict_SetItemString(dict, all[i].name, value))
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}
