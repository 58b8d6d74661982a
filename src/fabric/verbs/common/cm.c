/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/cm.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "fabric/rdma_options.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"

int verbs_cm_create_channel(struct rdma_event_channel **ret_channel)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	int err;

	if (!channel)
		return err_errno(verbs_errno(), "rdma_create_event_channel");
	err = verbs_set_nonblocking(channel->fd, "rdma_cm's descriptor");
	if (err) {
		rdma_destroy_event_channel(channel);
		return err;
	}
	*ret_channel = channel;
	return 0;
}

int verbs_cm_bind(struct rdma_event_channel *channel,
		  const struct fabric_address *address, void *context,
		  struct rdma_cm_id **ret_id)
{
	struct sockaddr_storage sockaddr;
	struct rdma_cm_id *id;
	int err;

	fabric_address_to_sockaddr(address, &sockaddr);
	if (rdma_create_id(channel, &id, context, RDMA_PS_TCP))
		return err_errno(verbs_errno(), "rdma_create_id");
	if (rdma_bind_addr(id, (struct sockaddr *)&sockaddr)) {
		err = err_errno(verbs_errno(), "rdma_bind_addr");
		(void)rdma_destroy_id(id);
		return err;
	}
	*ret_id = id;
	return 0;
}

int verbs_cm_set_traffic_class(struct rdma_cm_id *id, int traffic_class)
{
	uint8_t tos = (uint8_t)traffic_class;

	if (traffic_class == FABRIC_OPTION_AUTO)
		return 0;
	if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)))
		return err_errno(verbs_errno(), "rdma_set_option: the traffic class");
	return 0;
}

static void private_copy(const struct rdma_cm_event *event, struct verbs_cm_event *to)
{
	const struct rdma_conn_param *conn = &event->param.conn;

	/* only for these the union holds a connection's parameters */
	if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST &&
	    event->event != RDMA_CM_EVENT_CONNECT_RESPONSE &&
	    event->event != RDMA_CM_EVENT_REJECTED)
		return;
	to->qp_num = conn->qp_num;
	to->responder_resources = conn->responder_resources;
	to->initiator_depth = conn->initiator_depth;
	if (!conn->private_data)
		return;
	to->private_bytes = conn->private_data_len;
	if (to->private_bytes > sizeof(to->private_data))
		to->private_bytes = sizeof(to->private_data);
	memcpy(to->private_data, conn->private_data, to->private_bytes);
}

int verbs_cm_get_event(struct rdma_event_channel *channel,
		       struct verbs_cm_event *ret_event)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return -EAGAIN;
		return err_errno(verbs_errno(), "rdma_get_cm_event");
	}
	*ret_event = (struct verbs_cm_event){
		.type = event->event,
		.status = event->status,
		.id = event->id,
		.listener = event->listen_id,
		.context = event->listen_id ? event->listen_id->context
					    : event->id->context,
	};
	private_copy(event, ret_event);
	/* from here on rdma_destroy_id() in another thread may free the id */
	(void)rdma_ack_cm_event(event);
	return 0;
}
