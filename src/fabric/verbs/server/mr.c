/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/server/mr_map.h"
#include "fabric/verbs/server/report.h"

/* A registration of so few pages takes less time than to change to the registrar's thread and
 * back, and no more than that of a channel's own receives. */
#define PROMPT_BYTES ((size_t)64 << 10)
/* A device that takes longer than this for so few, as one may whose firmware is busy, has them
 * registered by its registrar for a while. */
#define PROMPT_NS UINT64_C(1000000)
#define SLOW_NS UINT64_C(1000000000)

static struct verbs_device *device_of(const struct fabric_mr *mr)
{
	return mr->session->endpoint->device;
}

/* ---- jobs, on the registrar's thread; to register little, on the loop ---- */

/* Why a registration failed and what helps. */
static int register_error(const struct fabric_mr *mr, int err)
{
	const char *name = device_of(mr)->attr.name;
	char size[32], limit_text[32];
	struct rlimit limit;

	(void)units_format_bytes(mr->bytes, size, sizeof(size));
	if (err != -ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit))
		return err_errno(err, "RDMA device %s: ibv_reg_mr of %s", name, size);
	if (limit.rlim_cur == RLIM_INFINITY)
		return err_set(
			err,
			"RDMA device %s: ibv_reg_mr of %s: out of memory, or the "
			"device has no room for more registrations",
			name, size);
	(void)units_format_bytes(limit.rlim_cur, limit_text, sizeof(limit_text));
	return err_set(
		err,
		"RDMA device %s: ibv_reg_mr of %s: RLIMIT_MEMLOCK is %s, raise it "
		"(systemd: LimitMEMLOCK=infinity); if it suffices, the device has "
		"no room for more registrations",
		name, size, limit_text);
}

static void job_register(struct verbs_mr_job *job)
{
	struct fabric_mr *mr = container_of(job, struct fabric_mr, job);

	mr->err = 0;
	mr->ibv_mr = ibv_reg_mr(mr->pd, mr->addr, mr->bytes, mr->access);
	if (mr->ibv_mr)
		return;
	mr->err = register_error(mr, verbs_errno());
	(void)snprintf(mr->text, sizeof(mr->text), "%s", err_text());
}

static void job_release(struct verbs_mr_job *job)
{
	struct fabric_mr *mr = container_of(job, struct fabric_mr, job);

	mr->err = ibv_dereg_mr(mr->ibv_mr);
}

/* ---- the rest, on the loop ---- */

static void mr_post(struct fabric_mr *mr, enum verbs_mr_state state,
		    void (*run)(struct verbs_mr_job *job))
{
	mr->state = state;
	mr->job.run = run;
	verbs_mr_worker_post(&device_of(mr)->mr_worker, &mr->job);
}

static void mr_free(struct fabric_mr *mr)
{
	list_remove(&mr->link);
	fabric_notifications_destroy(&mr->notes);
	free(mr);
}

/* The last notifications are delivered before mr_deregistered(): the region was removed from
 * the session's map before it was deregistered. */
static void mr_deliver_notifications(struct verbs_message *message)
{
	struct fabric_mr *mr = container_of(message, struct fabric_mr, noted);
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->endpoint->server;
	struct fabric_notifications_taken taken;

	fabric_notifications_take(&mr->notes, &taken);
	fabric_notifications_report(&taken, server->events, server->ctx,
				    session->cookie, mr->cookie);
}

static void mr_end(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->endpoint->server;
	void *cookie = mr->cookie;
	bool silent = mr->silent;

	mr_free(mr);
	if (!silent)
		server->events->mr_deregistered(server->ctx, cookie);
	session->mr_ended(session);
}

static void mr_announce(struct fabric_mr *mr)
{
	struct fabric_server *server = mr->session->endpoint->server;
	const struct fabric_key key = {
		.addr = (uintptr_t)mr->addr,
		.rkey = mr->ibv_mr->rkey,
	};

	mr->state = VERBS_MR_REGISTERED;
	mr->session->endpoint->stats.exposures++;
	mr->session->endpoint->stats.exposed_bytes += mr->bytes;
	server->events->mr_registered(server->ctx, mr->cookie, 0, "", &key);
}

static void mr_release(struct fabric_mr *mr)
{
	verbs_mr_map_remove(mr);
	if (mr->state == VERBS_MR_REGISTERED) {
		mr->session->endpoint->stats.exposures--;
		mr->session->endpoint->stats.exposed_bytes -= mr->bytes;
	}
	mr_post(mr, VERBS_MR_DEREGISTERING, job_release);
}

/* The owner forgets the region with this event, so the deregistration causes none. */
static void mr_refuse(struct fabric_mr *mr, int err, const char *text)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->endpoint->server;
	char copy[sizeof(mr->text)];
	void *cookie = mr->cookie;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	if (mr->ibv_mr) {
		mr->silent = true;
		mr_release(mr);
	} else {
		session->n_mrs--;
		mr_free(mr);
	}
	server->events->mr_registered(server->ctx, cookie, err, copy, NULL);
	session->mr_ended(session);
}

static void registered(struct fabric_mr *mr)
{
	if (mr->withdrawn && mr->ibv_mr) {
		mr_release(mr);
	} else if (mr->withdrawn) {
		mr->session->n_mrs--;
		mr_end(mr);
	} else if (mr->err) {
		mr_refuse(mr, mr->err, mr->text);
	} else if (device_of(mr)->removed) {
		mr_refuse(mr, -ENODEV, "the RDMA device was removed");
	} else if (verbs_mr_map_add(mr)) {
		mr_refuse(mr, -ENOMEM, "no memory for a memory region");
	} else {
		mr_announce(mr);
	}
}

