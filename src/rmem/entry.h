/* SPDX-License-Identifier: BSD-3-Clause */
/* How ls and stat show what is stored under a name.  Threads: [main]. */
#ifndef RMEM_ENTRY_H
#define RMEM_ENTRY_H

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include <rmem/rmem.h>

/* "12s", "5min", "3h", "2d": one number, in the largest unit. */
const char *entry_duration(uint64_t ms, char *buf, size_t buf_bytes);

/* As rmemctl --json shows a lease: ids are texts, and what is not limited is null.  NULL: no
 * memory. */
json_t *entry_json(const struct rmem_stat *stat);

/* Print the value with a line end, and release it; NULL: it could not be made.  -errno with
 * err_text(). */
int entry_json_print(json_t *value);

#endif
