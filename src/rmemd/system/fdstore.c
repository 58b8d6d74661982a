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
#include "rmemd/system/fdstore_query.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"

#define LEDGER "ledger"
#define POOL_PREFIX "pool-"

struct fdstore {
	char path[256]; /* of the directory; "": there is none */
	int dir;
	int ledger;
	bool manager;    /* the service manager stores memfds */
	unsigned n_sent; /* files that it has to store */
	struct fdstore_query *query;
	void (*verified)(void *ctx, int err);
	void *verified_ctx;
	struct systemd_file files[SYSTEMD_FILES_MAX];
	unsigned n_files;
};

static const char *pool_name(uint32_t id, char buf[SYSTEMD_FILE_NAME_BYTES])
{
	(void)snprintf(buf, SYSTEMD_FILE_NAME_BYTES, POOL_PREFIX "%" PRIu32, id);
	return buf;
}

static int file_add(struct fdstore *store, const char *name, int fd)
{
	struct systemd_file *file = &store->files[store->n_files];

	if (store->n_files == SYSTEMD_FILES_MAX)
		return err_set(-ENOSPC, "more than %d files are kept",
			       SYSTEMD_FILES_MAX);
	(void)snprintf(file->name, sizeof(file->name), "%s", name);
	file->fd = fd;
	store->n_files++;
	return 0;
}

static struct systemd_file *file_find(struct fdstore *store, const char *name)
{
	for (unsigned i = 0; i < store->n_files; i++)
		if (strcmp(store->files[i].name, name) == 0)
			return &store->files[i];
	return NULL;
}

/* Whether this is the name of a pool's file, but not of a pool with one of these ids. */
static bool is_unknown_pool(const char *name, const uint32_t *ids, unsigned n_ids)
{
	char own[SYSTEMD_FILE_NAME_BYTES];

	if (strncmp(name, POOL_PREFIX, strlen(POOL_PREFIX)) != 0)
		return false;
	for (unsigned i = 0; i < n_ids; i++)
		if (strcmp(pool_name(ids[i], own), name) == 0)
			return false;
	return true;
}

/* ---- in a directory ---- */

static int dir_file(struct fdstore *store, const char *name, int flags, int *ret_fd)
{
	int fd =
		openat(store->dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);

	if (fd < 0)
		return err_errno(-errno, "%s/%s", store->path, name);
	*ret_fd = fd;
	return 0;
}

/* The file of a pool, which belongs to the store. */
static int dir_pool(struct fdstore *store, const char *name, int flags, int *ret_fd)
{
	int fd = -1, err = dir_file(store, name, flags, &fd);

	if (err)
		return err;
	err = file_add(store, name, fd);
	if (err)
		(void)close(fd);
	else
		*ret_fd = fd;
	return err;
}

static int dir_open(struct fdstore *store, const char *path)
{
	struct stat st;
	int err;

	(void)snprintf(store->path, sizeof(store->path), "%s", path);
	store->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (store->dir < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(
			-EINVAL,
			"[server] state = %s: %s: make it, on tmpfs or hugetlbfs, "
			"for the user of rmemd alone: mkdir -m 700 %s",
			path,
			errno == ENOENT ? "there is no such directory"
					: "it is not a directory",
			path);
	if (store->dir < 0 || fstat(store->dir, &st))
		return err_errno(-errno, "[server] state = %s", path);
	if (st.st_mode & 077)
		return err_set(-EINVAL,
			       "[server] state = %s: other users may access it, and it "
			       "is to hold what is lent: chmod 700 %s",
			       path, path);
	err = dir_file(store, LEDGER, O_CREAT, &store->ledger);
	if (err)
		return err;
	if (flock(store->ledger, LOCK_EX | LOCK_NB))
		return err_set(-EBUSY, "[server] state = %s: another rmemd has it",
			       path);
	return 0;
}

/* Remove files of pools whose process ended while it made or gave them up. */
static int dir_sweep(struct fdstore *store, const uint32_t *ids, unsigned n_ids)
{
	int fd = openat(store->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		int err = -errno;

		if (fd >= 0)
			(void)close(fd);
		return err_errno(err, "%s", store->path);
	}
	while ((entry = readdir(dir)))
		if (is_unknown_pool(entry->d_name, ids, n_ids))
			(void)unlinkat(store->dir, entry->d_name, 0);
	(void)closedir(dir);
	return 0;
}

/* ---- with the service manager ---- */

/* The service manager may close its descriptor late; truncating frees the memory at once. */
static void manager_drop(struct fdstore *store, int fd, const char *name)
{
	store->n_sent--;
	(void)!ftruncate(fd, 0);
	(void)close(fd);
	systemd_remove_fd(name);
}

static int manager_open(struct fdstore *store)
{
	const struct systemd_file *file = file_find(store, LEDGER);

	store->manager = systemd_has_fdstore();
	if (file) {
		store->ledger = fcntl(file->fd, F_DUPFD_CLOEXEC, 3);
		return store->ledger < 0 ? err_errno(-errno, "the ledger") : 0;
	}
	store->ledger = memfd_create("rmem-ledger", MFD_CLOEXEC);
	if (store->ledger < 0)
		return err_errno(-errno, "a memfd for the ledger");
	/* a service manager that cannot store files counts as none */
	store->manager = store->manager && systemd_store_fd(LEDGER, store->ledger);
	store->n_sent++;
	return 0;
}

static void manager_sweep(struct fdstore *store, const uint32_t *ids, unsigned n_ids)
{
	for (unsigned i = store->n_files; i-- > 0;) {
		struct systemd_file file = store->files[i];

		if (!is_unknown_pool(file.name, ids, n_ids))
			continue;
		manager_drop(store, file.fd, file.name);
		store->files[i] = store->files[--store->n_files];
	}
}

static int is_lent(const struct ledger_key *, const void *, size_t, void *)
{
	return 1;
}

/* Drop what the service manager stores since a time without [server] state, unless memory in it is
 * lent. */
static int manager_release(struct fdstore *store)
{
	const struct systemd_file *file = file_find(store, LEDGER);
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
			store->path);
	while (store->n_files > 0) {
		file = &store->files[--store->n_files];
		manager_drop(store, file->fd, file->name);
	}
	return 0;
}

