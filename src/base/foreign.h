/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the program has named, and that may not be there: the kernel tries it, where a thread
 * that touched it would get SIGSEGV.  Threads: [any]. */
#ifndef BASE_FOREIGN_H
#define BASE_FOREIGN_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#define FOREIGN_PROBE_MAX 262144

/* Copy from such memory.  The number of bytes that were copied, which may be less than there are.
 *   -EFAULT  the first byte is not there, or must not be read
 *   -errno   of pipe2(2), where process_vm_writev(2) is refused */
ssize_t foreign_read(void *to, size_t bytes, const struct iovec *from, size_t n);

/* Whether 1 to FOREIGN_PROBE_MAX bytes can be written now, which changes some of them: much cheaper
 * than to copy so many.  0, or an error as above. */
int foreign_probe(void *to, size_t bytes);

#endif
