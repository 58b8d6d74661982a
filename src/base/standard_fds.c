/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/standard_fds.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "base/err.h"

int standard_fds_open(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0)
			continue;
		/* the lowest closed number is fd; opened for the direction that is not used */
		if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0)
			return err_errno(-errno, "/dev/null for descriptor %d", fd);
	}
	return 0;
}

int standard_output_text(const char *text)
{
	return fputs(text, stdout) == EOF ? err_errno(-errno, "writing the output") : 0;
}

int standard_output_close(void)
{
	bool failed = ferror(stdout) != 0;

	/* what a failed write has left is written again, and errno says why that fails */
	errno = 0;
	if (!fclose(stdout) && !failed)
		return 0;
	return err_errno(errno ? -errno : -EIO, "writing the output");
}
