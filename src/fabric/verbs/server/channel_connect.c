/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel_connect.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/common/port.h"

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
		return err_set(-EINVAL, "the channel is joined already");
	return 0;
}

static bool is_remote(const struct verbs_channel *channel,
		      const struct fabric_qp_info *theirs)
{
	const struct fabric_qp_info *end = &channel->remote;

	return end->qpn == theirs->qpn &&
	       (!memcmp(end->gid, theirs->gid, sizeof(end->gid)) ||
		(end->lid != 0 && end->lid == theirs->lid));
}

/* The channel that has this end already, or NULL. */
static struct verbs_channel *remote_holder(const struct verbs_endpoint *endpoint,
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

/* The server's word is all that tells a queue pair of what it reads: one that is the end of a
 * channel must not be named as the end of another: a client that guesses numbers would have the
 * answers to its reads delivered to others, as if to theirs.  Nor may a guess keep out the owner
 * of the queue pair, which is believed where the GID is known to be its own. */
static int remote_claim(const struct verbs_endpoint *endpoint,
			const struct fabric_qp_info *theirs)
{
	struct verbs_channel *holder = remote_holder(endpoint, theirs);

	if (!holder)
		return 0;
	if (!theirs->own || holder->remote.own)
		return err_set(-EBUSY,
			       "queue pair %#x there is the end of another channel "
			       "already",
			       theirs->qpn);
	verbs_channel_fail(holder, "the queue pair is another client's, who comes from "
				   "the address of that GID");
	return 0;
}

static int channel_connect(struct verbs_channel *channel,
			   const struct verbs_port *local,
			   const struct fabric_qp_info *theirs,
			   struct fabric_qp_info *ret_ours)
{
	const struct verbs_device *device = channel->session->endpoint->device;
	const struct verbs_rd_atomic depths = {
		.responder = verbs_device_depth(device, theirs->rd_atomic,
						device->attr.responder_resources),
		/* a client serves no reads */
		.initiator = 0,
	};
	struct fabric_qp_info ours = verbs_qp_info_make(
		local, channel->qp, &device->rdma_options, (uint8_t)depths.responder);
	uint64_t begin_ms = clock_now_ms();
	int err = verbs_qp_connect(local, channel->qp, &device->rdma_options, &depths,
				   theirs, &ours);

	verbs_gid_backoff_note(&device->server->gid_backoff, theirs->gid,
			       clock_now_ms() - begin_ms);
	if (!err)
		*ret_ours = ours;
	return err;
}

int verbs_channel_connect(struct fabric_session *session, uint32_t number,
			  const struct fabric_qp_info *theirs,
			  struct fabric_qp_info *ret_ours)
{
	struct verbs_endpoint *endpoint = session->endpoint;
	struct verbs_channel *channel;
	struct verbs_port local;
	int err = session_check(session, number);

	/* its GID may have another index than when the device told of a change last */
	if (!err)
		err = verbs_port_lookup(&endpoint->device->port_cache,
					(uint8_t)endpoint->port,
					&endpoint->public.address,
					&endpoint->device->rdma_options, &local);
	if (!err)
		err = verbs_qp_info_check(&local, theirs);
	if (!err)
		err = verbs_gid_backoff_check(&endpoint->server->gid_backoff,
					      theirs->gid);
	if (!err)
		err = remote_claim(endpoint, theirs);
	if (!err)
		err = verbs_channel_new(session, number, NULL, &local, &channel);
	if (err)
		goto err_count;
	err = map_insert(&endpoint->remote_qps, &channel->by_remote_qpn,
			 map_hash_u64(theirs->qpn));
	if (err) {
		err = err_errno(err, "a channel");
		goto err_discard;
	}
	err = channel_connect(channel, &local, theirs, ret_ours);
	if (err)
		goto err_end;
	channel->remote = *theirs;
	list_append(&session->channels, &channel->link);
	/* a client that does not do its part has it all the same: it is one of the session's
	 * channels, of which there may be so many, and ends with that */
	verbs_channel_established(channel);
	return 0;

err_end:
	map_remove(&endpoint->remote_qps, &channel->by_remote_qpn);
err_discard:
	verbs_channel_discard(channel);
err_count:
	/* what it relied on may have changed without a word */
	verbs_port_cache_clear(&endpoint->device->port_cache);
	endpoint->stats.refused++;
	return err;
}
