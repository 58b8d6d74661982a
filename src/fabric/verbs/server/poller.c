/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/poller.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/node_cpus.h"
#include "base/thread.h"
#include "fabric/verbs/common/context.h"

#define POLL_BATCH 32
/* Interval of polling if the completion queues cannot be armed. */
#define UNARMED_MS 100
/* Time for which the thread polls after a request before it sleeps. */
#define SPIN_NS UINT64_C(50000)

/* ---- channel ids ---- */

static void slot_deliver(struct verbs_message *message)
{
	struct verbs_channel_id *slot =
		container_of(message, struct verbs_channel_id, message);
	uint64_t failed;

	/* first: a receive that is flushed from now on needs a message of its own */
	atomic_store(&slot->posted, false);
	/* a channel has several receives, but is reported once */
	if (!slot->channel || slot->flush_reported ||
	    atomic_load(&slot->flushed) != slot->use)
		return;
	slot->flush_reported = true;
	failed = atomic_load(&slot->failed);
	slot->ids->flushed(slot->channel,
			   failed >> 32 == slot->use
				   ? (enum ibv_wc_status)(failed & UINT32_MAX)
				   : IBV_WC_WR_FLUSH_ERR);
}

int verbs_channel_ids_init(struct verbs_channel_ids *ids, unsigned n,
			   struct mailbox *mailbox,
			   void (*flushed)(void *channel, enum ibv_wc_status status))
{
	*ids = (struct verbs_channel_ids){ .n = n,
					   .mailbox = mailbox,
					   .flushed = flushed };
	ids->slot = calloc(n, sizeof(*ids->slot));
	if (!ids->slot)
		return err_errno(-ENOMEM, "room for %u channels", n);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&ids->inband_lock, NULL);
	for (unsigned i = n; i > 0; i--) {
		struct verbs_channel_id *slot = &ids->slot[i - 1];

		slot->ids = ids;
		slot->message.deliver = slot_deliver;
		slot->next_free = ids->free;
		ids->free = slot;
	}
	return 0;
}

void verbs_channel_ids_destroy(struct verbs_channel_ids *ids)
{
	if (!ids->slot)
		return;
	(void)pthread_mutex_destroy(&ids->inband_lock);
	free(ids->slot);
	ids->slot = NULL;
}

bool verbs_channel_ids_idle(struct verbs_channel_ids *ids)
{
	for (unsigned i = 0; i < ids->n; i++)
		if (atomic_load(&ids->slot[i].posted))
			return false;
	return true;
}

int verbs_channel_ids_alloc(struct verbs_channel_ids *ids, void *channel,
			    uint64_t *ret_number)
{
	struct verbs_channel_id *slot = ids->free;

	if (!slot)
		return err_set(-ENOSPC, "all %u channels of the device are in use",
			       ids->n);
	ids->free = slot->next_free;
	(void)pthread_mutex_lock(&ids->inband_lock);
	slot->use++;
	slot->closed = false;
	(void)pthread_mutex_unlock(&ids->inband_lock);
	slot->channel = channel;
	slot->flush_reported = false;
	*ret_number = (uint64_t)slot->use << 32 | (uint64_t)(slot - ids->slot);
	return 0;
}

void verbs_channel_ids_free(struct verbs_channel_ids *ids, uint64_t number)
{
	struct verbs_channel_id *slot = &ids->slot[number & UINT32_MAX];

	slot->channel = NULL;
	slot->next_free = ids->free;
	ids->free = slot;
}

bool verbs_channel_ids_open(struct verbs_channel_ids *ids, uint64_t number,
			    struct verbs_inband_server *inband)
{
	struct verbs_channel_id *slot = &ids->slot[verbs_channel_ids_index(number)];
	bool opened;

	(void)pthread_mutex_lock(&ids->inband_lock);
	opened = !slot->closed;
	if (opened)
		slot->inband = inband;
	(void)pthread_mutex_unlock(&ids->inband_lock);
	return opened;
}

bool verbs_channel_ids_close(struct verbs_channel_ids *ids, uint64_t number)
{
	struct verbs_channel_id *slot = &ids->slot[verbs_channel_ids_index(number)];
	struct verbs_inband_server *inband;

	(void)pthread_mutex_lock(&ids->inband_lock);
	inband = slot->inband;
	slot->inband = NULL;
	slot->closed = true;
	(void)pthread_mutex_unlock(&ids->inband_lock);
	if (!inband)
		return false;
	fair_lock_acquire(inband->lock);
	fair_lock_release(inband->lock);
	return true;
}

