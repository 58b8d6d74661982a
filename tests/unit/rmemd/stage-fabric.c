/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/stage-fabric.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"

struct fabric_session {
	struct list link;
	void *cookie;
	bool closing;
	uint64_t until_ns; /* of session_extend() */
};

/* The next `after` calls succeed, then one fails. */
struct fault {
	unsigned after;
	int err; /* 0: none fails */
};

struct list fake_fabric_mrs = LIST_INIT(fake_fabric_mrs);
bool fake_fabric_gid_verified, fake_fabric_hold_connect;
static struct list sessions = LIST_INIT(sessions);
static uint64_t next_rkey = 1;
static struct fault reg_fault, event_fault;
static unsigned keep_every, n_dereg_now;
static int session_err, channel_err;

/* ---- set by tests ---- */

void fake_fabric_close(void)
{
	list_for_each_entry_safe(struct fabric_mr, item, &fake_fabric_mrs, link)
		free(item);
	list_for_each_entry_safe(struct fabric_session, item, &sessions, link)
		free(item);
	list_init(&fake_fabric_mrs);
	list_init(&sessions);
	reg_fault.err = event_fault.err = session_err = channel_err = 0;
	keep_every = 0;
}

void fake_fabric_check_empty(void)
{
	ck_assert_msg(list_empty(&fake_fabric_mrs), "mrs are left");
	ck_assert_msg(list_empty(&sessions), "fabric_sessions are left");
	fake_fabric_close();
}

void fake_fabric_fail_reg(unsigned after, int err)
{
	reg_fault = (struct fault){ after, err };
}

void fake_fabric_fail_event(unsigned after, int err)
{
	event_fault = (struct fault){ after, err };
}

void fake_fabric_fail_session(int err)
{
	session_err = err;
}

void fake_fabric_keep_keys(unsigned n)
{
	keep_every = n;
}

void fake_fabric_keep_channels(int err)
{
	channel_err = err;
}

/* ---- the ops ---- */

/* The error of this call, or 0. */
static int fault_pass(struct fault *fault)
{
	int err = fault->err;

	if (err && fault->after > 0) {
		fault->after--;
		return 0;
	}
	fault->err = 0;
	return err;
}

static int open_session(struct fabric_server *server, unsigned endpoint, void *cookie,
			struct fabric_session **ret_session)
{
	struct fabric_session *session;

