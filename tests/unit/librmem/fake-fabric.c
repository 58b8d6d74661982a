/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/fake-fabric.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/fd_wait.h"
#include "unit/librmem/fake-fabric-wire.h"

void fake_reset(void)
{
	fake_drop_late(NULL);
	fake_lock();
	fake.live = 0;
	fake.server = NULL;
	fake.channels = NULL;
	fake.connects = fake.aborts = fake.posts = fake.post_max = 0;
	fake.automatic = fake.black_hole = fake.hold_flush = fake.lose_answers = false;
	fake.removed[0] = '\0';
	fake.max_bytes = FAKE_MAX_BYTES;
	fake.disassociations = fake.closes = fake.cancels = 0;
	fake.holds_device = false;
	fake.available_err = fake.domain_err = fake.connect_err = 0;
	fake.mr_err = fake.cq_err = fake.poll_err = fake.rdma_cq_err = 0;
	fake.refused_rkey = 0;
	fake.inband_err = fake.dmabuf_err = 0;
	fake.dmabufs = 0;
	fake.at_able = NULL;
	fake.at_connect = NULL;
	fake.at_reg_mr = NULL;
	fake.at_prepare = NULL;
	fake.sge_max = 1;
	(void)strcpy(fake.no_atomics, "none");
	(void)strcpy(fake.no_inband, "none");
	(void)strcpy(fake.silent, "none");
	fake.notified = fake.notifications = 0;
	fake.slow_ms = 0;
	for (unsigned i = 0; i < FAKE_SESSIONS; i++)
		fake.tried[i] = 0;
	fake_unlock();
}

struct fabric_channel *fake_latest(void)
{
	struct fabric_channel *channel;

	fake_lock();
	channel = fake.channels;
	fake_unlock();
	return channel;
}

unsigned fake_opened_port(void)
{
	unsigned port;

	fake_lock();
	port = fake.opened.address.port;
	fake_unlock();
	return port;
}

/* Sleep, unless `cancelled` becomes true. */
static int network_sleep(unsigned ms, const atomic_bool *cancelled)
{
	if (fd_wait(-1, 0, clock_now_ms() + ms, cancelled) != -ECANCELED)
		return 0;
	fake.cancels++;
	return err_set(-ECANCELED, "the fake network was cancelled");
}

/* Wait as long as the slow network takes. */
static int network_delay(unsigned timeout_ms, const atomic_bool *cancelled)
{
	unsigned ms = fake.slow_ms;
	int err;

	if (ms == 0)
		return 0;
	err = network_sleep(ms < timeout_ms ? ms : timeout_ms, cancelled);
	if (!err && ms > timeout_ms)
		err = err_set(-ETIMEDOUT, "the fake network is slow");
	return err;
}

static bool fake_device_present(void)
{
	return !fake.available_err;
}

static int fake_available(void)
{
	return fake.available_err ? err_set(fake.available_err, "no fake device") : 0;
}

static bool fake_removed(const struct fabric_endpoint *endpoint)
{
	bool removed;

	fake_lock();
	removed = fake.removed[0] && !strcmp(fake.removed, endpoint->device);
	fake_unlock();
	return removed;
}

static bool fake_domain_removed(struct fabric_domain *domain)
{
	fake.looks++;
	return fake_removed(&domain->endpoint);
}

/* The descriptors are replaced. */
static void fake_domain_disassociate(struct fabric_domain *domain)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	fake_lock();
	list_for_each_entry(struct fabric_cq, cq, &domain->cqs, in_domain)
		(void)dup3(null, cq->fd, O_CLOEXEC);
	fake.disassociations++;
	fake_unlock();
	(void)close(null);
}

static bool fake_domain_holds_device(const struct fabric_domain *domain)
{
	(void)domain;
	return fake.holds_device;
}

static void *object_new(size_t bytes)
{
	fake.live++;
	return calloc(1, bytes);
}

static void object_free(void *object)
{
	fake.live--;
	free(object);
}

