/* SPDX-License-Identifier: BSD-3-Clause */
/* The hook by which a thread lets signals end its calls. */
#include "librmem/session/session.h"

#include "base/err.h"

_Thread_local struct thread_interrupt session_thread_interrupt;

void rmem_thread_interrupt(int (*interrupted)(void *ctx), void *ctx)
{
	session_thread_interrupt.interrupted = interrupted;
	session_thread_interrupt.ctx = ctx;
}

int session_ask(bool at_once)
{
	struct thread_interrupt *hook = &session_thread_interrupt;
	uint64_t now_ns = clock_now_ns();

	if (!at_once && now_ns < hook->ask_ns)
		return 0;
	hook->ask_ns = now_ns + SESSION_ASK_MS * NS_PER_MS;
	if (!hook->interrupted(hook->ctx))
		return 0;
	return err_set(-EINTR, "the program's hook for signals ended it");
}
