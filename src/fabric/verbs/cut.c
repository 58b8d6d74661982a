/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/cut.h"

#include <fcntl.h>
#include <unistd.h>

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
	verbs_cut_fd(verbs->async_fd);
	verbs_cut_fd(verbs->cmd_fd);
}
