/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/device.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/address.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"
#include "fabric/verbs/server/endpoint.h"

#define CHANNELS_MAX 4096
/* More inline data in a request than any known device supports. */
#define INLINE_BYTES_MAX 4096

/* ---- attributes ---- */

static bool inline_try(struct ibv_pd *pd, struct ibv_cq *cq, uint32_t bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 1,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = bytes },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	if (!qp)
		return false;
	(void)ibv_destroy_qp(qp);
	return true;
}

/* The limit of inline data.  No query returns it, but a device refuses queue pairs that ask for
 * more. */
static uint32_t inline_bytes_of(struct ibv_context *verbs, struct ibv_pd *pd)
{
	struct ibv_cq *cq = ibv_create_cq(verbs, 2, NULL, NULL, 0);
	uint32_t taken = 0, refused = INLINE_BYTES_MAX + 1;

	if (!cq)
		return 0;
	while (refused - taken > 1) {
		uint32_t tried = taken + (refused - taken) / 2;

		if (inline_try(pd, cq, tried))
			taken = tried;
		else
			refused = tried;
	}
	(void)ibv_destroy_cq(cq);
	return taken;
}

static bool relaxed_ordering_try(struct ibv_pd *pd)
{
	/* not constant: else ibv_reg_mr() would not be called if the library does not know the
	 * flag */
	unsigned access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
	uint64_t word = 0;
	struct ibv_mr *mr = ibv_reg_mr(pd, &word, sizeof(word), access);

	if (!mr)
		return false;
	(void)ibv_dereg_mr(mr);
	return true;
}

/* Find by trying the attributes that no query returns; what cannot be tried stays 0. */
static void features_try(struct ibv_context *verbs, struct fabric_device_attr *attr)
{
	struct ibv_pd *pd = ibv_alloc_pd(verbs);

	if (!pd)
		return;
	attr->inline_bytes = inline_bytes_of(verbs, pd);
	attr->relaxed_ordering = relaxed_ordering_try(pd);
	(void)ibv_dealloc_pd(pd);
}

/* The port decides between RoCE and InfiniBand. */
static int attr_query(struct ibv_context *verbs, uint8_t port,
		      struct verbs_device_attr *ret_attr)
{
	struct ibv_port_attr attr = { .state = IBV_PORT_NOP };
	int err = verbs_device_attr_query(verbs, ret_attr);

	if (err)
		return err;
	verbs_siw_reserve(verbs, ret_attr->vendor);
	features_try(verbs, &ret_attr->public);
	if (ret_attr->iwarp)
		return 0;
	ret_attr->public.transport =
		!ibv_query_port(verbs, port, &attr) &&
				attr.link_layer == IBV_LINK_LAYER_INFINIBAND
			? FABRIC_INFINIBAND
			: FABRIC_ROCE;
	return 0;
}

static const char *state_name(enum ibv_port_state state)
{
	static const char *const names[] = {
		[IBV_PORT_DOWN] = "down",
		[IBV_PORT_INIT] = "initializing",
		[IBV_PORT_ARMED] = "armed",
		[IBV_PORT_ACTIVE] = "active",
		[IBV_PORT_ACTIVE_DEFER] = "deferred",
	};

	return state < sizeof(names) / sizeof(names[0]) ? names[state] : NULL;
}

static const char *gid_type_name(const struct ibv_gid_entry *gid, bool iwarp)
{
	static const char *const names[] = {
		[IBV_GID_TYPE_IB] = "InfiniBand",
		[IBV_GID_TYPE_ROCE_V1] = "RoCE v1",
		[IBV_GID_TYPE_ROCE_V2] = "RoCE v2",
	};

	if (iwarp)
		return "iWARP";
	return gid->gid_type < sizeof(names) / sizeof(names[0]) ? names[gid->gid_type]
								: "unknown";
}

/* Whether clients use the GID.  `local`: the port's end of channels without rdma_cm; NULL: with
 * rdma_cm, which listens and answers with RoCE version 2, unless the administrator has changed the
 * kernel's default. */
static bool gid_served(const struct ibv_gid_entry *gid, const struct verbs_port *local,
		       const struct fabric_address *address)
{
	uint8_t served[16];

	if (local)
		return local->verbs && gid->gid_index == local->gid_index;
	fabric_address_to_gid(address, served);
	return gid->gid_type == IBV_GID_TYPE_ROCE_V2 &&
	       !memcmp(gid->gid.raw, served, sizeof(served));
}

