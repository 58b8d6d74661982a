/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/fdstore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/state/ledger_kinds.h"
#include "rmemd/state/ledger.h"

#define LEDGER "ledger"
#define POOL_PREFIX "pool-"

struct fdstore {
	char path[256]; /* of the directory; "": there is none */
	int dir;
	int ledger;
	bool manager; /* the service manager keeps memfds */
	struct systemd_file files[SYSTEMD_FILES_MAX];
	unsigned n_files;
};

static const char *pool_name(uint32_t id, char buf[SYSTEMD_FILE_NAME_BYTES])
{
	(void)snprintf(buf, SYSTEMD_FILE_NAME_BYTES, POOL_PREFIX "%" PRIu32, id);
	return buf;
}

static int file_add(struct fdstore *keep, const char *name, int fd)
{
	struct systemd_file *file = &keep->files[keep->n_files];

	if (keep->n_files == SYSTEMD_FILES_MAX)
		return err_set(-ENOSPC, "more than %d files are kept",
			       SYSTEMD_FILES_MAX);
	(void)snprintf(file->name, sizeof(file->name), "%s", name);
	file->fd = fd;
	keep->n_files++;
	return 0;
}

static struct systemd_file *file_find(struct fdstore *keep, const char *name)
{
	for (unsigned i = 0; i < keep->n_files; i++)
		if (strcmp(keep->files[i].name, name) == 0)
			return &keep->files[i];
	return NULL;
}

/* The pools that the ledger has. */
struct known {
	const uint32_t *ids;
	unsigned n;
};

static bool is_known(const struct known *known, const char *name)
{
	char own[SYSTEMD_FILE_NAME_BYTES];

	for (unsigned i = 0; i < known->n; i++)
		if (strcmp(pool_name(known->ids[i], own), name) == 0)
			return true;
	return false;
}

/* ---- in a directory ---- */

static int dir_file(struct fdstore *keep, const char *name, int flags, int *ret_fd)
{
	int fd = openat(keep->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	if (fd < 0)
		return err_errno(-errno, "%s/%s", keep->path, name);
	*ret_fd = fd;
	return 0;
}

static int dir_open(struct fdstore *keep, const char *path)
{
	struct stat st;
	int err;

	(void)snprintf(keep->path, sizeof(keep->path), "%s", path);
	keep->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (keep->dir < 0 || fstat(keep->dir, &st))
		return err_errno(errno == ENOENT || errno == ENOTDIR ? -EINVAL : -errno,
				 "[server] state = %s", path);
	if (st.st_mode & 077)
		return err_set(-EINVAL,
			       "[server] state = %s: others may look into it, and what "
			       "is lent will be there: chmod 700 %s",
			       path, path);
	err = dir_file(keep, LEDGER, O_CREAT, &keep->ledger);
	if (err)
		return err;
	if (flock(keep->ledger, LOCK_EX | LOCK_NB))
		return err_set(-EBUSY, "[server] state = %s: another rmemd has it",
			       path);
	return 0;
}

/* Files of pools whose process ended as it made them, or gave them up. */
static int dir_sweep(struct fdstore *keep, const struct known *known)
{
	int fd = openat(keep->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		int err = -errno;

		if (fd >= 0)
			(void)close(fd);
		return err_errno(err, "%s", keep->path);
	}
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, POOL_PREFIX, strlen(POOL_PREFIX)) == 0 &&
		    !is_known(known, entry->d_name))
			(void)unlinkat(keep->dir, entry->d_name, 0);
	(void)closedir(dir);
	return 0;
}

/* ---- with the service manager ---- */

/* The service manager may close its descriptor late; the memory is given back at once. */
static void manager_drop(int fd, const char *name)
{
	(void)!ftruncate(fd, 0);
	(void)close(fd);
	systemd_remove_fd(name);
}

static int manager_open(struct fdstore *keep)
{
	const struct systemd_file *file = file_find(keep, LEDGER);

	keep->manager = systemd_has_fdstore();
	if (file) {
		keep->ledger = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
		return keep->ledger < 0 ? err_errno(-errno, "the ledger") : 0;
	}
	keep->ledger = memfd_create("rmem-ledger", MFD_CLOEXEC);
	if (keep->ledger < 0)
		return err_errno(-errno, "a memfd for the ledger");
	/* a service manager that cannot keep files counts as none */
	keep->manager = keep->manager && systemd_store_fd(LEDGER, keep->ledger);
	return 0;
}

static void manager_sweep(struct fdstore *keep, const struct known *known)
{
	for (unsigned i = keep->n_files; i-- > 0;) {
		struct systemd_file file = keep->files[i];

		if (strncmp(file.name, POOL_PREFIX, strlen(POOL_PREFIX)) != 0 ||
		    is_known(known, file.name))
			continue;
		manager_drop(file.fd, file.name);
		keep->files[i] = keep->files[--keep->n_files];
	}
}

