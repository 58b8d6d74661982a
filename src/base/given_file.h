/* SPDX-License-Identifier: BSD-3-Clause */
/* Files whose paths a user or a configuration gives: regular ones, as a FIFO would block for ever
 * whoever opens it, and a device or a socket is no text.  Threads: [any]. */
#ifndef BASE_GIVEN_FILE_H
#define BASE_GIVEN_FILE_H

#include <stdio.h>
#include <sys/types.h>

enum given_file {
	GIVEN_FILE_PLAIN,
	/* it decides whom this process trusts: it is root's or this user's, and nobody else can
	 * write to it */
	GIVEN_FILE_TRUSTED,
	GIVEN_FILE_SECRET, /* the same, and nobody outside of its group can read it either */
};

/* Open a file for reading; the text is "WHAT PATH: why not", or without a WHAT of NULL "PATH: ...".
 *   -EINVAL  it is not a regular file
 *   -EACCES  others have rights to it; the text has the command that takes them away
 *   -ENOENT ... */
int given_file_open(const char *what, const char *path, enum given_file kind,
		    FILE **ret_file);

/* Check an open file; ret_bytes: its size, or NULL.  Errors as above; the text does not name it. */
int given_file_check(int fd, enum given_file kind, off_t *ret_bytes);

#endif
