/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/spread.h"

#include <stdio.h>
#include <string.h>

#include "cache/format.h"

#define SCHEME "rmem://"
#define PORT ":7460"

/* Whether the bytes HOST[:PORT] have a port; an address of IPv6 is in brackets. */
static int has_port(const char *host, size_t bytes)
{
	const char *end = memrchr(host, ']', bytes);
	size_t before = end ? (size_t)(end - host) : 0;

	return memchr(host + before, ':', bytes - before) != NULL;
}

uint64_t spread_seed(const char *uri)
{
	char name[512];
	size_t bytes;

	if (strncmp(uri, SCHEME, sizeof(SCHEME) - 1) == 0)
		uri += sizeof(SCHEME) - 1;
	bytes = strcspn(uri, "?/");
	(void)snprintf(name, sizeof(name), "%.*s%s", (int)bytes, uri,
		       has_port(uri, bytes) ? "" : PORT);
	return format_hash(name, strlen(name), 0);
}

unsigned spread_choose(const uint64_t *seeds, unsigned n, const void *key,
		       size_t key_bytes)
{
	uint64_t most = 0;
	unsigned best = 0;

	for (unsigned i = 0; i < n && n > 1; i++) {
		uint64_t hash = format_hash(key, key_bytes, seeds[i]);

		/* of two equal ones, the one with the greater seed: the order of the list does not
		 * matter */
		if (i == 0 || hash > most || (hash == most && seeds[i] > seeds[best])) {
			most = hash;
			best = i;
		}
	}
	return best;
}
