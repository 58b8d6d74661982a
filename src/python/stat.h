/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PYTHON_STAT_H
#define PYTHON_STAT_H

#include "python/module.h"

#include <rmem/cache.h>

/* A new rmem.Stat, or NULL with an exception set. */
PyObject *stat_new(const struct module *module, const struct rmem_stat *stat);
/* The numbers of a cache: a dict, or NULL with an exception set. */
PyObject *stat_of_cache(const struct rmem_cache_stat *stat);

#endif
