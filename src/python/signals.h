// SPDX-License-Identifier: BSD-3-Clause
/* Signals end the calls of the main thread that wait: their handlers run while it waits. */
#pragma once

#include <Python.h>
#include <stdbool.h>

/* Of the calling thread, if it is the one that Python runs the handlers in. */
void signals_hook(void);
/* Raise what a handler raised while a call waited.  Returns true if there was one. */
bool signals_raise(void);
/* As PyErr_CheckSignals(), with those that came while a call waited. */
int signals_check(void);
