/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/secret_file.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/err.h"

int secret_file_check(int fd, off_t *ret_bytes)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(-errno, "fstat");
	if (!S_ISREG(st.st_mode))
		return err_set(-EINVAL, "it is not a file");
	if (st.st_mode & (S_IRWXO | S_IWGRP))
		return err_set(-EACCES,
			       "its mode is %03o: others must not read it, nor its "
			       "group write to it: chmod 640",
			       (unsigned)st.st_mode & 0777u);
	if (ret_bytes)
		*ret_bytes = st.st_size;
	return 0;
}
