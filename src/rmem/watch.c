/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/session.h"

#define NOTICES 64

static unsigned count; /* 0: until the lease ends, or a signal comes */
static bool json;

/* The memory that the server wants back; nothing if the lease has ended meanwhile. */
static void wanted_print(const struct rmem_notice *notice)
{
	struct rmem_wanted wanted = RMEM_WANTED_INIT;

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

static void json_print(const struct rmem_notice *notice)
{
	char lost[16] = "null";

	if (notice->lost != RMEM_LOST_UNKNOWN)
		(void)snprintf(lost, sizeof(lost), "%" PRIu32, notice->lost);
	if (notice->status == -ESTALE)
		(void)puts("{\"event\":\"ended\"}");
	else if (notice->status == -ENOSPC)
		wanted_print(notice);
	else if (notice->status)
		(void)printf("{\"event\":\"resumed\",\"lost\":%s}\n", lost);
	else
		(void)printf("{\"event\":\"notified\",\"value\":%" PRIu32
			     ",\"lost\":%s}\n",
			     notice->value, lost);
}

static void text_print(const struct rmem_notice *notice)
{
	if (notice->lost == RMEM_LOST_UNKNOWN)
		(void)puts("lost: unknown");
	else if (notice->lost)
		(void)printf("lost: %" PRIu32 "\n", notice->lost);
	if (notice->status == -ESTALE)
		(void)puts("ended");
	else if (notice->status == -ENOSPC)
		wanted_print(notice);
	else if (!notice->status)
		(void)printf("%" PRIu32 "\n", notice->value);
}

/* Print notices; true: after the last one to print. */
static bool notices_print(const struct rmem_notice *notices, int n)
{
	for (int i = 0; i < n; i++) {
		if (json)
			json_print(&notices[i]);
		else
			text_print(&notices[i]);
		if (notices[i].status == -ESTALE ||
		    (notices[i].status == 0 && count && --count == 0))
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
		return session_failed(fds[1].fd);
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
	return n < 0 ? session_failed(n) : 0;
}

static int watch_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = rmem_attach(session, args[0], RMEM_READ, &lease);

	if (!err)
		err = rmem_watch(lease);
	if (err)
		return session_failed(err);
	/* a signal ends the command without an error */
	err = interrupt_catch();
	return err ? err : session_watch(session);
}

static const struct option_row watch_options[] = {
	{ "count", 'c', OPTION_NUMBER, &count, 1, UINT32_MAX, .argument = "N",
	  .help = "stop after N notifications" },
	{ "json", 0, OPTION_FLAG, &json, .help = "an object per line" },
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
	.run = watch_run,
};
