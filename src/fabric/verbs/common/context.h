/* SPDX-License-Identifier: BSD-3-Clause */
/* An open device (ibv_context): its descriptors, errors of its functions, and its release while it
 * is being removed.  rdma_cm keeps the device's descriptors for the life of the process, and a
 * kernel driver that cannot cut them off waits for them in the removal.  Threads: [any]. */
#ifndef FABRIC_VERBS_COMMON_CONTEXT_H
#define FABRIC_VERBS_COMMON_CONTEXT_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>

/* -errno after a failed call of libibverbs or librdmacm; -EIO if a driver did not set errno, as a
 * failure must not look like success. */
static inline int verbs_errno(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* What the client of a request is told of an error of the device, which has another meaning there:
 * the request is not wrong, but the device fails, or has no memory. */
static inline int verbs_failure(int err)
{
	return err && err != -ENOMEM ? -EIO : err;
}

/* -errno with text that begins with `what`. */
int verbs_set_nonblocking(int fd, const char *what);
/* A completion channel that does not block.  -errno with text. */
int verbs_create_comp_channel(struct ibv_context *verbs,
			      struct ibv_comp_channel **ret_comp);

/* The error of an ibv_reg_mr() of this size on a device, with its cause.
 *   raise  how to raise RLIMIT_MEMLOCK */
int verbs_reg_mr_error(const struct ibv_context *verbs, size_t bytes, int err,
		       const char *raise);

/* Replace a descriptor by /dev/null: its number stays in use, and the kernel releases what the
 * descriptor referred to. */
void verbs_disassociate_fd(int fd);
/* Replace the device's own descriptors. */
void verbs_disassociate(struct ibv_context *verbs);
/* Close a device that rmem opened, not rdma_cm. */
void verbs_device_close(struct ibv_context *verbs);

#endif
