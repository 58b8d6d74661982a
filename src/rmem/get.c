/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem get.  A regular file is written under a temporary name in its folder and then renamed, so
 * that it is complete or not there; a pipe or a device is written directly. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"
#include "rmem/command.h"
#include "rmem/interrupt.h"
#include "rmem/progress.h"
#include "rmem/session.h"
#include "rmem/transfer.h"

#define SAMPLE_BYTES 4096

struct output {
	int fd;
	char path[PATH_MAX];      /* of the complete file; "": written directly */
	char temporary[PATH_MAX]; /* while it is written */
};

static int temporary_open(struct output *out, mode_t mode)
{
	char dir[PATH_MAX];
	int n;

	memcpy(dir, out->path, sizeof(dir));
	n = snprintf(out->temporary, sizeof(out->temporary),
		     "%s/.rmem.%016" PRIx64 ".tmp", dirname(dir), random_u64());
	if (n < 0 || (size_t)n >= sizeof(out->temporary))
		return err_errno(-ENAMETOOLONG, "%s", out->path);
	out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
	if (out->fd < 0)
		return err_errno(-errno, "%s", out->path);
	return 0;
}

static int output_open(const char *path, struct output *out)
{
	struct stat st;
	int err;

	out->path[0] = '\0';
	out->temporary[0] = '\0';
	if (strcmp(path, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	if (stat(path, &st)) {
		if (errno != ENOENT)
			return err_errno(-errno, "%s", path);
		if ((size_t)snprintf(out->path, PATH_MAX, "%s", path) >= PATH_MAX)
			return err_errno(-ENAMETOOLONG, "%s", path);
		return temporary_open(out, 0666);
	}
	if (S_ISDIR(st.st_mode))
		return err_errno(-EISDIR, "%s", path);
	if (!S_ISREG(st.st_mode)) {
		out->fd = open(path, O_WRONLY | O_CLOEXEC);
		return out->fd < 0 ? err_errno(-errno, "%s", path) : 0;
	}
	/* keep a symbolic link, and the permissions of the file */
	if (!realpath(path, out->path))
		return err_errno(-errno, "%s", path);
	err = temporary_open(out, 0600);
	if (err)
		return err;
	if (fchmod(out->fd, st.st_mode & 07777)) {
		err = err_errno(-errno, "%s", out->temporary);
		(void)close(out->fd);
		(void)unlink(out->temporary);
	}
	return err;
}

/* Finish; `err` is the outcome so far.  An incomplete file is removed. */
static int output_close(struct output *out, int err)
{
	if (out->fd == STDOUT_FILENO)
		return err;
	if (close(out->fd) && !err)
		err = err_errno(-errno, "closing the output");
	if (!out->temporary[0])
		return err;
	if (!err && rename(out->temporary, out->path))
		err = err_errno(-errno, "%s", out->path);
	if (err)
		(void)unlink(out->temporary);
	return err;
}

/* Whether the data must not go to a terminal. */
static bool is_binary(const unsigned char *data, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (data[i] == 0x7f ||
		    (data[i] < ' ' && !strchr("\t\n\v\f\r", data[i])) ||
		    data[i] == '\0')
			return true;
	return false;
}

static int terminal_check(rmem_lease *lease)
{
	unsigned char sample[SAMPLE_BYTES];
	uint64_t bytes = rmem_lease_bytes(lease);
	int err;

	if (bytes > sizeof(sample))
		bytes = sizeof(sample);
	if (bytes == 0)
		return 0;
	err = rmem_read(lease, 0, sample, bytes);
	if (err)
		return session_failed(err);
	if (is_binary(sample, bytes))
		return err_set(-EINVAL,
			       "binary data would go to the terminal: give a FILE, "
			       "a pipe, or --force");
	return 0;
}

static int content_read(rmem *session, rmem_lease *lease, int fd, const char *name)
{
	struct progress progress;
	struct transfer *transfer;
	uint64_t bytes = rmem_lease_bytes(lease);
	int err;

	progress_start(&progress, name, bytes);
	if (isatty(fd) == 1)
		progress.enabled = false;
	err = transfer_create(session, &progress, &transfer);
	if (err)
		return err;
	err = transfer_get(transfer, lease, fd, bytes);
	progress_end(&progress);
	transfer_free(transfer);
	return err;
}

static bool force;

static int get_run(rmem *session, char **args)
{
	const char *name = args[0], *path = args[1] ? args[1] : "-";
	struct output out;
	rmem_lease *lease;
	int err = rmem_attach(session, name, RMEM_READ, &lease);

	if (err)
		return session_failed(err);
	if (strcmp(path, "-") == 0 && isatty(STDOUT_FILENO) == 1 && !force) {
		err = terminal_check(lease);
		if (err)
			return err;
	}
	err = output_open(path, &out);
	if (err)
		return err;
	/* only a temporary file has to be removed after a signal */
	if (out.temporary[0])
		err = interrupt_catch();
	if (!err)
		err = content_read(session, lease, out.fd, name);
	return output_close(&out, err);
}

static const struct option_row get_options[] = {
	{ "force", 0, OPTION_FLAG, &force,
	  .help = "write binary data to a terminal too" },
	{ 0 },
};

const struct command get_command = {
	.name = "get",
	.synopsis = "get [--force] NAME [FILE|-]",
	.summary =
		"write what is stored under a name to a file, or the standard output",
	.options = get_options,
	.args_min = 1,
	.args_max = 2,
	.args = "NAME and at most one FILE",
	.run = get_run,
};
