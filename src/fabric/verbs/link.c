/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/link.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/err.h"
#include "fabric/verbs/failure.h"
#include "fabric/verbs/poke.h"
#include "fabric/verbs/sigpipe.h"
#include "fabric/verbs/status.h"

/* Every so manieth request of a batch, and its last, asks for an entry. */
#define SIGNAL_EVERY 16
#define INLINE_BYTES 64
/* siw answers a read this short from a single page, whatever it was to read */
#define SIW_SHORT_BYTES 32
#define PAGE_BYTES_MIN 4096u
#define INITIATOR_DEPTH_MAX 16

enum op_role {
	OP_CALLERS, /* completes an operation */
	OP_HEAD,    /* first part of an operation that is cut in two */
	OP_CONFIRM, /* a read that confirms the writes before it */
};

/* A work request that was posted. */
struct link_op {
	struct fabric_channel *channel;
	uint64_t cookie;
	enum op_role role;
};

struct fabric_channel {
	struct fabric_cq *cq;
	struct list link; /* of the cq */
	struct verbs_dial dial;
	struct verbs_poke poke; /* iWARP */
	bool confirm;
	atomic_bool dead; /* takes nothing any more */
	atomic_bool aborted;
	unsigned depth;
	unsigned outstanding; /* taken, and not yet polled by the owner */
	uint32_t inline_bytes;
	struct link_op *ops; /* a ring: n_posted from `first` on are not complete */
	unsigned n_ops, first, n_posted;
	/* of a batch while it is posted */
	struct ibv_send_wr *send;
	struct ibv_sge *sge;
};

/* Requests that may be under way at a time. */
static unsigned send_room(const struct fabric_channel *channel)
{
	return channel->n_ops + (channel->confirm ? VERBS_POKES : 0);
}

static int qp_try(struct fabric_channel *channel, uint32_t inline_bytes)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = channel->cq->cq,
		.recv_cq = channel->cq->cq,
		.cap = { .max_send_wr = send_room(channel),
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = inline_bytes },
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(channel->dial.id, channel->cq->domain->pd, &attr))
		return verbs_failure();
	channel->inline_bytes = inline_bytes;
	return 0;
}

static int qp_create(struct fabric_channel *channel)
{
	const struct verbs_facts *facts = &channel->cq->domain->facts;
	int err;

	if (send_room(channel) > facts->max_qp_wr)
		return err_set(-EINVAL,
			       "a channel of depth %u: RDMA device %s allows %u "
			       "requests per queue pair",
			       channel->depth, facts->name, facts->max_qp_wr);
	/* not every device takes data in the request itself */
	err = qp_try(channel, INLINE_BYTES);
	if (err)
		err = qp_try(channel, 0);
	return err ? err_errno(err, "RDMA device %s: rdma_create_qp", facts->name) : 0;
}

static struct fabric_channel *link_alloc(struct fabric_cq *cq, unsigned depth)
{
	struct fabric_channel *channel = calloc(1, sizeof(*channel));

	if (!channel)
		return NULL;
	channel->cq = cq;
	channel->confirm = cq->domain->confirm;
	channel->poke = VERBS_POKE_NONE;
	channel->depth = depth;
	/* a batch is followed by one confirming read, short reads are cut in two */
	channel->n_ops = channel->confirm ? 2 * depth : depth;
	channel->ops = calloc(channel->n_ops, sizeof(*channel->ops));
	channel->send = calloc(channel->n_ops, sizeof(*channel->send));
	channel->sge = calloc(channel->n_ops, sizeof(*channel->sge));
	if (channel->ops && channel->send && channel->sge)
		return channel;
	free(channel->sge);
	free(channel->send);
	free(channel->ops);
	free(channel);
	return NULL;
}

static void link_release(struct fabric_channel *channel)
{
	free(channel->sge);
	free(channel->send);
	free(channel->ops);
	free(channel);
}

