/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/stage-fabric.h"

#include <check.h>
#include <errno.h>

#include "base/err.h"
#include "rmemd/control/session.h"
#include "rmemd/lease/lease.h"

/* The next `after` calls succeed, then one fails. */
struct fault {
	unsigned after;
	int err; /* 0: none fails */
};

bool fake_fabric_gid_verified, fake_fabric_hold_connect;
static struct fault reg_fault, event_fault;
static unsigned keep_every, n_dereg_now;
static int session_err, channel_err;
static bool now;

/* ---- the server ---- */

static void on_closed(void *ctx, void *cookie)
{
	if (cookie)
		session_closed(ctx, cookie);
}

struct fabric_server *fake_fabric_server(void)
{
	static const struct fabric_server_events events = {
		.channel_up = session_channel_up,
		.channel_connected = session_channel_connected,
		.mr_registered = lease_mr_registered,
		.mr_deregistered = lease_mr_deregistered,
		.session_closed = on_closed,
		.notified = lease_notified,
	};
	static struct fabric_server *server;

	if (!server)
		ck_assert_int_eq(fake_tcp_server.open(NULL, &events, NULL, &server), 0);
	return server;
}

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

static int at_session_open(void)
{
	return session_err;
}

static int at_channel_close(void)
{
	return channel_err;
}

static int at_channel_connect(const struct fabric_qp_info *theirs)
{
	if (theirs->qpn > 0xffffff)
		return -EINVAL;
	fake_fabric_gid_verified = theirs->gid_verified;
	return fake_fabric_hold_connect;
}

static int at_reg(struct fabric_mr *mr)
{
	int err = fault_pass(&reg_fault);

	if (err)
		return err;
	mr->err = fault_pass(&event_fault);
	return !now;
}

static bool at_dereg(struct fabric_mr *)
{
	return !now || (keep_every && ++n_dereg_now % keep_every == 0);
}

void fake_fabric_begin(bool without_events)
{
	now = without_events;
	fake_server_hooks = (struct fake_server_hooks){
		.at_session_open = at_session_open,
		.at_reg = at_reg,
		.at_dereg = at_dereg,
		.at_channel_close = at_channel_close,
		.at_channel_connect = at_channel_connect,
	};
}

/* ---- set by tests ---- */

void fake_fabric_close(void)
{
	fake_server_clear(fake_fabric_server());
	reg_fault.err = event_fault.err = session_err = channel_err = 0;
	keep_every = 0;
}

void fake_fabric_check_empty(void)
{
	ck_assert_msg(list_empty(&fake_mrs), "mrs are left");
	ck_assert_msg(list_empty(&fake_sessions), "fabric_sessions are left");
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

/* ---- events ---- */

bool fake_fabric_notify(uint64_t rkey, uint32_t value, uint32_t lost)
{
	const struct fabric_mr *mr = fake_mr_find(rkey);

	if (!mr || !(mr->rights & FABRIC_RIGHT_WRITE))
		return false;
	/* notifications may still arrive while the mr is dying */
	fake_server_notify(rkey, value, lost);
	return true;
}

static unsigned count_events(void)
{
	unsigned n = 0;

	list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link)
		n += mr->state != FAKE_MR_LIVE;
	list_for_each_entry(struct fabric_session, session, &fake_sessions, link)
		n += fake_session_is_closed(session);
	return n;
}

bool fake_fabric_step(unsigned pick)
{
	unsigned n = count_events();

	if (n == 0)
		return false;
	pick %= n;
	list_for_each_entry(struct fabric_mr, mr, &fake_mrs, link) {
		if (mr->state == FAKE_MR_LIVE)
			continue;
		if (pick == 0) {
			fake_mr_tell(mr);
			return true;
		}
		pick--;
	}
	list_for_each_entry(struct fabric_session, session, &fake_sessions, link) {
		if (!fake_session_is_closed(session))
			continue;
		if (pick == 0) {
			fake_session_tell(session);
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
	return count(&fake_mrs);
}

unsigned fake_fabric_sessions(void)
{
	return count(&fake_sessions);
}

uint64_t fake_fabric_until_ns(void)
{
	ck_assert(!list_empty(&fake_sessions));
	return container_of(fake_sessions.prev, struct fabric_session, link)->until_ns;
}

bool fake_fabric_reaches(const void *addr, size_t bytes)
{
	const char *start = addr;

	list_for_each_entry(const struct fabric_mr, mr, &fake_mrs, link) {
		if (mr->addr < start + bytes && start < mr->addr + mr->bytes)
			return true;
	}
	return false;
}

bool fake_fabric_key_works(uint64_t rkey, uint64_t bytes)
{
	const struct fabric_mr *mr = fake_mr_find(rkey);

	return mr && mr->state == FAKE_MR_LIVE && !mr->session->closing &&
	       mr->bytes >= bytes;
}
