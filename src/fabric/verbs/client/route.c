/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/route.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "fabric/address.h"
#include "fabric/listen.h"
#include "fabric/verbs/common/context.h"

#define PREFIX_BYTES 8
/* Any port: no packet is sent. */
#define PORT 9

/* A device that is open. */
struct verbs_open_device {
	struct list link;
	struct ibv_context *verbs;
	struct verbs_port_cache port_cache; /* since the device's last event */
	pid_t pid; /* of the process that opened it: a child lacks its memory mappings */
	unsigned users;
	bool failed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = LIST_INIT(all);

/* ---- open devices ---- */

static struct verbs_open_device *device_open(struct ibv_device *device)
{
	struct verbs_open_device *opened = calloc(1, sizeof(*opened));

	if (!opened)
		return NULL;
	opened->pid = getpid();
	opened->verbs = ibv_open_device(device);
	if (!opened->verbs)
		goto err_free;
	if (verbs_set_nonblocking(opened->verbs->async_fd, "a device's descriptor"))
		goto err_close;
	opened->port_cache.verbs = opened->verbs;
	list_append(&all, &opened->link);
	return opened;

err_close:
	(void)ibv_close_device(opened->verbs);
err_free:
	free(opened);
	return NULL;
}

static void device_close(struct verbs_open_device *opened)
{
	if (opened->users)
		return;
	list_remove(&opened->link);
	verbs_port_cache_clear(&opened->port_cache);
	verbs_device_close(opened->verbs);
	free(opened);
}

/* Read the device's events. */
static void device_listen(struct verbs_open_device *opened)
{
	struct ibv_async_event event;

	errno = 0;
	while (!ibv_get_async_event(opened->verbs, &event)) {
		opened->failed |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		verbs_port_cache_clear(&opened->port_cache);
		ibv_ack_async_event(&event);
	}
	/* the kernel has cut the device off */
	opened->failed |= errno == EIO || errno == ENODEV;
}

void verbs_route_release(struct verbs_route *route)
{
	(void)pthread_mutex_lock(&lock);
	route->device->users--;
	device_close(route->device);
	(void)pthread_mutex_unlock(&lock);
}

bool verbs_route_device_failed(const struct verbs_route *route)
{
	bool failed;

	(void)pthread_mutex_lock(&lock);
	device_listen(route->device);
	failed = route->device->failed;
	(void)pthread_mutex_unlock(&lock);
	return failed;
}

int verbs_route_port(const struct verbs_route *route,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local)
{
	struct verbs_port_cache *port_cache = &route->device->port_cache;
	int err;

	(void)pthread_mutex_lock(&lock);
	device_listen(route->device);
	err = verbs_port_lookup(port_cache, route->port, &route->source, rdma_options,
				ret_local);
	if (err)
		verbs_port_cache_clear(port_cache);
	(void)pthread_mutex_unlock(&lock);
	return err;
}

void verbs_route_invalidate(const struct verbs_route *route)
{
	(void)pthread_mutex_lock(&lock);
	verbs_port_cache_clear(&route->device->port_cache);
	(void)pthread_mutex_unlock(&lock);
}

/* ---- search ---- */

struct search {
	uint8_t source[16];            /* GID of this host's address */
	bool has_source, strict;       /* strict: accept no other GID */
	uint8_t prefix[PREFIX_BYTES];  /* of the server's subnet */
	char iwarp[FABRIC_DEVICE_MAX]; /* an iWARP device, for the error; "": none */
	struct verbs_route route;      /* result; device NULL: none */
};

/* The address of this host from which IP would send to the server. */
static bool source_of(const struct fabric_address *server,
		      struct fabric_address *ret_source)
{
	struct fabric_address to = *server;