/* NULL: no channel has had this number. */
static struct verbs_channel_id *slot_find(const struct verbs_channel_ids *ids,
					  uint64_t number)
{
	unsigned index = verbs_channel_ids_index(number);

	return index < ids->n ? &ids->slot[index] : NULL;
}

/* The channel's in-band structure, with its lock acquired, or NULL. */
static struct verbs_inband_server *inband_lock(struct verbs_channel_ids *ids,
					       uint64_t number)
{
	struct verbs_channel_id *slot = slot_find(ids, number);
	struct verbs_inband_server *inband = NULL;

	if (!slot)
		return NULL;
	(void)pthread_mutex_lock(&ids->inband_lock);
	if (slot->use == number >> 32)
		inband = slot->inband;
	/* before inband_lock is released: afterwards *inband may be freed */
	if (inband)
		fair_lock_acquire(inband->lock);
	(void)pthread_mutex_unlock(&ids->inband_lock);
	return inband;
}

void verbs_channel_ids_flushed(struct verbs_channel_ids *ids, uint64_t number,
			       enum ibv_wc_status status)
{
	struct verbs_channel_id *slot = slot_find(ids, number);

	if (!slot)
		return;
	if (status != IBV_WC_WR_FLUSH_ERR)
		atomic_store(&slot->failed,
			     (number & ~(uint64_t)UINT32_MAX) | (uint64_t)status);
	atomic_store(&slot->flushed, (unsigned)(number >> 32));
	if (!atomic_exchange(&slot->posted, true))
		mailbox_post(ids->mailbox, &slot->message.link);
}

/* ---- the thread ---- */