/* An id on the domain's device, with a queue pair, connected. */
static int link_dial(struct fabric_channel *channel,
		     const struct fabric_channel_params *params)
{
	struct fabric_domain *domain = channel->cq->domain;
	uint8_t depth = domain->facts.initiator_depth;
	struct sockaddr_storage source;
	int err;

	/* the domain's own address, or the way could lead through another device */
	verbs_dial_source(&domain->route, &source);
	err = verbs_dial_resolve(&channel->dial, &domain->address,
				 (struct sockaddr *)&source, params->timeout_ms);
	if (err)
		return err;
	if (channel->dial.id->verbs != domain->route.id->verbs) {
		err = err_set(-EHOSTUNREACH, "RDMA device %s leads to %s no more",
			      domain->facts.name, channel->dial.peer);
		goto err_dial;
	}
	err = qp_create(channel);
	if (err)
		goto err_dial;
	if (depth > INITIATOR_DEPTH_MAX)
		depth = INITIATOR_DEPTH_MAX;
	err = verbs_dial_connect(&channel->dial, &params->hello, depth);
	if (err)
		goto err_qp;
	if (domain->facts.iwarp)
		err = verbs_poke_start(&channel->poke, channel->dial.events->fd);
	if (err)
		goto err_qp;
	return 0;

err_qp:
	rdma_destroy_qp(channel->dial.id);
err_dial:
	verbs_dial_end(&channel->dial);
	return err;
}

int verbs_link_connect(struct fabric_cq *cq, const struct fabric_channel_params *params,
		       struct fabric_channel **ret_channel)
{
	struct fabric_channel *channel;
	int err;

	channel = link_alloc(cq, params->depth);
	if (!channel)
		return err_errno(-ENOMEM, "a channel of depth %u", params->depth);
	err = verbs_cq_join(cq, &channel->link, channel->depth);
	if (err)
		goto err_release;
	err = link_dial(channel, params);
	if (err)
		goto err_leave;
	*ret_channel = channel;
	return 0;

err_leave:
	verbs_cq_leave(cq, &channel->link, channel->depth);
err_release:
	link_release(channel);
	return err;
}

static struct link_op *op_at(uint64_t wr_id)
{
	return (struct link_op *)(uintptr_t)wr_id;
}

static struct link_op *op_next(struct fabric_channel *channel)
{
	unsigned at = channel->first + channel->n_posted++;
	struct link_op *op =
		&channel->ops[at < channel->n_ops ? at : at - channel->n_ops];

	op->channel = channel;
	return op;
}

static void send_fill(struct fabric_channel *channel, unsigned i,
		      const struct fabric_wr *wr, enum op_role role)
{
	struct ibv_send_wr *send = &channel->send[i];
	struct ibv_sge *sge = &channel->sge[i];
	struct link_op *op = op_next(channel);

	op->cookie = wr->cookie;
	op->role = role;
	*sge = (struct ibv_sge){
		.addr = (uintptr_t)wr->addr,
		.length = wr->bytes,
		.lkey = wr->region->mr->lkey,
	};
	send->wr_id = (uintptr_t)op;
	send->next = send + 1;
	send->sg_list = sge;
	send->num_sge = 1;
	send->send_flags = 0;
	send->opcode = IBV_WR_RDMA_READ;
	if (wr->opcode == FABRIC_WRITE) {
		send->opcode = IBV_WR_RDMA_WRITE;
		if (wr->bytes <= channel->inline_bytes)
			send->send_flags = IBV_SEND_INLINE;
	}
	send->wr.rdma.remote_addr = wr->remote_addr;
	send->wr.rdma.rkey = (uint32_t)wr->rkey;
}

/* Read back one byte of what the last write went to: when it is here, the write and all
 * before it on this queue pair are placed; when they were refused, it never comes. */
static void send_confirm(struct fabric_channel *channel, unsigned i,
			 const struct fabric_wr *last_write)
{
	struct fabric_domain *domain = channel->cq->domain;
	struct fabric_region sink = { .mr = domain->sink };
	const struct fabric_wr read = {
		.opcode = FABRIC_READ,
		.bytes = 1,
		.addr = &domain->sink_byte,
		.region = &sink,
		.remote_addr = last_write->remote_addr,
		.rkey = last_write->rkey,
	};

	send_fill(channel, i, &read, OP_CONFIRM);
}

/* The part of a short read that lies on its first page, if it goes beyond: siw, at the
 * peer, would take the rest from the wrong place. */
