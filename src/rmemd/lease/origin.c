/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/origin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct origin *origin_new(uint64_t session, const char *client, const char *peer)
{
	size_t bytes = strlen(client) + 1;
	struct origin *origin = malloc(sizeof(*origin) + bytes);

	if (!origin)
		return NULL;
	origin->refs = 1;
	origin->session = session;
	memcpy(origin->text, client, bytes);
	origin->client = origin->text;
	(void)snprintf(origin->peer, sizeof(origin->peer), "%s", peer);
	return origin;
}

struct origin *origin_ref(struct origin *origin)
{
	if (origin)
		origin->refs++;
	return origin;
}

void origin_unref(struct origin *origin)
{
	if (origin && --origin->refs == 0)
		free(origin);
}

bool origin_is(const struct origin *origin, const char *client, const char *peer)
{
	return origin && strcmp(origin->client, client) == 0 &&
	       strcmp(origin->peer, peer) == 0;
}
