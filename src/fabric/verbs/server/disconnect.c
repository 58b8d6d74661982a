/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/disconnect.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "fabric/verbs/server/endpoint.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/server/report.h"

/* What a peer has to answer. */
#define DISCONNECT_MS 100u

struct disconnect {
	struct verbs_cm_target target;
	struct list link;
	struct verbs_endpoint *endpoint;
	struct rdma_cm_id *id;
	uint64_t due_ms;
};

int verbs_disconnects_init(struct verbs_disconnects *disconnects)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return err_errno(-errno, "timerfd_create");
	*disconnects = (struct verbs_disconnects){ .fd = fd };
	list_init(&disconnects->all);
	return 0;
}

void verbs_disconnects_destroy(struct verbs_disconnects *disconnects)
{
	(void)close(disconnects->fd);
}

/* Wake when the first is due; without any, not again. */
static void disconnects_arm(struct verbs_disconnects *disconnects)
{
	const struct disconnect *first =
		list_first(&disconnects->all, struct disconnect, link);
	uint64_t now_ms = clock_now_ms(), wait_ms = 0;
	struct itimerspec when = { 0 };

	if (first)
		wait_ms = first->due_ms > now_ms ? first->due_ms - now_ms : 1;
	when.it_value.tv_nsec = (long)wait_ms * 1000000;
	/* cannot fail with a descriptor and a time that are good */
	(void)timerfd_settime(disconnects->fd, 0, &when, NULL);
	disconnects->armed = first != NULL;
}

void verbs_disconnect_destroy_id(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	/* events of one that stays are nobody's */
	id->context = NULL;
	if (rdma_destroy_id(id))
		verbs_endpoint_report(endpoint,
				      "RDMA device %s: rdma_destroy_id gives %d: a "
				      "connection is lost",
				      endpoint->public.device, -verbs_errno());
}

static void disconnect_end(struct disconnect *disconnect)
{
	struct verbs_disconnects *disconnects =
		&disconnect->endpoint->server->disconnects;

	list_remove(&disconnect->link);
	disconnects->n--;
	verbs_disconnect_destroy_id(disconnect->endpoint, disconnect->id);
	free(disconnect);
}

/* The peer has answered, or it has disconnected at the same time; or the device goes. */
static void disconnect_event(struct verbs_cm_target *target,
			     const struct verbs_cm_event *event)
{
	struct disconnect *disconnect = container_of(target, struct disconnect, target);

	if (event->type == RDMA_CM_EVENT_DISCONNECTED ||
	    event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
	    event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		disconnect_end(disconnect);
}

void verbs_disconnect(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct verbs_disconnects *disconnects = &endpoint->server->disconnects;
	struct disconnect *disconnect = NULL;

	if (!rdma_disconnect(id) && disconnects->n < VERBS_DISCONNECTS_MAX)
		disconnect = calloc(1, sizeof(*disconnect));
	if (!disconnect) {
		verbs_disconnect_destroy_id(endpoint, id);
		return;
	}
	disconnect->target.event = disconnect_event;
	disconnect->endpoint = endpoint;
	disconnect->id = id;
	disconnect->due_ms = clock_now_ms() + DISCONNECT_MS;
	id->context = &disconnect->target;
	list_append(&disconnects->all, &disconnect->link);
	if (disconnects->n++ == 0)
		disconnects_arm(disconnects);
}

void verbs_disconnects_process(struct verbs_disconnects *disconnects)
{
	struct disconnect *disconnect;
	uint64_t expirations;

	/* most of the time the timer is not what woke the loop */
	if (!disconnects->armed ||
	    read(disconnects->fd, &expirations, sizeof(expirations)) < 0)
		return;
	while ((disconnect = list_first(&disconnects->all, struct disconnect, link)) &&
	       disconnect->due_ms <= clock_now_ms())
		disconnect_end(disconnect);
	disconnects_arm(disconnects);
}

void verbs_disconnects_finish(struct verbs_disconnects *disconnects,
			      const struct ibv_context *verbs)
{
	list_for_each_safe(node, &disconnects->all) {
		struct disconnect *disconnect =
			container_of(node, struct disconnect, link);

		if (!verbs || disconnect->id->verbs == verbs)
			disconnect_end(disconnect);
	}
}
