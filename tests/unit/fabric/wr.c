/* SPDX-License-Identifier: BSD-3-Clause */
/* Cookies of the outstanding operations of each channel, and completions of several
 * operations split into single ones. */
#include "unit/fabric/wr.h"

#include <check.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/list.h"

/* Limit of a poll, as for a queue of the library. */
#define POLL_MAX 32

/* The cookies of a channel's outstanding operations, in the order posted. */
struct order {
	struct list link;
	struct fabric_channel *channel;
	uint64_t *cookies; /* a ring buffer of `size` */
	unsigned size, first, n;
};

/* A completion of the fabric with operations that wr_poll() has not returned. */
struct report {
	struct list link;
	struct fabric_cq *cq;
	struct fabric_wc wc;
};

/* The order of a freed channel stays until a new channel has that address. */
static struct list orders = LIST_INIT(orders);
static struct list reports = LIST_INIT(reports);
_Atomic unsigned wr_worn;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct order *order_of(const struct fabric_channel *channel)
{
	struct order *found = NULL;

	(void)pthread_mutex_lock(&lock);
	list_for_each_entry(struct order, order, &orders, link) {
		if (order->channel == channel)
			found = order;
	}
	(void)pthread_mutex_unlock(&lock);
	return found;
}

/* Free it, with the unpolled completions of its channel. */
static void order_end(struct order *order)
{
	(void)pthread_mutex_lock(&lock);
	list_remove(&order->link);
	list_for_each_entry_safe(struct report, report, &reports, link) {
		if (report->wc.owner != order)
			continue;
		list_remove(&report->link);
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
	/* `depth` operations may be completed and unpolled while others are
	 * outstanding */
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
	const struct fabric_op op = { .addr = wr->addr, .bytes = wr->bytes };
	int posted = ops->post_one(order->channel, wr->opcode, wr->region, &key, &op);

	if (posted == 1)
		order_add(order, wr->cookie);
	return posted;
}

int wr_post(const struct fabric_client_ops *ops, struct fabric_channel *channel,
	    const struct wr *wrs, unsigned n)
{
	struct order *order = order_of(channel);
	int posted;

	ck_assert_ptr_nonnull(order);
	if (n == 1 && !wrs->slices &&
	    (wrs->opcode == FABRIC_READ || wrs->opcode == FABRIC_WRITE))
		return post_one(ops, order, wrs);
	for (unsigned i = 0; i < n; i++) {
		const struct fabric_batch batch = { .opcode = wrs[i].opcode,
						    .region = wrs[i].region,
						    .remote_addr = wrs[i].remote_addr,
						    .rkey = wrs[i].rkey };
		const struct fabric_op op = { .addr = wrs[i].addr,
					      .bytes = wrs[i].bytes };

		if (batch.opcode == FABRIC_CAS || batch.opcode == FABRIC_FETCH_ADD)
			posted = ops->prepare_atomic(channel, &batch, &op,
						     &wrs[i].atomic);
		else if (batch.opcode >= FABRIC_PING)
			posted = ops->prepare_inband(channel, &batch, &op,
						     &wrs[i].request);
		else if (wrs[i].slices)
			posted = ops->prepare_sges(channel, &batch, &op, wrs[i].slices,
						   wrs[i].n_slices);
		else
			posted = (int)ops->prepare(channel, &batch, &op, sizeof(op), 1);
		if (posted < 0 && i == 0)
			return posted;
		if (posted <= 0)
			break;
	}
	posted = ops->post(channel);
	for (int i = 0; i < posted; i++)
		order_add(order, wrs[i].cookie);
	return posted;
}

static struct report *report_of(const struct fabric_cq *cq)
{
	struct report *found = NULL;

	(void)pthread_mutex_lock(&lock);
	list_for_each_entry(struct report, report, &reports, link) {
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
	bool few =
		turn++ % 2 && n < POLL_MAX; /* poll() may treat small n differently */
	int got = ops->poll(cq, wcs, few ? n : POLL_MAX);

	for (int i = 0; i < got; i++) {
		struct report *report;

		if (wcs[i].n == 0) {
			ck_assert_int_eq(wcs[i].status, -ESTALE);
			atomic_fetch_add(&wr_worn, 1);
			continue;
		}
		report = calloc(1, sizeof(*report));
		ck_assert_ptr_nonnull(report);
		report->cq = cq;
		report->wc = wcs[i];
		(void)pthread_mutex_lock(&lock);
		list_append(&reports, &report->link);
		(void)pthread_mutex_unlock(&lock);
	}
	return got;
}

/* Return the report's next operation; the last one frees the report. */
static struct wc report_pop(struct report *report)
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
			wcs[got++] = report_pop(report);
		else
			result = reports_fetch(ops, cq, n - got);
	}
	return got ? (int)got : result;
}
