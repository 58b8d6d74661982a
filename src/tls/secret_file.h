/* SPDX-License-Identifier: BSD-3-Clause */
/* Files with keys.  Threads: [any]. */
#ifndef TLS_SECRET_FILE_H
#define TLS_SECRET_FILE_H

#include <sys/types.h>

/* Check an open file: it is a regular one that others cannot read, nor its group write to.
 * ret_bytes: its size, or NULL.  -EACCES, -EINVAL, or of fstat(); the text does not name the file. */
int secret_file_check(int fd, off_t *ret_bytes);

#endif
