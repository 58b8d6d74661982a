/* SPDX-License-Identifier: BSD-3-Clause */
/* The clients' half of the simulated fabrics. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "simulate/clients.h"
#include "simulate/fabric.h"
#include "simulate/wires.h"

#define POSTED_MAX 512u
#define INBAND_MAX 3u
#define INLINE_MAX 64u

struct fabric_domain {
	struct fabric_endpoint endpoint;
	unsigned objects;
};

struct fabric_local_mr {
	struct fabric_domain *domain;
};

struct fabric_cq {
	struct fabric_domain *domain;
	int fd;
	unsigned n, max;
	struct fabric_wc *wcs;
};

struct posted {
	enum fabric_opcode opcode;
	struct fabric_batch batch;
	struct fabric_op op;
	struct fabric_atomic atomic;
	struct fabric_inband_request inband;
};

struct fabric_channel {
	struct fabric_cq *cq;
	struct wire *wire; /* NULL: it has given up */
	void *owner;
	int alive_fd;
	unsigned depth, n, n_put;
	bool accepted, gone;
	int refused; /* why it was not connected */
	struct posted posted[POSTED_MAX];
};

static unsigned n_objects;

unsigned fabric_client_objects(void)
{
	return n_objects;
}

static void *object_new(size_t bytes)
{
	n_objects++;
	return sim_alloc(bytes);
}

static void object_free(void *object)
{
	n_objects--;
	free(object);
}

/* ---- domains, regions, completion queues ---- */

static bool device_present(void)
{
	return true;
}

static int domain_open(const struct fabric_endpoint *endpoint,
		       const struct fabric_client_params *, unsigned,
		       struct fabric_domain **ret_domain)
{
	struct fabric_domain *domain = object_new(sizeof(*domain));

	domain->endpoint = *endpoint;
	*ret_domain = domain;
	return 0;
}

static void domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	if (domain->objects)
		sim_fail("a domain is closed with %u objects", domain->objects);
	object_free(domain);
}

static const char *domain_device(const struct fabric_domain *domain)
{
	return domain->endpoint.device;
}

static bool domain_removed(struct fabric_domain *)
{
	return false;
}

static void domain_disassociate(struct fabric_domain *)
{
}

static bool domain_holds_device(const struct fabric_domain *)
{
	return false;
}

static int domain_supports(const struct fabric_domain *, enum fabric_capability)
{
	return 0;
}

static unsigned sge_max(const struct fabric_domain *, enum fabric_opcode)
{
	return 1;
}

static uint32_t inline_max(const struct fabric_channel *)
{
	return INLINE_MAX;
}

static int reg_mr(struct fabric_domain *domain, void *, size_t,
		  struct fabric_local_mr **ret_mr)
{
	struct fabric_local_mr *mr;

	if (sim_now_ns < sim_faults.registration_ns && sim_chance(sim_faults.one_in))
		return err_set(-ENOMEM, "the simulated device registers nothing");
	mr = object_new(sizeof(*mr));
	mr->domain = domain;
	domain->objects++;
	*ret_mr = mr;
	return 0;
}

static void dereg_mr(struct fabric_local_mr *mr)
{
	mr->domain->objects--;
	object_free(mr);
}

static int cq_create(struct fabric_domain *domain, unsigned depth,
		     struct fabric_cq **ret_cq)
{
	struct fabric_cq *cq = object_new(sizeof(*cq));

	cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cq->domain = domain;
	cq->max = depth;
	cq->wcs = sim_alloc(depth * sizeof(*cq->wcs));
	domain->objects++;
	*ret_cq = cq;
	return 0;
}

static void cq_free(struct fabric_cq *cq)
{
	cq->domain->objects--;
	(void)close(cq->fd);
	free(cq->wcs);
	object_free(cq);
}

static int cq_fd(const struct fabric_cq *cq)
{
	return cq->fd;
}

static int cq_arm(struct fabric_cq *cq)
{
	eventfd_t count;

	(void)eventfd_read(cq->fd, &count);
	return 0;
}

static int cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	if (n > cq->n)
		n = cq->n;
	memcpy(wcs, cq->wcs, n * sizeof(*wcs));
	cq->n -= n;
	memmove(cq->wcs, cq->wcs + n, cq->n * sizeof(*wcs));
	return (int)n;
}

