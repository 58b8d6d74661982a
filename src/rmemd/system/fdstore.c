/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/fdstore.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-login.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/loop/events.h"
#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"

#define LEDGER "ledger"
#define POOL_PREFIX "pool-"
/* For the service manager to handle the messages, and to answer. */
#define QUERY_S 30

struct fdstore {
	char path[256]; /* of the directory; "": there is none */
	char place[300];
	int dir;
	int ledger;
	bool manager;    /* the service manager stores memfds */
	unsigned n_sent; /* files that it has to store */
	/* of fdstore_verify() */
	struct event_base *base; /* NULL: not called yet */
	fdstore_verified *verified;
	void *verified_ctx;
	bool asking;
	bool ask_again; /* a file was sent or dropped meanwhile */
	int barrier;    /* -1: the messages are handled */
	struct event *handled;
	sd_bus *bus;
	struct event *bus_event;
	struct event *deadline;
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

static void log_dropped(const struct fdstore *store, const char *name)
{
	log_event(
		LOG_WARNING, "file-dropped", NULL,
		"%s: %s is of no pool in the ledger, so nothing in it is lent: removed",
		store->place, name);
}

/* ---- in a directory ---- */

/* Others' rights to the directory may be gone, and their files still there. */
static int file_check(const struct fdstore *store, const char *name, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_errno(-errno, "%s/%s", store->path, name);
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 077 ||
	    st.st_nlink != 1)
		return err_set(-EINVAL,
			       "%s/%s: it is not a file that the user of rmemd alone "
			       "can reach: rmemd has not made it: remove it, or name "
			       "another directory",
			       store->path, name);
	return 0;
}

