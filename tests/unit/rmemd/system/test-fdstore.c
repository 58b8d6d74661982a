/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of unused files of the descriptor store is freed at once, though the service manager
 * still has the descriptors. */
#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <systemd/sd-bus.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/system/fdstore.h"
#include "rmemd/state/ledger_value.h"
#include "rmemd/state/ledger.h"
#include "unit/unit.h"

#define FILE_BYTES 65536

static int managers[3]; /* descriptors of the ledger and two pools */
static struct systemd_fds fds;
static struct fdstore *fdstore;

static void add_file(unsigned i, const char *name)
{
	static const char bytes[FILE_BYTES] = "lent";

	managers[i] = memfd_create(name, MFD_CLOEXEC);
	ck_assert_int_ge(managers[i], 0);
	if (i > 0)
		ck_assert_int_eq(write(managers[i], bytes, sizeof(bytes)), FILE_BYTES);
	(void)snprintf(fds.kept[i].name, sizeof(fds.kept[i].name), "%s", name);
	fds.kept[i].fd = fcntl(managers[i], F_DUPFD_CLOEXEC, 3);
	ck_assert_int_ge(fds.kept[i].fd, 0);
	fds.n_kept = i + 1;
}

static void open_fdstore(const char *directory)
{
	ck_assert_msg(fdstore_open(directory, &fds, &fdstore) == 0, "%s", err_text());
}

static void setup(void)
{
	add_file(0, "ledger");
	add_file(1, "pool-1");
	add_file(2, "pool-2");
}

static void teardown(void)
{
	for (unsigned i = 0; i < 3; i++)
		(void)close(managers[i]);
}

/* The blocks of memory of a file. */
static blkcnt_t blocks(unsigned i)
{
	struct stat st;

	ck_assert_int_eq(fstat(managers[i], &st), 0);
	return st.st_blocks;
}

START_TEST(drop__frees_one_pool)
{
	int fd;

	open_fdstore("");
	ck_assert_int_eq(fdstore_find_pool(fdstore, 1, &fd), 0);
	ck_assert_int_gt(fd, 0);
	fdstore_drop_pool(fdstore, 1);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	ck_assert_int_eq(fdstore_find_pool(fdstore, 1, &fd), 0);
	ck_assert_int_eq(fd, 0);
	fdstore_close(fdstore);
	ck_assert_int_gt(blocks(2), 0);
}
END_TEST

START_TEST(sweep__frees_pools_unknown_to_the_ledger)
{
	const uint32_t known = 2;

	open_fdstore("");
	ck_assert_int_eq(fdstore_sweep(fdstore, &known, 1), 0);
	ck_assert_int_eq(blocks(1), 0);
	ck_assert_int_gt(blocks(2), 0);
	fdstore_close(fdstore);
}
END_TEST

/* _i: memory is lent */
START_TEST(directory__frees_all_unless_memory_is_lent)
{
	const struct ledger_key key = { LEDGER_LEASE, 1, 0 };
	char dir[] = "/tmp/rmem-fdstore-XXXXXX", file[64];
	struct ledger *ledger;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(file, sizeof(file), "%s/ledger", dir);
	ck_assert_msg(ledger_open(managers[0], &ledger) == 0, "%s", err_text());
	if (_i) {
		ck_assert_int_eq(ledger_put(ledger, &key, "x", 1), 0);
		ledger_commit(ledger);
	}
	ledger_close(ledger);
	if (_i) {
		ck_assert_int_eq(fdstore_open(dir, &fds, &fdstore), -EINVAL);
	} else {
		open_fdstore(dir);
		fdstore_close(fdstore);
	}
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(blocks(i) > 0, _i);
	ck_assert_int_eq(unlink(file), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* ---- a fake service manager ---- */

static char stage[sizeof("/tmp/rmem-fdstore-XXXXXX")];
static int notified; /* its socket for messages */
static int asked;    /* its listening socket for questions */
static pid_t bus;

static int socket_at(const char *name, int type, const char *variable,
		     const char *prefix)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	char value[160];
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", stage,
		       name);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	(void)snprintf(value, sizeof(value), "%s%s", prefix, address.sun_path);
	ck_assert_int_eq(setenv(variable, value, 1), 0);
	return fd;
}

static void manager_setup(void)
{
	memcpy(stage, "/tmp/rmem-fdstore-XXXXXX", sizeof(stage));
	ck_assert_ptr_nonnull(mkdtemp(stage));
	notified = socket_at("notify", SOCK_DGRAM, "NOTIFY_SOCKET", "");
	asked = socket_at("bus", SOCK_STREAM, "DBUS_SYSTEM_BUS_ADDRESS", "unix:path=");
	ck_assert_int_eq(setenv("DBUS_SESSION_BUS_ADDRESS",
				getenv("DBUS_SYSTEM_BUS_ADDRESS"), 1),
			 0);
	ck_assert_int_eq(listen(asked, 1), 0);
	fds.n_kept = 0;
	bus = 0;
}

