/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/stage-fabric.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"

enum state { PENDING, LIVE, DYING };

struct fabric_session {
	struct list link;
	void *cookie;
	bool closing;
};

struct fabric_mr {
	struct list link;
	struct fabric_session *session;
	void *cookie;
	const char *addr;
	size_t bytes;
	unsigned rights;
	uint64_t rkey;
	enum state state;
	int err;
};

static struct list sessions = LIST_INIT(sessions);
static struct list mrs = LIST_INIT(mrs);
static uint64_t next_rkey = 1;
static unsigned call_after, news_after, use_turn, withdrawals;
static int call_err, news_err, session_err, channel_err;

void fake_fabric_close(void)
{
	list_for_each_safe(node, &mrs)
		free(container_of(node, struct fabric_mr, link));
	list_for_each_safe(node, &sessions)
		free(container_of(node, struct fabric_session, link));
	list_init(&mrs);
	list_init(&sessions);
	call_err = news_err = session_err = channel_err = 0;
	use_turn = 0;
}

void fake_fabric_check_empty(void)
{
	ck_assert_msg(list_empty(&mrs), "keys are left");
	ck_assert_msg(list_empty(&sessions), "fabric_sessions are left");
	fake_fabric_close();
}

void fake_fabric_fail_call(unsigned after, int err)
{
	call_after = after;
	call_err = err;
}

void fake_fabric_fail_news(unsigned after, int err)
{
	news_after = after;
	news_err = err;
}

void fake_fabric_fail_session(int err)
{
	session_err = err;
}

void fake_fabric_use(unsigned turn)
{
	use_turn = turn;
}

void fake_fabric_keep_channels(int err)
{
	channel_err = err;
}

static int begin(struct fabric_server *server, unsigned endpoint, void *cookie,
		 struct fabric_session **ret_session)
{
	struct fabric_session *session;

	(void)server;
	(void)endpoint;
	if (session_err)
		return err_set(session_err, "the fake was told to fail");
	session = calloc(1, sizeof(*session));
	ck_assert_ptr_nonnull(session);
	session->cookie = cookie;
	list_append(&sessions, &session->link);
	*ret_session = session;
	return 0;
}

static void end(struct fabric_session *session)
{
	ck_assert(!session->closing);
	session->closing = true;
	list_for_each(node, &mrs) {
		struct fabric_mr *mr = container_of(node, struct fabric_mr, link);

		if (mr->session == session)
			mr->state = DYING;
	}
}

static int channel_close(struct fabric_session *session, uint32_t channel)
{
	(void)channel;
	ck_assert(!session->closing);
	return channel_err ? err_set(channel_err, "the fake was told to fail") : 0;
}

bool fake_fabric_own;

/* As if it were the client's own; 24 bits are the least that there are. */
static int channel_connect(struct fabric_session *session, uint32_t channel,
			   const struct fabric_qp_info *theirs,
			   struct fabric_qp_info *ret_ours)
{
	struct fabric_qp_info ours = *theirs;

	ck_assert(!session->closing);
	if (theirs->qpn > 0xffffff)
		return err_set(-EINVAL, "no such queue pair");
	fake_fabric_own = theirs->own;
	ours.qpn++;
	ours.mtu /= 2;
	*ret_ours = ours;
	session_channel_up(session->cookie, channel);
	return 0;
}

static int expose(struct fabric_session *session, void *addr, size_t bytes,
		  unsigned rights, void *cookie, struct fabric_mr **ret_mr)
{
	struct fabric_mr *mr;

	ck_assert(!session->closing);
	ck_assert_uint_gt(bytes, 0);
	ck_assert_uint_ne(rights, 0);
	if (call_err && call_after-- == 0) {
		int err = call_err;

		call_err = 0;
		return err_set(err, "the fake was told to fail");
	}
	mr = calloc(1, sizeof(*mr));
	ck_assert_ptr_nonnull(mr);
	*mr = (struct fabric_mr){ .session = session,
				  .cookie = cookie,
				  .addr = addr,
				  .bytes = bytes,
				  .rights = rights,
				  .rkey = next_rkey++ };
	list_append(&mrs, &mr->link);
	if (news_err && news_after-- == 0) {
		mr->err = news_err;
		news_err = 0;
	}
	*ret_mr = mr;
	return 0;
}

static void withdraw(struct fabric_mr *mr)
{
	ck_assert(mr->state != DYING);
	mr->state = DYING;
}

const struct fabric_server_ops fake_fabric = {
	.name = "fake",
	.kind = FABRIC_TCP,
	.session_open = begin,
	.session_close = end,
	.channel_close = channel_close,
	.channel_connect = channel_connect,
	.reg_mr = expose,
	.dereg_mr = withdraw,
};