static void gids_copy(struct verbs_port_cache *port_cache,
		      const struct verbs_device *device,
		      const struct fabric_address *address,
		      struct fabric_port_attr *port)
{
	bool direct = device->rdma_options.connect == FABRIC_CONNECT_DIRECT;
	struct verbs_port local = { .verbs = NULL };
	const struct ibv_gid_entry *gids;
	unsigned n = verbs_port_cache_gids(port_cache, &gids);

	/* fails where no GID is served */
	if (direct)
		(void)verbs_port_lookup(port_cache, (uint8_t)port->number, address,
					&device->rdma_options, &local);
	for (unsigned i = 0; i < n; i++) {
		struct fabric_gid *gid = &port->gids[port->n_gids];

		if (gids[i].port_num != port->number)
			continue;
		if (port->n_gids == FABRIC_GIDS_MAX) {
			port->gids_more++;
			continue;
		}
		*gid = (struct fabric_gid){
			.index = gids[i].gid_index,
			.type = gid_type_name(&gids[i], device->attr.iwarp),
			.served = gid_served(&gids[i], direct ? &local : NULL, address),
		};
		memcpy(gid->bytes, gids[i].gid.raw, sizeof(gid->bytes));
		port->n_gids++;
	}
}

void verbs_device_query_port(const struct verbs_device *device, uint8_t number,
			     const struct fabric_address *address,
			     struct fabric_port_attr *ret_port)
{
	struct verbs_port_cache port_cache = { .verbs = device->verbs };
	const struct ibv_port_attr *attr;

	memset(ret_port, 0, sizeof(*ret_port));
	ret_port->number = number;
	if (!verbs_port_cache_attr(&port_cache, number, &attr)) {
		ret_port->state = state_name(attr->state);
		ret_port->active_mtu = verbs_mtu_bytes(attr->active_mtu);
		ret_port->max_mtu = verbs_mtu_bytes(attr->max_mtu);
	}
	gids_copy(&port_cache, device, address, ret_port);
	verbs_port_cache_clear(&port_cache);
}

/* ---- start, removal, end ---- */

static const char *const worker_names[VERBS_N_WORKERS] = {
	[VERBS_WORK_REGISTER] = "rmem-register",
	[VERBS_WORK_DEREGISTER] = "rmem-dereg",
	[VERBS_WORK_CHANNEL] = "rmem-channel",
	[VERBS_WORK_ID] = "rmem-cm-id",
};

static void device_workers_stop(struct verbs_device *device, unsigned n)
{
	while (n > 0)
		workers_stop(&device->workers[--n]);
}

static int device_workers_start(struct verbs_device *device)
{
	int err;

	for (unsigned i = 0; i < VERBS_N_WORKERS; i++) {
		err = workers_start(&device->workers[i], worker_names[i], 1, 0,
				    &device->server->mailbox);
		if (err) {
			device_workers_stop(device, i);
			return err;
		}
	}
	return 0;
}

static int device_start(struct verbs_device *device)
{
	struct fabric_server *server = device->server;
	unsigned channels =
		VERBS_POLLER_CQS * verbs_poller_per_cq(device->attr.public.max_cqe);
	int err;

	if (channels > CHANNELS_MAX)
		channels = CHANNELS_MAX;
	err = verbs_channel_ids_init(&device->ids, channels, &server->mailbox,
				     device->events->channel_flushed);
	if (err)
		return err;
	err = verbs_set_nonblocking(device->verbs->async_fd,
				    "the device's event descriptor");
	if (err)
		goto err_ids;
	err = verbs_poller_start(&device->poller, device->verbs,
				 device->attr.public.max_cqe, device->node,
				 &device->ids);
	if (err)
		goto err_ids;
	err = device_workers_start(device);
	if (err)
		goto err_poller;
	err = verbs_server_watch(server, device->verbs->async_fd);
	if (err)
		goto err_workers;
	device->running = true;
	return 0;

err_workers:
	device_workers_stop(device, VERBS_N_WORKERS);
err_poller:
	verbs_poller_stop(&device->poller);
err_ids:
	verbs_channel_ids_destroy(&device->ids);
	return err;
}