/* The device still honours a key that must be dead.  Without a queue pair in its
 * protection domain nobody can use it, now or later, so the promise holds at the price
 * of the session on this device. */
static void release_failed(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (session->cut_off)
		return;
	session->cut_off = true;
	verbs_endpoint_report(
		session->endpoint,
		"RDMA device %s: ibv_dereg_mr gives %d: a session is cut off",
		device_of(mr)->attr.name, mr->err);
	verbs_channel_fail_all(session, "a registration could not be undone");
}

static void released(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (mr->err)
		release_failed(mr);
	mr->ibv_mr = NULL;
	session->n_mrs--;
	if (mr->err && session->unfenced && !device_of(mr)->removed && !mr->silent) {
		/* its owner would give the memory to somebody else */
		mr->state = VERBS_MR_STUCK;
		verbs_endpoint_report(
			session->endpoint,
			"RDMA device %s: a session still reaches %zu bytes, "
			"which stay withheld",
			device_of(mr)->attr.name, mr->bytes);
		session->mr_ended(session);
		return;
	}
	if (mr->withdrawn || mr->silent) {
		mr_end(mr);
		return;
	}
	mr->state = VERBS_MR_LOST;
	session->mr_ended(session);
}

static void mr_deliver(struct verbs_message *message)
{
	struct verbs_mr_job *job = container_of(message, struct verbs_mr_job, done);
	struct fabric_mr *mr = container_of(job, struct fabric_mr, job);

	if (mr->state == VERBS_MR_REGISTERING)
		registered(mr);
	else if (mr->state == VERBS_MR_DEREGISTERING)
		released(mr);
	else
		mr_end(mr);
}

static unsigned access_of(const struct fabric_session *session, unsigned rights)
{
	/* also for a range that is only read: it makes the kernel pin the pages the CPU
	 * will write to, not a copy-on-write original of them */
	unsigned access = IBV_ACCESS_LOCAL_WRITE;

	if (rights & FABRIC_RIGHT_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights & FABRIC_RIGHT_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	/* a write is confirmed by a read of the same place there */
	if ((rights & FABRIC_RIGHT_WRITE) && session->endpoint->device->attr.iwarp)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights == (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE) &&
	    session->endpoint->device->attr.atomics)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	if (session->endpoint->device->rdma_options.relaxed_ordering)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	return access;
}

/* mr_registered() is called in the next turn of the loop at the earliest. */
static void mr_register(struct fabric_mr *mr)
{
	struct verbs_device *device = device_of(mr);
	uint64_t begin_ns = clock_now_ns();

	if (mr->bytes > PROMPT_BYTES || begin_ns < device->slow_ns) {
		mr_post(mr, VERBS_MR_REGISTERING, job_register);
		return;
	}
	mr->state = VERBS_MR_REGISTERING;
	job_register(&mr->job);
	if (clock_now_ns() - begin_ns > PROMPT_NS)
		device->slow_ns = begin_ns + SLOW_NS;
	mailbox_post(&mr->session->endpoint->server->mailbox, &mr->job.done.link);
}

static int mr_check(const struct fabric_session *session, size_t bytes)
{
	const struct verbs_device_attr *attr = &session->endpoint->device->attr;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (!session->pd || session->endpoint->device->removed)
		return err_set(-ENODEV, "RDMA device %s was removed", attr->name);
	if (session->cut_off)
		return err_set(-EIO, "RDMA device %s: the session had to be cut off",
			       attr->name);
	if (!bytes || bytes > attr->max_mr_bytes)
		return err_set(-EINVAL,
			       "%zu bytes at once: RDMA device %s registers 1 to "
			       "%" PRIu64,
			       bytes, attr->name, attr->max_mr_bytes);
	return 0;
}

int verbs_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
		 unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	struct fabric_mr *mr;
	int err = mr_check(session, bytes);

	if (err)
		return err;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return err_errno(-ENOMEM, "a memory region");
	mr->session = session;
	mr->cookie = cookie;
	mr->addr = addr;
	mr->bytes = bytes;
	mr->rights = rights;
	mr->access = access_of(session, rights);
	mr->noted.deliver = mr_deliver_notifications;
	fabric_notifications_init(&mr->notes);
	mr->pd = session->pd;
	mr->job.done.deliver = mr_deliver;
	list_append(&session->mrs, &mr->link);
	session->n_mrs++;
	mr_register(mr);
	*ret_mr = mr;
	return 0;
}

static void mr_over(struct fabric_mr *mr)
{
	mr->state = VERBS_MR_ENDED;
	mailbox_post(&mr->session->endpoint->server->mailbox, &mr->job.done.link);
}

void verbs_mr_dereg(struct fabric_mr *mr)
{
	if (mr->withdrawn)
		return;
	mr->withdrawn = true;
	if (mr->state == VERBS_MR_REGISTERED)
		mr_release(mr);
	else if (mr->state == VERBS_MR_LOST)
		mr_over(mr);
}

void verbs_mr_abandon(struct fabric_mr *mr)
{
	if (mr->state == VERBS_MR_REGISTERED)
		mr_release(mr);
	else if (mr->state == VERBS_MR_STUCK && mr->withdrawn)
		mr_over(mr);
	else if (mr->state == VERBS_MR_STUCK)
		mr->state = VERBS_MR_LOST;
}

void verbs_mr_free(struct fabric_mr *mr)
{
	/* a registration that came through after the server began to close */
	if (mr->state == VERBS_MR_REGISTERING && mr->ibv_mr)
		(void)ibv_dereg_mr(mr->ibv_mr);
	mr_free(mr);
}
