/* SPDX-License-Identifier: BSD-3-Clause */
/* What clients of a cache did with keys and saw, and whether each key was linearizable (Gibbons
 * and Korach: a put and the gets that found its value are a cluster; no two clusters interleave).
 * A get may miss at any time. */
#ifndef TESTS_UNIT_CACHE_HISTORY_H
#define TESTS_UNIT_CACHE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HISTORY_NEVER UINT64_MAX

enum event_kind { EVENT_PUT, EVENT_GET, EVENT_DELETE };

struct event {
	enum event_kind kind;
	unsigned key;
	uint64_t value; /* of a put, or that a get found; 0: none */
	/* HISTORY_NEVER: it did not end, or what became of it is unknown */
	uint64_t start, end;
};

struct history {
	struct event *events;
	size_t n, room;
};

void history_free(struct history *history);
/* Add an event that begins now; returns its number. */
size_t history_add(struct history *history, struct event event);
/* NULL: every key is linearizable; else what is wrong. */
const char *history_check(const struct history *history);

#endif
