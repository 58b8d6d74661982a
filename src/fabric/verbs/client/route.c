/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/route.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "fabric/verbs/common/address.h"
#include "fabric/verbs/common/disassociate.h"
#include "fabric/verbs/common/device_attr.h"

#define PREFIX_BYTES 8
/* Any: nothing is sent. */
#define PORT 9

/* A device that is open. */
struct open_device {
	struct list link;
	struct ibv_context *verbs;
	struct verbs_port_cache
		port_cache; /* as it was since the device told something last */
	pid_t pid;          /* who opened it: its memory mappings are not a child's */
	unsigned users;
	bool failed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = LIST_INIT(all);

/* ---- open devices ---- */

static struct open_device *device_open(struct ibv_device *device)
{
	struct open_device *opened = calloc(1, sizeof(*opened));
	int flags;

	if (!opened)
		return NULL;
	opened->pid = getpid();
	opened->verbs = ibv_open_device(device);
	if (!opened->verbs)
		goto err_free;
	flags = fcntl(opened->verbs->async_fd, F_GETFL);
	if (flags < 0 ||
	    fcntl(opened->verbs->async_fd, F_SETFL, flags | O_NONBLOCK) < 0)
		goto err_close;
	opened->port_cache = verbs_port_cache_of(opened->verbs);
	list_append(&all, &opened->link);
	return opened;

err_close:
	(void)ibv_close_device(opened->verbs);
err_free:
	free(opened);
	return NULL;
}

static void device_close(struct open_device *opened)
{
	if (opened->users)
		return;
	list_remove(&opened->link);
	verbs_port_cache_clear(&opened->port_cache);
	verbs_device_close(opened->verbs);
	free(opened);
}

/* What became of it since it was looked at last. */
static void device_listen(struct open_device *opened)
{
	struct ibv_async_event event;

	errno = 0;
	while (!ibv_get_async_event(opened->verbs, &event)) {
		opened->failed |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		verbs_port_cache_clear(&opened->port_cache);
		ibv_ack_async_event(&event);
	}
	/* the kernel has cut it off */
	opened->failed |= errno == EIO || errno == ENODEV;
}

static struct open_device *open_device_find(const struct ibv_context *verbs)
{
	list_for_each(node, &all) {
		struct open_device *opened =
			container_of(node, struct open_device, link);

		if (opened->verbs == verbs)
			return opened;
	}
	return NULL;
}

void verbs_route_release(struct ibv_context *verbs)
{
	struct open_device *opened;

	(void)pthread_mutex_lock(&lock);
	opened = open_device_find(verbs);
	opened->users--;
	device_close(opened);
	(void)pthread_mutex_unlock(&lock);
}

bool verbs_route_device_failed(const struct ibv_context *verbs)
{
	struct open_device *opened;
	bool failed;

	(void)pthread_mutex_lock(&lock);
	opened = open_device_find(verbs);
	device_listen(opened);
	failed = opened->failed;
	(void)pthread_mutex_unlock(&lock);
	return failed;
}

int verbs_route_port(const struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *source,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local)
{
	struct open_device *opened;
	int err;

	(void)pthread_mutex_lock(&lock);
	opened = open_device_find(verbs);
	device_listen(opened);
	err = verbs_port_lookup(&opened->port_cache, port, source, rdma_options,
				ret_local);
	if (err)
		verbs_port_cache_clear(&opened->port_cache);
	(void)pthread_mutex_unlock(&lock);
	return err;
}

void verbs_route_invalidate(const struct ibv_context *verbs)
{
	(void)pthread_mutex_lock(&lock);
	verbs_port_cache_clear(&open_device_find(verbs)->port_cache);
	(void)pthread_mutex_unlock(&lock);
}

/* ---- what is sought ---- */

struct search {
	uint8_t source[16];            /* GID of this host's */
	bool has_source, strict;       /* strict: no other will do */
	uint8_t prefix[PREFIX_BYTES];  /* of the server's subnet */
	char iwarp[FABRIC_DEVICE_MAX]; /* a device that cannot; "": there is none */
	/* what was found */
	struct open_device *opened;
	uint8_t port;
	uint8_t gid[16];
};

/* The address of this host from which IP would send to the server. */
static bool source_of(const struct fabric_address *server,
		      struct fabric_address *ret_source)
{
	struct fabric_address to = *server;
	struct sockaddr_storage address = { 0 };
	socklen_t bytes = sizeof(address);
	struct sockaddr_in6 in6;
	struct sockaddr_in in;
	bool found = false;
	int fd;

