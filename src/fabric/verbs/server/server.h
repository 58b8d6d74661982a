/* SPDX-License-Identifier: BSD-3-Clause */
/* The server: endpoint -> device, session -> channel, memory region.  All of it is [loop]; a
 * device's poller and workers reach it only through the mailbox. */
#ifndef FABRIC_VERBS_SERVER_SERVER_H
#define FABRIC_VERBS_SERVER_SERVER_H

#include <errno.h>
#include <sys/epoll.h>

#include "base/err.h"
#include "base/mailbox.h"
#include "base/workers.h"
#include "fabric/server.h"
#include "fabric/verbs/common/cm.h"
#include "fabric/verbs/server/delays.h"

#define VERBS_ENDPOINTS_MAX 64
/* With more of them the oldest is forgotten. */
#define VERBS_UNRESOLVED_MAX 16

struct verbs_endpoint;
struct verbs_device;

/* Context of every rdma_cm_id of the server: the receiver of its events. */
struct verbs_cm_target {
	void (*event)(struct verbs_cm_target *target,
		      const struct verbs_cm_event *event);
};

struct fabric_server {
	const struct fabric_server_events *events; /* borrowed */
	void *ctx;
	struct rdma_event_channel *cm; /* NULL: not there before the first device */
	bool cm_failed;                /* events of cm cannot be read */
	bool cm_paused;                /* too many requests wait to be refused */
	struct mailbox mailbox;
	struct verbs_delays delays;
	struct list endings;    /* ids of cm that end, see ending.c */
	unsigned n_disconnects; /* of those: wait for the peer's disconnect */
	unsigned n_refused;     /* of those: requests that are refused */
	struct verbs_delayed rescan;
	int route_fd; /* rtnetlink: polls readable when an address was added or removed */
	/* a ring of peers' GIDs that no host answered for, see remote.c */
	struct {
		uint8_t gid[16];
		uint64_t until_ms;
	} unresolved[VERBS_UNRESOLVED_MAX];
	unsigned next_unresolved;
	struct fabric_server_params params; /* `devices` only during open() */
	void *extra_listen, *device_params; /* copies, in params */
	int epoll_fd; /* of cm, the devices' events, the mailbox, delays, route_fd */
	struct verbs_device *devices[VERBS_ENDPOINTS_MAX];
	unsigned n_devices;
	struct verbs_endpoint *endpoints[VERBS_ENDPOINTS_MAX];
	unsigned n_endpoints;
};

/* A message to the loop through the mailbox, from a thread of the fabric or from the loop. */
struct verbs_message {
	struct list link;
	/* [loop] The receiver owns the message again, and may free it. */
	void (*deliver)(struct verbs_message *message);
};

/* A job of a device's worker, and the message that ends it. */
struct verbs_job {
	struct workers_job job;
	struct verbs_message done;
};

/* What runs is set by the caller. */
static inline void verbs_job_init(struct verbs_job *job,
				  void (*deliver)(struct verbs_message *message))
{
	list_init(&job->job.link);
	job->job.done = &job->done.link;
	job->done.deliver = deliver;
}

/* Have the server's descriptor poll readable when `fd` does.  -errno with text. */
static inline int verbs_server_watch(const struct fabric_server *server, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event))
		return err_errno(-errno, "epoll_ctl");
	return 0;
}

#endif