static void bus_end(void)
{
	if (!bus)
		return;
	ck_assert_int_eq(kill(bus, SIGKILL), 0);
	ck_assert_int_eq(waitpid(bus, NULL, 0), bus);
	bus = 0;
}

static void manager_teardown(void)
{
	char command[64];

	bus_end();
	(void)close(notified);
	(void)close(asked);
	(void)snprintf(command, sizeof(command), "rm -rf %s", stage);
	ck_assert_int_eq(system(command), 0);
}

/* One message to the manager; returns its descriptor. */
static int message_receive(char *text, size_t text_bytes)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec iov = { text, text_bytes - 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(notified, &msg, MSG_DONTWAIT);
	int fd = -1;

	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	for (struct cmsghdr *c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c))
		if (c->cmsg_type == SCM_RIGHTS)
			memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

/* The bus and the manager in one.  n < 0: it refuses; -2: it hangs up. */
static int bus_call(sd_bus_message *call, void *arg, sd_bus_error *error)
{
	int n = *(const int *)arg;
	const char *interface, *property;

	if (sd_bus_message_is_method_call(call, "org.freedesktop.DBus", "Hello"))
		return sd_bus_reply_method_return(call, "s", ":1.7");
	if (!sd_bus_message_is_method_call(call, "org.freedesktop.DBus.Properties",
					   "Get") ||
	    strcmp(sd_bus_message_get_path(call),
		   "/org/freedesktop/systemd1/unit/self") != 0 ||
	    sd_bus_message_read(call, "ss", &interface, &property) < 0 ||
	    strcmp(property, "NFileDescriptorStore") != 0)
		return 0;
	if (n == -2)
		_exit(0);
	if (n < 0)
		return sd_bus_error_set(error, SD_BUS_ERROR_ACCESS_DENIED,
					"not for you");
	return sd_bus_reply_method_return(call, "v", "u", (uint32_t)n);
}

/* In a process of its own, as a bus is. */
static void bus_serve(int n)
{
	const sd_id128_t id = { .bytes = { 1 } };
	sd_bus *server = NULL;
	int fd;

	bus = fork();
	ck_assert_int_ge(bus, 0);
	if (bus > 0)
		return;
	fd = accept(asked, NULL, NULL);
	if (sd_bus_new(&server) < 0 || sd_bus_set_fd(server, fd, fd) < 0)
		_exit(1);
	(void)sd_bus_set_server(server, 1, id);
	(void)sd_bus_set_anonymous(server, 1);
	(void)sd_bus_set_trusted(server, 1);
	(void)sd_bus_add_filter(server, NULL, bus_call, &n);
	if (sd_bus_start(server) < 0)
		_exit(1);
	for (;;) {
		int done = sd_bus_process(server, NULL);

		if (done < 0)
			_exit(0);
		if (done == 0)
			(void)sd_bus_wait(server, UINT64_MAX);
	}
}

static int verified_err;
static unsigned n_verified;

static void on_verified(void *ctx, int err)
{
	verified_err = err;
	n_verified++;
	(void)event_base_loopbreak(ctx);
}

static const struct {
	int n, err;
	bool lasts;
	const char *text;
} answers[] = {
	{ 3, 0, true, "" },
	{ 4, 0, true, "" },
	{ 2, -ENOSPC, false,
	  "stores 2 of 3 files, so a restart loses what is lent: set "
	  "FileDescriptorStoreMax=129" },
	{ 0, -ENOSPC, false, "stores 0 of 3 files" },
	{ -1, -EIO, true, "the service manager answers: not for you" },
	{ -2, -EIO, true, "the service manager answers: Connection terminated" },
};

