/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem put.  The bytes are written to a lease without a name, which other sessions cannot see and
 * which ends with this session.  When it is complete it is renamed, and replaces a lease of that
 * name, so that a reader finds either the old content or the new one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/lease_options.h"
#include "rmem/progress.h"
#include "rmem/session.h"
#include "rmem/transfer.h"

static int input_fd;

static int input_open(const char *path)
{
	input_fd = STDIN_FILENO;
	if (strcmp(path, "-") != 0)
		input_fd = open(path, O_RDONLY | O_CLOEXEC);
	return input_fd < 0 ? err_errno(-errno, "%s", path) : 0;
}

/* Bytes of a file from its current offset on; 0 when unknown, as of a pipe. */
static int input_bytes(const char *path, uint64_t *ret_bytes)
{
	struct stat st;
	off_t at;

	if (fstat(input_fd, &st))
		return err_errno(-errno, "%s", path);
	if (S_ISDIR(st.st_mode))
		return err_errno(-EISDIR, "%s", path);
	if (!S_ISREG(st.st_mode)) {
		*ret_bytes = 0;
		return 0;
	}
	at = lseek(input_fd, 0, SEEK_CUR);
	if (at < 0)
		return err_errno(-errno, "%s", path);
	*ret_bytes = at < st.st_size ? (uint64_t)(st.st_size - at) : 0;
	return 0;
}

static int content_write(rmem *session, rmem_lease *lease, const char *name)
{
	struct progress progress;
	struct transfer *transfer;
	uint64_t bytes;
	int err;

	progress_start(&progress, name, new_lease.bytes);
	err = transfer_create(session, &progress, &transfer);
	if (err)
		return err;
	err = transfer_put(transfer, lease, input_fd, &bytes);
	progress_end(&progress);
	transfer_free(transfer);
	if (err)
		return err;
	if (bytes == rmem_lease_bytes(lease))
		return 0;
	return session_result(rmem_shrink(lease, bytes));
}

static int put_check(char **args)
{
	const char *path = args[1] ? args[1] : "-";
	int err = input_open(path);

	return err ? err : input_bytes(path, &new_lease.bytes);
}

static int put_run(rmem *session, char **args)
{
	rmem_lease *lease;
	int err = naming_prepare(session, args[0]);

	/* a signal must end the session, and with it the lease */
	if (!err)
		err = interrupt_catch("");
	if (err)
		return err;
	interrupt_calls();
	err = session_result(rmem_alloc(session, &new_lease, &lease));
	if (err)
		return err;
	err = content_write(session, lease, args[0]);
	if (err)
		return err;
	place_show(lease);
	return naming_give(lease, args[0]);
}

const struct command put_command = {
	.name = "put",
	.synopsis = "put [--place PLACE] [--ttl T] [--if-absent] NAME [FILE|-]",
	.summary = "store a file, or the standard input, under a name",
	.options = new_lease_options,
	.args_min = 1,
	.args_max = 2,
	.args = "NAME and at most one FILE",
	.names = 1,
	.check = put_check,
	.run = put_run,
};
