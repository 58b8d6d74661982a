/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/server.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/notifications.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/server/discovery.h"
#include "fabric/verbs/server/ending.h"
#include "fabric/verbs/server/endpoint.h"
#include "fabric/verbs/server/mr.h"
#include "fabric/verbs/server/session.h"

/* ibv_fork_init() is not called: the pools are shared mappings, which fork does not
 * copy, and since 5.12 the kernel copies pinned private pages for the child by itself.
 */

/* Time to wait for peers' replies to our disconnects when the server closes. */
#define DISCONNECT_MS 100

/* A copy of n elements; NULL: no memory. */
static void *array_copy(const void *from, size_t n, size_t bytes)
{
	/* n may be 0 */
	void *to = calloc(n + 1, bytes);

	if (to && n > 0)
		memcpy(to, from, n * bytes);
	return to;
}

/* Copy the addresses and the devices' parameters, which are used as long as the server is open. */
static int params_copy(struct fabric_server *server,
		       const struct fabric_server_params *params)
{
	server->params = *params;
	server->params.extra_listen = server->extra_listen =
		array_copy(params->extra_listen, params->n_extra_listen,
			   sizeof(*params->extra_listen));
	server->params.device_params = server->device_params =
		array_copy(params->device_params, params->n_device_params,
			   sizeof(*params->device_params));
	if (!server->extra_listen || !server->device_params)
		return err_errno(-ENOMEM, "the RDMA server");
	return 0;
}

/* Process peers' replies to our disconnects; requests to connect come too late. */
static void disconnects_process(struct fabric_server *server)
{
	struct verbs_cm_target *target;
	struct verbs_cm_event event;

	while (!verbs_cm_get_event(server->cm, &event)) {
		target = event.context;
		if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
			(void)rdma_destroy_id(event.id);
		else if (event.type == RDMA_CM_EVENT_DISCONNECTED && target)
			target->event(target, &event);
	}
}

/* All channels have ended: wait up to DISCONNECT_MS for their peers' replies. */
static void server_disconnect(struct fabric_server *server)
{
	struct pollfd cm = { .events = POLLIN };
	uint64_t now_ms = clock_now_ms(), end_ms = now_ms + DISCONNECT_MS;

	for (; server->n_disconnects > 0 && !server->cm_failed && now_ms < end_ms;
	     now_ms = clock_now_ms()) {
		cm.fd = server->cm->fd;
		(void)poll(&cm, 1, (int)(end_ms - now_ms));
		disconnects_process(server);
	}
	verbs_disconnects_finish(server, NULL);
}

static void server_empty(struct fabric_server *server)
{
	struct list undelivered;

	list_init(&undelivered);
	for (unsigned i = 0; i < server->n_endpoints; i++)
		verbs_session_end_all(server->endpoints[i]);
	for (unsigned i = 0; i < server->n_devices; i++)
		verbs_device_finish(server->devices[i]);
	/* The messages are in objects that are freed next, while the pollers still post theirs: no
	 * message may be behind a freed one in the mailbox. */
	mailbox_receive(&server->mailbox, &undelivered);
	for (unsigned i = 0; i < server->n_endpoints; i++)
		verbs_session_free_channels(server->endpoints[i]);
	server_disconnect(server);
	verbs_endings_free(server);
	for (unsigned i = 0; i < server->n_endpoints; i++)
		verbs_session_free_all(server->endpoints[i]);
	for (unsigned i = 0; i < server->n_devices; i++)
		verbs_device_stop(server->devices[i]);
	/* rdma_cm may close a device with the last id on it */
	for (unsigned i = 0; i < server->n_endpoints; i++)
		verbs_endpoint_free(server->endpoints[i]);
	for (unsigned i = 0; i < server->n_devices; i++)
		verbs_device_free(server->devices[i]);
}

static void server_close(struct fabric_server *server)
{
	if (!server)
		return;
	server_empty(server);
	if (server->cm)
		rdma_destroy_event_channel(server->cm);
	free(server->extra_listen);
	free(server->device_params);
	(void)close(server->route_fd);
	verbs_delays_destroy(&server->delays);
	mailbox_destroy(&server->mailbox);
	(void)close(server->epoll_fd);
	free(server);
}

static int server_create(struct fabric_server **ret_server)
{
	struct fabric_server *server = calloc(1, sizeof(*server));
	int err;

	if (!server)
		return err_errno(-ENOMEM, "the RDMA server");
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (server->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		goto err_free;
	}
	err = mailbox_init(&server->mailbox);
	if (err)
		goto err_epoll;
	list_init(&server->endings);
	err = verbs_delays_init(&server->delays);
	if (err)
		goto err_mailbox;
	err = verbs_discovery_init(server);
	if (err)
		goto err_delays;
	*ret_server = server;
	return 0;

err_delays:
	verbs_delays_destroy(&server->delays);
err_mailbox:
	mailbox_destroy(&server->mailbox);
err_epoll:
	(void)close(server->epoll_fd);
err_free:
	free(server);
	return err;
}

static int server_open(const struct fabric_server_params *params,
		       const struct fabric_server_events *events, void *ctx,
		       struct fabric_server **ret_server)
{
	struct fabric_server *server = NULL;
	int err = server_create(&server);

	if (err)
		return err;
	server->events = events;
	server->ctx = ctx;
	err = verbs_server_watch(server, mailbox_fd(&server->mailbox));
	if (!err)
		err = verbs_server_watch(server, server->delays.fd);
	if (!err)
		err = verbs_server_watch(server, server->route_fd);
	if (!err)
		err = params_copy(server, params);
	if (!err)
		err = verbs_discovery_open(server);
	if (err) {
		server_close(server);
		return err;
	}
	server->params.devices = NULL;
	*ret_server = server;
	return 0;
}

