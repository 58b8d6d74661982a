/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "fabric/address.h"

/* Entries queried at first, as the kernel clears memory for all of them; and then. */
#define GIDS_FEW 32
#define GIDS_ALL 1024
/* the only partition of Ethernet */
#define PKEY_DEFAULT 0xffff

/* ---- cache ---- */

void verbs_port_cache_clear(struct verbs_port_cache *port_cache)
{
	free(port_cache->gids);
	port_cache->gids = NULL;
	port_cache->n_gids = 0;
	port_cache->port = 0;
}

int verbs_port_cache_attr(struct verbs_port_cache *port_cache, uint8_t port,
			  const struct ibv_port_attr **ret_attr)
{
	int err;

	if (port_cache->port != port) {
		port_cache->port = 0;
		memset(&port_cache->attr, 0, sizeof(port_cache->attr));
		err = ibv_query_port(port_cache->verbs, port, &port_cache->attr);
		if (err)
			return -abs(err);
		port_cache->port = port;
	}
	*ret_attr = &port_cache->attr;
	return 0;
}

static void gids_read(struct verbs_port_cache *port_cache)
{
	struct ibv_gid_entry *gids;
	unsigned room = GIDS_FEW;
	ssize_t n;

	for (;;) {
		gids = malloc(room * sizeof(*gids));
		n = gids ? ibv_query_gid_table(port_cache->verbs, gids, room, 0)
			 : -ENOMEM;
		if (n >= 0 || room == GIDS_ALL)
			break;
		/* perhaps there are more */
		free(gids);
		room = GIDS_ALL;
	}
	/* one that has none may be about to get one */
	if (n <= 0) {
		free(gids);
		return;
	}
	port_cache->gids = gids;
	port_cache->n_gids = (unsigned)n;
}

unsigned verbs_port_cache_gids(struct verbs_port_cache *port_cache,
			       const struct ibv_gid_entry **ret_gids)
{
	if (!port_cache->gids)
		gids_read(port_cache);
	*ret_gids = port_cache->gids;
	return port_cache->n_gids;
}

/* ---- attributes ---- */

bool verbs_port_is_active(struct ibv_context *verbs, uint8_t port)
{
	struct ibv_port_attr attr;

	memset(&attr, 0, sizeof(attr));
	return !ibv_query_port(verbs, port, &attr) && attr.state == IBV_PORT_ACTIVE;
}

unsigned verbs_mtu_bytes(enum ibv_mtu mtu)
{
	return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

enum ibv_mtu verbs_mtu_of(unsigned bytes)
{
	enum ibv_mtu mtu = IBV_MTU_4096;

	while (mtu > IBV_MTU_256 && verbs_mtu_bytes(mtu) > bytes)
		mtu--;
	return mtu;
}

bool verbs_gid_usable(uint32_t type, bool infiniband)
{
	return type == (infiniband ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2);
}

static const char *name_of(const struct verbs_port *local)
{
	return ibv_get_device_name(local->verbs->device);
}

/* ---- an end of channels ---- */

static bool gid_wanted(const struct verbs_port *local, const struct ibv_gid_entry *gid,
		       int index, const uint8_t wanted[16])
{
	if (gid->port_num != local->port ||
	    !verbs_gid_usable(gid->gid_type, local->infiniband))
		return false;
	if (index != FABRIC_OPTION_AUTO)
		return gid->gid_index == (uint32_t)index;
	return !memcmp(gid->gid.raw, wanted, 16);
}

static const struct ibv_gid_entry *gid_find(const struct verbs_port *local,
					    const struct ibv_gid_entry *gids,
					    unsigned n, int index,
					    const uint8_t wanted[16])
{
	for (unsigned i = 0; i < n; i++)
		if (gid_wanted(local, &gids[i], index, wanted))
			return &gids[i];
	/* packets are routed by LIDs; the first GID is always the port's own */
	for (unsigned i = 0; local->infiniband && index == FABRIC_OPTION_AUTO && i < n;
	     i++)
		if (gid_wanted(local, &gids[i], 0, wanted))
			return &gids[i];
	return NULL;
}

static int gid_select(struct verbs_port *local, struct verbs_port_cache *port_cache,
		      const struct fabric_address *address, int index)
{
	static const uint8_t nowhere[16];
	const struct ibv_gid_entry *gids, *gid;
	char text[INET6_ADDRSTRLEN];
	uint8_t wanted[16];
	unsigned n = verbs_port_cache_gids(port_cache, &gids);

	fabric_address_to_gid(address, wanted);
	gid = gid_find(local, gids, n, index, wanted);
	if (gid) {
		local->gid_index = (uint8_t)gid->gid_index;
		memcpy(local->gid, gid->gid.raw, sizeof(local->gid));
		return 0;
	}
	if (index != FABRIC_OPTION_AUTO)
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u: there is no GID %d of %s",
			       name_of(local), local->port, index,
			       local->infiniband ? "InfiniBand" : "RoCE v2");
	if (!memcmp(wanted, nowhere, sizeof(nowhere)))
		return err_set(-EADDRNOTAVAIL,
			       "RDMA device %s, port %u has no IP address to serve at: "
			       "give its interface one, or choose a GID by gid_index",
			       name_of(local), local->port);
	return err_set(-EADDRNOTAVAIL, "RDMA device %s, port %u has no GID %s",
		       name_of(local), local->port,
		       inet_ntop(AF_INET6, wanted, text, sizeof(text)));
}

