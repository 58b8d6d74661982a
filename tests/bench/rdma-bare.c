/* SPDX-License-Identifier: BSD-3-Clause */
/* A loop of bare verbs calls, written for speed: one doorbell posts a chain that fills the send
 * queue, every 32nd request and the last of a chain are signaled, completions are polled in
 * batches, small writes are inline.  On iWARP a write that completed may not be placed yet or may
 * have been refused; there a read of one byte ends a chain of writes, as in librmem. */
#include "rdma-loop.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/verbs/client/cm_id.h"
#include "fabric/verbs/client/domain.h"
#include "librmem/channel/credential.h"
#include "librmem/lease/buffer.h"
#include "librmem/lease/lease.h"
#include "librmem/session/session.h"

#define SIGNAL_EVERY 32u
#define INLINE_BYTES 64u
#define TIMEOUT_MS 10000u
#define INITIATOR_DEPTH 16
#define TAKE_MAX 32

static struct verbs_cm_id cm_id;
static struct ibv_cq *cq;
static uint32_t inline_bytes;
static struct ibv_send_wr
	wrs[LOOP_DEPTH_MAX + 1]; /* the last: the read that ends a chain */
static struct ibv_sge sges[LOOP_DEPTH_MAX + 1];

/* ---- set-up ---- */

static int channel_id_store(void *ctx, const struct wire_msg *reply)
{
	*(uint32_t *)ctx = reply->channel.channel;
	return 0;
}

static int qp_create(const struct fabric_domain *domain, uint32_t with_inline)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = LOOP_DEPTH_MAX * 2,
			 .max_recv_wr = 1,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = with_inline },
		.qp_type = IBV_QPT_RC,
	};

	if (rdma_create_qp(cm_id.id, domain->pd, &attr))
		return -errno;
	inline_bytes = with_inline;
	return 0;
}

void bare_open(struct bench_env *env)
{
	static struct wire_msg request = { .type = WIRE_TYPE_open_channel };
	struct rmem *session = env->session;
	const struct domain *domain = &session->domains->domains[0];
	const struct fabric_domain *verbs = domain->fabric;
	struct fabric_channel_params params = {
		.hello = { .session = session->welcome.session },
	};
	struct credential credential;
	struct fabric_address source;

	request.open_channel.endpoint = domain->number;
	if (session_call_until(session, &request, channel_id_store,
			       &params.hello.channel, session_end_ns(session), NULL))
		give_up("the server grants no channel");
	if (credential_give(&credential, connection_secret(session->connection),
			    &params))
		give_up("no memory");
	source = verbs_cm_id_source(&verbs->cm_id);
	if (verbs_cm_id_resolve(&cm_id, &verbs->peer.address, &source,
				verbs->rdma_options.traffic_class, TIMEOUT_MS, NULL))
		give_up("no RDMA route");
	cq = ibv_create_cq(cm_id.id->verbs, (int)LOOP_DEPTH_MAX * 2, NULL, NULL, 0);
	if (!cq)
		give_up("ibv_create_cq");
	if (qp_create(verbs, INLINE_BYTES) && qp_create(verbs, 0))
		give_up("rdma_create_qp");
	if (verbs_cm_id_connect(&cm_id, &params, &verbs->rdma_options, INITIATOR_DEPTH,
				verbs->attr.iwarp))
		give_up("rdma_connect");
}

void bare_close(struct bench_env *env)
{
	(void)env;
	(void)rdma_disconnect(cm_id.id);
	rdma_destroy_qp(cm_id.id);
	(void)ibv_destroy_cq(cq);
	verbs_cm_id_destroy(&cm_id);
}

/* ---- the loop ---- */

struct bare {
	const struct work *work;
	uintptr_t local, remote;
	uint32_t rkey;
	bool confirm;
};

