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
#include "rmem/lease_options.h"
#include "rmem/progress.h"
#include "rmem/session.h"
#include "rmem/transfer.h"

/* limit of attempts to read what others replace again and again */
#define ATTEMPTS_MAX 100

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
	/* not set-uid nor set-gid: the bytes are now those of whoever stored them */
	if (fchmod(out->fd, st.st_mode & 0777)) {
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

static bool force;
static const char *owner; /* NULL: this tenant */

struct get {
	rmem *session;
	const char *name, *path;
	struct output out;
	bool opened; /* the output */
	struct progress progress;
	struct transfer *transfer;
};

/* The file, when there is something to write to it. */
static int get_output_open(struct get *get)
{
	int err = 0;

	if (get->opened)
		return 0;
	err = output_open(get->path, &get->out);
	get->opened = !err;
	/* only a temporary file has to be removed after a signal */
	if (err || !get->out.temporary[0])
		return err;
	interrupt_calls();
	return interrupt_catch(get->out.temporary);
}

static int lease_get(struct get *get, rmem_lease *lease)
{
	uint64_t bytes = 0;
	int err = range_resolve(lease, &bytes);
	bool terminal;

	if (!err)
		err = get_output_open(get);
	if (err)
		return err;
	terminal = isatty(get->out.fd) == 1;
	progress_start(&get->progress, get->name, bytes);
	if (terminal)
		get->progress.enabled = false;
	err = transfer_get(get->transfer, lease, get->out.fd, range_offset, bytes,
			   terminal && !force);
	progress_end(&get->progress);
	return err;
}

/* Whether the lease has ended, so that its name may stand for another one. */
static bool is_replaced(const rmem_lease *lease)
{
	enum rmem_reason reason = rmem_lease_reason(lease);

	return reason != RMEM_REASON_NONE && reason != RMEM_REASON_LOST;
}

/* Discard what was read of the old content.  -ESTALE with text: some of it was written to a pipe or
 * a device, where it stays. */
static int get_restart(struct get *get)
{
	if (transfer_wrote(get->transfer) && !get->out.temporary[0])
		return err_prefix(-ESTALE,
				  "part of the old content is in the output already");
	if (get->opened && get->out.temporary[0] &&
	    (ftruncate(get->out.fd, 0) || lseek(get->out.fd, 0, SEEK_SET) < 0))
		return err_errno(-errno, "%s", get->out.temporary);
	return transfer_reset(get->transfer);
}

static int get_attach(const struct get *get, rmem_lease **ret_lease)
{
	if (owner)
		return rmem_attach_shared(get->session, owner, get->name, RMEM_READ,
					  ret_lease);
	return rmem_attach(get->session, get->name, RMEM_READ, ret_lease);
}

/* Read the content that has the name.  1: the content was replaced during the transfer; err_text()
 * has the cause. */
static int get_once(struct get *get)
{
	rmem_lease *lease;
	int restarted, err = session_result(get_attach(get, &lease));

	if (err)
		return err == -ESTALE ? 1 : err;
	err = lease_get(get, lease);
	if (err == -ESTALE && is_replaced(lease)) {
		restarted = get_restart(get);
		err = restarted ? restarted : 1;
	}
	/* busy after an error: it then ends with the session */
	(void)rmem_detach(lease);
	return err;
}

/* A reader finds the old content or the new: begin again when it is replaced.  The first error is
 * returned if there is no new content. */
static int get_content(struct get *get)
{
	struct err_saved first = { 0 };
	int err = get_once(get);

	for (unsigned i = 1; err == 1 && i < ATTEMPTS_MAX; i++) {
		if (!first.err)
			err_save(&first, -ESTALE);
		err = get_once(get);
	}
	if (first.err && (err == 1 || err == -ENOENT))
		err = err_restore(&first);
	return err;
}

static int get_run(rmem *session, char **args)
{
	struct get get = {
		.session = session,
		.name = args[0],
		.path = args[1] ? args[1] : "-",
	};
	int err = transfer_create(session, &get.progress, &get.transfer);

	if (err)
		return err;
	err = get_content(&get);
	transfer_free(get.transfer);
	return get.opened ? output_close(&get.out, err) : err;
}

static const struct option_row get_options[] = {
	{ "force", 0, OPTION_FLAG, &force,
	  .help = "write binary data to a terminal too" },
	{ "of", 0, OPTION_TEXT, &owner, .argument = "TENANT",
	  .help = "what that tenant shares with this one" },
	{ .more = range_options },
	{ 0 },
};

const struct command get_command = {
	.name = "get",
	.synopsis =
		"get [--force] [--of TENANT] [--offset N] [--length N] NAME [FILE|-]",
	.summary =
		"write what is stored under a name to a file, or the standard output",
	.options = get_options,
	.args_min = 1,
	.args_max = 2,
	.args = "NAME and at most one FILE",
	.names = 1,
	.run = get_run,
};
