/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls that do more than ask the server: to open and close a session, and to make a queue or a
 * buffer.  A task does what the function of that name does.  Threads: [owner], as of the object
 * that has the answer. */
#ifndef LIBRMEM_SLOW_H
#define LIBRMEM_SLOW_H

#include "librmem/session/call.h"

call_create slow_open_create, slow_close_create, slow_queue_create, slow_buffer_create;

/* Begin a call that one of these has created, which was not refused. */
void slow_begin(struct call *call);
/* The call is to end before its task: its work is not done, or what it makes is undone.  False: it
 * has ended, or its task works on memory of the program.  Under the lock of its session, if it has
 * one. */
bool slow_leave(struct call *call);
/* Wait until the task of a call that cannot be left has ended. */
void slow_await(struct call *call);

#endif
