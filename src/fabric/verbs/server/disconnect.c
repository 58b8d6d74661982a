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

/* What a peer has to answer. */
#define FAREWELL_MS 100u

struct farewell {
	struct verbs_cm_target target;
	struct list link;
	struct verbs_endpoint *endpoint;
	struct rdma_cm_id *id;
	uint64_t due_ms;
};

int verbs_farewells_init(struct verbs_farewells *farewells)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

	if (fd < 0)
		return err_errno(-errno, "timerfd_create");
	*farewells = (struct verbs_farewells){ .fd = fd };
	list_init(&farewells->all);
	return 0;
}

void verbs_farewells_destroy(struct verbs_farewells *farewells)
{
	(void)close(farewells->fd);
}

/* Wake when the first is due; without any, not again. */
static void farewells_arm(struct verbs_farewells *farewells)
{
	const struct farewell *first =
		list_first(&farewells->all, struct farewell, link);
	uint64_t now_ms = clock_now_ms(), wait_ms = 0;
	struct itimerspec when = { 0 };

	if (first)
		wait_ms = first->due_ms > now_ms ? first->due_ms - now_ms : 1;
	when.it_value.tv_nsec = (long)wait_ms * 1000000;
	/* cannot fail with a descriptor and a time that are good */
	(void)timerfd_settime(farewells->fd, 0, &when, NULL);
	farewells->armed = first != NULL;
}

void verbs_farewell_none(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	/* events of one that stays are nobody's */
	id->context = NULL;
	if (rdma_destroy_id(id))
		verbs_endpoint_news(endpoint,
				    "RDMA device %s: rdma_destroy_id gives %d: a "
				    "connection is lost",
				    endpoint->public.device, -verbs_failure());
}

static void farewell_end(struct farewell *farewell)
{
	struct verbs_farewells *farewells = &farewell->endpoint->server->farewells;

	list_remove(&farewell->link);
	farewells->n--;
	verbs_farewell_none(farewell->endpoint, farewell->id);
	free(farewell);
}

/* The peer has answered, or it has disconnected at the same time; or the device goes. */
static void farewell_event(struct verbs_cm_target *target,
			   const struct verbs_cm_event *event)
{
	struct farewell *farewell = container_of(target, struct farewell, target);

	if (event->type == RDMA_CM_EVENT_DISCONNECTED ||
	    event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
	    event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		farewell_end(farewell);
}

void verbs_farewell(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct verbs_farewells *farewells = &endpoint->server->farewells;
	struct farewell *farewell = NULL;

	if (!rdma_disconnect(id) && farewells->n < VERBS_FAREWELLS_MAX)
		farewell = calloc(1, sizeof(*farewell));
	if (!farewell) {
		verbs_farewell_none(endpoint, id);
		return;
	}
	farewell->target.event = farewell_event;
	farewell->endpoint = endpoint;
	farewell->id = id;
	farewell->due_ms = clock_now_ms() + FAREWELL_MS;
	id->context = &farewell->target;
	list_append(&farewells->all, &farewell->link);
	if (farewells->n++ == 0)
		farewells_arm(farewells);
}

void verbs_farewells_process(struct verbs_farewells *farewells)
{
	struct farewell *farewell;
	uint64_t expirations;

	/* most of the time the timer is not what woke the loop */
	if (!farewells->armed ||
	    read(farewells->fd, &expirations, sizeof(expirations)) < 0)
		return;
	while ((farewell = list_first(&farewells->all, struct farewell, link)) &&
	       farewell->due_ms <= clock_now_ms())
		farewell_end(farewell);
	farewells_arm(farewells);
}

void verbs_farewells_end(struct verbs_farewells *farewells,
			 const struct ibv_context *verbs)
{
	list_for_each_safe(node, &farewells->all) {
		struct farewell *farewell = container_of(node, struct farewell, link);

		if (!verbs || farewell->id->verbs == verbs)
			farewell_end(farewell);
	}
}
