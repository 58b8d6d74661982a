/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/fabric/wr.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"

/* As many as a queue asks for. */
#define POLL_MAX 32

/* What is on a channel, in the order in which it was posted. */
struct order {
	struct list link;
	struct fabric_channel *channel;
	uint64_t *cookies; /* a ring of `size` */
	unsigned size, first, n;
};

/* What the fabric has reported, and wr_poll() not yet whole. */
struct report {
	struct list link;
	struct fabric_cq *cq;
	struct fabric_wc wc;
};

/* Those of channels that are gone stay until another one has their address. */
static struct list orders = LIST_INIT(orders);
static struct list reports = LIST_INIT(reports);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct order *order_of(const struct fabric_channel *channel)
{
	struct order *found = NULL;

	(void)pthread_mutex_lock(&lock);
	list_for_each(node, &orders) {
		struct order *order = container_of(node, struct order, link);

		if (order->channel == channel)
			found = order;
	}
	(void)pthread_mutex_unlock(&lock);
	return found;
}

/* What was reported of its channel, and not polled, goes with it. */
static void order_end(struct order *order)
{
	(void)pthread_mutex_lock(&lock);
	list_remove(&order->link);
	list_for_each_safe(node, &reports) {
		struct report *report = container_of(node, struct report, link);

		if (report->wc.owner != order)
			continue;
		list_remove(node);
		free(report);
	}
	(void)pthread_mutex_unlock(&lock);
	free(order->cookies);
	free(order);
}

int wr_connect(const struct fabric_client_ops *ops, struct fabric_cq *cq,
	       const struct fabric_channel_params *params,
	       struct fabric_channel **ret_channel)
{
	struct fabric_channel_params with_owner = *params;
	struct order *order = calloc(1, sizeof(*order)), *old;
	int err;

	ck_assert_ptr_nonnull(order);
	order->cookies = calloc(2 * params->depth + 1, sizeof(*order->cookies));
	ck_assert_ptr_nonnull(order->cookies);
	/* as many may be reported, and not polled yet, while others are on the wire */
	order->size = 2 * params->depth;
	with_owner.owner = order;
	err = ops->connect(cq, &with_owner, ret_channel);
	if (err) {
		free(order->cookies);
		free(order);
		return err;
	}
	old = order_of(*ret_channel);
	if (old)
		order_end(old);
	order->channel = *ret_channel;
	(void)pthread_mutex_lock(&lock);
	list_append(&orders, &order->link);
	(void)pthread_mutex_unlock(&lock);
	return 0;
}

static void order_add(struct order *order, uint64_t cookie)
{
	ck_assert_uint_lt(order->n, order->size);
	order->cookies[(order->first + order->n++) % order->size] = cookie;
}

static int post_one(const struct fabric_client_ops *ops, struct order *order,
		    const struct wr *wr)
{
	const struct fabric_key key = { .addr = wr->remote_addr, .rkey = wr->rkey };
	const struct fabric_op part = { .addr = wr->addr, .bytes = wr->bytes };
	int taken = ops->post_one(order->channel, wr->opcode, wr->region, &key, &part);

	if (taken == 1)
		order_add(order, wr->cookie);
	return taken;
}

int wr_post(const struct fabric_client_ops *ops, struct fabric_channel *channel,
	    const struct wr *wrs, unsigned n)
{
	struct order *order = order_of(channel);
	int taken;

	ck_assert_ptr_nonnull(order);
	if (n == 1 && !wrs->slices &&
	    (wrs->opcode == FABRIC_READ || wrs->opcode == FABRIC_WRITE))
		return post_one(ops, order, wrs);
	for (unsigned i = 0; i < n; i++) {
		const struct fabric_batch run = { .opcode = wrs[i].opcode,
						  .region = wrs[i].region,
						  .remote_addr = wrs[i].remote_addr,
						  .rkey = wrs[i].rkey };
		const struct fabric_op part = { .addr = wrs[i].addr,
						.bytes = wrs[i].bytes };

		if (run.opcode == FABRIC_CAS || run.opcode == FABRIC_FETCH_ADD)
			taken = ops->prepare_atomic(channel, &run, &part,
						    &wrs[i].atomic);
		else if (run.opcode >= FABRIC_PING)
			taken = ops->prepare_inband(channel, &run, &part,
						    &wrs[i].request);
		else if (wrs[i].slices)
			taken = ops->prepare_sges(channel, &run, &part, wrs[i].slices,
						  wrs[i].n_slices);
		else
			taken = (int)ops->prepare(channel, &run, &part, sizeof(part),
						  1);
		if (taken < 0 && i == 0)
			return taken;
		if (taken <= 0)
			break;
	}
	taken = ops->post(channel);
	for (int i = 0; i < taken; i++)
		order_add(order, wrs[i].cookie);
	return taken;
}

static struct report *report_of(const struct fabric_cq *cq)
{
	struct report *found = NULL;

	(void)pthread_mutex_lock(&lock);
	list_for_each(node, &reports) {
		struct report *report = container_of(node, struct report, link);

		if (report->cq == cq && !found)
			found = report;
	}
	(void)pthread_mutex_unlock(&lock);
	return found;
}

static int reports_fetch(const struct fabric_client_ops *ops, struct fabric_cq *cq,
			 unsigned n)
{
	struct fabric_wc wcs[POLL_MAX];
	static _Thread_local unsigned turn;
	bool few = turn++ % 2 && n < POLL_MAX; /* that may go another way */
	int got = ops->poll(cq, wcs, few ? n : POLL_MAX);

	for (int i = 0; i < got; i++) {
		struct report *report = calloc(1, sizeof(*report));

		ck_assert_ptr_nonnull(report);
		ck_assert_uint_gt(wcs[i].n, 0);
		report->cq = cq;
		report->wc = wcs[i];
		(void)pthread_mutex_lock(&lock);
		list_append(&reports, &report->link);
		(void)pthread_mutex_unlock(&lock);
	}
	return got;
}

/* One operation of the report, which goes with its last. */
static struct wc report_take(struct report *report)
{
	struct order *order = report->wc.owner;
	const struct wc wc = {
		.channel = order->channel,
		.cookie = order->cookies[order->first],
		.status = report->wc.status,
		.vendor = report->wc.vendor,
		.text = report->wc.text,
	};

	ck_assert_uint_gt(order->n, 0);
	order->first = (order->first + 1) % order->size;
	order->n--;
	if (--report->wc.n > 0)
		return wc;
	(void)pthread_mutex_lock(&lock);
	list_remove(&report->link);
	(void)pthread_mutex_unlock(&lock);
	free(report);
	return wc;
}

int wr_poll(const struct fabric_client_ops *ops, struct fabric_cq *cq, struct wc *wcs,
	    unsigned n)
{
	unsigned got = 0;
	int result = 1;

	while (got < n && result > 0) {
		struct report *report = report_of(cq);

		if (report)
			wcs[got++] = report_take(report);
		else
			result = reports_fetch(ops, cq, n - got);
	}
	return got ? (int)got : result;
}