/* Sleep until a completion may have arrived.  False: the thread has to end. */
static bool poller_sleep(struct verbs_poller *poller, bool armed)
{
	struct pollfd fds[] = {
		{ .fd = poller->stop_fd, .events = POLLIN },
		{ .fd = poller->comp->fd, .events = POLLIN },
	};
	struct ibv_cq *cq;
	void *context;

	if (poll(fds, 2, armed ? -1 : UNARMED_MS) <= 0)
		return true;
	if (fds[0].revents)
		return false;
	/* the device is being removed: no completion will arrive any more */
	if (!(fds[1].revents & POLLIN)) {
		(void)poll(fds, 1, -1);
		return false;
	}
	while (!ibv_get_cq_event(poller->comp, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	return true;
}

static void wc_handle(struct verbs_poller *poller, const struct ibv_wc *wc)
{
	uint64_t number = verbs_inband_wr_channel(wc->wr_id);
	struct verbs_inband_server *inband;

	if (wc->status != IBV_WC_SUCCESS) {
		verbs_channel_ids_flushed(poller->ids, number, wc->status);
		return;
	}
	inband = inband_lock(poller->ids, number);
	if (!inband)
		return;
	verbs_inband_server_serve(inband, wc);
	fair_lock_release(inband->lock);
}

/* Handle a batch of each queue; returns the number of completions, and of those without error. */
static unsigned poller_drain(struct verbs_poller *poller, unsigned *ret_good)
{
	unsigned n_cqs = atomic_load_explicit(&poller->n_cqs, memory_order_acquire);
	struct ibv_wc wcs[POLL_BATCH];
	unsigned total = 0;

	*ret_good = 0;
	for (unsigned i = 0; i < n_cqs; i++) {
		int n = ibv_poll_cq(poller->cqs[i], POLL_BATCH, wcs);

		for (int k = 0; k < n; k++) {
			*ret_good += wcs[k].status == IBV_WC_SUCCESS;
			wc_handle(poller, &wcs[k]);
		}
		total += n > 0 ? (unsigned)n : 0;
	}
	return total;
}

static bool poller_arm(struct verbs_poller *poller)
{
	unsigned n_cqs = atomic_load_explicit(&poller->n_cqs, memory_order_acquire);
	bool armed = true;

	for (unsigned i = 0; i < n_cqs; i++)
		armed = !ibv_req_notify_cq(poller->cqs[i], 0) && armed;
	return armed;
}

static void *poller_run(void *arg)
{
	struct verbs_poller *poller = arg;
	uint64_t spin_until_ns = 0;
	bool armed = false;
	unsigned good;

	node_cpus_use(poller->node);
	for (;;) {
		if (poller_drain(poller, &good) > 0) {
			if (good > 0)
				spin_until_ns = clock_now_ns() + SPIN_NS;
			continue;
		}
		if (spin_until_ns) {
			/* leave the processor to other threads */
			(void)sched_yield();
			if (clock_now_ns() < spin_until_ns)
				continue;
			spin_until_ns = 0;
		}
		if (!armed) {
			/* then poll once more, for completions from before it took effect */
			armed = poller_arm(poller);
			if (armed)
				continue;
		}
		if (!poller_sleep(poller, armed))
			return NULL;
		armed = false;
	}
}

/* ---- the loop ---- */

unsigned verbs_poller_per_cq(unsigned max_cqe)
{
	/* twice, for entries of channels that have just ended */
	unsigned n = max_cqe / (2 * VERBS_INBAND_CQES);

	if (n > VERBS_POLLER_CHANNELS)
		return VERBS_POLLER_CHANNELS;
	return n > 0 ? n : 1;
}

static int cq_add(struct verbs_poller *poller)
{
	unsigned n = atomic_load_explicit(&poller->n_cqs, memory_order_relaxed);
	unsigned depth = poller->per_cq * 2 * VERBS_INBAND_CQES;
	struct ibv_cq *cq =
		ibv_create_cq(poller->verbs, (int)depth, NULL, poller->comp, 0);

	if (!cq)
		return err_errno(verbs_errno(), "ibv_create_cq of %u entries", depth);
	/* the thread may be asleep, and would arm it only before it sleeps again */
	if (n > 0 && ibv_req_notify_cq(cq, 0)) {
		(void)ibv_destroy_cq(cq);
		return err_errno(-EIO, "ibv_req_notify_cq");
	}
	poller->cqs[n] = cq;
	atomic_store_explicit(&poller->n_cqs, n + 1, memory_order_release);
	return 0;
}

int verbs_poller_cq(struct verbs_poller *poller, unsigned index, struct ibv_cq **ret_cq)
{
	unsigned at = index / poller->per_cq;
	int err = 0;

	if (at >= VERBS_POLLER_CQS)
		return err_set(-ENOSPC, "no more than %u channels on a device",
			       VERBS_POLLER_CQS * poller->per_cq);
	while (!err && at >= atomic_load_explicit(&poller->n_cqs, memory_order_relaxed))
		err = cq_add(poller);
	if (err)
		return err;
	*ret_cq = poller->cqs[at];
	return 0;
}

static int poller_open(struct verbs_poller *poller)
{
	int err = verbs_create_comp_channel(poller->verbs, &poller->comp);

	if (err)
		return err;
	poller->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (poller->stop_fd < 0)
		return err_errno(-errno, "eventfd");
	return cq_add(poller);
}

static void poller_close(struct verbs_poller *poller)
{
	unsigned n_cqs = atomic_load_explicit(&poller->n_cqs, memory_order_relaxed);

	if (poller->stop_fd >= 0)
		(void)close(poller->stop_fd);
	for (unsigned i = 0; i < n_cqs; i++)
		(void)ibv_destroy_cq(poller->cqs[i]);
	if (poller->comp)
		(void)ibv_destroy_comp_channel(poller->comp);
}

int verbs_poller_start(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned max_cqe, int node, struct verbs_channel_ids *ids)
{
	int err;

	*poller = (struct verbs_poller){
		.ids = ids,
		.node = node,
		.verbs = verbs,
		.per_cq = verbs_poller_per_cq(max_cqe),
		.stop_fd = -1,
	};
	err = poller_open(poller);
	if (!err)
		err = thread_start("rmem-poll", poller_run, poller, &poller->thread);
	if (err)
		poller_close(poller);
	return err;
}

void verbs_poller_stop(struct verbs_poller *poller)
{
	(void)eventfd_write(poller->stop_fd, 1);
	(void)pthread_join(poller->thread, NULL);
	poller_close(poller);
}
