/* SPDX-License-Identifier: BSD-3-Clause */
/* The error text that goes with a negative errno: one line per thread, made where the
 * cause is known, extended by the levels above, read once by the level that handles it.
 * Threads: [any]. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* Set the thread's text and return `err` (a negative errno), so that a failing function
 * ends in one statement. */
int err_set(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The same with ": strerror" behind the text. */
int err_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the text that is there; returns `err`. */
int err_prefix(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The thread's text; "" when none was set.  Valid until the next err_* of the thread. */
const char *err_text(void);

/* Forget the thread's text. */
void err_clear(void);

#endif
