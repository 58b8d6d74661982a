/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/mr.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "fabric/verbs/common/context.h"
#include "fabric/verbs/server/channel.h"
#include "fabric/verbs/server/device.h"

/* Limit of a region that the loop registers itself: this takes less time than two changes of
 * threads, and no more than registering a channel's own receives. */
#define PROMPT_BYTES ((size_t)64 << 10)
/* If a device takes longer than PROMPT_NS for one, perhaps because its firmware is busy, the
 * worker registers all regions for SLOW_NS. */
#define PROMPT_NS UINT64_C(1000000)
#define SLOW_NS UINT64_C(1000000000)
/* Registrations of one region whose keys are in quarantine, before it fails. */
#define ATTEMPTS_MAX 16

static struct verbs_device *device_of(const struct fabric_mr *mr)
{
	return mr->session->endpoint->device;
}

/* ---- the session's map of memory regions by rkey, for in-band requests ---- */

static int map_add(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	int err;

	fair_lock_acquire(&session->lock);
	err = map_insert(&session->mrs_by_rkey, &mr->by_rkey,
			 map_hash_u64(mr->ibv_mr->rkey));
	fair_lock_release(&session->lock);
	return err;
}

/* NULL: the session has no such key. */
static struct fabric_mr *key_find(const struct fabric_session *session, uint64_t rkey)
{
	struct map_node *node = map_find(&session->mrs_by_rkey, map_hash_u64(rkey));

	for (; node; node = map_find_next(node)) {
		struct fabric_mr *mr = container_of(node, struct fabric_mr, by_rkey);

		if (mr->ibv_mr->rkey == rkey)
			return mr;
	}
	return NULL;
}

/* The memory region of the rkey, which has the rights and contains the range. */
static enum fabric_status range_find(const struct fabric_session *session,
				     uint64_t rkey, uint64_t addr, uint32_t bytes,
				     unsigned rights, struct fabric_mr **ret_mr)
{
	struct fabric_mr *mr = key_find(session, rkey);

	if (!mr)
		return FABRIC_STALE;
	if ((mr->rights & rights) != rights)
		return FABRIC_FORBIDDEN;
	if (!fabric_range_inside((uintptr_t)mr->addr, mr->bytes, addr, bytes))
		return FABRIC_OUTSIDE;
	*ret_mr = mr;
	return FABRIC_DONE;
}

static enum fabric_status memory_find(void *ctx, uint64_t rkey, uint64_t addr,
				      uint32_t bytes, unsigned rights, char **ret_at)
{
	struct fabric_mr *mr;
	enum fabric_status status = range_find(ctx, rkey, addr, bytes, rights, &mr);

	if (status == FABRIC_DONE)
		*ret_at = (char *)mr->addr + (addr - (uintptr_t)mr->addr);
	return status;
}

static enum fabric_status memory_notify(void *ctx, uint64_t rkey, uint64_t addr,
					uint32_t value)
{
	struct fabric_session *session = ctx;
	struct fabric_mr *mr;
	enum fabric_status status =
		range_find(session, rkey, addr, 0, FABRIC_RIGHT_WRITE, &mr);

	if (status == FABRIC_DONE &&
	    fabric_notifications_add(&mr->notifications, value))
		mailbox_post(&session->endpoint->server->mailbox,
			     &mr->notification_message.link);
	return status;
}

static void memory_refused(void *ctx)
{
	verbs_session_access_refused(ctx);
}

struct inband_memory verbs_mr_memory(struct fabric_session *session)
{
	return (struct inband_memory){
		.find = memory_find,
		.notify = memory_notify,
		.refused = memory_refused,
		.ctx = session,
	};
}

/* ---- jobs, on a worker's thread; a small registration on the loop ---- */

/* Register the region, and again while its key is one in quarantine: those registrations stay
 * meanwhile, so that the device hands out other keys.  The caller deregisters *ret_n of them, also
 * after a failure.  -EIO: all attempts gave such keys. */
static int reg_fresh(struct fabric_mr *mr, struct ibv_mr *ret_quarantined[ATTEMPTS_MAX],
		     unsigned *ret_n)
{
	struct verbs_device *device = device_of(mr);
	/* it stays while the session has a region in it */
	struct ibv_pd *pd = mr->session->pd;
	struct ibv_mr *ibv_mr;

	for (*ret_n = 0; *ret_n < ATTEMPTS_MAX;) {
		ibv_mr = ibv_reg_mr(pd, mr->addr, mr->bytes, mr->access);
		if (!ibv_mr)
			return verbs_failure(verbs_reg_mr_error(
				pd->context, mr->bytes, verbs_errno(),
				"systemd: LimitMEMLOCK=infinity"));
		if (!verbs_quarantine_has(&device->quarantine, ibv_mr->rkey)) {
			mr->ibv_mr = ibv_mr;
			return 0;
		}
		ret_quarantined[(*ret_n)++] = ibv_mr;
	}
	return err_set(-EIO,
		       "RDMA device %s hands out %d rkeys again that died less than "
		       "%" PRIu64 "ms ago: try again, or lower [rdma] key_quarantine",
		       device->attr.name, ATTEMPTS_MAX, device->quarantine.key_ms);
}

