/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's table of functions, and local memory regions: a socket takes any memory, so
 * there is nothing to register. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/tcp/channel.h"
#include "fabric/tcp/cq.h"
#include "fabric/tcp/domain.h"
#include "fabric/tcp/stream.h"

struct fabric_local_mr {
	void *addr;
	size_t bytes;
};

static int client_available(void)
{
	return 0;
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
	.domain_open = tcp_domain_open,
	.domain_close = tcp_domain_close,
	.domain_device = tcp_domain_device,
	.domain_supports = tcp_domain_supports,
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
