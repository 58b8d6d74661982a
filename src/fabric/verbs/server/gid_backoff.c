/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/gid_backoff.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

/* Neighbours answer within a few ms; the kernel gives up after 1000. */
#define SLOW_MS 300u
#define FORGET_MS 30000u

int verbs_gid_backoff_check(const struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16])
{
	uint64_t now_ms = clock_now_ms();
	char text[INET6_ADDRSTRLEN] = "?";

	for (unsigned i = 0; i < VERBS_GID_BACKOFFS; i++) {
		if (gid_backoff->at[i].until_ms <= now_ms ||
		    memcmp(gid_backoff->at[i].gid, gid,
			   sizeof(gid_backoff->at[i].gid)) != 0)
			continue;
		(void)inet_ntop(AF_INET6, gid, text, sizeof(text));
		return err_set(-EHOSTUNREACH,
			       "nobody answered for GID %s on the server's network; it "
			       "is asked for again in %" PRIu64 " ms",
			       text, gid_backoff->at[i].until_ms - now_ms);
	}
	return 0;
}

void verbs_gid_backoff_note(struct verbs_gid_backoff *gid_backoff,
			    const uint8_t gid[16], uint64_t took_ms)
{
	uint64_t now_ms = clock_now_ms();

	if (took_ms < SLOW_MS)
		return;
	memcpy(gid_backoff->at[gid_backoff->next].gid, gid,
	       sizeof(gid_backoff->at[0].gid));
	gid_backoff->at[gid_backoff->next].until_ms = now_ms + FORGET_MS;
	gid_backoff->next = (gid_backoff->next + 1) % VERBS_GID_BACKOFFS;
}