/* A ledger and two pools are sent; the manager stores as many as it says. */
START_TEST(verify__asks_what_the_manager_stores)
{
	struct event_base *base = event_base_new();
	struct pollfd pollfd = { .fd = asked, .events = POLLIN };
	char text[128];
	int barrier, pool = memfd_create("pool", MFD_CLOEXEC);

	open_fdstore("");
	fdstore_store_pool(fdstore, 1, pool);
	fdstore_store_pool(fdstore, 2, pool);
	ck_assert(fdstore_lasts(fdstore));
	n_verified = 0;
	fdstore_verify(fdstore, base, on_verified, base);
	for (unsigned i = 0; i < 3; i++) {
		(void)close(message_receive(text, sizeof(text)));
		ck_assert_int_eq(strncmp(text, "FDSTORE=1\n", 10), 0);
	}
	/* it is not asked before it has handled all messages, and nothing waits for it */
	barrier = message_receive(text, sizeof(text));
	ck_assert_str_eq(text, "BARRIER=1");
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_NONBLOCK), 0);
	ck_assert_int_eq(poll(&pollfd, 1, 0), 0);
	ck_assert_int_eq(close(barrier), 0);
	/* the bus does not answer yet */
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(event_base_loop(base, EVLOOP_NONBLOCK), 0);
	ck_assert_uint_eq(n_verified, 0);
	ck_assert_int_eq(poll(&pollfd, 1, 0), 1);
	bus_serve(answers[_i].n);
	ck_assert_int_eq(event_base_dispatch(base), 0);
	ck_assert_uint_eq(n_verified, 1);
	ck_assert_int_eq(verified_err, answers[_i].err);
	if (answers[_i].err)
		ck_assert_msg(strstr(err_text(), answers[_i].text) != NULL, "%s",
			      err_text());
	ck_assert_int_eq(fdstore_lasts(fdstore), answers[_i].lasts);
	/* no event is left */
	ck_assert_int_eq(event_base_dispatch(base), 1);
	ck_assert_uint_eq(n_verified, 1);
	fdstore_close(fdstore);
	event_base_free(base);
	ck_assert_int_eq(close(pool), 0);
}
END_TEST

/* A pool that is stored later is asked for, too; meanwhile, which makes the answer obsolete, and
 * then.  A pool that was sent by this process can be dropped. */
START_TEST(verify__asks_again_for_a_pool_that_is_added)
{
	struct event_base *base = event_base_new();
	char text[128];
	int pool = memfd_create("pool", MFD_CLOEXEC);
	struct pollfd message = { .fd = notified, .events = POLLIN };

	open_fdstore("");
	n_verified = 0;
	fdstore_verify(fdstore, base, on_verified, base);
	(void)close(message_receive(text, sizeof(text)));
	fdstore_store_pool(fdstore, 1, pool);
	ck_assert_int_eq(close(message_receive(text, sizeof(text))), 0);
	ck_assert_str_eq(text, "BARRIER=1");
	(void)close(message_receive(text, sizeof(text)));
	ck_assert_int_eq(strncmp(text, "FDSTORE=1\n", 10), 0);
	/* the answer to the first question has one file, but is about one */
	bus_serve(1);
	while (poll(&message, 1, 0) == 0)
		(void)event_base_loop(base, EVLOOP_ONCE);
	ck_assert_uint_eq(n_verified, 0);
	bus_end();
	ck_assert_int_eq(close(message_receive(text, sizeof(text))), 0);
	ck_assert_str_eq(text, "BARRIER=1");
	bus_serve(1);
	ck_assert_int_eq(event_base_dispatch(base), 0);
	ck_assert_uint_eq(n_verified, 1);
	ck_assert_int_eq(verified_err, -ENOSPC);
	ck_assert(!fdstore_lasts(fdstore));
	fdstore_drop_pool(fdstore, 1);
	(void)message_receive(text, sizeof(text));
	ck_assert_str_eq(text, "FDSTOREREMOVE=1\nFDNAME=rmem-pool-1");
	fdstore_close(fdstore);
	event_base_free(base);
	ck_assert_int_eq(close(pool), 0);
}
END_TEST

