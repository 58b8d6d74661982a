/* SPDX-License-Identifier: BSD-3-Clause */
/* The error text of a thread: one line, through utf8_sanitize(), that explains the negative errno
 * that a function returns.  The function that detects the error sets the text, its callers may
 * extend it, and the function that handles the error reads it.  Threads: [any]. */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>

/* Set the thread's text and return `err` (a negative errno), so that a failing function
 * ends in one statement. */
int err_set(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* As err_set(), with ": strerror" appended. */
int err_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Put "prefix: " before the current text; returns `err`. */
int err_prefix(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The thread's text; "" when none was set.  Valid until the next err_* of the thread. */
const char *err_text(void);

/* Whether this -errno tells of a lack of descriptors or memory, which may end. */
bool err_is_lack(int err);

#define ERR_TEXT_BYTES 512

/* An error to be returned later, after calls that may set another text. */
struct err_saved {
	int err; /* 0: none */
	char text[ERR_TEXT_BYTES];
};

void err_save(struct err_saved *saved, int err);
int err_restore(const struct err_saved *saved);
/* Add this thread's text to those of failures before, of which the first is the error. */
void err_join(struct err_saved *failed, int err);

/* As err_saved, with the text on the heap: for a member of an object that there are many of.  Zeros
 * are no error. */
struct err_kept {
	int err;    /* 0: none */
	char *text; /* NULL: none, or no memory */
};

/* Once for each object. */
void err_keep(struct err_kept *kept, int err);
int err_kept_restore(const struct err_kept *kept);
void err_kept_free(struct err_kept *kept);

/* Clear the thread's text. */
void err_clear(void);

/* Ends a call of the library with its result: after a success there is no text. */
static inline int err_end(int result)
{
	if (result >= 0)
		err_clear();
	return result;
}

#endif