static void job_register(struct workers_job *job)
{
	struct fabric_mr *mr = container_of(job, struct fabric_mr, job.job);
	struct ibv_mr *quarantined[ATTEMPTS_MAX];
	unsigned n;
	int err = reg_fresh(mr, quarantined, &n);

	while (n > 0) {
		if (!ibv_dereg_mr(quarantined[--n]))
			continue;
		/* Its key lives: the region fails, and when that cannot be deregistered the
		 * session is cut off. */
		if (mr->ibv_mr)
			(void)ibv_dereg_mr(mr->ibv_mr);
		mr->ibv_mr = quarantined[n];
		err = err_set(-EIO, "RDMA device %s: ibv_dereg_mr failed",
			      device_of(mr)->attr.name);
	}
	err_keep(&mr->result, err);
}

static void job_deregister(struct workers_job *job)
{
	struct fabric_mr *mr = container_of(job, struct fabric_mr, job.job);

	/* before it is dead: the device may hand it out from then on */
	verbs_quarantine_add(&device_of(mr)->quarantine, mr->ibv_mr->rkey);
	mr->result.err = ibv_dereg_mr(mr->ibv_mr);
}

/* ---- states, on the loop ---- */

static void mr_post(struct fabric_mr *mr, enum verbs_work work)
{
	mr->job.job.run = work == VERBS_WORK_REGISTER ? job_register : job_deregister;
	workers_post(&device_of(mr)->workers[work], &mr->session->tenant->queues[work],
		     &mr->job.job);
}

/* A registration that has not begun is dropped; the message that ends it is posted. */
static void mr_cancel(struct fabric_mr *mr)
{
	if (workers_cancel(&device_of(mr)->workers[VERBS_WORK_REGISTER], &mr->job.job))
		mailbox_post(&mr->session->endpoint->server->mailbox,
			     &mr->job.done.link);
}

static void mr_free(struct fabric_mr *mr)
{
	list_remove(&mr->link);
	fabric_notifications_destroy(&mr->notifications);
	err_kept_free(&mr->result);
	free(mr);
}

/* The last notifications are delivered before mr_deregistered(): the region is removed from the
 * session's map before it is deregistered. */
static void mr_deliver_notifications(struct verbs_message *message)
{
	struct fabric_mr *mr =
		container_of(message, struct fabric_mr, notification_message);
	const struct fabric_server *server = mr->session->endpoint->server;

	fabric_notifications_deliver(&mr->notifications, server->events, server->ctx,
				     mr->session->cookie, mr->cookie);
}

