/* SPDX-License-Identifier: BSD-3-Clause */
/* The time-out that a thread has for its own calls. */
#include "librmem/session/session.h"

_Thread_local unsigned session_thread_timeout_ms;

unsigned rmem_thread_timeout(unsigned timeout_ms)
{
	unsigned before = session_thread_timeout_ms;

	session_thread_timeout_ms = timeout_ms;
	return before;
}
