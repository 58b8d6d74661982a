/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's ops table, with domains and regions: both are hardly more than names, as
 * sockets take any memory. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/tcp/channel.h"
#include "fabric/tcp/cq.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/stream.h"

struct fabric_domain {
	struct fabric_address address;
	bool atomics, inband; /* the server does them */
};

struct fabric_local_mr {
	void *addr;
	size_t bytes;
};

const struct fabric_address *tcp_domain_address(const struct fabric_domain *domain)
{
	return &domain->address;
}

static int client_available(void)
{
	return 0;
}

static int client_domain_open(const struct fabric_endpoint *endpoint,
			      const struct fabric_client_params *params,
			      unsigned timeout_ms, struct fabric_domain **ret_domain)
{
	struct fabric_domain *domain;

	(void)params;
	(void)timeout_ms;
	if (endpoint->address.family != 4 && endpoint->address.family != 6)
		return err_set(-EINVAL, "a tcp endpoint without an address");
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return err_errno(-ENOMEM, "a domain");
	domain->address = endpoint->address;
	domain->atomics = (endpoint->flags & FABRIC_ENDPOINT_ATOMICS) != 0;
	domain->inband = (endpoint->flags & FABRIC_ENDPOINT_INBAND) != 0;
	*ret_domain = domain;
	return 0;
}

static void client_domain_close(struct fabric_domain *domain)
{
	free(domain);
}

static const char *client_domain_device(const struct fabric_domain *domain)
{
	(void)domain;
	return "";
}

static int client_domain_able(const struct fabric_domain *domain,
			      enum fabric_capability capability)
{
	bool able = capability == FABRIC_CAN_ATOMICS ? domain->atomics : domain->inband;

	if (able)
		return 0;
	return err_set(-ENOTSUP, "the server has no %s over tcp",
		       capability == FABRIC_CAN_ATOMICS ? "atomics"
							: "in-band requests");
}

/* Each piece is a request of its own, and all of them go out together. */
static unsigned client_slices_max(const struct fabric_domain *domain,
				  enum fabric_opcode opcode)
{
	(void)domain;
	(void)opcode;
	return 1;
}

static int client_region_create(struct fabric_domain *domain, void *addr, size_t bytes,
				struct fabric_local_mr **ret_region)
{
	struct fabric_local_mr *region = calloc(1, sizeof(*region));

	(void)domain;
	if (!region)
		return err_errno(-ENOMEM, "a region of %zu bytes", bytes);
	region->addr = addr;
	region->bytes = bytes;
	*ret_region = region;
	return 0;
}

static void client_region_free(struct fabric_local_mr *region)
{
	free(region);
}

/* A channel's end turns the descriptor of its cq readable, and poll() finds it. */
static int client_alive_fd(const struct fabric_channel *channel)
{
	(void)channel;
	return -1;
}

const struct fabric_client_ops fabric_tcp_client = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.needs_local_mr = false,
	.max_bytes = STREAM_BYTES_MAX,
	.available = client_available,
	.domain_open = client_domain_open,
	.domain_close = client_domain_close,
	.domain_device = client_domain_device,
	.domain_supports = client_domain_able,
	.sge_max = client_slices_max,
	.reg_mr = client_region_create,
	.dereg_mr = client_region_free,
	.cq_create = tcp_cq_create,
	.cq_free = tcp_cq_free,
	.cq_fd = tcp_cq_fd,
	.cq_arm = tcp_cq_arm,
	.connect = tcp_channel_connect,
	.prepare = tcp_channel_put,
	.prepare_atomic = tcp_channel_put_atomic,
	.inband_max = UINT_MAX,
	.prepare_inband = tcp_channel_put_request,
	.post = tcp_channel_post,
	.post_one = tcp_channel_post_one,
	.poll = tcp_cq_poll,
	.abort = tcp_channel_abort,
	.alive_fd = client_alive_fd,
	.alive = tcp_channel_alive,
	.channel_free = tcp_channel_free,
};
