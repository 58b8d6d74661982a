/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/lease/dmabuf.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

static int part_check(const struct rmem_buffer_params *params)
{
	/* a dma-buf has a size, and what is neither one nor a file has none */
	off_t size = lseek(params->dmabuf_fd, 0, SEEK_END);
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	if (size < 0 && errno == EBADF)
		return err_set(-EBADF, "dmabuf_fd is %d, which is not open",
			       params->dmabuf_fd);
	if (size <= 0)
		return err_set(-EINVAL, "descriptor %d is not a dma-buf",
			       params->dmabuf_fd);
	if (params->dmabuf_offset % page)
		return err_set(-EINVAL,
			       "dmabuf_offset is %" PRIu64
			       ", not a multiple of the page size %" PRIu64,
			       params->dmabuf_offset, page);
	if (params->dmabuf_offset > (uint64_t)size ||
	    params->bytes > (uint64_t)size - params->dmabuf_offset)
		return err_set(-EINVAL,
			       "%" PRIu64 " bytes at offset %" PRIu64
			       " go beyond the dma-buf, which has %" PRIu64,
			       params->bytes, params->dmabuf_offset, (uint64_t)size);
	return 0;
}

int dmabuf_map(const struct rmem_buffer_params *params, void **ret_addr,
	       int *ret_refused)
{
	size_t bytes = (size_t)params->bytes;
	int refused = 0, err = part_check(params);
	void *addr;

	if (err)
		return err;
	addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, params->dmabuf_fd,
		    (off_t)params->dmabuf_offset);
	if (addr == MAP_FAILED) {
		refused = -errno;
		addr = mmap(NULL, bytes, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	if (addr == MAP_FAILED)
		return err_errno(-errno, "reserving addresses for %" PRIu64 " bytes",
				 params->bytes);
	*ret_addr = addr;
	*ret_refused = refused;
	return 0;
}

int dmabuf_fd_copy(int fd, int *ret_fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);

	if (copy < 0)
		return err_errno(-errno, "a copy of the dma-buf's descriptor");
	*ret_fd = copy;
	return 0;
}
