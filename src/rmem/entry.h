/* SPDX-License-Identifier: BSD-3-Clause */
/* How commands find and show what is stored under names.  Threads: [main]. */
#ifndef RMEM_ENTRY_H
#define RMEM_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <rmem/rmem.h>

/* What is stored under several names. */
struct entries {
	const char *pattern; /* as fnmatch(3), that the names match; NULL: any */
	struct rmem_stat *stats;
	size_t n, room;
};

/* Collect what is stored under names that begin with `prefix`, NULL: any.  Begin with zeros and a
 * pattern, and free stats afterwards, also after an error.  -errno with err_text(). */
int entries_list(rmem *session, const char *prefix, struct entries *entries);

/* "12s", "5min", "3h", "2d": one number, in the largest unit. */
const char *entry_duration(uint64_t ms, char *buf, size_t buf_bytes);

/* As rmemctl --json shows a lease: ids are texts, and what is not limited is null.  NULL: no
 * memory. */
json_t *entry_json(const struct rmem_stat *stat);

/* Print the value with a line end, and release it; NULL: it could not be made.  -errno with
 * err_text(). */
int json_print(json_t *value);

#endif
