/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/cq.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/err.h"
#include "fabric/tcp/channel.h"

#define EVENTS_MAX 16

/* Completions wait in the rings of the channels, so depth needs no room here. */
int tcp_cq_create(struct fabric_domain *domain, unsigned depth,
		  struct fabric_cq **ret_cq)
{
	struct fabric_cq *cq = calloc(1, sizeof(*cq));
	int err;

	(void)depth;
	if (!cq)
		return err_errno(-ENOMEM, "a completion queue");
	cq->domain = domain;
	list_init(&cq->ready);
	cq->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (cq->epoll_fd < 0) {
		err = err_errno(-errno, "epoll_create1");
		free(cq);
		return err;
	}
	*ret_cq = cq;
	return 0;
}

void tcp_cq_free(struct fabric_cq *cq)
{
	if (!cq)
		return;
	(void)close(cq->epoll_fd);
	free(cq);
}

int tcp_cq_fd(const struct fabric_cq *cq)
{
	return cq->epoll_fd;
}

/* The set is level-triggered: it is readable while a socket has data for poll().  When poll()
 * returns fewer completions than asked for, no channel is left in the ready list. */
int tcp_cq_arm(struct fabric_cq *cq)
{
	(void)cq;
	return 0;
}

/* Report completions that need no socket. */
static unsigned cq_drain_ready(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	unsigned got = 0;

	list_for_each_safe(node, &cq->ready) {
		if (got == n)
			break;
		got += tcp_channel_report(tcp_channel_of_ready(node), wcs + got,
					  n - got);
	}
	return got;
}

int tcp_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n)
{
	struct epoll_event events[EVENTS_MAX];
	unsigned got = cq_drain_ready(cq, wcs, n);
	int n_events;

	if (got == n)
		return (int)got;
	n_events = epoll_wait(cq->epoll_fd, events, EVENTS_MAX, 0);
	for (int i = 0; i < n_events && got < n; i++)
		got += tcp_channel_progress(events[i].data.ptr, wcs + got, n - got);
	return (int)got;
}
