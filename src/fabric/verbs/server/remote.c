/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/remote.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/verbs/server/channel.h"

/* Neighbours answer within a few ms; the kernel gives up after 1000. */
#define SLOW_MS 300u
#define FORGET_MS 30000u

/* ---- GIDs that could not be resolved ---- */

/* A peer may name any GID, and tries again; so a GID that no host answered for is refused for some
 * time, and the worker is free for others. */
static int gid_check(const struct fabric_server *server, const uint8_t gid[16])
{
	uint64_t now_ms = clock_now_ms(), until_ms;
	char text[INET6_ADDRSTRLEN];

	for (unsigned i = 0; i < VERBS_UNRESOLVED_MAX; i++) {
		until_ms = server->unresolved[i].until_ms;
		if (until_ms <= now_ms || memcmp(server->unresolved[i].gid, gid, 16))
			continue;
		return err_set(-EHOSTUNREACH,
			       "nobody answered for GID %s on the server's network; it "
			       "is asked for again in %" PRIu64 " ms",
			       inet_ntop(AF_INET6, gid, text, sizeof(text)),
			       until_ms - now_ms);
	}
	return 0;
}

void verbs_gid_failed(struct fabric_server *server, const uint8_t gid[16],
		      uint64_t failed_ms)
{
	unsigned at = server->next_unresolved;

	if (failed_ms < SLOW_MS)
		return;
	memcpy(server->unresolved[at].gid, gid, 16);
	server->unresolved[at].until_ms = clock_now_ms() + FORGET_MS;
	server->next_unresolved = (at + 1) % VERBS_UNRESOLVED_MAX;
}

/* ---- queue pairs ---- */

static bool is_remote(const struct verbs_channel *channel,
		      const struct fabric_qp_info *theirs)
{
	const struct fabric_qp_info *remote = &channel->remote;

	return remote->qpn == theirs->qpn &&
	       (!memcmp(remote->gid, theirs->gid, sizeof(remote->gid)) ||
		(remote->lid != 0 && remote->lid == theirs->lid));
}

/* The channel that is connected with this queue pair already, or NULL. */
static struct verbs_channel *remote_find(const struct verbs_endpoint *endpoint,
					 const struct fabric_qp_info *theirs)
{
	struct map_node *node =
		map_find(&endpoint->remote_qps, map_hash_u64(theirs->qpn));

	for (; node; node = map_find_next(node)) {
		struct verbs_channel *channel =
			container_of(node, struct verbs_channel, by_remote_qpn);

		if (is_remote(channel, theirs))
			return channel;
	}
	return NULL;
}

int verbs_remote_check(const struct verbs_endpoint *endpoint,
		       const struct fabric_qp_info *theirs,
		       struct verbs_channel **ret_loser)
{
	struct verbs_channel *other = remote_find(endpoint, theirs);
	int err = gid_check(endpoint->server, theirs->gid);

	if (err)
		return err;
	if (other && (!theirs->gid_verified || other->remote.gid_verified))
		return err_set(-EBUSY,
			       "queue pair %#x there is the end of another channel "
			       "already",
			       theirs->qpn);
	*ret_loser = other;
	return 0;
}
