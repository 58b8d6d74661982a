/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/given_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"

static int rights_check(const struct stat *st, enum given_file kind)
{
	unsigned mode = st->st_mode & 0777u;

	if (kind != GIVEN_FILE_PLAIN && st->st_uid != 0 && st->st_uid != geteuid())
		return err_set(-EACCES,
			       "it belongs to user %u, who could change it: chown root",
			       (unsigned)st->st_uid);
	if (kind == GIVEN_FILE_SECRET && (mode & (S_IRWXO | S_IWGRP)))
		return err_set(-EACCES,
			       "its mode is %03o: others must not read it, nor its "
			       "group write to it: chmod 640",
			       mode);
	if (kind == GIVEN_FILE_TRUSTED && (mode & (S_IWOTH | S_IWGRP)))
		return err_set(-EACCES,
			       "its mode is %03o: only its owner may write to it: "
			       "chmod 644",
			       mode);
	return 0;
}

int given_file_check(int fd, enum given_file kind, off_t *ret_bytes)
{
	struct stat st;
	int err;

	if (fstat(fd, &st))
		return err_errno(-errno, "fstat");
	if (!S_ISREG(st.st_mode))
		return err_set(-EINVAL, "it is not a regular file");
	err = rights_check(&st, kind);
	if (!err && ret_bytes)
		*ret_bytes = st.st_size;
	return err;
}

static int file_open(const char *path, enum given_file kind, FILE **ret_file)
{
	/* that of a FIFO would wait for somebody who writes */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), err;

	if (fd < 0)
		return err_set(-errno, "%s", strerrordesc_np(errno));
	err = given_file_check(fd, kind, NULL);
	if (!err) {
		*ret_file = fdopen(fd, "re");
		if (*ret_file)
			return 0;
		err = err_set(-errno, "%s", strerrordesc_np(errno));
	}
	(void)close(fd);
	return err;
}

int given_file_open(const char *what, const char *path, enum given_file kind,
		    FILE **ret_file)
{
	int err = file_open(path, kind, ret_file);

	return err ? err_prefix(err, "%s%s%s", what ? what : "", what ? " " : "", path)
		   : 0;
}
