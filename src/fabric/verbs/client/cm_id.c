/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/cm_id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/qp.h"

#define REJECT_INVALID_SERVICE 8
#define REJECT_BY_CONSUMER 28

static int remaining_ms(const struct verbs_cm_id *cm_id)
{
	uint64_t now = clock_now_ms();

	if (now >= cm_id->deadline_ms)
		return 0;
	return cm_id->deadline_ms - now > INT_MAX ? INT_MAX
						  : (int)(cm_id->deadline_ms - now);
}

static int time_over(const struct verbs_cm_id *cm_id)
{
	return err_set(-ETIMEDOUT, "%s did not answer in time (RDMA)", cm_id->peer);
}

/* A failure event's status is an errno, negative from most sources, or a code of its
 * own. */
static int status_err(int status, int otherwise)
{
	return status < 0 && status > -4096 ? status : otherwise;
}

static int cm_id_rejected(const struct verbs_cm_id *cm_id,
			  const struct verbs_cm_event *event)
{
	uint32_t word = 0;

	if (event->private_bytes >= sizeof(word))
		memcpy(&word, event->private_data, sizeof(word));
	if (word == htonl(VERBS_REFUSED))
		return err_set(-EACCES, "%s refused the channel", cm_id->peer);
	if (event->status == REJECT_INVALID_SERVICE || event->status == -ECONNREFUSED ||
	    event->status == -ECONNRESET)
		return err_set(-ECONNREFUSED, "nobody listens at %s (RDMA)",
			       cm_id->peer);
	if (event->status == REJECT_BY_CONSUMER)
		return err_set(-EACCES, "what listens at %s refused the channel",
			       cm_id->peer);
	return err_set(-ECONNREFUSED, "%s rejected the channel: rdma_cm status %d",
		       cm_id->peer, event->status);
}

/* The error for an event other than the awaited one. */
static int cm_id_error(const struct verbs_cm_id *cm_id,
		       const struct verbs_cm_event *event)
{
	switch (event->type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return err_errno(status_err(event->status, -EHOSTUNREACH),
				 "no RDMA route to %s", cm_id->peer);
	case RDMA_CM_EVENT_REJECTED:
		return cm_id_rejected(cm_id, event);
	case RDMA_CM_EVENT_UNREACHABLE:
		return err_errno(status_err(event->status, -ETIMEDOUT),
				 "%s does not answer (RDMA)", cm_id->peer);
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return err_set(-ENODEV, "the RDMA device was removed");
	default:
		return err_errno(status_err(event->status, -ECONNRESET),
				 "connecting to %s: %s", cm_id->peer,
				 rdma_event_str(event->type));
	}
}

static int cm_id_wait(struct verbs_cm_id *cm_id, enum rdma_cm_event_type wanted,
		      struct verbs_cm_event *ret_event)
{
	int err;

	do {
		err = fd_wait(cm_id->events->fd, POLLIN, cm_id->deadline_ms,
			      cm_id->cancelled);
		if (err && err != -ETIMEDOUT)
			return err_errno(err, "waiting for %s (RDMA)", cm_id->peer);
		err = verbs_cm_get_event(cm_id->events, ret_event);
		if (!err)
			return ret_event->type == wanted
				       ? 0
				       : cm_id_error(cm_id, ret_event);
		if (err != -EAGAIN)
			return err;
	} while (remaining_ms(cm_id) > 0);
	return time_over(cm_id);
}

static int cm_id_route(struct verbs_cm_id *cm_id, struct sockaddr *source,
		       struct sockaddr *destination)
{
	struct verbs_cm_event event;
	int err, ms;

	if (rdma_resolve_addr(cm_id->id, source, destination, remaining_ms(cm_id)))
		return err_errno(verbs_errno(), "no RDMA route to %s", cm_id->peer);
	err = cm_id_wait(cm_id, RDMA_CM_EVENT_ADDR_RESOLVED, &event);
	if (err)
		return err;
	if (!cm_id->id->verbs)
		return err_set(-ENODEV, "no RDMA device leads to %s", cm_id->peer);
	ms = remaining_ms(cm_id);
	/* the kernel would call that EINVAL, but the time is over */
	if (ms == 0)
		return time_over(cm_id);
	if (rdma_resolve_route(cm_id->id, ms))
		return err_errno(verbs_errno(), "no RDMA route to %s", cm_id->peer);
	return cm_id_wait(cm_id, RDMA_CM_EVENT_ROUTE_RESOLVED, &event);
}