	to.port = PORT;
	verbs_address_to_sockaddr(&to, &address);
	fd = socket(address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	memset(ret_source, 0, sizeof(*ret_source));
	ret_source->family = server->family;
	if (!connect(fd, (struct sockaddr *)&address,
		     server->family == 6 ? sizeof(in6) : sizeof(in)) &&
	    !getsockname(fd, (struct sockaddr *)&address, &bytes)) {
		memcpy(&in6, &address, sizeof(in6));
		memcpy(&in, &address, sizeof(in));
		if (server->family == 6)
			memcpy(ret_source->bytes, &in6.sin6_addr, 16);
		else
			memcpy(ret_source->bytes, &in.sin_addr, 4);
		found = true;
	}
	(void)close(fd);
	return found;
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
	/* the prefix says something only of InfiniBand's */
	return same || (infiniband && !search->strict);
}

static bool device_leads(struct search *search, struct open_device *opened)
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
		search->opened = opened;
		search->port = (uint8_t)gids[i].port_num;
		memcpy(search->gid, gids[i].gid.raw, sizeof(search->gid));
	}
	/* the next one may find what has changed in a way that no device tells */
	if (!found)
		verbs_port_cache_clear(&opened->port_cache);
	return found;
}

static bool is_usable(const struct open_device *opened)
{
	return !opened->failed && opened->pid == getpid();
}

static bool is_open(const struct ibv_device *device)
{
	list_for_each(node, &all) {
		const struct open_device *opened =
			container_of(node, struct open_device, link);

		if (opened->verbs->device == device && is_usable(opened))
			return true;
	}
	return false;
}

static void search_run(struct search *search)
{
	struct ibv_device **list;

	list_for_each(node, &all) {
		struct open_device *opened =
			container_of(node, struct open_device, link);

		if (is_usable(opened))
			device_listen(opened);
		if (is_usable(opened) && device_leads(search, opened))
			return;
	}
	list = ibv_get_device_list(NULL);
	for (int i = 0; list && list[i] && !search->opened; i++) {
		struct open_device *opened =
			is_open(list[i]) ? NULL : device_open(list[i]);

		if (opened && !device_leads(search, opened))
			device_close(opened);
	}
	if (list)
		ibv_free_device_list(list);
}

int verbs_route_find(const struct fabric_address *server,
		     const struct fabric_address *source,
		     const struct fabric_address *near, struct ibv_context **ret_verbs,
		     uint8_t *ret_port, struct fabric_address *ret_source)
{
	char text[VERBS_ADDRESS_TEXT];
	struct fabric_address from = *source;
	struct search search = { 0 };
	uint8_t gid[16];

	search.strict = from.family != 0;
	if (!from.family)
		from = *near;
	search.has_source = from.family || source_of(server, &from);
	if (search.has_source)
		verbs_address_to_gid(&from, search.source);
	verbs_address_to_gid(server, gid);
	memcpy(search.prefix, gid, sizeof(search.prefix));
	(void)pthread_mutex_lock(&lock);
	search_run(&search);
	if (search.opened)
		search.opened->users++;
	(void)pthread_mutex_unlock(&lock);
	if (!search.opened && search.iwarp[0])
		return err_set(-ENOTSUP,
			       "RDMA device %s: iWARP cannot connect without rdma_cm "
			       "(connect = direct)",
			       search.iwarp);
	if (!search.opened)
		return err_set(-ENODEV, "no RDMA device leads to %s",
			       verbs_address_text(server, text));
	*ret_verbs = search.opened->verbs;
	*ret_port = search.port;
	verbs_gid_to_address(search.gid, ret_source);
	return 0;
}