START_TEST(verify__without_a_bus_fails)
{
	struct event_base *base = event_base_new();
	char text[128];

	open_fdstore("");
	ck_assert_int_eq(setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere", 1), 0);
	ck_assert_int_eq(setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere", 1),
			 0);
	n_verified = 0;
	fdstore_verify(fdstore, base, on_verified, base);
	(void)close(message_receive(text, sizeof(text)));
	ck_assert_int_eq(close(message_receive(text, sizeof(text))), 0);
	ck_assert_int_eq(event_base_dispatch(base), 0);
	ck_assert_uint_eq(n_verified, 1);
	ck_assert_int_eq(verified_err, -ENOENT);
	fdstore_close(fdstore);
	event_base_free(base);
}
END_TEST

/* The daemon may stop before the answer. */
START_TEST(verify__ends_with_the_store)
{
	struct event_base *base = event_base_new();
	char text[128];

	open_fdstore("");
	n_verified = 0;
	fdstore_verify(fdstore, base, on_verified, base);
	(void)close(message_receive(text, sizeof(text)));
	ck_assert_int_eq(close(message_receive(text, sizeof(text))), 0);
	ck_assert_int_eq(event_base_loop(base, EVLOOP_ONCE), 0);
	fdstore_close(fdstore);
	ck_assert_int_eq(event_base_dispatch(base), 1);
	ck_assert_uint_eq(n_verified, 0);
	event_base_free(base);
}
END_TEST

static void refuses(const char *dir, const char *part)
{
	/* refused after the files of the service manager were taken over */
	for (unsigned i = 0; i < fds.n_kept; i++)
		fds.kept[i].fd = fcntl(managers[i], F_DUPFD_CLOEXEC, 3);
	ck_assert_int_eq(fdstore_open(dir, &fds, &fdstore), -EINVAL);
	ck_assert_msg(strstr(err_text(), part), "%s", err_text());
}

/* A user could make it, or leave files in it, before the daemon first starts. */
START_TEST(directory__of_others_is_refused)
{
	char dir[] = "/tmp/rmem-fdstore-XXXXXX", way[64], ledger[64], other[80];
	int fd;

	for (unsigned i = 0; i < fds.n_kept; i++)
		(void)close(fds.kept[i].fd);
	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(way, sizeof(way), "%s.l", dir);
	(void)snprintf(ledger, sizeof(ledger), "%s/ledger", dir);
	ck_assert_int_eq(symlink(dir, way), 0);
	refuses(way, "a link is not followed");
	/* where the kernel would follow it */
	(void)snprintf(other, sizeof(other), "%s/", way);
	refuses(other, "a link is not followed");
	(void)snprintf(other, sizeof(other), "%s//.", way);
	refuses(other, "a link is not followed");
	(void)snprintf(other, sizeof(other), "%s/other", dir);
	ck_assert_int_eq(chmod(dir, 0710), 0);
	refuses(dir, "chmod 700");
	ck_assert_int_eq(chmod(dir, 0700), 0);
	ck_assert_int_eq(mkfifo(ledger, 0600), 0);
	refuses(dir, "rmemd has not made it: remove it, or name another directory");
	ck_assert_int_eq(unlink(ledger), 0);
	fd = open(ledger, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fchmod(fd, 0640), 0);
	refuses(dir, "rmemd has not made it: remove it, or name another directory");
	ck_assert_int_eq(fchmod(fd, 0600), 0);
	ck_assert_int_eq(link(ledger, other), 0);
	refuses(dir, "rmemd has not made it: remove it, or name another directory");
	ck_assert_int_eq(unlink(other), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(fchown(fd, 12345, (gid_t)-1), 0);
		refuses(dir,
			"rmemd has not made it: remove it, or name another directory");
		ck_assert_int_eq(chown(dir, 12345, (gid_t)-1), 0);
		refuses(dir, "it belongs to user 12345");
	}
	ck_assert_int_eq(close(fd), 0);
	ck_assert_int_eq(unlink(ledger), 0);
	ck_assert_int_eq(unlink(way), 0);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

/* _i: a file is there instead of no directory */
START_TEST(directory__that_is_missing_is_named)
{
	static const char *const causes[] = {
		"there is no such directory",
		"it is not a directory, and a link is not "
		"followed"
	};
	char dir[] = "/tmp/rmem-fdstore-XXXXXX", path[64], text[256];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	(void)snprintf(path, sizeof(path), "%s/state", dir);
	if (_i) {
		int fd = creat(path, 0600);

		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(close(fd), 0);
	}
	ck_assert_int_eq(fdstore_open(path, &fds, &fdstore), -EINVAL);
	(void)snprintf(
		text, sizeof(text),
		"[server] state = %s: %s: make it, on tmpfs or hugetlbfs, for the "
		"user of rmemd alone: mkdir -m 700 %s",
		path, causes[_i], path);
	ck_assert_str_eq(err_text(), text);
	ck_assert_int_eq(unlink(path), _i ? 0 : -1);
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("fdstore", setup, teardown);

	tcase_add_test(tc, drop__frees_one_pool);
	tcase_add_test(tc, sweep__frees_pools_unknown_to_the_ledger);
	tcase_add_loop_test(tc, directory__frees_all_unless_memory_is_lent, 0, 2);
	tcase_add_test(tc, directory__of_others_is_refused);
	tcase_add_loop_test(tc, directory__that_is_missing_is_named, 0, 2);
	tc = unit_case("verify", manager_setup, manager_teardown);
	tcase_add_loop_test(tc, verify__asks_what_the_manager_stores, 0,
			    sizeof(answers) / sizeof(answers[0]));
	tcase_add_test(tc, verify__asks_again_for_a_pool_that_is_added);
	tcase_add_test(tc, verify__without_a_bus_fails);
	tcase_add_test(tc, verify__ends_with_the_store);
	return unit_main();
}