static int fake_domain_open(const struct fabric_endpoint *endpoint,
			    const struct fabric_client_params *params,
			    unsigned timeout_ms, struct fabric_domain **ret_domain)
{
	struct fabric_domain *domain;
	int err = network_delay(timeout_ms, params->cancelled);

	fake.opens++;
	fake_lock();
	fake.params = *params;
	fake_unlock();
	fake.domain_timeout_ms = timeout_ms;
	if (err)
		return err;
	if (fake.available_err && endpoint->kind == FABRIC_VERBS) {
		(void)poll(NULL, 0, (int)timeout_ms);
		return err_set(-ETIMEDOUT, "no way to the fake device");
	}
	if (fake.domain_err)
		return err_set(fake.domain_err, "no fake domain");
	if (fake_removed(endpoint))
		return err_set(-ENODEV, "no fake device");
	domain = object_new(sizeof(*domain));
	domain->endpoint = *endpoint;
	list_init(&domain->cqs);
	fake_lock();
	fake.opened = *endpoint;
	fake_unlock();
	*ret_domain = domain;
	return 0;
}

static void fake_domain_close(struct fabric_domain *domain)
{
	if (!domain)
		return;
	if (domain->objects)
		abort();
	fake.closes++;
	object_free(domain);
}

static const char *fake_domain_device(const struct fabric_domain *domain)
{
	return domain->endpoint.device;
}

static int fake_domain_supports(const struct fabric_domain *domain,
				enum fabric_capability capability)
{
	if (capability == FABRIC_CAN_ATOMICS && fake.at_able)
		fake.at_able();
	if (capability == FABRIC_CAN_INBAND &&
	    !strcmp(domain->endpoint.device, fake.no_inband))
		return err_set(-ENOTSUP, "fake device %s has no in-band requests",
			       domain->endpoint.device);
	if (capability == FABRIC_CAN_ATOMICS &&
	    !strcmp(domain->endpoint.device, fake.no_atomics))
		return err_set(-ENOTSUP, "fake device %s has no atomics",
			       domain->endpoint.device);
	return 0;
}

static int fake_reg_mr(struct fabric_domain *domain, void *addr, size_t bytes,
		       struct fabric_local_mr **ret_mr)
{
	int err = fake.at_reg_mr ? fake.at_reg_mr() : fake.mr_err;
	struct fabric_local_mr *mr;

	if (err)
		return err_set(err, "no fake mr");
	mr = object_new(sizeof(*mr));
	mr->domain = domain;
	domain->objects++;
	mr->addr = addr;
	mr->bytes = bytes;
	*ret_mr = mr;
	return 0;
}

/* The fake device reaches also what the process may not map. */
static int fake_reg_dmabuf_mr(struct fabric_domain *domain, int fd, uint64_t offset,
			      void *addr, size_t bytes, struct fabric_local_mr **ret_mr)
{
	char path[32];
	void *at_device;
	int err, again;

	if (fake.dmabuf_err)
		return err_set(fake.dmabuf_err, "fake device %s has no dma-bufs",
			       domain->endpoint.device);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	again = open(path, O_RDWR | O_CLOEXEC);
	at_device = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again,
			 (off_t)offset);
	if (again < 0 || at_device == MAP_FAILED)
		abort();
	(void)close(again);
	err = fake_reg_mr(domain, addr, bytes, ret_mr);
	if (err) {
		(void)munmap(at_device, bytes);
		return err;
	}
	(*ret_mr)->at_device = at_device;
	fake.dmabufs++;
	fake.dmabuf_fd = fd;
	fake.dmabuf_offset = offset;
	return 0;
}

static void fake_dereg_mr(struct fabric_local_mr *mr)
{
	if (mr->at_device)
		(void)munmap(mr->at_device, mr->bytes);
	mr->domain->objects--;
	object_free(mr);
}

static int fake_cq_create(struct fabric_domain *domain, unsigned depth,
			  struct fabric_cq **ret_cq)
{
	struct fabric_cq *cq;

	if (fake.cq_err)
		return err_set(fake.cq_err, "no fake cq");
	if (fake.rdma_cq_err && domain->endpoint.kind == FABRIC_VERBS)
		return err_set(fake.rdma_cq_err, "no fake cq");
	cq = object_new(sizeof(*cq));
	cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	cq->domain = domain;
	domain->objects++;
	cq->max = depth;
	cq->direct = domain->endpoint.flags & FABRIC_ENDPOINT_DIRECT;
	cq->wcs = calloc(depth, sizeof(*cq->wcs));
	fake_lock();
	list_append(&domain->cqs, &cq->in_domain);
	fake_unlock();
	*ret_cq = cq;
	return 0;
}

