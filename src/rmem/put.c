/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem put.  The bytes are written to a lease without a name, which other sessions cannot see and
 * which ends with this session.  When it is complete it is renamed, and replaces a lease of that
 * name, so that a reader finds either the old content or the new one. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rmem/interrupt.h"
#include "rmem/options.h"
#include "rmem/place.h"
#include "rmem/progress.h"
#include "rmem/session.h"
#include "rmem/transfer.h"

static int input_open(const char *path, int *ret_fd)
{
	int fd;

	if (strcmp(path, "-") == 0) {
		*ret_fd = STDIN_FILENO;
		return 0;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(-errno, "%s", path);
	*ret_fd = fd;
	return 0;
}

/* Bytes of a file from its current offset on; 0 when unknown, as of a pipe. */
static int input_bytes(int fd, const char *path, uint64_t *ret_bytes)
{
	struct stat st;
	off_t at;

	if (fstat(fd, &st))
		return err_errno(-errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return err_errno(-EISDIR, "%s", path);
	if (!S_ISREG(st.st_mode)) {
		*ret_bytes = 0;
		return 0;
	}
	at = lseek(fd, 0, SEEK_CUR);
	if (at < 0)
		return err_errno(-errno, "%s", path);
	*ret_bytes = at < st.st_size ? (uint64_t)(st.st_size - at) : 0;
	return 0;
}

static int content_write(rmem *session, rmem_lease *lease, int fd, uint64_t expected,
			 const char *name)
{
	struct progress progress;
	struct transfer *transfer;
	uint64_t bytes;
	int err;

	progress_start(&progress, name, expected);
	err = transfer_create(session, &progress, &transfer);
	if (err)
		return err;
	err = transfer_put(transfer, lease, fd, &bytes);
	progress_end(&progress);
	transfer_free(transfer);
	if (err)
		return err;
	if (bytes < rmem_lease_bytes(lease)) {
		err = rmem_trim(lease, bytes);
		if (err)
			return session_failed(err);
	}
	return 0;
}

static int file_put(struct options *options, const char *name, int fd,
		    const struct rmem_alloc_params *params)
{
	rmem_lease *lease;
	rmem *session;
	int err = session_open(options, &session);

	if (err)
		return err;
	/* a signal must end the session, and with it the lease */
	err = interrupt_catch();
	if (err)
		goto out;
	err = rmem_alloc(session, params, &lease);
	if (err) {
		err = session_failed(err);
		goto out;
	}
	err = content_write(session, lease, fd, params->bytes, name);
	if (err)
		goto out;
	place_show(options, lease);
	err = rmem_rename(lease, name, RMEM_REPLACE);
	if (err)
		err = session_failed(err);
out:
	rmem_close(session);
	return err;
}

static int put_run(struct options *options, int argc, char **argv)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	const char *path;
	int fd = -1, err = place_options(options, argc, argv, &params);

	if (err)
		return err;
	if (argc - optind < 1 || argc - optind > 2)
		return options_usage(options, "it takes NAME and at most one FILE");
	path = argc - optind == 2 ? argv[optind + 1] : "-";
	err = session_name_check(argv[optind]);
	if (err)
		return err;
	err = input_open(path, &fd);
	if (err)
		return err;
	err = input_bytes(fd, path, &params.bytes);
	if (!err)
		err = file_put(options, argv[optind], fd, &params);
	if (fd != STDIN_FILENO)
		(void)close(fd);
	return err;
}

const struct command put_command = {
	.name = "put",
	.synopsis = "put [--place PLACE] NAME [FILE|-]",
	.summary = "store a file, or the standard input, under a name",
	.details = PLACE_DETAILS,
	.run = put_run,
};