/* ---- either ---- */

int fdstore_open(const char *dir, const struct systemd_fds *fds,
		 struct fdstore **ret_store)
{
	struct fdstore *store = calloc(1, sizeof(*store));
	int err = 0;

	if (!store) {
		for (unsigned i = 0; i < fds->n_kept; i++)
			(void)close(fds->kept[i].fd);
		return err_set(-ENOMEM, "no memory for what is kept");
	}
	store->dir = store->ledger = -1;
	for (unsigned i = 0; i < fds->n_kept; i++)
		(void)file_add(store, fds->kept[i].name, fds->kept[i].fd);
	store->n_sent = store->n_files;
	err = *dir ? dir_open(store, dir) : manager_open(store);
	if (!err && *dir)
		err = manager_release(store);
	if (err) {
		fdstore_close(store);
		return err;
	}
	*ret_store = store;
	return 0;
}

void fdstore_close(struct fdstore *store)
{
	if (!store)
		return;
	fdstore_query_end(store->query);
	for (unsigned i = 0; i < store->n_files; i++)
		(void)close(store->files[i].fd);
	if (store->ledger >= 0)
		(void)close(store->ledger);
	if (store->dir >= 0)
		(void)close(store->dir);
	free(store);
}

bool fdstore_lasts(const struct fdstore *store)
{
	return store->manager || *store->path;
}

static void on_answer(void *ctx, int err, unsigned n)
{
	struct fdstore *store = ctx;

	if (!err && n < store->n_sent) {
		store->manager = false;
		err = err_set(
			-ENOSPC,
			"the service manager stores %u of %u files, so a restart "
			"loses what is lent: set FileDescriptorStoreMax=%d in the "
			"unit, and restart rmemd",
			n, store->n_sent, SYSTEMD_FILES_MAX);
	}
	store->verified(store->verified_ctx, err);
}

int fdstore_verify(struct fdstore *store, struct event_base *base,
		   void (*verified)(void *ctx, int err), void *ctx)
{
	if (!store->manager)
		return 0;
	store->verified = verified;
	store->verified_ctx = ctx;
	return fdstore_query_start(base, on_answer, store, &store->query);
}

const char *fdstore_remedy(const struct fdstore *store)
{
	return *store->path
		       ? "remove the files in [server] state to give up what is lent"
		       : "systemctl stop rmemd gives up what is lent";
}

int fdstore_ledger(const struct fdstore *store)
{
	return store->ledger;
}

int fdstore_sweep(struct fdstore *store, const uint32_t *ids, unsigned n_ids)
{
	if (*store->path)
		return dir_sweep(store, ids, n_ids);
	manager_sweep(store, ids, n_ids);
	return 0;
}

int fdstore_find_pool(struct fdstore *store, uint32_t id, int *ret_fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];
	const struct systemd_file *file = file_find(store, pool_name(id, name));
	int err;

	*ret_fd = file ? file->fd : 0;
	if (file || !*store->path)
		return 0;
	err = dir_pool(store, name, 0, ret_fd);
	/* any other error may be gone next time: the pool must not count as lost */
	return err == -ENOENT ? 0 : err;
}

int fdstore_make_pool(struct fdstore *store, uint32_t id, int *ret_fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];

	*ret_fd = 0;
	if (!*store->path)
		return 0;
	return dir_pool(store, pool_name(id, name), O_CREAT | O_EXCL, ret_fd);
}

void fdstore_store_pool(struct fdstore *store, uint32_t id, int fd)
{
	char name[SYSTEMD_FILE_NAME_BYTES];

	if (!store->manager)
		return;
	/* whether it is stored fdstore_verify() asks */
	(void)systemd_store_fd(pool_name(id, name), fd);
	store->n_sent++;
}

void fdstore_drop_pool(struct fdstore *store, uint32_t id)
{
	char name[SYSTEMD_FILE_NAME_BYTES];
	struct systemd_file *file = file_find(store, pool_name(id, name));

	if (file && *store->path)
		(void)close(file->fd);
	else if (file)
		manager_drop(store, file->fd, name);
	if (file)
		*file = store->files[--store->n_files];
	if (*store->path)
		(void)unlinkat(store->dir, name, 0);
}