static void mr_end(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->endpoint->server;
	void *cookie = mr->cookie;
	bool no_more_events = mr->no_more_events;

	mr_free(mr);
	if (!no_more_events)
		server->events->mr_deregistered(server->ctx, cookie);
	session->released(session);
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

static void mr_deregister(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (mr->state == VERBS_MR_REGISTERED) {
		/* waits for the request that the poller may be serving: afterwards no in-band
		 * request uses the region */
		fair_lock_acquire(&session->lock);
		map_remove(&session->mrs_by_rkey, &mr->by_rkey);
		fair_lock_release(&session->lock);
		session->endpoint->stats.exposures--;
		session->endpoint->stats.exposed_bytes -= mr->bytes;
	}
	mr->state = VERBS_MR_DEREGISTERING;
	mr_post(mr, VERBS_WORK_DEREGISTER);
}

/* Report a failed registration.  The owner then has no region any more, so no event follows when
 * the region is deregistered. */
static void mr_fail(struct fabric_mr *mr, int err)
{
	struct fabric_session *session = mr->session;
	struct fabric_server *server = session->endpoint->server;
	void *cookie = mr->cookie;
	struct err_saved failed;

	err_save(&failed, err);
	if (mr->ibv_mr) {
		mr->no_more_events = true;
		mr_deregister(mr);
	} else {
		session->n_mrs--;
		mr_free(mr);
	}
	server->events->mr_registered(server->ctx, cookie, err, failed.text, NULL);
	session->released(session);
}

static void mr_on_registered(struct fabric_mr *mr)
{
	int err = err_kept_restore(&mr->result);

	if (mr->dereg_requested && mr->ibv_mr) {
		mr_deregister(mr);
	} else if (mr->dereg_requested) {
		mr->session->n_mrs--;
		mr_end(mr);
	} else if (err) {
		mr_fail(mr, err);
	} else if (device_of(mr)->removed) {
		mr_fail(mr, err_set(-ENODEV, "the RDMA device was removed"));
	} else if (map_add(mr)) {
		mr_fail(mr, err_set(-ENOMEM, "no memory for a memory region"));
	} else {
		mr_announce(mr);
	}
}

/* Deregistering failed, so the device may still honour the rkey.  Destroy all queue pairs of the
 * session on this device, and admit no others (cut_off): no peer can use the rkey then. */
static void session_cut_off(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (session->cut_off)
		return;
	session->cut_off = true;
	verbs_endpoint_report(session->endpoint,
			      ": ibv_dereg_mr gives %d: a session is cut off",
			      mr->result.err);
	verbs_channel_end_all(session, "a registration could not be undone");
}

static void mr_on_deregistered(struct fabric_mr *mr)
{
	struct fabric_session *session = mr->session;

	if (mr->result.err)
		session_cut_off(mr);
	mr->ibv_mr = NULL;
	session->n_mrs--;
	if (mr->result.err && session->unfenced && !device_of(mr)->removed &&
	    !mr->no_more_events) {
		/* A queue pair could not be stopped either, so the client may still reach the
		 * memory.  Until the device is removed mr_deregistered() must not be called: the
		 * daemon would lend the memory to another client. */
		mr->state = VERBS_MR_STUCK;
		verbs_endpoint_report(
			session->endpoint,
			": a session still reaches %zu bytes, which stay withheld",
			mr->bytes);
		session->released(session);
		return;
	}
	if (mr->dereg_requested || mr->no_more_events) {
		mr_end(mr);
		return;
	}
	mr->state = VERBS_MR_DEVICE_GONE;
	session->released(session);
}

static void mr_deliver(struct verbs_message *message)
{
	struct fabric_mr *mr = container_of(message, struct fabric_mr, job.done);

	if (mr->state == VERBS_MR_REGISTERING)
		mr_on_registered(mr);
	else if (mr->state == VERBS_MR_DEREGISTERING)
		mr_on_deregistered(mr);
	else
		mr_end(mr);
}

static unsigned access_of(const struct fabric_session *session, unsigned rights)
{
	/* also for a range that is only read: it makes the kernel pin the pages the CPU
	 * will write to, not their copy-on-write originals */
	unsigned access = IBV_ACCESS_LOCAL_WRITE;

	if (rights & FABRIC_RIGHT_READ)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights & FABRIC_RIGHT_WRITE)
		access |= IBV_ACCESS_REMOTE_WRITE;
	/* over iWARP a write is confirmed by a read of the same place */
	if ((rights & FABRIC_RIGHT_WRITE) && session->endpoint->device->attr.iwarp)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights == (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE) &&
	    session->endpoint->device->attr.public.atomics)
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

	mr->state = VERBS_MR_REGISTERING;
	if (mr->bytes > PROMPT_BYTES || begin_ns < device->slow_ns) {
		mr_post(mr, VERBS_WORK_REGISTER);
		return;
	}
	job_register(&mr->job.job);
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
	if (!bytes)
		return err_set(-EINVAL, "no bytes to register");
	/* the daemon lends no longer pieces, unless the device has changed since */
	return verbs_failure(verbs_device_registers(attr, bytes, "a piece of the lease",
						    "allocate the lease again"));
}

int verbs_mr_reg(struct fabric_session *session, void *addr, size_t bytes,
		 unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		 struct fabric_key *)
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
	mr->notification_message.deliver = mr_deliver_notifications;
	fabric_notifications_init(&mr->notifications);
	verbs_job_init(&mr->job, mr_deliver);
	list_append(&session->mrs, &mr->link);
	session->n_mrs++;
	mr_register(mr);
	*ret_mr = mr;
	return 0;
}

static void mr_end_later(struct fabric_mr *mr)
{
	mr->state = VERBS_MR_ENDED;
	mailbox_post(&mr->session->endpoint->server->mailbox, &mr->job.done.link);
}

bool verbs_mr_dereg(struct fabric_mr *mr)
{
	if (mr->dereg_requested)
		return false;
	mr->dereg_requested = true;
	if (mr->state == VERBS_MR_REGISTERING)
		mr_cancel(mr);
	else if (mr->state == VERBS_MR_REGISTERED)
		mr_deregister(mr);
	else if (mr->state == VERBS_MR_DEVICE_GONE)
		mr_end_later(mr);
	return false;
}

void verbs_mr_abandon(struct fabric_mr *mr)
{
	if (mr->state == VERBS_MR_REGISTERING)
		mr_cancel(mr);
	else if (mr->state == VERBS_MR_REGISTERED)
		mr_deregister(mr);
	else if (mr->state == VERBS_MR_STUCK && mr->dereg_requested)
		mr_end_later(mr);
	else if (mr->state == VERBS_MR_STUCK)
		mr->state = VERBS_MR_DEVICE_GONE;
}

void verbs_mr_free(struct fabric_mr *mr)
{
	/* it was registered after the server began to close */
	if (mr->state == VERBS_MR_REGISTERING && mr->ibv_mr)
		(void)ibv_dereg_mr(mr->ibv_mr);
	mr_free(mr);
}
