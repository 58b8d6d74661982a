/* SPDX-License-Identifier: BSD-3-Clause */
/* A completion queue: an epoll set of the sockets of its channels, and a list of the channels
 * whose completions need no socket.
 * Threads: [owner] of the queue, unless said otherwise. */
#ifndef FABRIC_TCP_CQ_H
#define FABRIC_TCP_CQ_H

#include "base/list.h"
#include "fabric/fabric.h"

struct fabric_cq {
	const struct fabric_domain *domain;
	int epoll_fd;
	struct list ready; /* channels with completions that need no socket */
};

int tcp_cq_create(struct fabric_domain *domain, unsigned depth,
		  struct fabric_cq **ret_cq);
void tcp_cq_free(struct fabric_cq *cq);
int tcp_cq_fd(const struct fabric_cq *cq);
int tcp_cq_arm(struct fabric_cq *cq);
int tcp_cq_poll(struct fabric_cq *cq, struct fabric_wc *wcs, unsigned n);

#endif
