/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/ending.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "fabric/verbs/common/context.h"
#include "fabric/verbs/common/iwarp.h"

struct ending {
	struct verbs_cm_target target;
	struct verbs_delayed delayed; /* while it waits for the peer */
	struct list link;             /* server->endings */
	struct verbs_endpoint *endpoint;
	struct rdma_cm_id *id;
	bool refused;
	/* the job's while it is under way */
	struct verbs_job job;
	int err;
};

/* ---- the job, on the worker's thread; without memory or worker, on the loop ---- */

static int id_end(const struct verbs_endpoint *endpoint, struct rdma_cm_id *id,
		  bool refused)
{
	const uint32_t why = htonl(VERBS_REFUSED);
	struct verbs_sigpipe sigpipe;
	int err;

	verbs_sigpipe_begin(&sigpipe, endpoint->device->attr.iwarp);
	if (refused)
		(void)rdma_reject(id, &why, sizeof(why));
	err = rdma_destroy_id(id) ? verbs_errno() : 0;
	verbs_sigpipe_end(&sigpipe);
	return err;
}

static void ending_run(struct workers_job *job)
{
	struct ending *ending = container_of(job, struct ending, job.job);

	ending->err = id_end(ending->endpoint, ending->id, ending->refused);
}

/* ---- the loop ---- */

static void id_ended(struct verbs_endpoint *endpoint, int err)
{
	if (err)
		verbs_endpoint_report(
			endpoint, ": rdma_destroy_id gives %d: a connection is lost",
			-err);
}

/* Take events of rdma_cm, or not. */
static void cm_pause(struct fabric_server *server, bool pause)
{
	struct epoll_event event = { .events = pause ? 0 : EPOLLIN };

	if (server->cm_paused == pause || server->cm_failed)
		return;
	server->cm_paused = pause;
	/* cannot fail for a descriptor that is watched */
	(void)epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, server->cm->fd, &event);
}

static void ending_free(struct ending *ending)
{
	struct fabric_server *server = ending->endpoint->server;

	if (ending->refused && --server->n_refused < VERBS_REFUSED_MAX / 2)
		cm_pause(server, false);
	list_remove(&ending->link);
	free(ending);
}

static void ending_deliver(struct verbs_message *message)
{
	struct ending *ending = container_of(message, struct ending, job.done);

	id_ended(ending->endpoint, ending->err);
	ending_free(ending);
}

/* NULL: no memory. */
static struct ending *ending_new(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct ending *ending = calloc(1, sizeof(*ending));

	if (!ending)
		return NULL;
	ending->endpoint = endpoint;
	ending->id = id;
	verbs_job_init(&ending->job, ending_deliver);
	ending->job.job.run = ending_run;
	list_append(&endpoint->server->endings, &ending->link);
	return ending;
}

static void ending_post(struct ending *ending)
{
	struct verbs_device *device = ending->endpoint->device;

	/* events of an id that ends are ignored */
	ending->id->context = NULL;
	if (device->running) {
		workers_post(&device->workers[VERBS_WORK_ID],
			     ending->refused ? &device->refused : &device->ended,
			     &ending->job.job);
		return;
	}
	ending_run(&ending->job.job);
	ending_deliver(&ending->job.done);
}

void verbs_id_destroy(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct ending *ending = ending_new(endpoint, id);

	id->context = NULL;
	if (ending)
		ending_post(ending);
	else
		id_ended(endpoint, id_end(endpoint, id, false));
}

void verbs_id_refuse(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct fabric_server *server = endpoint->server;
	struct ending *ending = ending_new(endpoint, id);

	id->context = NULL;
	if (!ending) {
		id_ended(endpoint, id_end(endpoint, id, true));
		return;
	}
	ending->refused = true;
	if (++server->n_refused >= VERBS_REFUSED_MAX)
		cm_pause(server, true);
	ending_post(ending);
}

/* ---- ids that wait for the peer's answer to a disconnect ---- */

static void disconnect_end(struct ending *ending)
{
	list_remove(&ending->delayed.link);
	ending->endpoint->server->n_disconnects--;
	ending_post(ending);
}

static void disconnect_due(struct verbs_delayed *delayed)
{
	disconnect_end(container_of(delayed, struct ending, delayed));
}

/* The peer has replied, or has disconnected at the same time; or the device is being removed. */
static void disconnect_event(struct verbs_cm_target *target,
			     const struct verbs_cm_event *event)
{
	if (event->type == RDMA_CM_EVENT_DISCONNECTED ||
	    event->type == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
	    event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
		disconnect_end(container_of(target, struct ending, target));
}

void verbs_id_disconnected(struct verbs_endpoint *endpoint, struct rdma_cm_id *id)
{
	struct fabric_server *server = endpoint->server;
	struct ending *ending = NULL;

	if (server->n_disconnects < VERBS_DISCONNECTS_MAX)
		ending = ending_new(endpoint, id);
	if (!ending) {
		verbs_id_destroy(endpoint, id);
		return;
	}
	ending->target.event = disconnect_event;
	ending->delayed.due = disconnect_due;
	id->context = &ending->target;
	server->n_disconnects++;
	verbs_delays_add(&server->delays, VERBS_DELAY_DISCONNECT_REPLY,
			 &ending->delayed);
}

void verbs_disconnects_finish(struct fabric_server *server,
			      const struct ibv_context *verbs)
{
	list_for_each_entry_safe(struct ending, ending,
				 &server->delays.queues[VERBS_DELAY_DISCONNECT_REPLY],
				 delayed.link) {
		if (!verbs || ending->id->verbs == verbs)
			disconnect_end(ending);
	}
}

void verbs_endings_free(struct fabric_server *server)
{
	list_for_each_entry_safe(struct ending, ending, &server->endings, link)
		ending_free(ending);
}
