/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard input, output and error.  Threads: before and after any other. */
#ifndef BASE_STANDARD_FDS_H
#define BASE_STANDARD_FDS_H

/* Open /dev/null on those of the descriptors 0 to 2 that are closed, first of all in a program.
 * Otherwise the next file or socket gets such a number, and messages are written into it.  Reading
 * and writing such a descriptor fails with EBADF as before.
 *   -errno of open(2), with err_text() */
int standard_fds_open(void);

/* Print a long text.  -errno with text: not all of it was written, which standard_output_close()
 * may not find the reason of, as stdio keeps no part of a text that is longer than its buffer. */
int standard_output_text(const char *text);

/* Close standard output, at the end of a program: a full disk may be found only there.
 *   -errno with text: not all output was written */
int standard_output_close(void);

#endif
