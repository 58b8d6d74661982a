/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the log to stderr and to the journal, and what becomes of them when nobody reads. */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "rmemd/system/log_output.h"
#include "unit/unit.h"

/* More than a small pipe, or the queue of a socket, holds. */
#define LINES 2000

/* ---- the journal ---- */

/* A fake journal that only this process sees; 0: no permission to mount. */
static int open_journal(void)
{
	const struct sockaddr_un at = { AF_UNIX, "/run/systemd/journal/socket" };
	int fd;

	if (unshare(CLONE_NEWNS) && unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return 0;
	ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	if (mount("tmpfs", "/run", "tmpfs", 0, NULL))
		return 0;
	ck_assert_int_eq(mkdir("/run/systemd", 0755), 0);
	ck_assert_int_eq(mkdir("/run/systemd/journal", 0755), 0);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	ck_assert_int_gt(fd, 0);
	ck_assert_int_eq(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* The next record; "": there is none. */
static const char *received(int fd)
{
	static char buf[4096];
	ssize_t got = recv(fd, buf + 1, sizeof(buf) - 2, 0);

	buf[0] = '\n';
	buf[got > 0 ? got + 1 : 0] = '\0';
	return buf;
}

static void assert_line(const char *record, const char *line)
{
	char with_newlines[256];

	(void)snprintf(with_newlines, sizeof(with_newlines), "\n%s\n", line);
	ck_assert_msg(strstr(record, with_newlines) != NULL, "no line %s in %s", line,
		      record);
}

START_TEST(journal__receives_fields)
{
	const struct log_ctx ctx = { .session = 7,
				     .lease = 9,
				     .pool = "a",
				     .device = "rxe0",
				     .peer = "[::1]:5",
				     .tenant = "default" };
	int journal = open_journal();
	const char *record;

	if (!journal) {
		printf("# skipped: no permission for a mount namespace\n");
		return;
	}
	log_output_open(CONFIG_LOG_JOURNAL);
	log_output_sink(LOG_WARNING, "lease-expired", &ctx, "revoked");
	record = received(journal);
	assert_line(record, "MESSAGE=lease-expired: revoked [session=7 lease=9 pool=a "
			    "device=rxe0 peer=[::1]:5 tenant=default]");
	assert_line(record, "PRIORITY=4");
	assert_line(record, "SYSLOG_IDENTIFIER=rmemd");
	assert_line(record, "RMEM_EVENT=lease-expired");
	assert_line(record, "RMEM_SESSION=7");
	assert_line(record, "RMEM_LEASE=9");
	assert_line(record, "RMEM_POOL=a");
	assert_line(record, "RMEM_DEVICE=rxe0");
	assert_line(record, "RMEM_PEER=[::1]:5");
	assert_line(record, "RMEM_TENANT=default");

	log_output_sink(LOG_INFO, "ready", NULL, "here");
	record = received(journal);
	assert_line(record, "MESSAGE=ready: here");
	assert_line(record, "RMEM_EVENT=ready");
	ck_assert_ptr_null(strstr(record, "RMEM_SESSION"));

	/* an endpoint over TCP has no device */
	log_output_sink(LOG_INFO, "ready", &(struct log_ctx){ .device = "" }, "here");
	record = received(journal);
	assert_line(record, "MESSAGE=ready: here");
	ck_assert_ptr_null(strstr(record, "RMEM_DEVICE"));
}
END_TEST

/* The loop would hang in the call. */
START_TEST(journal__that_is_not_read_holds_nobody_up)
{
	int journal = open_journal();
	unsigned n_read = 0;
	char text[128];

	if (!journal) {
		printf("# skipped: no permission for a mount namespace\n");
		return;
	}
	log_output_open(CONFIG_LOG_JOURNAL);
	for (unsigned i = 0; i < LINES; i++)
		log_output_sink(LOG_INFO, "line", NULL, "text");
	ck_assert_uint_gt(log_output_dropped(), 0);
	while (*received(journal))
		n_read++;
	ck_assert_uint_eq(n_read + log_output_dropped(), LINES);
	log_output_flush();
	(void)snprintf(
		text, sizeof(text),
		"MESSAGE=log-dropped: %u lines were dropped, as nobody read them",
		LINES - n_read);
	assert_line(received(journal), text);
	ck_assert_str_eq(received(journal), "");
}
END_TEST

/* ---- stderr ---- */

/* Another process may take the room that it has seen. */
static bool room_is_taken;

int poll(struct pollfd *fds, nfds_t n, int timeout_ms)
{
	const struct timespec timeout = { .tv_sec = timeout_ms / 1000 };

	if (!room_is_taken)
		return ppoll(fds, n, timeout_ms < 0 ? NULL : &timeout, NULL);
	fds->revents = POLLOUT;
	return 1;
}

/* As pipe(), of a pipe that has a name. */
static void fifo_make(int ret_fds[2])
{
	char folder[] = "/tmp/rmem-fifo-XXXXXX", path[64];

	ck_assert_ptr_nonnull(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/fifo", folder);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ret_fds[0] = open(path, O_RDONLY | O_NONBLOCK);
	ret_fds[1] = open(path, O_WRONLY);
	(void)unlink(path);
	(void)rmdir(folder);
	ck_assert(ret_fds[0] >= 0 && ret_fds[1] >= 0);
}

/* stderr becomes a small pipe, for this target; the other end.  $JOURNAL_STREAM names it or
 * another one. */
static int pipe_open(enum config_log_target target, bool stream, bool named)
{
	char name[64];
	struct stat st;
	int fds[2];

	if (named)
		fifo_make(fds);
	else
		ck_assert_int_eq(pipe(fds), 0);
	ck_assert_int_gt(fcntl(fds[0], F_SETPIPE_SZ, 8192), 0);
	ck_assert_int_eq(fcntl(fds[0], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_eq(dup2(fds[1], STDERR_FILENO), STDERR_FILENO);
	(void)close(fds[1]);
	ck_assert_int_eq(fstat(STDERR_FILENO, &st), 0);
	(void)snprintf(name, sizeof(name), "%lu:%lu", (unsigned long)st.st_dev,
		       (unsigned long)st.st_ino + !stream);
	ck_assert_int_eq(setenv("JOURNAL_STREAM", name, 1), 0);
	log_output_open(target);
	return fds[0];
}

/* All that the pipe holds, which is less than `max`. */
static size_t pipe_read(int fd, char *text, size_t max)
{
	ssize_t n = read(fd, text, max - 1);

	text[n > 0 ? n : 0] = '\0';
	return strlen(text);
}

/* What a line is on stderr. */
static const char *written(enum config_log_target target, bool stream, int level)
{
	const struct log_ctx ctx = { .tenant = "a" };
	static char text[256];
	int fd = pipe_open(target, stream, false);

	log_output_sink(level, "event", &ctx, "text");
	(void)pipe_read(fd, text, sizeof(text));
	(void)close(fd);
	return text;
}

START_TEST(stderr__stamps_its_lines)
{
	static const char *const names[] = { [LOG_ERR] = "error",
					     [LOG_WARNING] = "warning",
					     [LOG_NOTICE] = "notice",
					     [LOG_INFO] = "info",
					     [LOG_DEBUG] = "debug" };
	char end[64];

	for (int level = LOG_ERR; level <= LOG_DEBUG; level++) {
		const char *line = written(CONFIG_LOG_STDERR, false, level);
		struct tm tm = { 0 };
		const char *rest = strptime(line, "%Y-%m-%dT%H:%M:%S", &tm);
		double age;

		ck_assert_msg(rest && *rest == '.', "%s", line);
		age = difftime(time(NULL), timegm(&tm));
		ck_assert_msg(age >= -1 && age < 3600, "%s", line);
		(void)snprintf(end, sizeof(end), "Z %s event: text [tenant=a]\n",
			       names[level]);
		ck_assert_str_eq(rest + 4, end);
	}
}
END_TEST

START_TEST(stderr__has_what_its_reader_does_not_add)
{
	static const char plain[] = "event: text [tenant=a]\n",
			  prefixed[] = "<4>event: text [tenant=a]\n";

	ck_assert_str_eq(written(CONFIG_LOG_PLAIN, false, LOG_WARNING), plain);
	ck_assert_str_eq(written(CONFIG_LOG_PLAIN, true, LOG_WARNING), plain);
	ck_assert_str_eq(written(CONFIG_LOG_PLAIN, false, LOG_ERR),
			 "error event: text [tenant=a]\n");
	/* neither the time twice, nor without a level */
	ck_assert_str_eq(written(CONFIG_LOG_STDERR, true, LOG_WARNING), prefixed);
	/* stderr was redirected after the start */
	ck_assert_ptr_nonnull(strstr(written(CONFIG_LOG_AUTO, false, LOG_WARNING),
				     "Z warning event: "));
}
END_TEST

START_TEST(journal__has_the_lines_of_its_stream)
{
	int journal = open_journal();

	if (!journal) {
		printf("# skipped: no permission for a mount namespace\n");
		return;
	}
	ck_assert_str_eq(written(CONFIG_LOG_AUTO, true, LOG_INFO), "");
	assert_line(received(journal), "RMEM_EVENT=event");
	ck_assert_str_eq(written(CONFIG_LOG_JOURNAL, false, LOG_INFO), "");
	assert_line(received(journal), "RMEM_EVENT=event");
	/* it is gone */
	(void)close(journal);
	ck_assert_ptr_nonnull(
		strstr(written(CONFIG_LOG_AUTO, true, LOG_INFO), "Z info event: "));
	ck_assert_uint_eq(log_output_dropped(), 0);
}
END_TEST

/* Also one with a name, and if another process writes there too. */
START_TEST(pipe__that_is_not_read_holds_nobody_up)
{
	static const char whole[] = "line: text\n";
	char text[16384], told[64];
	int fd = pipe_open(CONFIG_LOG_PLAIN, false, _i & 1);
	unsigned n_read;

	room_is_taken = _i & 2;
	for (unsigned i = 0; i < LINES; i++)
		log_output_sink(LOG_INFO, "line", NULL, "text");
	ck_assert_uint_gt(log_output_dropped(), 0);
	/* whole lines alone */
	n_read = (unsigned)(pipe_read(fd, text, sizeof(text)) / strlen(whole));
	ck_assert_uint_eq(strlen(text), n_read * strlen(whole));
	ck_assert_uint_eq(n_read + log_output_dropped(), LINES);
	/* before the next line, and once */
	for (unsigned i = 0; i < 2; i++)
		log_output_sink(LOG_INFO, "line", NULL, "text");
	log_output_flush();
	(void)pipe_read(fd, text, sizeof(text));
	(void)snprintf(told, sizeof(told), "log-dropped: %u lines were dropped, ",
		       LINES - n_read);
	ck_assert_int_eq(strncmp(text, told, strlen(told)), 0);
	ck_assert_str_eq(strchr(text, '\n'), "\nline: text\nline: text\n");
	(void)close(fd);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("log_output", NULL, NULL);

	tcase_add_test(tc, journal__receives_fields);
	tcase_add_test(tc, journal__that_is_not_read_holds_nobody_up);
	tcase_add_test(tc, journal__has_the_lines_of_its_stream);
	tcase_add_test(tc, stderr__stamps_its_lines);
	tcase_add_test(tc, stderr__has_what_its_reader_does_not_add);
	tcase_add_loop_test(tc, pipe__that_is_not_read_holds_nobody_up, 0, 4);
	return unit_main();
}
