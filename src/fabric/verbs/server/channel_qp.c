/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/channel_qp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"

static struct verbs_device *device_of(const struct verbs_channel *channel)
{
	return channel->session->endpoint->device;
}

static int qp_make(struct verbs_channel *channel, struct ibv_qp_init_attr *attr)
{
	struct ibv_pd *pd = channel->session->pd;

	errno = 0;
	if (channel->id) {
		if (rdma_create_qp(channel->id, pd, attr))
			return err_errno(verbs_errno(), "rdma_create_qp");
		channel->qp = channel->id->qp;
		return 0;
	}
	channel->qp = ibv_create_qp(pd, attr);
	if (!channel->qp)
		return err_errno(verbs_errno(), "ibv_create_qp");
	return verbs_qp_init(&channel->local, channel->qp, 0);
}

static int qp_create(struct verbs_channel *channel)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = channel,
		.cap = { .max_send_wr = INBAND_CREDITS,
			 .max_recv_wr = INBAND_CREDITS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	int err = verbs_poller_cq(&device_of(channel)->poller,
				  verbs_channel_ids_index(channel->wr_number),
				  &attr.recv_cq);

	if (err)
		return err;
	attr.send_cq = attr.recv_cq;
	err = qp_make(channel, &attr);
	if (err)
		return err;
	return verbs_inband_server_open(channel->qp, channel->wr_number,
					&channel->session->lock,
					&channel->session->memory, &channel->inband);
}

static int qp_connect_direct(struct verbs_channel *channel)
{
	const struct fabric_rdma_options *rdma_options =
		&device_of(channel)->rdma_options;

	channel->ours = verbs_qp_info_make(&channel->local, channel->qp, rdma_options,
					   (uint8_t)channel->depths.responder);
	return verbs_qp_connect(&channel->local, channel->qp, rdma_options,
				&channel->depths, &channel->remote, &channel->ours);
}

/* To RTS; over iWARP that is the kernel's, when the request is accepted. */
static int qp_connect(struct verbs_channel *channel)
{
	uint64_t begin_ms = clock_now_ms();
	int err;

	if (device_of(channel)->attr.iwarp)
		return 0;
	if (channel->id)
		err = verbs_qp_connect_cm(channel->id, channel->qp,
					  &device_of(channel)->rdma_options,
					  &channel->depths, &channel->limits);
	else
		err = qp_connect_direct(channel);
	if (err)
		channel->failed_ms = clock_now_ms() - begin_ms;
	return err;
}

/* Let the client read and write.  -errno with text. */
static int access_allow(const struct verbs_channel *channel)
{
	struct ibv_qp_attr attr = {
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};
	int err;

	if (device_of(channel)->attr.iwarp)
		return 0;
	/* rdma_cm would allow atomics wherever it allows reads */
	if (device_of(channel)->attr.public.atomics)
		attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
	err = ibv_modify_qp(channel->qp, &attr, IBV_QP_ACCESS_FLAGS);
	return err ? err_errno(-abs(err), "the queue pair's access flags") : 0;
}

/* Except for iWARP, the queue pair was connected here, not in librdmacm; send the peer the limits
 * in effect.  Nothing may fail after rdma_accept(): on an accepted id that is rejected,
 * rdma_destroy_id() takes more than 50 s (6.12). */
static int request_accept(struct verbs_channel *channel)
{
	uint8_t private_data[VERBS_QP_LIMITS_BYTES];
	struct rdma_conn_param param = {
		.responder_resources = (uint8_t)channel->depths.responder,
		.initiator_depth = (uint8_t)channel->depths.initiator,
		.rnr_retry_count = VERBS_RETRIES,
		.qp_num = channel->qp->qp_num,
	};

	if (!device_of(channel)->attr.iwarp) {
		verbs_qp_limits_encode(&channel->limits, private_data);
		param.private_data = private_data;
		param.private_data_len = sizeof(private_data);
		param.rnr_retry_count = channel->limits.rnr_retry_count;
		channel->id->qp = NULL;
	}
	channel->accepted = !rdma_accept(channel->id, &param);
	channel->id->qp = channel->qp;
	return channel->accepted ? 0 : err_errno(verbs_errno(), "rdma_accept");
}

static int qp_open(struct verbs_channel *channel)
{
	int err = qp_create(channel);

	if (!err)
		err = qp_connect(channel);
	if (!err && !verbs_channel_ids_open(&device_of(channel)->ids,
					    channel->wr_number, channel->inband))
		err = err_set(-ECONNABORTED, "the channel was ended");
	if (!err)
		err = access_allow(channel);
	if (!err && channel->id)
		err = request_accept(channel);
	return err;
}

/* The kernel asks for the client's GID on the network. */
static bool is_unanswered(int err)
{
	return err == -EHOSTUNREACH || err == -ENETUNREACH || err == -ETIMEDOUT;
}

void verbs_channel_qp_open(struct workers_job *job)
{
	struct verbs_channel *channel =
		container_of(job, struct verbs_channel, job.job);
	int err = qp_open(channel);

	err_keep(&channel->result, is_unanswered(err) ? err : verbs_failure(err));
}

static void qp_destroy(struct verbs_channel *channel)
{
	if (channel->id)
		channel->id->qp = NULL;
	/* not rdma_destroy_qp(), which returns no error, and else only frees completion queues that
	 * rdma_cm created */
	if (channel->qp)
		channel->destroy_err = -abs(ibv_destroy_qp(channel->qp));
	channel->qp = NULL;
	verbs_inband_server_free(channel->inband);
	channel->inband = NULL;
}

void verbs_channel_qp_close(struct workers_job *job)
{
	struct verbs_channel *channel =
		container_of(job, struct verbs_channel, job.job);
	bool iwarp = device_of(channel)->attr.iwarp;
	struct verbs_sigpipe sigpipe;

	verbs_sigpipe_begin(&sigpipe, iwarp);
	/* an iWARP connection ends with its TCP stream, which the peer notices */
	if (iwarp && channel->accepted)
		(void)rdma_disconnect(channel->id);
	qp_destroy(channel);
	if (!iwarp && channel->id && channel->up)
		channel->disconnected = !rdma_disconnect(channel->id);
	verbs_sigpipe_end(&sigpipe);
}