static int reg_mr_now(struct fabric_session *session, void *addr, size_t bytes,
		      unsigned rights, void *cookie, struct fabric_mr **ret_mr,
		      struct fabric_key *ret_key)
{
	struct fabric_mr *mr;
	int err = expose(session, addr, bytes, rights, cookie, &mr);

	if (err)
		return err;
	err = mr->err;
	if (err) {
		list_remove(&mr->link);
		free(mr);
		return err_set(err, "the fake was told to fail later");
	}
	mr->state = LIVE;
	*ret_key = (struct fabric_key){ .addr = (uint64_t)(uintptr_t)addr,
					.rkey = mr->rkey };
	*ret_mr = mr;
	return 0;
}

static bool dereg_mr_now(struct fabric_mr *mr)
{
	withdraw(mr);
	if (use_turn && ++withdrawals % use_turn == 0)
		return false;
	list_remove(&mr->link);
	free(mr);
	return true;
}

const struct fabric_server_ops fake_fabric_now = {
	.name = "fake",
	.kind = FABRIC_TCP,
	.session_open = begin,
	.session_close = end,
	.channel_close = channel_close,
	.channel_connect = channel_connect,
	.reg_mr = expose,
	.dereg_mr = withdraw,
	.reg_mr_now = reg_mr_now,
	.dereg_mr_now = dereg_mr_now,
};

bool fake_fabric_notify(uint64_t rkey, uint32_t value, uint32_t lost)
{
	list_for_each(node, &mrs) {
		const struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->rkey != rkey || !(at->rights & FABRIC_RIGHT_WRITE))
			continue;
		/* what is being withdrawn may still have some on their way */
		lease_notified(at->cookie, value, lost);
		return true;
	}
	return false;
}

static bool has_exposures(const struct fabric_session *session)
{
	list_for_each(node, &mrs)
		if (container_of(node, struct fabric_mr, link)->session == session)
			return true;
	return false;
}

static void deliver(struct fabric_mr *mr)
{
	const struct fabric_key key = { .addr = (uint64_t)(uintptr_t)mr->addr,
					.rkey = mr->rkey };
	void *cookie = mr->cookie;
	int err = mr->err;

	if (mr->state == PENDING && !err) {
		mr->state = LIVE;
		lease_mr_registered(cookie, 0, "", &key);
		return;
	}
	list_remove(&mr->link);
	if (mr->state == DYING) {
		free(mr);
		lease_mr_deregistered(cookie);
		return;
	}
	free(mr);
	lease_mr_registered(cookie, err, "the fake was told to fail later", NULL);
}

bool fake_fabric_step(unsigned pick)
{
	struct fabric_mr *mr = NULL;
	struct fabric_session *session = NULL;
	unsigned n = 0;

	list_for_each(node, &mrs)
		n += container_of(node, struct fabric_mr, link)->state != LIVE;
	list_for_each(node, &sessions) {
		struct fabric_session *at =
			container_of(node, struct fabric_session, link);

		n += at->closing && !has_exposures(at);
	}
	if (n == 0)
		return false;
	pick %= n;
	list_for_each(node, &mrs) {
		struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->state != LIVE && pick-- == 0) {
			mr = at;
			break;
		}
	}
	if (mr) {
		deliver(mr);
		return true;
	}
	list_for_each(node, &sessions) {
		struct fabric_session *at =
			container_of(node, struct fabric_session, link);

		if (at->closing && !has_exposures(at) && pick-- == 0) {
			session = at;
			break;
		}
	}
	if (session) {
		void *cookie = session->cookie;

		list_remove(&session->link);
		free(session);
		if (cookie)
			session_closed(cookie);
	}
	return true;
}

void fake_fabric_settle(void)
{
	while (fake_fabric_step(0))
		;
}

unsigned fake_fabric_alive(void)
{
	unsigned n = 0;

	list_for_each(node, &mrs)
		n++;
	return n;
}

unsigned fake_fabric_sessions(void)
{
	unsigned n = 0;

	list_for_each(node, &sessions)
		n++;
	return n;
}

bool fake_fabric_reaches(const void *addr, size_t bytes)
{
	const char *start = addr;

	list_for_each(node, &mrs) {
		const struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->addr < start + bytes && start < at->addr + at->bytes)
			return true;
	}
	return false;
}

bool fake_fabric_key_works(uint64_t rkey, uint64_t bytes)
{
	list_for_each(node, &mrs) {
		const struct fabric_mr *at = container_of(node, struct fabric_mr, link);

		if (at->rkey == rkey)
			return at->state == LIVE && at->bytes >= bytes;
	}
	return false;
}