int verbs_cm_id_resolve(struct verbs_cm_id *cm_id, const struct fabric_address *address,
			const struct fabric_address *source, int traffic_class,
			unsigned timeout_ms, const atomic_bool *cancelled)
{
	struct sockaddr_storage destination, from;
	struct fabric_address host = *source;
	struct verbs_cm_id made = { .deadline_ms = clock_now_ms() + timeout_ms,
				    .cancelled = cancelled };
	int err;

	host.port = 0;
	(void)fabric_address_to_sockaddr(&host, &from);
	(void)fabric_address_to_sockaddr(address, &destination);
	(void)fabric_address_text(address, made.peer);
	err = verbs_cm_create_channel(&made.events);
	if (err)
		return err;
	if (rdma_create_id(made.events, &made.id, NULL, RDMA_PS_TCP)) {
		err = err_errno(verbs_errno(), "rdma_create_id");
		goto err_events;
	}
	err = verbs_cm_set_traffic_class(made.id, traffic_class);
	if (!err)
		err = cm_id_route(&made,
				  source->family ? (struct sockaddr *)&from : NULL,
				  (struct sockaddr *)&destination);
	if (err)
		goto err_id;
	*cm_id = made;
	return 0;

err_id:
	(void)rdma_destroy_id(made.id);
err_events:
	rdma_destroy_event_channel(made.events);
	return err;
}

struct fabric_address verbs_cm_id_source(const struct verbs_cm_id *cm_id)
{
	struct fabric_address source = { 0 };

	(void)fabric_address_from_sockaddr(rdma_get_local_addr(cm_id->id), &source);
	if (fabric_address_is_link_local(&source))
		source.family = 0;
	return source;
}

/* The server has accepted: both sides have the other's limits now. */
static int cm_id_establish(struct verbs_cm_id *cm_id, struct ibv_qp *qp,
			   const struct fabric_rdma_options *rdma_options,
			   const struct verbs_cm_event *event)
{
	struct verbs_qp_limits limits =
		verbs_qp_limits_decode(event->private_data, event->private_bytes);
	/* the depths are those of the answer, which rdma_cm knows */
	const struct verbs_rd_atomic depths = { -1, -1 };
	struct ibv_ece ece = { 0 };
	int err;

	/* Enhanced connection establishment: options that devices of one vendor exchange.
	 * librdmacm sets them where it connects the queue pair itself.  Without them the device
	 * works as with a peer that does not support them. */
	if (!rdma_get_remote_ece(cm_id->id, &ece) && ece.vendor_id)
		(void)ibv_set_ece(qp, &ece);
	err = verbs_qp_connect_cm(cm_id->id, qp, rdma_options, &depths, &limits);
	if (!err && rdma_establish(cm_id->id))
		err = err_errno(verbs_errno(), "rdma_establish with %s", cm_id->peer);
	return err;
}

int verbs_cm_id_connect(struct verbs_cm_id *cm_id,
			const struct fabric_channel_params *channel,
			const struct fabric_rdma_options *rdma_options,
			uint8_t initiator_depth, bool iwarp)
{
	uint8_t private_data[FABRIC_HELLO_BYTES + VERBS_QP_LIMITS_BYTES];
	struct fabric_hello hello = channel->hello;
	const struct verbs_qp_limits limits = verbs_qp_limits_of(rdma_options);
	struct ibv_qp *qp = cm_id->id->qp;
	struct rdma_conn_param param = {
		.private_data = private_data,
		.private_data_len = sizeof(private_data),
		/* no peer reads from a client */
		.responder_resources = 0,
		.initiator_depth = initiator_depth,
		.retry_count = limits.retry_count,
		.rnr_retry_count = limits.rnr_retry_count,
		.qp_num = qp->qp_num,
	};
	struct fabric_address source = { .family = 0 };
	struct verbs_cm_event event;
	int err = 0;

	(void)fabric_address_from_sockaddr(rdma_get_local_addr(cm_id->id), &source);
	if (channel->name_source)
		channel->name_source(channel->name_source_ctx, &source, &hello);
	fabric_hello_encode(&hello, private_data);
	verbs_qp_limits_encode(&limits, private_data + FABRIC_HELLO_BYTES);
	if (!iwarp)
		cm_id->id->qp = NULL;
	if (rdma_connect(cm_id->id, &param))
		err = err_errno(verbs_errno(), "rdma_connect to %s", cm_id->peer);
	if (!err)
		err = cm_id_wait(cm_id,
				 iwarp ? RDMA_CM_EVENT_ESTABLISHED
				       : RDMA_CM_EVENT_CONNECT_RESPONSE,
				 &event);
	if (!err && !iwarp)
		err = cm_id_establish(cm_id, qp, rdma_options, &event);
	cm_id->id->qp = qp;
	return err;
}

void verbs_cm_id_destroy(struct verbs_cm_id *cm_id)
{
	(void)rdma_destroy_id(cm_id->id);
	rdma_destroy_event_channel(cm_id->events);
}