uint8_t verbs_device_depth(const struct verbs_device *device, uint8_t wanted,
			   unsigned able)
{
	int most = device->rdma_options.rd_atomic;
	uint8_t depth = wanted < able ? wanted : (uint8_t)able;

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
	device->port_cache.verbs = verbs;
	device->rdma_options = *rdma_options;
	list_init(&device->tenants);
	workers_queue_init(&device->refused);
	workers_queue_init(&device->ended);
	err = attr_query(verbs, port, &device->attr);
	if (err)
		goto err_free;
	device->node = verbs_device_node("/sys", device->attr.name);
	err = verbs_quarantine_init(&device->quarantine,
				    server->params.key_quarantine_ms);
	if (err)
		goto err_free;
	err = device_start(device);
	if (err) {
		(void)err_prefix(err, "RDMA device %s", device->attr.name);
		goto err_free;
	}
	server->devices[server->n_devices++] = device;
	*ret_device = device;
	return 0;

err_free:
	verbs_quarantine_destroy(&device->quarantine);
	free(device);
	return err;
}

void verbs_device_finish(struct verbs_device *device)
{
	if (!device->running)
		return;
	device->running = false;
	device_workers_stop(device, VERBS_N_WORKERS);
}

/* The poller's queues are destroyed after the queue pairs that use them. */
void verbs_device_stop(struct verbs_device *device)
{
	/* after a removal it was stopped before the device was closed */
	if (device->verbs)
		verbs_poller_stop(&device->poller);
}

void verbs_device_free(struct verbs_device *device)
{
	/* those of sessions that are still being closed */
	list_for_each_entry_safe(struct verbs_tenant, tenant, &device->tenants, link)
		list_remove(&tenant->link);
	verbs_channel_ids_destroy(&device->ids);
	verbs_port_cache_clear(&device->port_cache);
	verbs_quarantine_destroy(&device->quarantine);
	if (device->own && device->verbs)
		verbs_device_close(device->verbs);
	free(device);
}

/* Destroy the listeners, as the device has no protection domain any more. */
static void device_unlisten(const struct verbs_device *device)
{
	const struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++)
		if (server->endpoints[i]->device == device)
			verbs_endpoint_unlisten(server->endpoints[i]);
}

void verbs_device_put(struct verbs_device *device)
{
	struct ibv_context *verbs = device->verbs;

	if (!device->removed || device->n_pds || !device->running)
		return;
	verbs_device_finish(device);
	verbs_device_stop(device);
	device_unlisten(device);
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

	for (unsigned i = server->n_devices; i > 0; i--) {
		struct verbs_device *device = server->devices[i - 1];

		if (device->verbs || device_used(device))
			continue;
		/* a message of its channel ids may still be under way */
		if (!verbs_channel_ids_idle(&device->ids)) {
			all = false;
			continue;
		}
		verbs_device_free(device);
		server->devices[i - 1] = server->devices[--server->n_devices];
	}
	return all;
}

/* Report for all endpoints of the device, or (port not 0) those on one port of it. */
static void device_report(const struct verbs_device *device, unsigned port,
			  const char *text)
{
	const struct fabric_server *server = device->server;

	for (unsigned i = 0; i < server->n_endpoints; i++) {
		struct verbs_endpoint *endpoint = server->endpoints[i];

		if (endpoint->device == device && (!port || endpoint->port == port))
			verbs_endpoint_report(endpoint, ": port %u: %s", endpoint->port,
					      text);
	}
}

void verbs_device_remove(struct verbs_device *device)
{
	if (device->removed)
		return;
	device->removed = true;
	device_report(device, 0, "the device is being removed");
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
	device_report(device, port, ibv_event_type_str(event->event_type));
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

/* The kernel has cut the device off, or would not report it. */
static void events_failed(struct verbs_device *device, int error)
{
	struct err_saved failed;

	if (device->removed || error == EAGAIN || error == EINTR)
		return;
	err_save(&failed, err_errno(-error, "ibv_get_async_event"));
	device_report(device, 0, failed.text);
	verbs_device_remove(device);
}

void verbs_device_events(struct verbs_device *device)
{
	uint64_t until_ns = clock_now_ns() + VERBS_TURN_NS;
	struct ibv_async_event event;
	void *channel;

	/* a removal, which an event starts, ends this */
	while (device->running && clock_now_ns() < until_ns) {
		if (ibv_get_async_event(device->verbs, &event)) {
			events_failed(device, errno);
			return;
		}
		channel = event_of_qp(&event) ? event.element.qp->qp_context : NULL;
		/* acknowledge the event first: destroying a queue pair waits for that */
		ibv_ack_async_event(&event);
		if (channel)
			device->events->channel_event(channel, event.event_type);
		else if (!event_of_qp(&event))
			event_handle(device, &event);
	}
}