/* Fill in what all requests of the work have in common. */
static void requests_prepare(struct bare *bare, const struct bench_env *env,
			     const struct work *work)
{
	const struct domain *domain = &env->session->domains->domains[0];
	const struct fabric_domain *verbs = domain->fabric;
	const struct attachment *att = atomic_load(&env->lease->attachment);
	const struct attachment_key *key = &att->keys[0][domain->number];
	unsigned flags =
		work->write && work->bytes <= inline_bytes ? IBV_SEND_INLINE : 0;

	*bare = (struct bare){
		.work = work,
		.local = (uintptr_t)env->buffer->addr,
		.remote = key->at.addr,
		.rkey = (uint32_t)key->at.rkey,
		.confirm = work->write && verbs->confirm,
	};
	for (unsigned i = 0; i < LOOP_DEPTH_MAX; i++) {
		sges[i] = (struct ibv_sge){
			.length = work->bytes,
			.lkey = env->buffer->mrs[0]->mr->lkey,
		};
		wrs[i] = (struct ibv_send_wr){
			.sg_list = &sges[i],
			.num_sge = 1,
			.opcode = work->write ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
			.send_flags = flags,
			.wr.rdma.rkey = bare->rkey,
		};
	}
	if (!bare->confirm)
		return;
	sges[LOOP_DEPTH_MAX] = (struct ibv_sge){
		.addr = (uintptr_t)&verbs->sink_byte,
		.length = 1,
		.lkey = verbs->sink->lkey,
	};
	wrs[LOOP_DEPTH_MAX] = (struct ibv_send_wr){
		.sg_list = &sges[LOOP_DEPTH_MAX],
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_READ,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = bare->remote, .rkey = bare->rkey },
	};
}

/* Chain and post n requests, the first for slot `at` of lease and buffer; returns the slot that
 * follows.  The wr_id of a signaled request is the number of requests that complete with it. */
static unsigned chain_post(const struct bare *bare, unsigned at, unsigned n)
{
	struct ibv_send_wr *first = &wrs[at], *last = first, *bad;
	unsigned since = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t offset = (uint64_t)at * bare->work->bytes;

		last = &wrs[at];
		sges[at].addr = bare->local + offset;
		last->wr.rdma.remote_addr = bare->remote + offset;
		at = at + 1 < LOOP_DEPTH_MAX ? at + 1 : 0;
		last->next = &wrs[at];
		last->wr_id = ++since;
		if (since == SIGNAL_EVERY && !bare->confirm) {
			last->send_flags |= IBV_SEND_SIGNALED;
			since = 0;
		} else {
			last->send_flags &= ~(unsigned)IBV_SEND_SIGNALED;
		}
	}
	if (bare->confirm) {
		last->next = &wrs[LOOP_DEPTH_MAX];
		wrs[LOOP_DEPTH_MAX].wr_id = n;
	} else {
		last->next = NULL;
		last->send_flags |= IBV_SEND_SIGNALED;
	}
	if (ibv_post_send(cm_id.id->qp, first, &bad))
		give_up("ibv_post_send");
	return at;
}

static unsigned completions_poll(const struct bench_env *env)
{
	struct ibv_wc wcs[TAKE_MAX];
	int n = ibv_poll_cq(cq, TAKE_MAX, wcs);
	unsigned done = 0;

	for (int i = 0; i < n; i++) {
		if (wcs[i].status)
			give_up(ibv_wc_status_str(wcs[i].status));
		done += (unsigned)wcs[i].wr_id;
	}
	if (n == 0 && env->yields)
		(void)sched_yield();
	return done;
}

void bare_run(struct bench_env *env, const struct work *work, struct slice *ret_slice)
{
	struct stopwatch watch;
	struct bare bare;
	unsigned at = 0;

	requests_prepare(&bare, env, work);
	stopwatch_start(&watch, work);
	while (watch.done < work->n) {
		unsigned n_post = work->depth - (watch.posted - watch.done);
		unsigned left = work->n - watch.posted, n;

		if (n_post > left)
			n_post = left;
		if (n_post > 0) {
			uint64_t now_ns = stopwatch_rest(&watch);

			at = chain_post(&bare, at, n_post);
			stopwatch_posted(&watch, n_post, now_ns);
		}
		n = completions_poll(env);
		if (n > 0)
			stopwatch_done(&watch, n);
	}
	stopwatch_stop(&watch, ret_slice);
}
