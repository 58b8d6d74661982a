/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels without rdma_cm: the control connection brings the client's queue pair.  In the step to
 * RTR the kernel resolves the peer's GID on the network, for a second if no host answers, so a
 * worker takes it.  The queue pair is the job's until its message is delivered, and serves no access
 * until then.  Threads: [loop]. */
#include "fabric/verbs/server/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/verbs/server/device.h"

/* Neighbours answer within a few ms; the kernel gives up after 1000. */
#define SLOW_MS 300u
#define FORGET_MS 30000u

/* ---- GIDs that could not be resolved ---- */

/* A peer may name any GID, and tries again; so a GID that no host answered for is refused for some
 * time, and the worker is free for others.
 *   -EHOSTUNREACH  this is such a GID */
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

static void gid_resolved(struct fabric_server *server, const uint8_t gid[16],
			 uint64_t took_ms)
{
	unsigned at = server->next_unresolved;

	if (took_ms < SLOW_MS)
		return;
	memcpy(server->unresolved[at].gid, gid, 16);
	server->unresolved[at].until_ms = clock_now_ms() + FORGET_MS;
	server->next_unresolved = (at + 1) % VERBS_UNRESOLVED_MAX;
}

/* ---- checks ---- */

static int session_check(const struct fabric_session *session, uint32_t number)
{
	const struct verbs_endpoint *endpoint = session->endpoint;

	if (!endpoint->direct)
		return err_set(-ENOTSUP,
			       "the channels of RDMA device %s are set up by rdma_cm "
			       "(connect = cm)",
			       endpoint->public.device);
	if (endpoint->device->removed)
		return err_set(-ENODEV, "RDMA device %s was removed",
			       endpoint->public.device);
	if (session->cut_off || session->closing)
		return err_set(-EIO, "the session had to be cut off on this device");
	if (verbs_channel_find(session, number))
		return err_set(-EINVAL, "the channel is connected already");
	return 0;
}

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

/* Security: a client names its own queue pair by number and GID, and the server cannot verify the
 * number.  If two channels could name one queue pair, an attacker that guesses a victim's number
 * could have the responses to its own reads delivered to the victim, as if to the victim's reads.
 * If two clients name one queue pair, the one whose control connection comes from the GID's address
 * wins, so that a guess does not keep out the owner. */
static int remote_claim(const struct verbs_endpoint *endpoint,
			const struct fabric_qp_info *theirs)
{
	struct verbs_channel *other = remote_find(endpoint, theirs);

	if (!other)
		return 0;
	if (!theirs->gid_verified || other->remote.gid_verified)
		return err_set(-EBUSY,
			       "queue pair %#x there is the end of another channel "
			       "already",
			       theirs->qpn);
	verbs_channel_fail(other,
			   "the queue pair is another client's, which connects from "
			   "the address of that GID");
	return 0;
}

/* ---- the job, on the worker's thread ---- */

static void connect_run(struct workers_job *job)
{
	struct verbs_channel *channel =
		container_of(job, struct verbs_channel, connect.job.job);
	uint64_t begin_ms = clock_now_ms();

	err_keep(&channel->connect.result,
		 verbs_qp_connect(&channel->connect.local, channel->qp,
				  &channel->session->endpoint->device->rdma_options,
				  &channel->connect.depths, &channel->remote,
				  &channel->connect.ours));
	channel->connect.took_ms = clock_now_ms() - begin_ms;
}

/* ---- the loop ---- */

static void connect_fail(struct verbs_channel *channel, int err)
{
	struct verbs_endpoint *endpoint = channel->session->endpoint;
	struct fabric_server *server = endpoint->server;
	void *cookie = channel->session->cookie;
	uint32_t number = channel->number;
	struct err_saved failed;

	err_save(&failed, err);
	map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
	list_remove(&channel->link);
	verbs_channel_discard(channel);
	/* the cached GID or P_Key index may have changed without an event */
	verbs_port_cache_clear(&endpoint->device->port_cache);
	endpoint->stats.refused++;
	server->events->channel_connected(server->ctx, cookie, number, err, failed.text,
					  NULL);
}

