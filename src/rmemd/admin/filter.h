/* SPDX-License-Identifier: BSD-3-Clause */
/* Which items of a list are sent, from the query of a request: ?tenant=a&name=b*&older_ms=1000
 * Threads: [loop]. */
#ifndef RMEMD_ADMIN_FILTER_H
#define RMEMD_ADMIN_FILTER_H

#include <stdbool.h>
#include <stdint.h>

/* The parameters that a list may have, a bit each. */
#define FILTER_TENANT 1u
#define FILTER_NAME 2u
#define FILTER_SESSION 4u
#define FILTER_OLDER 8u
#define FILTER_ATTACHED 16u
#define FILTER_AFTER 32u
#define FILTER_FOLLOW 64u

#define FILTER_TEXT_MAX 255

struct filter {
	char tenant[FILTER_TEXT_MAX + 1]; /* "": any */
	char name[FILTER_TEXT_MAX + 1];   /* a pattern of glob_match(); "": any */
	uint64_t session;                 /* 0: any */
	uint64_t older_ms;                /* the age of an item, at least */
	bool no_attached;                 /* leave out the sessions of a lease */
	uint64_t after;                   /* only events with a higher number */
	bool follow;                      /* events that are yet to come, too */
};

/* Parse a query, which may be NULL.  -EINVAL with text: malformed, or a parameter that is not
 * `allowed`; -ENOMEM */
int filter_parse(const char *query, unsigned allowed, struct filter *ret_filter);

/* Each is true if the filter does not ask for it. */
bool filter_tenant(const struct filter *filter, const char *tenant);
bool filter_name(const struct filter *filter, const char *name);
bool filter_older(const struct filter *filter, uint64_t age_ms);

#endif