static uint32_t read_head(const struct fabric_channel *channel,
			  const struct fabric_wr *wr)
{
	uint32_t on_page =
		PAGE_BYTES_MIN - (uint32_t)(wr->remote_addr % PAGE_BYTES_MIN);

	if (!channel->confirm || wr->opcode != FABRIC_READ ||
	    wr->bytes > SIW_SHORT_BYTES || wr->bytes <= on_page)
		return 0;
	return on_page;
}

static unsigned op_fill(struct fabric_channel *channel, unsigned n_send,
			const struct fabric_wr *wr)
{
	uint32_t head_bytes = read_head(channel, wr);
	struct fabric_wr part = *wr;

	if (!head_bytes) {
		send_fill(channel, n_send, wr, OP_CALLERS);
		return n_send + 1;
	}
	part.bytes = head_bytes;
	send_fill(channel, n_send, &part, OP_HEAD);
	part.addr = (char *)wr->addr + head_bytes;
	part.remote_addr += head_bytes;
	part.bytes = wr->bytes - head_bytes;
	send_fill(channel, n_send + 1, &part, OP_CALLERS);
	return n_send + 2;
}

/* Fill the batch; returns the number of its requests. */
static unsigned batch_fill(struct fabric_channel *channel, const struct fabric_wr *wrs,
			   unsigned n)
{
	const struct fabric_wr *last_write = NULL;
	unsigned n_send = 0;

	for (unsigned i = 0; i < n; i++) {
		n_send = op_fill(channel, n_send, &wrs[i]);
		if (channel->confirm && wrs[i].opcode == FABRIC_WRITE)
			last_write = &wrs[i];
	}
	/* only the confirming read may speak for the writes before it */
	if (last_write)
		send_confirm(channel, n_send++, last_write);
	else
		for (unsigned i = SIGNAL_EVERY - 1; i < n_send; i += SIGNAL_EVERY)
			channel->send[i].send_flags |= IBV_SEND_SIGNALED;
	channel->send[n_send - 1].send_flags |= IBV_SEND_SIGNALED;
	channel->send[n_send - 1].next = NULL;
	return n_send;
}

int verbs_link_post(struct fabric_channel *channel, const struct fabric_wr *wrs,
		    unsigned n)
{
	struct ibv_send_wr *bad = NULL;
	struct verbs_sigpipe sigpipe;
	unsigned n_send, done, taken = 0;
	int err;

	if (atomic_load_explicit(&channel->dead, memory_order_relaxed))
		return err_set(-ECONNRESET, "the channel to %s is dead",
			       channel->dial.peer);
	if (n > channel->depth - channel->outstanding)
		n = channel->depth - channel->outstanding;
	if (!n)
		return 0;
	n_send = batch_fill(channel, wrs, n);
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	err = ibv_post_send(channel->dial.id->qp, channel->send, &bad);
	verbs_sigpipe_end(&sigpipe);
	if (!err) {
		channel->outstanding += n;
		return (int)n;
	}
	/* what the device took may not ask for an entry, but in ERROR every request
	 * gets one */
	done = bad ? (unsigned)(bad - channel->send) : 0;
	channel->n_posted -= n_send - done;
	verbs_link_abort(channel);
	if (!done)
		return err_errno(-ECONNRESET,
				 "the channel to %s: ibv_post_send gives %d",
				 channel->dial.peer, err);
	for (unsigned i = 0; i < done; i++)
		taken += op_at(channel->send[i].wr_id)->role == OP_CALLERS;
	channel->outstanding += taken;
	return (int)taken;
}

static void op_ready(struct fabric_channel *channel, enum ibv_wc_status status,
		     uint32_t vendor)
{
	const struct link_op *op = &channel->ops[channel->first];
	const struct fabric_wc wc = {
		.channel = channel,
		.cookie = op->cookie,
		.status = verbs_status_err(status, channel->cq->domain->facts.iwarp),
		.vendor = vendor,
		.text = status == IBV_WC_SUCCESS ? NULL : ibv_wc_status_str(status),
	};

	if (op->role == OP_CALLERS)
		verbs_cq_ready(channel->cq, &wc);
	channel->first = channel->first + 1 < channel->n_ops ? channel->first + 1 : 0;
	channel->n_posted--;
}

