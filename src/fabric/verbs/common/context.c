/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/context.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "fabric/verbs/common/iwarp.h"

int verbs_set_nonblocking(int fd, const char *what)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return err_errno(-errno, "%s", what);
	return 0;
}

int verbs_create_comp_channel(struct ibv_context *verbs,
			      struct ibv_comp_channel **ret_comp)
{
	struct ibv_comp_channel *comp = ibv_create_comp_channel(verbs);
	int err;

	if (!comp)
		return err_errno(verbs_errno(), "ibv_create_comp_channel");
	err = verbs_set_nonblocking(comp->fd, "the completion channel's descriptor");
	if (err) {
		(void)ibv_destroy_comp_channel(comp);
		return err;
	}
	*ret_comp = comp;
	return 0;
}

int verbs_reg_mr_error(const struct ibv_context *verbs, size_t bytes, int err,
		       const char *raise)
{
	const char *name = ibv_get_device_name(verbs->device);
	char size[32], limit_text[32];
	struct rlimit limit;

	(void)units_format_bytes(bytes, size, sizeof(size));
	if (err != -ENOMEM || getrlimit(RLIMIT_MEMLOCK, &limit))
		return err_errno(err, "RDMA device %s: ibv_reg_mr of %s", name, size);
	if (limit.rlim_cur == RLIM_INFINITY)
		return err_set(
			err,
			"RDMA device %s: ibv_reg_mr of %s: out of memory, or the "
			"device has no room for more registrations",
			name, size);
	(void)units_format_bytes(limit.rlim_cur, limit_text, sizeof(limit_text));
	return err_set(
		err,
		"RDMA device %s: ibv_reg_mr of %s: RLIMIT_MEMLOCK is %s, raise it "
		"(%s); if it suffices, the device has no room for more "
		"registrations",
		name, size, limit_text, raise);
}

void verbs_disassociate_fd(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	(void)dup3(null, fd, O_CLOEXEC);
	(void)close(null);
}

void verbs_disassociate(struct ibv_context *verbs)
{
	verbs_siw_unreserve(verbs);
	verbs_disassociate_fd(verbs->async_fd);
	verbs_disassociate_fd(verbs->cmd_fd);
}

void verbs_device_close(struct ibv_context *verbs)
{
	verbs_siw_unreserve(verbs);
	(void)ibv_close_device(verbs);
}
