/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/poller.h"

#include <errno.h>
#include <fcntl.h>
#include <numa.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/thread.h"
#include "fabric/verbs/failure.h"

#define POLL_BATCH 32
/* Where the queue cannot be armed it is looked at so often. */
#define UNARMED_MS 100

/* Until something may have arrived; false: the thread is to end. */
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
	/* the device is being removed: nothing will arrive any more */
	if (!(fds[1].revents & POLLIN)) {
		(void)poll(fds, 1, -1);
		return false;
	}
	while (!ibv_get_cq_event(poller->comp, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	return true;
}

static void *poller_run(void *arg)
{
	struct verbs_poller *poller = arg;
	struct ibv_wc wcs[POLL_BATCH];
	bool armed = false;
	int n;

	/* close to the device; where that is not allowed the thread is merely farther */
	if (poller->node >= 0 && numa_available() >= 0 &&
	    poller->node <= numa_max_node())
		(void)numa_run_on_node(poller->node);
	for (;;) {
		n = ibv_poll_cq(poller->cq, POLL_BATCH, wcs);
		for (int i = 0; i < n; i++)
			verbs_slots_flush(poller->slots, wcs[i].wr_id);
		if (n > 0)
			continue;
		if (!armed) {
			/* then poll once more, for what came before it took effect */
			armed = !ibv_req_notify_cq(poller->cq, 0);
			if (armed)
				continue;
		}
		if (!poller_sleep(poller, armed))
			return NULL;
		armed = false;
	}
}

static int poller_open(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned depth)
{
	int flags;

	poller->comp = ibv_create_comp_channel(verbs);
	if (!poller->comp)
		return err_errno(verbs_failure(), "ibv_create_comp_channel");
	flags = fcntl(poller->comp->fd, F_GETFL);
	if (flags < 0 || fcntl(poller->comp->fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(-errno, "the completion channel's descriptor");
	poller->cq = ibv_create_cq(verbs, (int)depth, NULL, poller->comp, 0);
	if (!poller->cq)
		return err_errno(verbs_failure(), "ibv_create_cq of %u entries", depth);
	poller->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (poller->stop_fd < 0)
		return err_errno(-errno, "eventfd");
	return 0;
}

static void poller_close(struct verbs_poller *poller)
{
	if (poller->stop_fd >= 0)
		(void)close(poller->stop_fd);
	if (poller->cq)
		(void)ibv_destroy_cq(poller->cq);
	if (poller->comp)
		(void)ibv_destroy_comp_channel(poller->comp);
}

int verbs_poller_start(struct verbs_poller *poller, struct ibv_context *verbs,
		       unsigned depth, int node, struct verbs_slots *slots)
{
	int err;

	*poller = (struct verbs_poller){ .slots = slots, .node = node, .stop_fd = -1 };
	err = poller_open(poller, verbs, depth);
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