static int pkey_select(struct verbs_port *local, unsigned n, int wanted)
{
	__be16 pkey;

	if (!local->infiniband &&
	    (wanted == FABRIC_OPTION_AUTO || wanted == PKEY_DEFAULT)) {
		local->pkey = PKEY_DEFAULT;
		return 0;
	}
	for (unsigned i = 0; i < n; i++) {
		if (ibv_query_pkey(local->verbs, local->port, (int)i, &pkey))
			break;
		if (wanted != FABRIC_OPTION_AUTO && ntohs(pkey) != wanted)
			continue;
		local->pkey_index = (uint16_t)i;
		local->pkey = ntohs(pkey);
		return 0;
	}
	if (wanted == FABRIC_OPTION_AUTO)
		return err_set(-EINVAL, "RDMA device %s, port %u is in no partition",
			       name_of(local), local->port);
	return err_set(-EINVAL, "RDMA device %s, port %u has no P_Key 0x%04x",
		       name_of(local), local->port, (unsigned)wanted);
}

int verbs_port_lookup(struct verbs_port_cache *port_cache, uint8_t port,
		      const struct fabric_address *address,
		      const struct fabric_rdma_options *rdma_options,
		      struct verbs_port *ret_local)
{
	struct verbs_port local = { .verbs = port_cache->verbs, .port = port };
	const struct ibv_port_attr *attr;
	int err;

	if (port_cache->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return err_set(-ENOTSUP,
			       "RDMA device %s: iWARP cannot connect without rdma_cm "
			       "(connect = direct)",
			       name_of(&local));
	err = verbs_port_cache_attr(port_cache, port, &attr);
	if (err)
		return err_errno(err, "RDMA device %s, port %u", name_of(&local), port);
	if (attr->state != IBV_PORT_ACTIVE)
		return err_set(-ENETDOWN, "RDMA device %s, port %u is not active",
			       name_of(&local), port);
	local.infiniband = attr->link_layer == IBV_LINK_LAYER_INFINIBAND;
	local.lid = local.infiniband ? attr->lid : 0;
	local.mtu = verbs_mtu_bytes(attr->active_mtu);
	err = gid_select(&local, port_cache, address, rdma_options->gid_index);
	if (!err)
		err = pkey_select(&local, attr->pkey_tbl_len, rdma_options->pkey);
	if (!err)
		*ret_local = local;
	return err;
}

int verbs_port_query(struct ibv_context *verbs, uint8_t port,
		     const struct fabric_address *address,
		     const struct fabric_rdma_options *rdma_options,
		     struct verbs_port *ret_local)
{
	struct verbs_port_cache port_cache = { .verbs = verbs };
	int err =
		verbs_port_lookup(&port_cache, port, address, rdma_options, ret_local);

	verbs_port_cache_clear(&port_cache);
	return err;
}