/* The oldest operation has ended. */
static void complete(struct fabric_channel *channel, int status, const char *text)
{
	struct fabric_cq *cq = channel->cq;

	if (channel->n == 0 || cq->n == cq->max)
		sim_fail("more operations complete than were posted");
	channel->n--;
	memmove(channel->posted, channel->posted + 1,
		(channel->n + channel->n_put) * sizeof(channel->posted[0]));
	cq->wcs[cq->n++] = (struct fabric_wc){
		.owner = channel->owner, .n = 1, .status = status, .text = text
	};
	(void)eventfd_write(cq->fd, 1);
}

static void flush(struct fabric_channel *channel, int status)
{
	while (channel->n > 0) {
		complete(channel, status,
			 status == -ETIMEDOUT ? "no acknowledgement" : "flushed");
		status = -ECONNRESET;
	}
}

/* The client's end leaves the wire; packets on their way arrive all the same. */
static void leave(struct fabric_channel *channel)
{
	if (channel->wire)
		channel->wire->channel = NULL;
	channel->wire = NULL;
}

/* ---- channels ---- */

static int connect_result(struct fabric_channel *channel, int waited)
{
	if (channel->refused)
		return err_set(channel->refused, "the simulated server refuses it");
	if (channel->accepted && !channel->gone)
		return 0;
	if (waited == -ECANCELED)
		return err_set(waited, "cancelled");
	if (waited)
		return err_set(-ETIMEDOUT, "the simulated server does not answer");
	return err_set(-ECONNRESET, "the simulated server ended it");
}

static int channel_connect(struct fabric_cq *cq,
			   const struct fabric_channel_params *params,
			   struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel = object_new(sizeof(*channel));
	int err;

	channel->cq = cq;
	channel->owner = params->owner;
	channel->depth = params->depth;
	channel->alive_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	channel->wire = wire_new(client_running(), &cq->domain->endpoint);
	channel->wire->channel = channel;
	channel->wire->hello = params->hello;
	(void)wire_send(channel->wire, TO_DAEMON, PACKET_CONNECT, NULL, 0);
	err = fd_wait(channel->alive_fd, POLLIN, clock_now_ms() + params->timeout_ms,
		      params->cancelled);
	err = connect_result(channel, err);
	if (!err) {
		eventfd_t count;

		(void)eventfd_read(channel->alive_fd, &count);
		*ret_channel = channel;
		return 0;
	}
	if (channel->wire)
		(void)wire_send(channel->wire, TO_DAEMON, PACKET_DISCONNECT, NULL, 0);
	leave(channel);
	(void)close(channel->alive_fd);
	object_free(channel);
	return err;
}

static struct posted *put(struct fabric_channel *channel,
			  const struct fabric_batch *batch, const struct fabric_op *op)
{
	struct posted *posted = &channel->posted[channel->n + channel->n_put];

	if (channel->n + channel->n_put >= channel->depth)
		sim_fail("a channel takes more operations than it is deep");
	if (op->bytes > WIRE_OP_BYTES && batch->opcode < FABRIC_PING)
		sim_fail("an operation of %llu bytes", (unsigned long long)op->bytes);
	channel->n_put++;
	*posted =
		(struct posted){ .opcode = batch->opcode, .batch = *batch, .op = *op };
	return posted;
}

static unsigned prepare(struct fabric_channel *channel,
			const struct fabric_batch *batch, const struct fabric_op *ops,
			size_t stride, unsigned n)
{
	const char *at = (const char *)ops;

	for (unsigned i = 0; i < n; i++, at += stride)
		(void)put(channel, batch, (const struct fabric_op *)(const void *)at);
	return n;
}

static int prepare_atomic(struct fabric_channel *channel,
			  const struct fabric_batch *batch, const struct fabric_op *op,
			  const struct fabric_atomic *atomic)
{
	put(channel, batch, op)->atomic = *atomic;
	return 1;
}

static int prepare_inband(struct fabric_channel *channel,
			  const struct fabric_batch *batch, const struct fabric_op *op,
			  const struct fabric_inband_request *request)
{
	unsigned n = 0;

	for (unsigned i = 0; i < channel->n + channel->n_put; i++)
		n += channel->posted[i].opcode >= FABRIC_PING;
	if (n >= INBAND_MAX)
		sim_fail("more than %u in-band requests", INBAND_MAX);
	put(channel, batch, op)->inband = *request;
	return 1;
}

static void request_send(struct fabric_channel *channel, const struct posted *posted)
{
	bool writes = posted->opcode == FABRIC_WRITE;
	struct packet *packet = wire_send(channel->wire, TO_DAEMON, PACKET_REQUEST,
					  writes ? posted->op.addr : NULL,
					  writes ? (uint32_t)posted->op.bytes : 0);

	packet->opcode = posted->opcode;
	packet->remote_addr = posted->batch.remote_addr + posted->op.offset;
	packet->rkey = posted->batch.rkey;
	packet->addr = posted->op.addr;
	packet->bytes = (uint32_t)posted->op.bytes;
	packet->atomic = posted->atomic;
	packet->inband = posted->inband;
}

