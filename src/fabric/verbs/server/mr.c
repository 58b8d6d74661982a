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
#include "fabric/verbs/server/device.h"
#include "fabric/verbs/common/status.h"
#include "fabric/verbs/server/mr_map.h"

/* A registration of so few pages takes less time than to change to the registrar's thread and
 * back, and no more than that of a channel's own receives. */
#define PROMPT_BYTES ((size_t)64 << 10)
/* A device that takes longer than this for so few, as one may whose firmware is busy, has them
 * registered by its registrar for a while. */
#define PROMPT_NS UINT64_C(1000000)
#define SLOW_NS UINT64_C(1000000000)

static struct verbs_device *device_of(const struct fabric_mr *exposure)
{
	return exposure->session->endpoint->device;
}

/* ---- jobs, on the registrar's thread; to register little, on the loop ---- */

/* Why a registration failed and what helps. */
static int register_error(const struct fabric_mr *exposure, int err)
{
	const char *name = device_of(exposure)->facts.name;
	char size[32], limit_text[32];
	struct rlimit limit;

	(void)units_format_bytes(exposure->bytes, size, sizeof(size));
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

static void job_register(struct verbs_job *job)
{
	struct fabric_mr *exposure = container_of(job, struct fabric_mr, job);

	exposure->err = 0;
	exposure->mr = ibv_reg_mr(exposure->pd, exposure->addr, exposure->bytes,
				  exposure->access);
	if (exposure->mr)
		return;
	exposure->err = register_error(exposure, verbs_failure());
	(void)snprintf(exposure->text, sizeof(exposure->text), "%s", err_text());
}

static void job_release(struct verbs_job *job)
{
	struct fabric_mr *exposure = container_of(job, struct fabric_mr, job);

	exposure->err = ibv_dereg_mr(exposure->mr);
}

/* ---- the rest, on the loop ---- */

static void exposure_post(struct fabric_mr *exposure, enum verbs_exposure_state state,
			  void (*run)(struct verbs_job *job))
{
	exposure->state = state;
	exposure->job.run = run;
	verbs_registrar_post(&device_of(exposure)->registrar, &exposure->job);
}

static void exposure_free(struct fabric_mr *exposure)
{
	list_remove(&exposure->link);
	fabric_notifications_destroy(&exposure->notes);
	free(exposure);
}

/* The last of them come before the news that the exposure is over: it was taken out of the
 * session's ranges before its registration was undone. */
static void exposure_notes(struct verbs_message *message)
{
	struct fabric_mr *exposure = container_of(message, struct fabric_mr, noted);
	struct fabric_session *session = exposure->session;
	struct fabric_server *server = session->endpoint->server;
	struct fabric_notifications_taken taken;

	fabric_notifications_take(&exposure->notes, &taken);
	fabric_notifications_report(&taken, server->events, server->ctx,
				    session->cookie, exposure->cookie);
}

static void exposure_end(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;
	struct fabric_server *server = session->endpoint->server;
	void *cookie = exposure->cookie;
	bool silent = exposure->silent;

	exposure_free(exposure);
	if (!silent)
		server->events->mr_deregistered(server->ctx, cookie);
	verbs_session_settle(session);
}

static void exposure_announce(struct fabric_mr *exposure)
{
	struct fabric_server *server = exposure->session->endpoint->server;
	const struct fabric_key key = {
		.addr = (uintptr_t)exposure->addr,
		.rkey = exposure->mr->rkey,
	};

	exposure->state = VERBS_EXPOSURE_LIVE;
	exposure->session->endpoint->stats.exposures++;
	exposure->session->endpoint->stats.exposed_bytes += exposure->bytes;
	server->events->mr_registered(server->ctx, exposure->cookie, 0, "", &key);
}

static void exposure_release(struct fabric_mr *exposure)
{
	verbs_ranges_remove(exposure);
	if (exposure->state == VERBS_EXPOSURE_LIVE) {
		exposure->session->endpoint->stats.exposures--;
		exposure->session->endpoint->stats.exposed_bytes -= exposure->bytes;
	}
	exposure_post(exposure, VERBS_EXPOSURE_RELEASING, job_release);
}

/* The owner forgets the exposure with this news, so what is left of it goes unseen. */
static void exposure_refuse(struct fabric_mr *exposure, int err, const char *text)
{
	struct fabric_session *session = exposure->session;
	struct fabric_server *server = session->endpoint->server;
	char copy[sizeof(exposure->text)];
	void *cookie = exposure->cookie;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	if (exposure->mr) {
		exposure->silent = true;
		exposure_release(exposure);
	} else {
		session->n_mrs--;
		exposure_free(exposure);
	}
	server->events->mr_registered(server->ctx, cookie, err, copy, NULL);
	verbs_session_settle(session);
}

static void registered(struct fabric_mr *exposure)
{
	if (exposure->withdrawn && exposure->mr) {
		exposure_release(exposure);
	} else if (exposure->withdrawn) {
		exposure->session->n_mrs--;
		exposure_end(exposure);
	} else if (exposure->err) {
		exposure_refuse(exposure, exposure->err, exposure->text);
	} else if (device_of(exposure)->gone) {
		exposure_refuse(exposure, -ENODEV, "the RDMA device was removed");
	} else if (verbs_ranges_add(exposure)) {
		exposure_refuse(exposure, -ENOMEM, "no memory for an exposure");
	} else {
		exposure_announce(exposure);
	}
}

/* The device still honours a key that must be dead.  Without a queue pair in its
 * protection domain nobody can use it, now or later, so the promise holds at the price
 * of the session on this device. */
static void release_failed(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;

	if (session->sealed)
		return;
	session->sealed = true;
	verbs_endpoint_news(
		session->endpoint,
		"RDMA device %s: ibv_dereg_mr gives %d: a session is cut off",
		device_of(exposure)->facts.name, exposure->err);
	verbs_session_cut(session, "a registration could not be undone");
}

static void released(struct fabric_mr *exposure)
{
	struct fabric_session *session = exposure->session;

	if (exposure->err)
		release_failed(exposure);
	exposure->mr = NULL;
	session->n_mrs--;
	if (exposure->err && session->unfenced && !device_of(exposure)->gone &&
	    !exposure->silent) {
		/* its owner would give the memory to somebody else */
		exposure->state = VERBS_EXPOSURE_STUCK;
		verbs_endpoint_news(
			session->endpoint,
			"RDMA device %s: a session still reaches %zu bytes, "
			"which stay withheld",
			device_of(exposure)->facts.name, exposure->bytes);
		verbs_session_settle(session);
		return;
	}
	if (exposure->withdrawn || exposure->silent) {
		exposure_end(exposure);
		return;
	}
	exposure->state = VERBS_EXPOSURE_DEAD;
	verbs_session_settle(session);
}

static void exposure_deliver(struct verbs_message *message)
{
	struct verbs_job *job = container_of(message, struct verbs_job, done);
	struct fabric_mr *exposure = container_of(job, struct fabric_mr, job);

	if (exposure->state == VERBS_EXPOSURE_REGISTERING)
		registered(exposure);
	else if (exposure->state == VERBS_EXPOSURE_RELEASING)
		released(exposure);
	else
		exposure_end(exposure);
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
	if ((rights & FABRIC_RIGHT_WRITE) && session->endpoint->device->facts.iwarp)
		access |= IBV_ACCESS_REMOTE_READ;
	if (rights == (FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE) &&
	    session->endpoint->device->facts.atomics)
		access |= IBV_ACCESS_REMOTE_ATOMIC;
	if (session->endpoint->device->rdma_options.relaxed_ordering)
		access |= IBV_ACCESS_RELAXED_ORDERING;
	return access;
}

/* Its end is news in either case, which come in the loop's next turn at the earliest. */
static void exposure_register(struct fabric_mr *exposure)
{
	struct verbs_device *device = device_of(exposure);
	uint64_t begin_ns = clock_now_ns();

	if (exposure->bytes > PROMPT_BYTES || begin_ns < device->slow_ns) {
		exposure_post(exposure, VERBS_EXPOSURE_REGISTERING, job_register);
		return;
	}
	exposure->state = VERBS_EXPOSURE_REGISTERING;
	job_register(&exposure->job);
	if (clock_now_ns() - begin_ns > PROMPT_NS)
		device->slow_ns = begin_ns + SLOW_NS;
	mailbox_post(&exposure->session->endpoint->server->mailbox,
		     &exposure->job.done.link);
}

static int exposure_check(const struct fabric_session *session, size_t bytes)
{
	const struct verbs_facts *facts = &session->endpoint->device->facts;

	if (session->closing)
		return err_set(-ESHUTDOWN, "the session is being closed");
	if (!session->pd || session->endpoint->device->gone)
		return err_set(-ENODEV, "RDMA device %s was removed", facts->name);
	if (session->sealed)
		return err_set(-EIO, "RDMA device %s: the session had to be cut off",
			       facts->name);
	if (!bytes || bytes > facts->max_mr_bytes)
		return err_set(-EINVAL,
			       "%zu bytes at once: RDMA device %s registers 1 to "
			       "%" PRIu64,
			       bytes, facts->name, facts->max_mr_bytes);
	return 0;
}

int verbs_exposure_create(struct fabric_session *session, void *addr, size_t bytes,
			  unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	struct fabric_mr *exposure;
	int err = exposure_check(session, bytes);

	if (err)
		return err;
	exposure = calloc(1, sizeof(*exposure));
	if (!exposure)
		return err_errno(-ENOMEM, "an exposure");
	exposure->session = session;
	exposure->cookie = cookie;
	exposure->addr = addr;
	exposure->bytes = bytes;
	exposure->rights = rights;
	exposure->access = access_of(session, rights);
	exposure->noted.deliver = exposure_notes;
	fabric_notifications_init(&exposure->notes);
	exposure->pd = session->pd;
	exposure->job.done.deliver = exposure_deliver;
	list_append(&session->exposures, &exposure->link);
	session->n_mrs++;
	exposure_register(exposure);
	*ret_mr = exposure;
	return 0;
}

static void exposure_over(struct fabric_mr *exposure)
{
	exposure->state = VERBS_EXPOSURE_OVER;
	mailbox_post(&exposure->session->endpoint->server->mailbox,
		     &exposure->job.done.link);
}

void verbs_exposure_withdraw(struct fabric_mr *exposure)
{
	if (exposure->withdrawn)
		return;
	exposure->withdrawn = true;
	if (exposure->state == VERBS_EXPOSURE_LIVE)
		exposure_release(exposure);
	else if (exposure->state == VERBS_EXPOSURE_DEAD)
		exposure_over(exposure);
}

void verbs_exposure_abandon(struct fabric_mr *exposure)
{
	if (exposure->state == VERBS_EXPOSURE_LIVE)
		exposure_release(exposure);
	else if (exposure->state == VERBS_EXPOSURE_STUCK && exposure->withdrawn)
		exposure_over(exposure);
	else if (exposure->state == VERBS_EXPOSURE_STUCK)
		exposure->state = VERBS_EXPOSURE_DEAD;
}

void verbs_exposure_free(struct fabric_mr *exposure)
{
	/* a registration that came through after the server began to close */
	if (exposure->state == VERBS_EXPOSURE_REGISTERING && exposure->mr)
		(void)ibv_dereg_mr(exposure->mr);
	exposure_free(exposure);
}