static int server_fd(const struct fabric_server *server)
{
	return server->epoll_fd;
}

/* No client can connect any more: report that.  Channels that are connected go on, and their end
 * is found by their flushed receives. */
static void cm_failed(struct fabric_server *server, int err)
{
	struct err_saved failed;

	err_save(&failed, err);
	/* the descriptor would wake the loop again and again */
	(void)epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->cm->fd, NULL);
	server->cm_failed = true;
	for (unsigned i = 0; i < server->n_endpoints; i++) {
		verbs_endpoint_unlisten(server->endpoints[i]);
		verbs_endpoint_report(server->endpoints[i],
				      " accepts no channels any more: %s", failed.text);
	}
}

/* False: there is none now. */
static bool cm_process_one(struct fabric_server *server)
{
	struct verbs_cm_event event;
	struct verbs_cm_target *target;
	int err = verbs_cm_get_event(server->cm, &event);

	/* without memory now, the event is still there the next time */
	if (err == -EAGAIN || err == -ENOMEM)
		return false;
	if (err) {
		cm_failed(server, err);
		return false;
	}
	/* a new id has its listener's context until it is admitted */
	target = event.context;
	if (target)
		target->event(target, &event);
	return true;
}

/* Clients that connect without end must not keep the loop from its other work. */
static void cm_process(struct fabric_server *server)
{
	uint64_t until_ns = clock_now_ns() + VERBS_TURN_NS;

	while (server->cm && !server->cm_failed && !server->cm_paused &&
	       cm_process_one(server) && clock_now_ns() < until_ns)
		;
}

/* Messages that are left keep the descriptor readable. */
static void mailbox_process(struct fabric_server *server)
{
	uint64_t until_ns = clock_now_ns() + FABRIC_NOTIFICATIONS_TURN_NS;
	struct verbs_message *message;
	struct list messages;

	list_init(&messages);
	do {
		mailbox_receive_some(&server->mailbox, &messages, 1);
		message = list_first(&messages, struct verbs_message, link);
		if (!message)
			return;
		list_remove(&message->link);
		message->deliver(message);
	} while (clock_now_ns() < until_ns);
}

static void server_process(struct fabric_server *server)
{
	/* in this order: a device's event tells why a channel ends, rdma_cm whether the peer
	 * ended it, and the flushed receive in the mailbox only that it ended */
	for (unsigned i = 0; i < server->n_devices; i++)
		verbs_device_events(server->devices[i]);
	cm_process(server);
	mailbox_process(server);
	verbs_discovery_process(server);
	verbs_delays_process(&server->delays);
}

static unsigned server_n_endpoints(const struct fabric_server *server)
{
	return server->n_endpoints;
}

static const struct fabric_endpoint *server_endpoint(const struct fabric_server *server,
						     unsigned endpoint)
{
	return &server->endpoints[endpoint]->public;
}

static void server_stats(const struct fabric_server *server, unsigned endpoint,
			 struct fabric_endpoint_stats *ret_stats)
{
	*ret_stats = server->endpoints[endpoint]->stats;
}

static int bounded(int option, unsigned most)
{
	return option == FABRIC_OPTION_AUTO || (unsigned)option > most ? (int)most
								       : option;
}

/* The rdma_options in effect on the device. */
static void options_effective(const struct verbs_device *device,
			      struct fabric_port_attr *port)
{
	struct fabric_rdma_options *rdma_options = &port->rdma_options;

	if (rdma_options->connect == FABRIC_OPTION_AUTO)
		rdma_options->connect = FABRIC_CONNECT_CM;
	rdma_options->rd_atomic = bounded(rdma_options->rd_atomic,
					  device->attr.public.responder_resources);
	if (port->active_mtu)
		rdma_options->mtu = bounded(rdma_options->mtu, port->active_mtu);
	if (!device->attr.iwarp)
		return;
	/* iWARP uses TCP's attributes, which the kernel sets */
	rdma_options->mtu = rdma_options->service_level = rdma_options->ack_timeout =
		FABRIC_OPTION_AUTO;
	rdma_options->retry_count = rdma_options->rnr_retry_count = FABRIC_OPTION_AUTO;
}

static int server_device(const struct fabric_server *server, unsigned number,
			 const struct fabric_device_attr **ret_attr,
			 struct fabric_port_attr *ret_port)
{
	const struct verbs_endpoint *endpoint = server->endpoints[number];
	const struct verbs_device *device = endpoint->device;
	int err = verbs_endpoint_check(endpoint);

	if (err)
		return err;
	verbs_device_query_port(device, endpoint->port, &endpoint->public.address,
				ret_port);
	ret_port->rdma_options = device->rdma_options;
	options_effective(device, ret_port);
	*ret_attr = &device->attr.public;
	return 0;
}

const struct fabric_server_ops fabric_verbs_server = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.open = server_open,
	.close = server_close,
	.fd = server_fd,
	.process = server_process,
	.n_endpoints = server_n_endpoints,
	.endpoint = server_endpoint,
	.stats = server_stats,
	.device = server_device,
	.session_open = verbs_session_open,
	.session_close = verbs_session_close,
	.channel_close = verbs_channel_close,
	.channel_connect = verbs_channel_connect,
	.reg_mr = verbs_mr_reg,
	.dereg_mr = verbs_mr_dereg,
};
