// SPDX-License-Identifier: BSD-3-Clause
#include "python/stat.h"

PyObject *stat_new(const struct module *module, const struct rmem_stat *stat)
{
	return PyObject_CallFunction(
		module->stat, "sKKKKII", stat->name, (unsigned long long)stat->id,
		(unsigned long long)stat->bytes, (unsigned long long)stat->age_ms,
		(unsigned long long)stat->ttl_ms, stat->sessions, stat->segments);
}
