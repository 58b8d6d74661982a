/* SPDX-License-Identifier: BSD-3-Clause */
/* How commands find what is stored under names, and print JSON.  Threads: [main]. */
#ifndef RMEM_ENTRY_H
#define RMEM_ENTRY_H

#include <stddef.h>

#include <jansson.h>

#include <rmem/rmem.h>

/* What is stored under several names. */
struct entries {
	const char *pattern; /* as fnmatch(3), that the names match; NULL: any */
	struct rmem_stat *stats;
	size_t n, room;
	int err; /* of collecting them; 0: none */
};

/* Collect what is stored under names that begin with `prefix`, NULL: any.  Begin with zeros and a
 * pattern, and free stats afterwards, also after an error.  -errno with err_text(). */
int entries_list(rmem *session, const char *prefix, struct entries *entries);

/* Print the value with a line end, and release it; NULL: it could not be made.  -errno with
 * err_text(). */
int json_print(json_t *value);

#endif