/* What an entry says of the requests before its own.  An error other than a flush is
 * met when the device comes to the request, so those before it succeeded; but writes
 * that wait for a confirming read are in doubt, or share its fate. */
static enum ibv_wc_status status_before(const struct link_op *op,
					const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS)
		return IBV_WC_SUCCESS;
	if (!op->channel->confirm)
		return wc->status == IBV_WC_WR_FLUSH_ERR ? IBV_WC_WR_FLUSH_ERR
							 : IBV_WC_SUCCESS;
	return op->role == OP_CONFIRM ? wc->status : IBV_WC_WR_FLUSH_ERR;
}

/* The device has put the queue pair into ERROR. */
static void link_broken(struct fabric_channel *channel)
{
	bool was_dead =
		atomic_exchange_explicit(&channel->dead, true, memory_order_relaxed);

	/* what was posted since then is lost, see verbs_cq_poll() */
	if (channel->cq->domain->facts.iwarp && !was_dead)
		verbs_link_abort(channel);
}

void verbs_link_complete(const struct ibv_wc *wc)
{
	/* of a failed entry nothing is valid but this, status and vendor_err */
	const struct link_op *op = op_at(wc->wr_id);
	struct fabric_channel *channel = op->channel;
	unsigned last = (unsigned)(op - channel->ops);
	enum ibv_wc_status before = status_before(op, wc);

	if (wc->status != IBV_WC_SUCCESS)
		link_broken(channel);
	while (channel->n_posted && channel->first != last)
		op_ready(channel, before, wc->vendor_err);
	if (channel->n_posted)
		op_ready(channel, wc->status, wc->vendor_err);
}

struct fabric_channel *verbs_link_of(struct list *node)
{
	return container_of(node, struct fabric_channel, link);
}

bool verbs_link_aborted(const struct fabric_channel *channel)
{
	return atomic_load(&channel->aborted);
}

void verbs_link_lose(struct fabric_channel *channel)
{
	while (channel->n_posted)
		op_ready(channel, IBV_WC_WR_FLUSH_ERR, 0);
}

void verbs_link_taken(struct fabric_channel *channel)
{
	channel->outstanding--;
}

void verbs_link_abort(struct fabric_channel *channel)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct verbs_sigpipe sigpipe;

	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	(void)ibv_modify_qp(channel->dial.id->qp, &attr, IBV_QP_STATE);
	verbs_sigpipe_end(&sigpipe);
	if (!channel->cq->domain->facts.iwarp)
		return;
	atomic_store(&channel->aborted, true);
	verbs_cq_wake(channel->cq);
}

int verbs_link_alive_fd(const struct fabric_channel *channel)
{
	return channel->poke.fd >= 0 ? channel->poke.fd : channel->dial.events->fd;
}

static void link_disconnect(struct fabric_channel *channel)
{
	struct verbs_sigpipe sigpipe;

	verbs_sigpipe_begin(&sigpipe, channel->cq->domain->facts.iwarp);
	(void)rdma_disconnect(channel->dial.id);
	verbs_sigpipe_end(&sigpipe);
}

bool verbs_link_alive(struct fabric_channel *channel)
{
	struct verbs_cm_event event;
	bool ended = false;
	int err;

	while (!(err = verbs_cm_take(channel->dial.events, &event)))
		if (event.type == RDMA_CM_EVENT_DISCONNECTED ||
		    event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			ended = true;
	if (ended || err != -EAGAIN) {
		/* what is under way would else wait for the transport's time-out */
		verbs_link_abort(channel);
		link_disconnect(channel);
	}
	verbs_poke_run(&channel->poke, channel->dial.id->qp);
	return !atomic_load_explicit(&channel->dead, memory_order_relaxed);
}

void verbs_link_free(struct fabric_channel *channel)
{
	if (!channel)
		return;
	link_disconnect(channel);
	verbs_poke_end(&channel->poke);
	/* what is still to be drained must not abort a queue pair that is gone */
	atomic_store_explicit(&channel->dead, true, memory_order_relaxed);
	rdma_destroy_qp(channel->dial.id);
	verbs_cq_forget(channel->cq, channel);
	verbs_cq_leave(channel->cq, &channel->link, channel->depth);
	verbs_dial_end(&channel->dial);
	link_release(channel);
}
