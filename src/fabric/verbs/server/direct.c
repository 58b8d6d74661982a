/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels without rdma_cm: the control connection brings the client's queue pair.
 * Threads: [loop]. */
#include "fabric/verbs/server/channel.h"

#include <errno.h>

#include "fabric/verbs/common/context.h"
#include "fabric/verbs/server/device.h"

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
		err = verbs_failure(verbs_port_lookup(
			&device->port_cache, endpoint->port, &endpoint->public.address,
			&device->rdma_options, &local));
	if (!err)
		err = verbs_qp_info_check(&local, theirs);
	if (!err)
		err = verbs_channel_new(session, number, NULL, theirs, &channel);
	if (err) {
		/* the cached GID or P_Key index may have changed without an event */
		verbs_port_cache_clear(&device->port_cache);
		endpoint->stats.refused++;
		return err;
	}
	channel->local = local;
	/* a client serves no reads */
	channel->depths = (struct verbs_rd_atomic){
		.responder =
			verbs_device_depth(device, theirs->rd_atomic,
					   device->attr.public.responder_resources),
	};
	verbs_channel_open(channel);
	return 0;
}
