/* SPDX-License-Identifier: BSD-3-Clause */
/* The address range of a dma-buf in this process.  [any] */
#ifndef LIBRMEM_LEASE_DMABUF_H
#define LIBRMEM_LEASE_DMABUF_H

#include <rmem/rmem.h>

/* Map the part of a dma-buf that params describes, for reading and writing.  If that is refused, as
 * for memory of devices, reserve a range of addresses without memory instead.  In both cases
 * munmap() frees the range.
 *   *ret_refused  0, or -errno: why the dma-buf cannot be mapped
 *   -EINVAL  not a dma-buf, or the part is not within it or does not begin at a page
 *   -EBADF   not a descriptor
 *   -ENOMEM  no free range */
int dmabuf_map(const struct rmem_buffer_params *params, void **ret_addr,
	       int *ret_refused);
/* A copy of the descriptor, for devices that are opened later.  -EMFILE. */
int dmabuf_fd_copy(int fd, int *ret_fd);

#endif