static void connect_finish(struct verbs_channel *channel)
{
	struct fabric_server *server = channel->session->endpoint->server;
	const struct fabric_qp_info ours = channel->connect.ours;
	int err = err_kept_restore(&channel->connect.result);

	if (!err && channel->why)
		err = err_set(-ECONNABORTED, "%s", channel->why);
	else if (!err)
		err = verbs_channel_allow_access(channel);
	if (err) {
		connect_fail(channel, err);
		return;
	}
	channel->connecting = false;
	/* if the client does not connect its own side, the channel still exists: it
	 * counts for the session's limit of channels, and ends with the session */
	verbs_channel_established(channel);
	server->events->channel_connected(server->ctx, channel->session->cookie,
					  channel->number, 0, "", &ours);
}

static void connect_deliver(struct verbs_message *message)
{
	struct verbs_channel *channel =
		container_of(message, struct verbs_channel, connect.job.done);
	struct fabric_session *session = channel->session;

	gid_resolved(session->endpoint->server, channel->remote.gid,
		     channel->connect.took_ms);
	if (!channel->abandoned) {
		connect_finish(channel);
		return;
	}
	verbs_channel_abandoned_free(channel);
	session->released(session);
}

/* A channel in the session, with its job. */
static int channel_add(struct fabric_session *session, uint32_t number,
		       const struct verbs_port *local,
		       const struct fabric_qp_info *theirs,
		       struct verbs_channel **ret_channel)
{
	struct verbs_endpoint *endpoint = session->endpoint;
	const struct verbs_device *device = endpoint->device;
	uint8_t depth = verbs_device_depth(device, theirs->rd_atomic,
					   device->attr.public.responder_resources);
	struct verbs_channel *channel;
	int err = verbs_channel_new(session, number, NULL, local, &channel);

	if (err)
		return err;
	err = map_insert(&endpoint->remote_qps, &channel->by_remote_qpn,
			 map_hash_u64(theirs->qpn));
	if (err) {
		verbs_channel_discard(channel);
		return err_errno(err, "a channel");
	}
	channel->remote = *theirs;
	channel->connecting = true;
	verbs_job_init(&channel->connect.job, connect_deliver);
	channel->connect.job.job.run = connect_run;
	channel->connect.local = *local;
	/* a client serves no reads */
	channel->connect.depths =
		(struct verbs_rd_atomic){ .responder = depth, .initiator = 0 };
	channel->connect.ours =
		verbs_qp_info_make(local, channel->qp, &device->rdma_options, depth);
	list_append(&session->channels, &channel->link);
	*ret_channel = channel;
	return 0;
}

int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs)
{
	struct verbs_endpoint *endpoint = session->endpoint;
	struct verbs_device *device = endpoint->device;
	struct verbs_channel *channel = NULL;
	struct verbs_port local;
	int err = session_check(session, number);

	/* the endpoint's GID may have another index since the device's last event */
	if (!err)
		err = verbs_port_lookup(&device->port_cache, endpoint->port,
					&endpoint->public.address,
					&device->rdma_options, &local);
	if (!err)
		err = verbs_qp_info_check(&local, theirs);
	if (!err)
		err = gid_check(endpoint->server, theirs->gid);
	if (!err)
		err = remote_claim(endpoint, theirs);
	if (!err)
		err = channel_add(session, number, &local, theirs, &channel);
	if (err) {
		/* as in connect_fail() */
		verbs_port_cache_clear(&device->port_cache);
		endpoint->stats.refused++;
		return err;
	}
	workers_post(&device->workers[VERBS_WORK_CONNECT],
		     &session->tenant->queues[VERBS_WORK_CONNECT],
		     &channel->connect.job.job);
	return 0;
}
