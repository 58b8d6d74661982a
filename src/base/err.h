/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of an error, one line per thread, beside a negative errno: set where the cause is
 * known, extended by the levels above, read by the level that handles the error.
 * Threads: [any]. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

/* Set the thread's text and return `err` (a negative errno), so that a failing function
 * ends in one statement. */
int err_set(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set(), with ": strerror" appended. */
int err_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the current text; returns `err`. */
int err_prefix(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The thread's text; "" when none was set.  Valid until the next err_* of the thread. */
const char *err_text(void);

/* Clear the thread's text. */
void err_clear(void);

#endif