static void fake_cq_free(struct fabric_cq *cq)
{
	fake_lock();
	list_remove(&cq->in_domain);
	fake_unlock();
	cq->domain->objects--;
	(void)close(cq->fd);
	free(cq->wcs);
	object_free(cq);
}

static int fake_cq_fd(const struct fabric_cq *cq)
{
	return cq->fd;
}

static int fake_cq_arm(struct fabric_cq *cq)
{
	fake.arms++;
	eventfd_t count;

	(void)eventfd_read(cq->fd, &count);
	return 0;
}

/* Both sides exchange the attributes of their queue pairs. */
static int fake_exchange(const struct fabric_channel_params *params, uint32_t qpn)
{
	struct fabric_qp_info ours = { .qpn = qpn, .lid = 5 };
	struct fabric_qp_info theirs;
	int err = params->exchange(params->exchange_ctx, &ours, params->timeout_ms,
				   &theirs);

	if (!err)
		fake.joined_qpn = theirs.qpn;
	fake.cancels += err && err != -ETIMEDOUT;
	return err;
}

static int fake_connect(struct fabric_cq *cq,
			const struct fabric_channel_params *params,
			struct fabric_channel **ret_channel)
{
	static _Atomic uint32_t next_qpn = 1000;
	uint32_t qpn = cq->direct ? ++next_qpn : 0;
	struct fabric_channel *channel;
	int err;

	fake.tried[params->hello.session % FAKE_SESSIONS]++;
	fake.connect_timeout_ms = params->timeout_ms;
	err = network_delay(params->timeout_ms, params->cancelled);
	if (err)
		return err;
	if (fake.connect_err)
		return err_set(fake.connect_err, "no fake channel");
	if (!strcmp(cq->domain->endpoint.device, fake.silent))
		return err_set(-EHOSTUNREACH, "the fake device is not reached");
	if (fake.at_connect) {
		err = fake.at_connect();
		if (err)
			return err_set(err, "the fake peer refused the channel");
	}
	if (fake.black_hole && !cq->direct &&
	    cq->domain->endpoint.kind == FABRIC_VERBS) {
		(void)poll(NULL, 0, (int)params->timeout_ms);
		return err_set(-ETIMEDOUT, "the fake peer does not answer");
	}
	err = cq->direct ? fake_exchange(params, qpn) : 0;
	if (err)
		return err;
	channel = object_new(sizeof(*channel));
	channel->cq = cq;
	channel->hello = params->hello;
	channel->owner = params->owner;
	channel->depth = params->depth;
	channel->qpn = qpn;
	channel->inline_max = fake.inline_max;
	channel->alive_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = fake.server ? fake.server->connect(channel, params) : 0;
	if (err) {
		(void)close(channel->alive_fd);
		object_free(channel);
		return err;
	}
	fake_lock();
	fake.connects++;
	channel->next = fake.channels;
	fake.channels = channel;
	fake_unlock();
	*ret_channel = channel;
	return 0;
}

static uint32_t fake_inline_max(const struct fabric_channel *channel)
{
	return channel->inline_max;
}

/* The local memory is registered if the fabric needs that. */
static bool local_memory_ok(const struct fabric_channel *channel,
			    const struct fabric_batch *batch,
			    const struct fabric_op *part)
{
	return channel->cq->domain->endpoint.kind != FABRIC_VERBS || batch->region ||
	       (batch->opcode == FABRIC_WRITE && part->bytes <= channel->inline_max);
}

/* Append a prepared operation; the caller must keep within the credits.  Under the lock. */
static struct fake_wr *wr_add(struct fabric_channel *channel,
			      const struct fabric_batch *batch,
			      const struct fabric_op *part)
{
	struct fake_wr *wr = &channel->posted[channel->n + channel->n_put];

	if (channel->n + channel->n_put >= channel->depth)
		abort();
	if (fake.at_prepare)
		fake.at_prepare(channel->owner);
	channel->n_put++;
	*wr = (struct fake_wr){
		.opcode = batch->opcode,
		.bytes = (uint32_t)part->bytes,
		.addr = part->addr,
		.mr = batch->region,
		.remote_addr = batch->remote_addr + part->offset,
		.rkey = batch->rkey,
	};
	return wr;
}