static int is_lent(const struct ledger_key *key, const void *value, size_t bytes,
		   void *arg)
{
	(void)key;
	(void)value;
	(void)bytes;
	(void)arg;
	return 1;
}

/* Give up what the service manager keeps from a time without [server] state, unless memory in
 * it is lent. */
static int manager_release(struct fdstore *keep)
{
	const struct systemd_file *file = file_find(keep, LEDGER);
	struct ledger *ledger;
	int lent = 1;

	if (file && ledger_open(file->fd, &ledger) == 0) {
		lent = ledger_each(ledger, LEDGER_LEASE, is_lent, NULL);
		ledger_close(ledger);
	}
	if (file && lent)
		return err_set(
			-EINVAL,
			"[server] state = %s: the service manager keeps what was "
			"lent before: systemctl stop rmemd gives that up; or "
			"take the key out again",
			keep->path);
	while (keep->n_files > 0) {
		file = &keep->files[--keep->n_files];
		manager_drop(file->fd, file->name);
	}
	return 0;
}

/* ---- both ---- */

int fdstore_open(const char *dir, const struct systemd_fds *fds,
		 struct fdstore **ret_keep)
{
	struct fdstore *keep = calloc(1, sizeof(*keep));
	int err = 0;

	if (!keep) {
		for (unsigned i = 0; i < fds->n_kept; i++)
			(void)close(fds->kept[i].fd);
		return err_set(-ENOMEM, "no memory for what is kept");
	}
	keep->dir = keep->ledger = -1;
	for (unsigned i = 0; i < fds->n_kept; i++)
		(void)file_add(keep, fds->kept[i].name, fds->kept[i].fd);
	err = *dir ? dir_open(keep, dir) : manager_open(keep);
	if (!err && *dir)
		err = manager_release(keep);
	if (err) {
		fdstore_close(keep);
		return err;
	}
	*ret_keep = keep;
	return 0;
}

void fdstore_close(struct fdstore *keep)
{
	if (!keep)
		return;
	for (unsigned i = 0; i < keep->n_files; i++)
		(void)close(keep->files[i].fd);
	if (keep->ledger >= 0)
		(void)close(keep->ledger);
	if (keep->dir >= 0)
		(void)close(keep->dir);
	free(keep);
}

bool fdstore_lasts(const struct fdstore *keep)
{
	return keep->manager || *keep->path;
}

const char *fdstore_remedy(const struct fdstore *keep)
{
	return *keep->path
		       ? "remove the files in [server] state to give up what is lent"
		       : "systemctl stop rmemd gives up what is lent";
}

int fdstore_ledger(const struct fdstore *keep)
{
	return keep->ledger;
}

int fdstore_sweep(struct fdstore *keep, const uint32_t *ids, unsigned n_ids)
{
	const struct known known = { ids, n_ids };

	if (*keep->path)
		return dir_sweep(keep, &known);
	manager_sweep(keep, &known);
	return 0;
}

int fdstore_find_pool(struct fdstore *keep, uint32_t id, int *ret_fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];
	const struct systemd_file *file = file_find(keep, pool_name(id, name));
	int err;

	*ret_fd = file ? file->fd : 0;
	if (file || !*keep->path)
		return 0;
	err = dir_file(keep, name, 0, ret_fd);
	/* any other error may be gone next time: the pool must not count as lost */
	if (err == -ENOENT)
		return 0;
	if (err)
		return err;
	err = file_add(keep, name, *ret_fd);
	if (err)
		(void)close(*ret_fd);
	return err;
}

int fdstore_make_pool(struct fdstore *keep, uint32_t id, int *ret_fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];
	int err;

	*ret_fd = 0;
	if (!*keep->path)
		return 0;
	err = dir_file(keep, pool_name(id, name), O_CREAT | O_EXCL, ret_fd);
	if (err)
		return err;
	err = file_add(keep, name, *ret_fd);
	if (err) {
		(void)close(*ret_fd);
		*ret_fd = 0;
	}
	return err;
}

void fdstore_hold_pool(struct fdstore *keep, uint32_t id, int fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];

	if (keep->manager)
		(void)systemd_store_fd(pool_name(id, name), fd);
}

void fdstore_drop_pool(struct fdstore *keep, uint32_t id)
{
	char name[SYSTEMD_FILE_NAME_BYTES];
	struct systemd_file *file = file_find(keep, pool_name(id, name));

	if (file && *keep->path)
		(void)close(file->fd);
	else if (file)
		manager_drop(file->fd, name);
	if (file)
		*file = keep->files[--keep->n_files];
	if (*keep->path)
		(void)unlinkat(keep->dir, name, 0);
}
