/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem watch and notify: the notifications of what is stored under a name. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/session.h"

#define NOTICES 64

/* ---- watch ---- */

static unsigned count; /* 0: until the lease ends, or a signal comes */
static bool json;
static bool lost; /* the server, and with it the session */

/* The memory that the server wants back; nothing if the lease has ended meanwhile. */
static void wanted_print(const struct rmem_notice *notice)
{
	struct rmem_wanted wanted = rmem_wanted_init();

	if (rmem_lease_wanted(notice->lease, &wanted))
		return;
	if (json)
		(void)printf("{\"event\":\"wanted\",\"bytes\":%" PRIu64
			     ",\"wait_ms\":%" PRIu64 ",\"revoke\":%s}\n",
			     wanted.bytes, wanted.wait_ms,
			     wanted.revoke ? "true" : "false");
	else
		(void)printf("wanted: %" PRIu64 "\n", wanted.bytes);
}

static const char *const reasons[] = {
	[RMEM_REASON_NONE] = "unknown",      [RMEM_REASON_FREED] = "freed",
	[RMEM_REASON_EXPIRED] = "expired",   [RMEM_REASON_REVOKED] = "revoked",
	[RMEM_REASON_REPLACED] = "replaced", [RMEM_REASON_LOST] = "lost",
	[RMEM_REASON_UNKNOWN] = "unknown",   [RMEM_REASON_UNSHARED] = "unshared",
};

/* The last line.  Without its server the watcher knows nothing of the memory, which may live on. */
static void end_print(const struct rmem_notice *notice)
{
	enum rmem_reason reason = notice->reason;

	lost = reason == RMEM_REASON_LOST;
	if (json && lost)
		(void)puts("{\"event\":\"server_lost\"}");
	else if (json)
		(void)printf("{\"event\":\"ended\",\"reason\":\"%s\"}\n",
			     reasons[reason]);
	else if (lost)
		(void)puts("server lost");
	else
		(void)printf("ended: %s\n", reasons[reason]);
}

static void notice_print(const struct rmem_notice *notice)
{
	char n_lost[16];

	if (notice->lost == RMEM_LOST_UNKNOWN)
		(void)strcpy(n_lost, json ? "null" : "unknown");
	else
		(void)snprintf(n_lost, sizeof(n_lost), "%" PRIu32, notice->lost);
	if (!json && notice->lost)
		(void)printf("lost: %s\n", n_lost);
	if (notice->type == RMEM_NOTICE_ENDED)
		end_print(notice);
	else if (notice->type == RMEM_NOTICE_WANTED)
		wanted_print(notice);
	else if (notice->type == RMEM_NOTICE_RESUMED && json)
		(void)printf("{\"event\":\"resumed\",\"lost\":%s}\n", n_lost);
	else if (notice->type == RMEM_NOTICE_VALUE && json)
		(void)printf("{\"event\":\"notified\",\"value\":%" PRIu32
			     ",\"lost\":%s}\n",
			     notice->value, n_lost);
	else if (notice->type == RMEM_NOTICE_VALUE)
		(void)printf("%" PRIu32 "\n", notice->value);
}

/* Print notices; true: after the last one to print. */
static bool notices_print(const struct rmem_notice *notices, int n)
{
	for (int i = 0; i < n; i++) {
		notice_print(&notices[i]);
		if (notices[i].type == RMEM_NOTICE_ENDED ||
		    (notices[i].type == RMEM_NOTICE_VALUE && count && --count == 0))
			return true;
	}
	return false;
}

static int session_watch(rmem *session)
{
	struct pollfd fds[] = {
		{ .fd = interrupt_fd(), .events = POLLIN },
		{ .fd = rmem_notified_fd(session), .events = POLLIN },
	};
	struct rmem_notice notices[NOTICES];
	bool done = false;
	int n = 0;

	if (fds[1].fd < 0)
		return session_result(fds[1].fd);
	while (!done && n >= 0) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return err_errno(-errno, "poll");
		if (fds[0].revents)
			return 0;
		n = rmem_notified(session, notices, NOTICES, 0);
		done = notices_print(notices, n);
		if (fflush(stdout))
			return err_errno(-errno, "writing the output");
	}
	if (n >= 0 && lost)
		n = rmem_ping(session, NULL);
	return n < 0 ? session_result(n) : 0;
}

static int watch_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = rmem_attach(session, args[0], RMEM_READ, &lease);

	if (!err)
		err = rmem_watch(lease);
	if (err)
		return session_result(err);
	/* a signal ends the command without an error */
	err = interrupt_catch("");
	return err ? err : session_watch(session);
}

static const struct option_row watch_options[] = {
	{ "count", 'c', OPTION_NUMBER, &count, 1, UINT32_MAX, .argument = "N",
	  .help = "stop after N notifications" },
	{ "json", 0, OPTION_FLAG, &json, .help = "an object per line" },
	{ .more = options_table },
	{ 0 },
};

const struct command watch_command = {
	.name = "watch",
	.synopsis = "watch [-c N] [--json] NAME",
	.summary = "print the notifications of what is stored under NAME",
	.options = watch_options,
	.args_min = 1,
	.args_max = 1,
	.args = "one NAME",
	.names = 1,
	.run = watch_run,
};

/* ---- notify ---- */

static unsigned value;

static int notify_check(char **args)
{
	if (option_number("VALUE", args[1], 0, UINT32_MAX, &value))
		return options_usage("%s", err_text());
	return 0;
}

static int notify_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = rmem_attach(session, args[0], RMEM_READ | RMEM_WRITE, &lease);

	if (!err)
		err = rmem_write_notify(lease, 0, NULL, 0, value);
	return session_result(err);
}

const struct command notify_command = {
	.name = "notify",
	.synopsis = "notify NAME VALUE",
	.summary = "send a number to the sessions that watch NAME",
	.options = options_table,
	.args_min = 2,
	.args_max = 2,
	.args = "a NAME and a VALUE",
	.names = 1,
	.check = notify_check,
	.run = notify_run,
};