	to.port = PORT;
	return !fabric_address_source(&to, ret_source);
}

static bool port_usable(struct verbs_port_cache *port_cache, uint8_t port,
			bool *ret_infiniband)
{
	const struct ibv_port_attr *attr;

	if (verbs_port_cache_attr(port_cache, port, &attr) ||
	    attr->state != IBV_PORT_ACTIVE)
		return false;
	*ret_infiniband = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
	return true;
}

static bool gid_leads(struct search *search, struct verbs_port_cache *port_cache,
		      const struct ibv_gid_entry *gid)
{
	bool infiniband = false, same;

	same = search->has_source &&
	       !memcmp(gid->gid.raw, search->source, sizeof(search->source));
	if (!same && memcmp(gid->gid.raw, search->prefix, sizeof(search->prefix)) != 0)
		return false;
	if (!port_usable(port_cache, (uint8_t)gid->port_num, &infiniband) ||
	    !verbs_gid_usable(gid->gid_type, infiniband))
		return false;
	/* only InfiniBand's prefix names a subnet */
	return same || (infiniband && !search->strict);
}

static bool device_leads(struct search *search, struct verbs_open_device *opened)
{
	const struct ibv_gid_entry *gids;
	bool found = false;
	unsigned n;

	if (opened->verbs->device->transport_type == IBV_TRANSPORT_IWARP) {
		(void)snprintf(search->iwarp, sizeof(search->iwarp), "%s",
			       ibv_get_device_name(opened->verbs->device));
		return false;
	}
	n = verbs_port_cache_gids(&opened->port_cache, &gids);
	for (unsigned i = 0; i < n && !found; i++) {
		found = gid_leads(search, &opened->port_cache, &gids[i]);
		if (!found)
			continue;
		search->route.device = opened;
		search->route.verbs = opened->verbs;
		search->route.port = (uint8_t)gids[i].port_num;
		fabric_address_from_gid(gids[i].gid.raw, &search->route.source);
	}
	/* the next search may find what has changed without an event */
	if (!found)
		verbs_port_cache_clear(&opened->port_cache);
	return found;
}

static bool is_usable(const struct verbs_open_device *opened)
{
	return !opened->failed && opened->pid == getpid();
}

static bool is_open(const struct ibv_device *device)
{
	list_for_each_entry(const struct verbs_open_device, opened, &all, link) {
		if (opened->verbs->device == device && is_usable(opened))
			return true;
	}
	return false;
}

static void search_run(struct search *search)
{
	struct ibv_device **list;

	list_for_each_entry(struct verbs_open_device, opened, &all, link) {
		if (is_usable(opened))
			device_listen(opened);
		if (is_usable(opened) && device_leads(search, opened))
			return;
	}
	list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i] && !search->route.device; i++) {
		struct verbs_open_device *opened =
			is_open(list[i]) ? NULL : device_open(list[i]);

		if (opened && !device_leads(search, opened))
			device_close(opened);
	}
	if (list)
		ibv_free_device_list(list);
}

int verbs_route_find(const struct fabric_address *server,
		     const struct fabric_address *source,
		     const struct fabric_address *route_source,
		     struct verbs_route *ret_route)
{
	char text[FABRIC_ADDRESS_TEXT];
	struct fabric_address from = *source;
	struct search search = { 0 };
	uint8_t gid[16];

	search.strict = from.family != 0;
	if (!from.family)
		from = *route_source;
	search.has_source = from.family || source_of(server, &from);
	if (search.has_source)
		fabric_address_to_gid(&from, search.source);
	fabric_address_to_gid(server, gid);
	memcpy(search.prefix, gid, sizeof(search.prefix));
	(void)pthread_mutex_lock(&lock);
	search_run(&search);
	if (search.route.device)
		search.route.device->users++;
	(void)pthread_mutex_unlock(&lock);
	if (!search.route.device && search.iwarp[0])
		return err_set(-ENOTSUP,
			       "RDMA device %s: iWARP cannot connect without rdma_cm "
			       "(connect = direct)",
			       search.iwarp);
	if (!search.route.device)
		return err_set(-ENODEV, "no RDMA device leads to %s",
			       fabric_address_text(server, text));
	*ret_route = search.route;
	return 0;
}
