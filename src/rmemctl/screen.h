/* SPDX-License-Identifier: BSD-3-Clause */
/* The terminal while a command has all of it: its other contents come back when the process ends,
 * stops, or dies by a signal.  Threads: [main]. */
#ifndef RMEMCTL_SCREEN_H
#define RMEMCTL_SCREEN_H

#include <stdbool.h>

/* Whether standard input and output are a terminal that can do this. */
bool screen_there(void);
/* Take it over.  -errno with text */
int screen_open(void);
/* Give it back; no effect if it was not taken. */
void screen_close(void);

/* The number of lines and columns now. */
void screen_size(unsigned *ret_lines, unsigned *ret_columns);
/* Show this text from the top on, cut to the screen.  -errno with text */
int screen_draw(const char *text);

/* Wait for a key. */
#define SCREEN_TIMEOUT (-1) /* the time is over, or the screen has changed */
#define SCREEN_END (-2)     /* there is no input any more */
int screen_key(unsigned timeout_ms);

#endif