	(void)server;
	(void)endpoint;
	if (session_err)
		return err_set(session_err, "the fake fails the call");
	session = calloc(1, sizeof(*session));
	ck_assert_ptr_nonnull(session);
	session->cookie = cookie;
	list_append(&sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void close_session(struct fabric_session *session)
{
	ck_assert(!session->closing);
	session->closing = true;
}

static void extend_session(struct fabric_session *session, uint64_t until_ns)
{
	ck_assert(!session->closing);
	session->until_ns = until_ns;
}

static int close_channel(struct fabric_session *session, uint32_t channel)
{
	(void)channel;
	ck_assert(!session->closing);
	return channel_err ? err_set(channel_err, "the fake fails the call") : 0;
}

/* The server's attributes are made from the client's. */
static int connect_channel(struct fabric_session *session, uint32_t channel,
			   const struct fabric_qp_info *theirs)
{
	struct fabric_qp_info ours = *theirs;

	ck_assert(!session->closing);
	if (theirs->qpn > 0xffffff)
		return err_set(-EINVAL, "no such queue pair");
	fake_fabric_gid_verified = theirs->gid_verified;
	ours.qpn++;
	ours.mtu /= 2;
	if (fake_fabric_hold_connect)
		return 0;
	session_channel_up(NULL, session->cookie, channel);
	session_channel_connected(NULL, session->cookie, channel, 0, "", &ours);
	return 0;
}

static int reg_mr(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		  struct fabric_key *)
{
	struct fabric_mr *mr;
	int err;

	ck_assert(!session->closing);
	ck_assert_uint_gt(bytes, 0);
	ck_assert_uint_ne(rights, 0);
	err = fault_pass(&reg_fault);
	if (err)
		return err_set(err, "the fake fails the call");
	mr = calloc(1, sizeof(*mr));
	ck_assert_ptr_nonnull(mr);
	*mr = (struct fabric_mr){ .session = session,
				  .cookie = cookie,
				  .addr = addr,
				  .bytes = bytes,
				  .rights = rights,
				  .rkey = next_rkey++,
				  .err = fault_pass(&event_fault) };
	list_append(&fake_fabric_mrs, &mr->link);
	*ret_mr = mr;
	return 0;
}

static bool dereg_mr(struct fabric_mr *mr)
{
	ck_assert(mr->state != FAKE_MR_DYING);
	mr->state = FAKE_MR_DYING;
	return false;
}

static void mr_drop(struct fabric_mr *mr)
{
	list_remove(&mr->link);
	free(mr);
}

static struct fabric_key mr_key(const struct fabric_mr *mr)
{
	return (struct fabric_key){ .addr = (uintptr_t)mr->addr, .rkey = mr->rkey };
}

static int reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		      struct fabric_key *ret_key)
{
	struct fabric_mr *mr;
	int err = reg_mr(session, addr, bytes, rights, cookie, &mr, ret_key);

	if (err)
		return err;
	err = mr->err;
	if (err) {
		mr_drop(mr);
		return err_set(err, "the fake fails the event");
	}
	mr->state = FAKE_MR_LIVE;
	*ret_key = mr_key(mr);
	*ret_mr = mr;
	return 1;
}

static bool dereg_mr_now(struct fabric_mr *mr)
{
	(void)dereg_mr(mr);
	if (keep_every && ++n_dereg_now % keep_every == 0)
		return false;
	mr_drop(mr);
	return true;
}

const struct fabric_server_ops fake_fabric = {
	.name = "fake",
	.kind = FABRIC_TCP,
	.session_open = open_session,
	.session_close = close_session,
	.session_extend = extend_session,
	.channel_close = close_channel,
	.channel_connect = connect_channel,
	.reg_mr = reg_mr,
	.dereg_mr = dereg_mr,
};

const struct fabric_server_ops fake_fabric_now = {
	.name = "fake",
	.kind = FABRIC_TCP,
	.session_open = open_session,
	.session_close = close_session,
	.session_extend = extend_session,
	.channel_close = close_channel,
	.channel_connect = connect_channel,
	.reg_mr = reg_mr_now,
	.dereg_mr = dereg_mr_now,
};

/* ---- events ---- */

bool fake_fabric_notify(uint64_t rkey, uint32_t value, uint32_t lost)
{
	const struct fabric_mr *mr = fake_fabric_find(rkey);

	if (!mr || !(mr->rights & FABRIC_RIGHT_WRITE))
		return false;
	/* notifications may still arrive while the mr is dying */
	lease_notified(NULL, NULL, mr->cookie, value, lost);
	return true;
}

static bool session_is_closed(const struct fabric_session *session)
{
	if (!session->closing)
		return false;
	list_for_each_entry(struct fabric_mr, mr, &fake_fabric_mrs, link)
		if (mr->session == session)
			return false;
	return true;
}

static void mr_event(struct fabric_mr *mr)
{
	const struct fabric_key key = mr_key(mr);
	const struct fabric_mr was = *mr;

	if (mr->state == FAKE_MR_PENDING && !mr->err) {
		mr->state = FAKE_MR_LIVE;
		lease_mr_registered(NULL, was.cookie, 0, "", &key);
		return;
	}
	mr_drop(mr);
	if (was.state == FAKE_MR_DYING)
		lease_mr_deregistered(NULL, was.cookie);
	else
		lease_mr_registered(NULL, was.cookie, was.err,
				    "the fake fails the event", NULL);
}

static void session_event(struct fabric_session *session)
{
	void *cookie = session->cookie;

	list_remove(&session->link);
	free(session);
	if (cookie)
		session_closed(NULL, cookie);
}

static unsigned count_events(void)
{
	unsigned n = 0;

	list_for_each_entry(struct fabric_mr, mr, &fake_fabric_mrs, link)
		n += mr->state != FAKE_MR_LIVE;
	list_for_each_entry(struct fabric_session, session, &sessions, link)
		n += session_is_closed(session);
	return n;
}

bool fake_fabric_step(unsigned pick)
{
	unsigned n = count_events();

	if (n == 0)
		return false;
	pick %= n;
	list_for_each_entry(struct fabric_mr, mr, &fake_fabric_mrs, link) {
		if (mr->state == FAKE_MR_LIVE)
			continue;
		if (pick == 0) {
			mr_event(mr);
			return true;
		}
		pick--;
	}
	list_for_each_entry(struct fabric_session, session, &sessions, link) {
		if (!session_is_closed(session))
			continue;
		if (pick == 0) {
			session_event(session);
			break;
		}
		pick--;
	}
	return true;
}

void fake_fabric_settle(void)
{
	while (fake_fabric_step(0))
		;
}

/* ---- what there is ---- */

static unsigned count(const struct list *list)
{
	unsigned n = 0;

	list_for_each_safe(node, list)
		n++;
	return n;
}

unsigned fake_fabric_alive(void)
{
	return count(&fake_fabric_mrs);
}

unsigned fake_fabric_sessions(void)
{
	return count(&sessions);
}

uint64_t fake_fabric_until_ns(void)
{
	ck_assert(!list_empty(&sessions));
	return container_of(sessions.prev, struct fabric_session, link)->until_ns;
}

bool fake_fabric_reaches(const void *addr, size_t bytes)
{
	const char *start = addr;

	list_for_each_entry(const struct fabric_mr, mr, &fake_fabric_mrs, link) {
		if (mr->addr < start + bytes && start < mr->addr + mr->bytes)
			return true;
	}
	return false;
}

struct fabric_mr *fake_fabric_find(uint64_t rkey)
{
	list_for_each_entry(struct fabric_mr, mr, &fake_fabric_mrs, link)
		if (mr->rkey == rkey)
			return mr;
	return NULL;
}

bool fake_fabric_key_works(uint64_t rkey, uint64_t bytes)
{
	const struct fabric_mr *mr = fake_fabric_find(rkey);

	return mr && mr->state == FAKE_MR_LIVE && !mr->session->closing &&
	       mr->bytes >= bytes;
}