static int dir_file(struct fdstore *store, const char *name, int flags, int *ret_fd)
{
	int fd = openat(store->dir, name,
			O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0600);
	int err;

	if (fd < 0)
		return err_errno(-errno, "%s/%s", store->path, name);
	err = file_check(store, name, fd);
	if (err)
		(void)close(fd);
	else
		*ret_fd = fd;
	return err;
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

/* What others made they have open, whatever its mode is now. */
static int dir_check(const char *path, const struct stat *st)
{
	if (st->st_uid != geteuid())
		return err_set(-EINVAL,
			       "[server] state = %s: it belongs to user %u, and not to "
			       "that of rmemd, %u: give another directory",
			       path, (unsigned)st->st_uid, (unsigned)geteuid());
	if (st->st_mode & 077)
		return err_set(-EINVAL,
			       "[server] state = %s: other users may access it, and it "
			       "is to hold what is lent: chmod 700 %s",
			       path, path);
	return 0;
}

/* Without what the kernel follows a link for: slashes, and "/.", at its end. */
static void path_trim(char *path)
{
	size_t n = strlen(path);

	while (n > 1 &&
	       (path[n - 1] == '/' || (path[n - 1] == '.' && path[n - 2] == '/')))
		path[--n] = '\0';
}

/* Call each() for the files of pools but these, until it returns false. */
static int dir_each_unknown(const struct fdstore *store, const uint32_t *ids,
			    unsigned n_ids,
			    bool (*each)(const struct fdstore *, const char *name))
{
	int fd = openat(store->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int err = 0;

	if (!dir) {
		err = -errno;
		if (fd >= 0)
			(void)close(fd);
		return err_errno(err, "%s", store->path);
	}
	while ((entry = readdir(dir)))
		if (is_unknown_pool(entry->d_name, ids, n_ids) &&
		    !each(store, entry->d_name))
			break;
	if (entry)
		err = -EEXIST;
	(void)closedir(dir);
	return err;
}

static bool no_pool(const struct fdstore *, const char *)
{
	return false;
}

/* What is lent in files of pools only their ledger tells, which may come back. */
static int dir_check_ledger(const struct fdstore *store)
{
	struct stat st;

	if (fstat(store->ledger, &st))
		return err_errno(-errno, "%s/" LEDGER, store->path);
	if (st.st_size > 0 || dir_each_unknown(store, NULL, 0, no_pool) != -EEXIST)
		return 0;
	return err_set(
		-EINVAL,
		"%s: there are files of pools, and the ledger of what is lent in "
		"them is empty: put it back, or give them up: rm %s/pool-*",
		store->place, store->path);
}

/* Who can replace a folder above it can lead to no other directory than one of this user. */
static int dir_open(struct fdstore *store, const char *path)
{
	struct stat st;
	int err;

	(void)snprintf(store->path, sizeof(store->path), "%s", path);
	path_trim(store->path);
	store->dir = open(store->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (store->dir < 0 && (errno == ENOENT || errno == ENOTDIR))
		return err_set(
			-EINVAL,
			"[server] state = %s: %s: make it, on tmpfs or hugetlbfs, "
			"for the user of rmemd alone: mkdir -m 700 %s",
			path,
			errno == ENOENT ? "there is no such directory"
					: "it is not a directory, and a link is not "
					  "followed",
			path);
	if (store->dir < 0 || fstat(store->dir, &st))
		return err_errno(-errno, "[server] state = %s", path);
	err = dir_check(path, &st);
	if (err)
		return err;
	err = dir_file(store, LEDGER, O_CREAT, &store->ledger);
	if (err)
		return err;
	if (flock(store->ledger, LOCK_EX | LOCK_NB))
		return err_set(-EBUSY, "[server] state = %s: another rmemd has it",
			       path);
	return dir_check_ledger(store);
}

static bool dir_drop(const struct fdstore *store, const char *name)
{
	log_dropped(store, name);
	(void)unlinkat(store->dir, name, 0);
	return true;
}

/* Remove files of pools whose process ended while it made or gave them up. */
static int dir_sweep(const struct fdstore *store, const uint32_t *ids, unsigned n_ids)
{
	return dir_each_unknown(store, ids, n_ids, dir_drop);
}

/* ---- with the service manager ---- */

/* The service manager may close its descriptor late; truncating frees the memory at once. */
static void manager_drop(struct fdstore *store, int fd, const char *name)
{
	store->n_sent--;
	if (fd >= 0) {
		(void)!ftruncate(fd, 0);
		(void)close(fd);
	}
	systemd_remove_fd(name);
}

static int manager_open(struct fdstore *store)
{
	const struct systemd_file *file = file_find(store, LEDGER);

	store->manager = getenv("NOTIFY_SOCKET") != NULL;
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
	for (unsigned i = store->n_files; i > 0; i--) {
		struct systemd_file file = store->files[i - 1];

		if (!is_unknown_pool(file.name, ids, n_ids))
			continue;
		log_dropped(store, file.name);
		manager_drop(store, file.fd, file.name);
		store->files[i - 1] = store->files[--store->n_files];
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

/* ---- the question to the service manager how many files it stores ----
 *
 * It does not answer a message that stores a file, and drops files over FileDescriptorStoreMax=.
 * Nothing waits for it: all is done by events. */

static void query_stop(struct fdstore *store)
{
	event_drop(&store->handled);
	event_drop(&store->bus_event);
	event_drop(&store->deadline);
	if (store->barrier >= 0)
		(void)close(store->barrier);
	store->barrier = -1;
	/* sd_bus_flush_close_unref() would wait */
	if (store->bus)
		sd_bus_close(store->bus);
	store->bus = sd_bus_unref(store->bus);
}

static void query_next(struct fdstore *store);

/* err: 0, or -errno with text.  n: the number of files that are stored. */
static void query_answer(struct fdstore *store, int err, unsigned n)
{
	if (!store->asking)
		return;
	store->asking = false;
	/* the answer is about other files */
	if (!err && store->ask_again)
		return;
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

static void query_fail(struct fdstore *store, int err)
{
	query_stop(store);
	query_answer(store, err, 0);
	query_next(store);
}

static void on_deadline(evutil_socket_t, short, void *arg)
{
	query_fail(arg,
		   err_set(-ETIMEDOUT,
			   "the service manager does not answer within %d s", QUERY_S));
}

static int on_reply(sd_bus_message *reply, void *arg, sd_bus_error *)
{
	struct fdstore *store = arg;
	const sd_bus_error *error = sd_bus_message_get_error(reply);
	uint32_t n = 0;
	int err;

	if (error) {
		err = err_set(-EIO, "the service manager answers: %s",
			      error->message ? error->message : error->name);
	} else {
		err = sd_bus_message_read(reply, "v", "u", &n);
		err = err < 0 ? err_errno(err, "the service manager's answer") : 0;
	}
	query_answer(store, err, n);
	return 1;
}

static void on_bus(evutil_socket_t fd, short what, void *arg);

/* Watch for what the bus waits for now, except its time-outs: store->deadline ends the question. */
static int bus_watch(struct fdstore *store)
{
	int events = sd_bus_get_events(store->bus);
	short what = 0;

	if (events < 0)
		return events;
	if (events & POLLIN)
		what |= EV_READ;
	if (events & POLLOUT)
		what |= EV_WRITE;
	event_drop(&store->bus_event);
	store->bus_event =
		event_make(store->base, sd_bus_get_fd(store->bus), what, on_bus, store);
	return store->bus_event && !event_add(store->bus_event, NULL) ? 0 : -ENOMEM;
}

static void on_bus(evutil_socket_t, short, void *arg)
{
	struct fdstore *store = arg;
	int err;

	do
		err = sd_bus_process(store->bus, NULL);
	while (err > 0 && store->asking);
	if (err >= 0 && store->asking)
		err = bus_watch(store);
	if (!store->asking) {
		query_stop(store);
		query_next(store);
	} else if (err < 0)
		query_fail(store, err_errno(err, "the bus of the service manager"));
}

/* The bus of the service manager that started this process. */
static int bus_open(sd_bus **ret_bus)
{
	char *unit = NULL;
	bool user = sd_pid_get_user_unit(0, &unit) >= 0;

	free(unit);
	return user ? sd_bus_open_user(ret_bus) : sd_bus_open_system(ret_bus);
}

static int bus_ask(struct fdstore *store)
{
	int err = bus_open(&store->bus);

	if (err < 0)
		return err_errno(err, "the bus of the service manager");
	err = sd_bus_call_method_async(
		store->bus, NULL, "org.freedesktop.systemd1",
		"/org/freedesktop/systemd1/unit/self",
		"org.freedesktop.DBus.Properties", "Get", on_reply, store, "ss",
		"org.freedesktop.systemd1.Service", "NFileDescriptorStore");
	if (err >= 0)
		err = bus_watch(store);
	return err < 0 ? err_errno(err, "asking the service manager") : 0;
}

/* The service manager has handled all messages. */
static void on_handled(evutil_socket_t, short, void *arg)
{
	struct fdstore *store = arg;
	int err;

	(void)close(store->barrier);
	store->barrier = -1;
	err = bus_ask(store);
	if (err)
		query_fail(store, err);
}

static int query_start(struct fdstore *store)
{
	const struct timeval tv = { .tv_sec = QUERY_S };
	int err = systemd_barrier(&store->barrier);

	if (err)
		return err;
	store->handled =
		event_make(store->base, store->barrier, EV_READ, on_handled, store);
	store->deadline = event_make(store->base, -1, 0, on_deadline, store);
	if (!store->handled || !store->deadline || event_add(store->handled, NULL) ||
	    event_add(store->deadline, &tv))
		return err_set(-ENOMEM, "no memory to ask the service manager");
	return 0;
}

/* Ask now, or when the question under way has ended. */
static void query_begin(struct fdstore *store)
{
	int err;

	store->ask_again = store->asking;
	if (store->asking || !store->base || !store->manager)
		return;
	store->asking = true;
	err = query_start(store);
	if (err)
		query_fail(store, err);
}

static void query_next(struct fdstore *store)
{
	if (store->ask_again)
		query_begin(store);
}

void fdstore_verify(struct fdstore *store, struct event_base *base,
		    fdstore_verified *verified, void *ctx)
{
	store->base = base;
	store->verified = verified;
	store->verified_ctx = ctx;
	query_begin(store);
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
	store->dir = store->ledger = store->barrier = -1;
	for (unsigned i = 0; i < fds->n_kept; i++)
		(void)file_add(store, fds->kept[i].name, fds->kept[i].fd);
	store->n_sent = store->n_files;
	(void)snprintf(store->place, sizeof(store->place), "[server] state = %s",
		       *dir ? dir : "auto");
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
	query_stop(store);
	for (unsigned i = 0; i < store->n_files; i++)
		if (store->files[i].fd >= 0)
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

const char *fdstore_remedy(const struct fdstore *store)
{
	return *store->path
		       ? "remove the files in [server] state to give up what is lent"
		       : "systemctl stop rmemd gives up what is lent";
}

const char *fdstore_place(const struct fdstore *store)
{
	return store->place;
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
	/* there is room for as many as there are pools */
	(void)file_add(store, name, -1);
	store->n_sent++;
	query_begin(store);
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
