/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>

#include "base/err.h"

/* None of these calls can fail on these arguments. */
static void mask_change(int how)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	(void)sigprocmask(how, &set, NULL);
}

void signals_hold(void)
{
	mask_change(SIG_BLOCK);
}

int signals_check(void)
{
	sigset_t set;

	(void)sigpending(&set);
	return sigismember(&set, SIGTERM) == 1 || sigismember(&set, SIGINT) == 1
		       ? err_set(-ECANCELED, "asked to stop")
		       : 0;
}

void signals_release(void)
{
	mask_change(SIG_UNBLOCK);
}
