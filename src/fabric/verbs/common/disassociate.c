/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/disassociate.h"

#include <fcntl.h>
#include <unistd.h>

#include "fabric/verbs/common/iwarp.h"

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
