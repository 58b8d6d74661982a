/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/thread.h"

#include <signal.h>
#include <stdio.h>

#include "base/err.h"

#define NAME_BYTES 16

int thread_start(const char *name, void *(*run)(void *ctx), void *ctx,
		 pthread_t *ret_thread)
{
	char shown[NAME_BYTES];
	sigset_t all, before;
	pthread_t thread;
	int err;

	/* the new thread inherits the mask; neither call can fail on these arguments */
	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&thread, NULL, run, ctx);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err)
		return err_errno(-err, "cannot start thread %s", name);
	(void)snprintf(shown, sizeof(shown), "%.15s", name);
	/* a thread without a name works as well */
	(void)pthread_setname_np(thread, shown);
	*ret_thread = thread;
	return 0;
}