static unsigned fake_prepare(struct fabric_channel *channel,
			     const struct fabric_batch *batch,
			     const struct fabric_op *parts, size_t stride, unsigned n)
{
	const char *at = (const char *)parts;

	fake_lock();
	for (unsigned i = 0; i < n; i++, at += stride) {
		const struct fabric_op *part = (const struct fabric_op *)at;

		/* only a first write, over a direct connection, has no bytes */
		if ((part->bytes == 0 && !channel->qpn) ||
		    part->bytes > fake.max_bytes ||
		    !local_memory_ok(channel, batch, part))
			abort();
		(void)wr_add(channel, batch, part);
	}
	fake_unlock();
	return n;
}

static unsigned fake_sge_max(const struct fabric_domain *domain,
			     enum fabric_opcode opcode)
{
	(void)domain;
	(void)opcode;
	return fake.sge_max;
}

static int fake_prepare_sges(struct fabric_channel *channel,
			     const struct fabric_batch *batch,
			     const struct fabric_op *part,
			     const struct fabric_sge *sges, unsigned n)
{
	struct fake_wr *wr = &channel->posted[channel->n + channel->n_put];
	struct fabric_batch first = *batch;
	uint64_t bytes = 0;

	first.region = sges[0].region;
	for (unsigned i = 0; i < n; i++) {
		if (sges[i].bytes == 0 ||
		    (!sges[i].region &&
		     channel->cq->domain->endpoint.kind == FABRIC_VERBS))
			abort();
		bytes += sges[i].bytes;
	}
	if (n < 2 || n > fake.sge_max || bytes != part->bytes)
		abort();
	if (fake_prepare(channel, &first, part, sizeof(*part), 1) != 1)
		return 0;
	memcpy(wr->sges, sges, n * sizeof(*sges));
	wr->n_sges = n;
	return 1;
}

static int fake_prepare_atomic(struct fabric_channel *channel,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_atomic *atomic)
{
	struct fake_wr *wr = &channel->posted[channel->n + channel->n_put];

	if ((batch->remote_addr + part->offset) % FABRIC_ATOMIC_BYTES)
		return err_set(-EINVAL, "a fake misaligned atomic");
	if (part->bytes != FABRIC_ATOMIC_BYTES ||
	    fake_prepare(channel, batch, part, sizeof(*part), 1) != 1)
		abort();
	wr->atomic = *atomic;
	return 1;
}

static int fake_prepare_inband(struct fabric_channel *channel,
			       const struct fabric_batch *batch,
			       const struct fabric_op *part,
			       const struct fabric_inband_request *request)
{
	unsigned requests = 0;

	if (fake.inband_err)
		return err_set(fake.inband_err,
			       "a fake request that cannot be prepared");
	fake_lock();
	for (unsigned i = 0; i < channel->n + channel->n_put; i++)
		requests += channel->posted[i].opcode >= FABRIC_PING;
	if (requests >= FAKE_REQUESTS || part->bytes > FABRIC_INBAND_BYTES_MAX)
		abort();
	wr_add(channel, batch, part)->request = *request;
	fake_unlock();
	return 1;
}

static int fake_post(struct fabric_channel *channel)
{
	unsigned n = channel->n_put;

	fake_lock();
	fake.posts++;
	channel->n_put = 0;
	if (channel->aborted) {
		fake_unlock();
		return err_set(-ECONNRESET, "the fake channel is dead");
	}
	if (fake.post_max && n > fake.post_max) {
		/* post part of them, execute them, and report no completion */
		n = fake.post_max;
		fake.post_max = 0;
		channel->aborted = true;
		for (unsigned i = 0; i < n; i++)
			wire_perform(&channel->posted[channel->n + i]);
		fake_unlock();
		return (int)n;
	}
	channel->n += n;
	for (unsigned i = n; fake.server && fake.server->post && i > 0; i--)
		fake.server->post(channel, &channel->posted[channel->n - i]);
	while (fake.automatic && channel->n > 0 &&
	       !(fake.black_hole && channel->cq->domain->endpoint.kind == FABRIC_VERBS))
		wire_complete(channel, fake.refused_rkey && channel->posted[0].rkey ==
								    fake.refused_rkey
					       ? -EACCES
					       : 0);
	fake_unlock();
	return (int)n;
}

