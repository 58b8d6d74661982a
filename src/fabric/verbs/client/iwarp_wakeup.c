/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/iwarp_wakeup.h"

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/verbs/common/sigpipe.h"

/* The first after 10 ms, each later one after four times as long. */
#define FIRST_NS 10000000L

static int timer_set(const struct verbs_poke *poke)
{
	const long ns = FIRST_NS << (2 * poke->sent);
	const struct itimerspec when = {
		.it_value = { .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 },
	};

	if (timerfd_settime(poke->timer_fd, 0, &when, NULL))
		return err_errno(-errno, "timerfd_settime");
	return 0;
}

static int poke_open(struct verbs_poke *poke, int other)
{
	struct epoll_event event = { .events = EPOLLIN };

	poke->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (poke->timer_fd < 0)
		return err_errno(-errno, "timerfd_create");
	poke->fd = epoll_create1(EPOLL_CLOEXEC);
	if (poke->fd < 0 ||
	    epoll_ctl(poke->fd, EPOLL_CTL_ADD, poke->timer_fd, &event) ||
	    epoll_ctl(poke->fd, EPOLL_CTL_ADD, other, &event))
		return err_errno(-errno, "epoll");
	return timer_set(poke);
}

int verbs_poke_start(struct verbs_poke *poke, int other)
{
	int err;

	*poke = VERBS_POKE_NONE;
	err = poke_open(poke, other);
	if (err)
		verbs_poke_end(poke);
	return err;
}

void verbs_poke_run(struct verbs_poke *poke, struct ibv_qp *qp)
{
	struct ibv_sge nothing = { 0 };
	struct ibv_send_wr write = {
		.wr_id = VERBS_POKE_ID,
		.sg_list = &nothing,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		/* what an empty write names is not looked at; 0 may be special */
		.wr.rdma.rkey = 1,
	};
	struct verbs_sigpipe sigpipe;
	struct ibv_send_wr *bad;
	uint64_t expired;

	if (poke->timer_fd < 0 ||
	    read(poke->timer_fd, &expired, sizeof(expired)) != sizeof(expired))
		return;
	verbs_sigpipe_begin(&sigpipe, true);
	/* where it can't be posted the channel is broken, and shows that by itself */
	(void)ibv_post_send(qp, &write, &bad);
	verbs_sigpipe_end(&sigpipe);
	if (++poke->sent < VERBS_POKES)
		(void)timer_set(poke);
}

void verbs_poke_end(struct verbs_poke *poke)
{
	if (poke->fd >= 0)
		(void)close(poke->fd);
	if (poke->timer_fd >= 0)
		(void)close(poke->timer_fd);
	*poke = VERBS_POKE_NONE;
}