static int post(struct fabric_channel *channel)
{
	unsigned n = channel->n_put;

	channel->n_put = 0;
	if (!channel->wire)
		return err_set(-ECONNRESET, "the simulated channel is dead");
	for (unsigned i = 0; i < n; i++)
		request_send(channel, &channel->posted[channel->n++]);
	return (int)n;
}

static int post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
		    struct fabric_local_mr *region, const struct fabric_key *key,
		    const struct fabric_op *op)
{
	const struct fabric_batch batch = fabric_batch_of(opcode, region, key);

	if (channel->n_put)
		sim_fail("an operation overtakes prepared ones");
	(void)put(channel, &batch, op);
	return post(channel);
}

static void channel_abort(struct fabric_channel *channel)
{
	leave(channel);
	flush(channel, -ECONNRESET);
}

static int channel_alive_fd(const struct fabric_channel *channel)
{
	return channel->alive_fd;
}

static bool channel_alive(struct fabric_channel *channel)
{
	if (!channel->gone)
		return true;
	channel_abort(channel);
	return false;
}

static void channel_free(struct fabric_channel *channel)
{
	struct fabric_cq *cq = channel->cq;
	unsigned kept = 0;

	if (channel->wire)
		(void)wire_send(channel->wire, TO_DAEMON, PACKET_DISCONNECT, NULL, 0);
	leave(channel);
	for (unsigned i = 0; i < cq->n; i++)
		if (cq->wcs[i].owner != channel->owner)
			cq->wcs[kept++] = cq->wcs[i];
	cq->n = kept;
	(void)close(channel->alive_fd);
	object_free(channel);
}

static void channel_leave(const struct fabric_channel *)
{
	sim_fail("a client forks");
}

/* ---- packets ---- */

void client_give_up(struct wire *wire)
{
	struct fabric_channel *channel = wire->channel;

	leave(channel);
	channel->gone = true;
	flush(channel, -ETIMEDOUT);
	(void)eventfd_write(channel->alive_fd, 1);
}

static void answer(struct fabric_channel *channel, const struct packet *packet)
{
	if (packet->status == 0 && packet->addr && packet->opcode != FABRIC_WRITE)
		memcpy(packet->addr, packet->data, packet->bytes);
	complete(channel, packet->status,
		 packet->status ? "the simulated device refuses it" : NULL);
}

void client_receive(struct wire *wire, struct packet *packet)
{
	struct fabric_channel *channel = wire->channel;

	if (!channel)
		return;
	switch (packet->kind) {
	case PACKET_ANSWER:
		answer(channel, packet);
		return;
	case PACKET_ACCEPT:
		channel->accepted = true;
		break;
	case PACKET_REFUSE:
		channel->refused = packet->status;
		leave(channel);
		break;
	default:
		channel->gone = true;
		leave(channel);
		flush(channel, -ECONNRESET);
		break;
	}
	(void)eventfd_write(channel->alive_fd, 1);
}

/* clang-format off */
#define SIM_OPS                                                                         \
	.max_bytes = WIRE_OP_BYTES,                                                     \
	.domain_open = domain_open, .domain_close = domain_close,                       \
	.domain_device = domain_device, .domain_supports = domain_supports,             \
	.sge_max = sge_max, .cq_create = cq_create, .cq_free = cq_free,                 \
	.cq_fd = cq_fd, .cq_arm = cq_arm, .connect = channel_connect,                   \
	.prepare = prepare, .prepare_atomic = prepare_atomic,                           \
	.inband_max = INBAND_MAX, .prepare_inband = prepare_inband,                     \
	.post = post, .post_one = post_one, .poll = cq_poll, .abort = channel_abort,    \
	.alive_fd = channel_alive_fd, .alive = channel_alive,                           \
	.channel_free = channel_free, .channel_leave = channel_leave
/* clang-format on */

const struct fabric_client_ops fabric_verbs_client = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.needs_local_mr = true,
	.device_present = device_present,
	.domain_removed = domain_removed,
	.domain_disassociate = domain_disassociate,
	.domain_holds_device = domain_holds_device,
	.inline_max = inline_max,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
	SIM_OPS,
};

const struct fabric_client_ops fabric_tcp_client = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	SIM_OPS,
};
