/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/disassociate.h"

#include <fcntl.h>
#include <unistd.h>

#include "fabric/verbs/common/iwarp.h"

void verbs_cut_fd(int fd)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	(void)dup3(null, fd, O_CLOEXEC);
	(void)close(null);
}

void verbs_cut(struct ibv_context *verbs)
{
	verbs_siw_uncover(verbs);
	verbs_cut_fd(verbs->async_fd);
	verbs_cut_fd(verbs->cmd_fd);
}

void verbs_close(struct ibv_context *verbs)
{
	verbs_siw_uncover(verbs);
	(void)ibv_close_device(verbs);
}