static int fake_post_one(struct fabric_channel *channel, enum fabric_opcode opcode,
			 struct fabric_local_mr *mr, const struct fabric_key *key,
			 const struct fabric_op *part)
{
	const struct fabric_batch batch = fabric_batch_of(opcode, mr, key);

	/* the caller must post prepared operations first, and a dma-buf is not for this call */
	if (channel->n_put > 0 || (mr && mr->at_device))
		abort();
	(void)fake_prepare(channel, &batch, part, 0, 1);
	return fake_post(channel);
}

static int fake_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	fake_lock();
	if (fake.poll_err) {
		fake_unlock();
		return err_set(fake.poll_err, "the fake cq is broken");
	}
	if (n > cq->n)
		n = cq->n;
	memcpy(wcs, cq->wcs, n * sizeof(*wcs));
	cq->n -= n;
	memmove(cq->wcs, cq->wcs + n, cq->n * sizeof(*wcs));
	fake_unlock();
	return (int)n;
}

static void fake_abort(struct fabric_channel *channel)
{
	fake_lock();
	fake.aborts++;
	channel->aborted = true;
	if (fake.server && fake.server->abort)
		fake.server->abort(channel);
	if (!fake.hold_flush)
		wire_flush(channel);
	fake_unlock();
}

static void fake_channel_leave(const struct fabric_channel *channel)
{
	(void)close(channel->alive_fd);
}

static int fake_alive_fd(const struct fabric_channel *channel)
{
	return channel->alive_fd;
}

static bool fake_alive(struct fabric_channel *channel)
{
	bool alive;

	fake_lock();
	alive = !channel->peer_gone;
	fake_unlock();
	if (!alive)
		fake_abort(channel);
	return alive;
}

static void fake_channel_free(struct fabric_channel *channel)
{
	struct fabric_cq *cq = channel->cq;
	unsigned kept = 0;

	fake_lock();
	if (channel->peer)
		fake.server->disconnect(channel);
	for (struct fabric_channel **at = &fake.channels; *at; at = &(*at)->next)
		if (*at == channel) {
			*at = channel->next;
			break;
		}
	/* drop its completions */
	for (unsigned i = 0; i < cq->n; i++)
		if (cq->wcs[i].owner != channel->owner)
			cq->wcs[kept++] = cq->wcs[i];
	cq->n = kept;
	fake_unlock();
	(void)close(channel->alive_fd);
	object_free(channel);
}

static int always_available(void)
{
	return 0;
}

/* clang-format off */
#define FAKE_OPS                                                                       \
	.max_bytes = FAKE_MAX_BYTES,                                                   \
	.domain_open = fake_domain_open, .domain_close = fake_domain_close,            \
	.domain_device = fake_domain_device, .domain_supports = fake_domain_supports,  \
	.reg_mr = fake_reg_mr, .reg_dmabuf_mr = fake_reg_dmabuf_mr,                    \
	.dereg_mr = fake_dereg_mr,                                                     \
	.cq_create = fake_cq_create, .cq_free = fake_cq_free,                          \
	.cq_fd = fake_cq_fd, .cq_arm = fake_cq_arm, .connect = fake_connect,           \
	.sge_max = fake_sge_max, .inband_max = FAKE_REQUESTS,                          \
	.prepare = fake_prepare, .prepare_sges = fake_prepare_sges,                    \
	.prepare_atomic = fake_prepare_atomic, .prepare_inband = fake_prepare_inband,  \
	.post = fake_post, .post_one = fake_post_one, .poll = fake_poll,               \
	.abort = fake_abort, .alive_fd = fake_alive_fd, .alive = fake_alive,           \
	.channel_leave = fake_channel_leave,                                           \
	.channel_free = fake_channel_free
/* clang-format on */

const struct fabric_client_ops fabric_verbs_client = {
	.name = "rdma",
	.kind = FABRIC_VERBS,
	.needs_local_mr = true,
	.device_present = fake_device_present,
	.available = fake_available,
	.domain_removed = fake_domain_removed,
	.domain_disassociate = fake_domain_disassociate,
	.domain_holds_device = fake_domain_holds_device,
	.inline_max = fake_inline_max,
	FAKE_OPS,
};

const struct fabric_client_ops fabric_tcp_client = {
	.name = "tcp",
	.kind = FABRIC_TCP,
	.needs_local_mr = false,
	.available = always_available,
	FAKE_OPS,
};
