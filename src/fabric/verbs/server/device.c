/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/device.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/verbs/server/device_query.h"
#include "fabric/verbs/common/disassociate.h"
#include "fabric/verbs/server/endpoint.h"
#include "fabric/verbs/common/iwarp.h"

#define CHANNELS_MAX 4096

static int device_start(struct verbs_device *device)
{
	struct fabric_server *server = device->server;
	unsigned channels =
		VERBS_POLLER_CQS * verbs_poller_per_cq(device->attr.max_cqe);
	int flags, err;

	if (channels > CHANNELS_MAX)
		channels = CHANNELS_MAX;
	err = verbs_channel_ids_init(&device->ids, channels, &server->mailbox,
				     device->events->channel_flushed);
	if (err)
		return err;
	flags = fcntl(device->verbs->async_fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(device->verbs->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		err = err_errno(-errno, "the device's event descriptor");
		goto err_slots;
	}
	err = verbs_poller_start(&device->poller, device->verbs, device->attr.max_cqe,
				 device->node, &device->ids);
	if (err)
		goto err_slots;
	err = verbs_mr_worker_start(&device->mr_worker, &server->mailbox);
	if (err)
		goto err_poller;
	err = verbs_server_watch(server, device->verbs->async_fd);
	if (err)
		goto err_mr_worker;
	device->running = true;
	return 0;

err_mr_worker:
	verbs_mr_worker_stop(&device->mr_worker);
err_poller:
	verbs_poller_stop(&device->poller);
err_slots:
	verbs_channel_ids_destroy(&device->ids);
	return err;
}

uint8_t verbs_device_depth(const struct verbs_device *device, uint8_t wanted,
			   uint8_t able)
{
	int most = device->rdma_options.rd_atomic;
	uint8_t depth = wanted < able ? wanted : able;

	return most != FABRIC_OPTION_AUTO && most < depth ? (uint8_t)most : depth;
}

int verbs_device_add(struct fabric_server *server, struct ibv_context *verbs,
		     uint8_t port, const struct fabric_rdma_options *rdma_options,
		     const struct verbs_device_events *events,
		     struct verbs_device **ret_device)
{
	struct verbs_device *device;
	int err;

	for (unsigned i = 0; i < server->n_devices; i++)
		if (server->devices[i]->verbs == verbs) {
			*ret_device = server->devices[i];
			return 0;
		}
	device = calloc(1, sizeof(*device));
	if (!device)
		return err_errno(-ENOMEM, "an RDMA device");
	device->server = server;
	device->events = events;
	device->verbs = verbs;
	device->port_cache = verbs_port_cache_of(verbs);
	device->rdma_options = *rdma_options;
	err = verbs_device_attr_query(verbs, &device->attr);
	if (!err)
		verbs_siw_reserve(verbs, device->attr.vendor);
	if (!err)
		err = verbs_device_query(verbs, port, &device->fabric_attr);
	if (err)
		goto err_free;
	device->node = verbs_device_node("/sys", device->attr.name);
	err = device_start(device);
	if (err) {
		(void)err_prefix(err, "RDMA device %s", device->attr.name);
		goto err_free;
	}
	server->devices[server->n_devices++] = device;
	*ret_device = device;
	return 0;

err_free:
	free(device);
	return err;
}

void verbs_device_stop(struct verbs_device *device)
{
	if (!device->running)
		return;
	device->running = false;
	verbs_mr_worker_stop(&device->mr_worker);
	verbs_poller_stop(&device->poller);
}

void verbs_device_free(struct verbs_device *device)
{
	verbs_channel_ids_destroy(&device->ids);
	verbs_port_cache_clear(&device->port_cache);
	if (device->own && device->verbs)
		verbs_device_close(device->verbs);
	free(device);
}

void verbs_device_put(struct verbs_device *device)
{
	struct ibv_context *verbs = device->verbs;

	if (!device->removed || device->n_pds || !device->running)
		return;
	verbs_device_stop(device);
	device->events->released(device);
	device->verbs = NULL;
	if (device->own)
		verbs_device_close(verbs);
	else
		verbs_disassociate(verbs);
}

static bool device_used(const struct verbs_device *device)
{
	const struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device == device)
			return true;
	return false;
}

bool verbs_device_retire(struct fabric_server *server)
{
	bool all = true;

	for (unsigned i = server->n_devices; i-- > 0;) {
		struct verbs_device *device = server->devices[i];

		if (device->verbs || device_used(device))
			continue;
		/* a message of its own may still be under way */
		if (!verbs_channel_ids_idle(&device->ids)) {
			all = false;
			continue;
		}
		verbs_device_free(device);
		server->devices[i] = server->devices[--server->n_devices];
	}
	return all;
}

void verbs_device_remove(struct verbs_device *device)
{
	if (device->removed)
		return;
	device->removed = true;
	device->events->report(device, 0, "the device is being removed");
	device->events->removed(device);
	verbs_device_put(device);
}

static void event_handle(struct verbs_device *device,
			 const struct ibv_async_event *event)
{
	unsigned port = 0;

	verbs_port_cache_clear(&device->port_cache);
	switch (event->event_type) {
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
	case IBV_EVENT_SM_CHANGE:
	case IBV_EVENT_CLIENT_REREGISTER:
	case IBV_EVENT_GID_CHANGE:
		port = (unsigned)event->element.port_num;
		break;
	default:
		break;
	}
	device->events->report(device, port, ibv_event_type_str(event->event_type));
	/* rdma_cm reports an orderly removal; after this event nothing works */
	if (event->event_type == IBV_EVENT_DEVICE_FATAL)
		verbs_device_remove(device);
}

static bool event_of_qp(const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return true;
	default:
		return false;
	}
}

/* The kernel has cut the device off, or will not tell when it does. */
static void events_failed(struct verbs_device *device, int error)
{
	char text[FABRIC_TEXT_MAX];

	if (device->removed || error == EAGAIN || error == EINTR)
		return;
	(void)err_errno(-error, "ibv_get_async_event");
	(void)snprintf(text, sizeof(text), "%.*s", (int)sizeof(text) - 1, err_text());
	device->events->report(device, 0, text);
	verbs_device_remove(device);
}

void verbs_device_events(struct verbs_device *device)
{
	struct ibv_async_event event;
	void *channel;

	/* a removal ends in the midst of it */
	while (device->running) {
		if (ibv_get_async_event(device->verbs, &event)) {
			events_failed(device, errno);
			return;
		}
		channel = event_of_qp(&event) ? event.element.qp->qp_context : NULL;
		/* before anything is done: destroying a queue pair waits for this */
		ibv_ack_async_event(&event);
		if (channel)
			device->events->channel_event(channel, event.event_type);
		else if (!event_of_qp(&event))
			event_handle(device, &event);
	}
}
