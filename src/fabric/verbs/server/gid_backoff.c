/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/gid_backoff.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"

/* Neighbours answer within some ms; the kernel gives up after 1000. */
#define SLOW_MS 300u
#define FORGET_MS 30000u
/* Several heartbeats: no session is fenced for two waits with this between them. */
#define REST_MS 3000u

int verbs_mutes_check(const struct verbs_mutes *mutes, const uint8_t gid[16])
{
	uint64_t now_ms = clock_now_ms();
	char text[INET6_ADDRSTRLEN] = "?";

	for (unsigned i = 0; i < VERBS_MUTES; i++) {
		if (mutes->at[i].until_ms <= now_ms ||
		    memcmp(mutes->at[i].gid, gid, sizeof(mutes->at[i].gid)) != 0)
			continue;
		(void)inet_ntop(AF_INET6, gid, text, sizeof(text));
		return err_set(-EHOSTUNREACH,
			       "nobody answered for GID %s on the server's network; it "
			       "is asked for again in %" PRIu64 " ms",
			       text, mutes->at[i].until_ms - now_ms);
	}
	if (mutes->rest_until_ms > now_ms)
		return err_set(-EBUSY,
			       "the server waited for a peer that did not answer; try "
			       "again in %" PRIu64 " ms",
			       mutes->rest_until_ms - now_ms);
	return 0;
}

void verbs_mutes_note(struct verbs_mutes *mutes, const uint8_t gid[16],
		      uint64_t took_ms)
{
	uint64_t now_ms = clock_now_ms();

	if (took_ms < SLOW_MS)
		return;
	memcpy(mutes->at[mutes->next].gid, gid, sizeof(mutes->at[0].gid));
	mutes->at[mutes->next].until_ms = now_ms + FORGET_MS;
	mutes->next = (mutes->next + 1) % VERBS_MUTES;
	mutes->rest_until_ms = now_ms + REST_MS;
}
