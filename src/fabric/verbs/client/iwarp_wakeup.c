/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/iwarp_wakeup.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "base/own_fd.h"
#include "fabric/verbs/common/iwarp.h"

/* The first after 10 ms, each later one after four times as long. */
#define FIRST_NS 10000000L

static int timer_set(const struct verbs_wakeup *wakeup)
{
	const long ns = FIRST_NS << (2 * wakeup->sent);
	const struct itimerspec when = {
		.it_value = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 },
	};

	if (timerfd_settime(wakeup->timer_fd, 0, &when, NULL))
		return err_errno(-errno, "timerfd_settime");
	return 0;
}

static int wakeup_open(struct verbs_wakeup *wakeup, int other)
{
	struct epoll_event event = { .events = EPOLLIN };

	wakeup->timer_fd =
		own_fd(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
	if (wakeup->timer_fd < 0)
		return err_errno(-errno, "timerfd_create");
	wakeup->fd = own_fd(epoll_create1(EPOLL_CLOEXEC));
	if (wakeup->fd < 0 ||
	    epoll_ctl(wakeup->fd, EPOLL_CTL_ADD, wakeup->timer_fd, &event) ||
	    epoll_ctl(wakeup->fd, EPOLL_CTL_ADD, other, &event))
		return err_errno(-errno, "epoll");
	return timer_set(wakeup);
}

int verbs_wakeup_start(struct verbs_wakeup *wakeup, int other)
{
	int err;

	*wakeup = VERBS_WAKEUP_NONE;
	err = wakeup_open(wakeup, other);
	if (err)
		verbs_wakeup_stop(wakeup);
	return err;
}

void verbs_wakeup_send(struct verbs_wakeup *wakeup, struct ibv_qp *qp)
{
	struct ibv_sge nothing = { 0 };
	struct ibv_send_wr write = {
		.wr_id = VERBS_WAKEUP_WR_ID,
		.sg_list = &nothing,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		/* the rkey of an empty write is ignored, but 0 may be special */
		.wr.rdma.rkey = 1,
	};
	struct verbs_sigpipe sigpipe;
	struct ibv_send_wr *bad;
	uint64_t expired;

	if (wakeup->timer_fd < 0 || read(wakeup->timer_fd, &expired, sizeof(expired)) !=
					    (ssize_t)sizeof(expired))
		return;
	verbs_sigpipe_begin(&sigpipe, true);
	/* if it cannot be posted, the channel is broken, and its completions show that */
	(void)ibv_post_send(qp, &write, &bad);
	verbs_sigpipe_end(&sigpipe);
	if (++wakeup->sent < VERBS_WAKEUPS_MAX)
		(void)timer_set(wakeup);
}

void verbs_wakeup_stop(struct verbs_wakeup *wakeup)
{
	if (wakeup->fd >= 0)
		(void)close(wakeup->fd);
	if (wakeup->timer_fd >= 0)
		(void)close(wakeup->timer_fd);
	*wakeup = VERBS_WAKEUP_NONE;
}
