/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/system/log_output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#define JOURNAL_PATH "/run/systemd/journal/socket"
#define RECORD_BYTES 4096
#define STAMP_BYTES 32
/* With what comes before the text; at most PIPE_BUF, for which poll() promises room. */
#define OUTPUT_BYTES (LOG_LINE_BYTES + STAMP_BYTES + 16)

/* Write a line in one of the forms; false: there is no room. */
typedef bool line_writer(int level, const char *event, const struct log_ctx *ctx,
			 const char *text);

static line_writer *writer;
static int stderr_fd = STDERR_FILENO;
static int stderr_flags; /* RWF_* */
static uint64_t dropped, told;

/* ---- stderr ---- */

/* Another process that writes to the pipe may take the room that poll() has seen; where the kernel
 * can, it looks again. */
static bool stderr_write(char *line, int bytes)
{
	struct pollfd stream = { .fd = stderr_fd, .events = POLLOUT };
	const struct iovec part = { line, (size_t)bytes };
	ssize_t n;

	if (poll(&stream, 1, 0) != 1)
		return false;
	n = pwritev2(stderr_fd, &part, 1, -1, stderr_flags);
	if (n < 0 && errno == EOPNOTSUPP)
		n = writev(stderr_fd, &part, 1);
	return n == bytes;
}

static bool plain_write(int level, const char *event, const struct log_ctx *ctx,
			const char *text)
{
	char line[LOG_LINE_BYTES], buf[OUTPUT_BYTES];

	log_format(line, event, ctx, text);
	return stderr_write(buf, snprintf(buf, sizeof(buf), "%s%s\n",
					  level <= LOG_ERR ? "error " : "", line));
}

static const char *level_name(int level)
{
	static const char *const names[] = { [LOG_ERR] = "error",
					     [LOG_WARNING] = "warning",
					     [LOG_NOTICE] = "notice",
					     [LOG_INFO] = "info",
					     [LOG_DEBUG] = "debug" };

	return names[level < LOG_ERR ? LOG_ERR : level > LOG_DEBUG ? LOG_DEBUG : level];
}

static void stamp_format(char buf[STAMP_BYTES])
{
	struct timespec now = { 0 };
	struct tm tm = { 0 };
	size_t used;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &tm);
	used = strftime(buf, STAMP_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	(void)snprintf(buf + used, STAMP_BYTES - used, ".%03uZ",
		       (unsigned)(now.tv_nsec / 1000000));
}

/* "2026-11-25T09:30:00.125Z notice ready: ...", in UTC */
static bool stamped_write(int level, const char *event, const struct log_ctx *ctx,
			  const char *text)
{
	char stamp[STAMP_BYTES], line[LOG_LINE_BYTES], buf[OUTPUT_BYTES];

	stamp_format(stamp);
	log_format(line, event, ctx, text);
	return stderr_write(buf, snprintf(buf, sizeof(buf), "%s %s %s\n", stamp,
					  level_name(level), line));
}

/* The journal has the time of each line of its stream, and its level from this prefix. */
static bool stream_write(int level, const char *event, const struct log_ctx *ctx,
			 const char *text)
{
	char line[LOG_LINE_BYTES], buf[OUTPUT_BYTES];

	log_format(line, event, ctx, text);
	return stderr_write(buf, snprintf(buf, sizeof(buf), "<%d>%s\n", level, line));
}

/* ---- the journal ---- */

/* Fields of one line, in the journal's native protocol; those that do not fit are left out. */
struct record {
	char text[RECORD_BYTES];
	size_t used;
};

/* The value is one line: log_event() lets no control character through. */
static void __attribute__((format(printf, 2, 3))) record_add(struct record *record,
							     const char *fmt, ...)
{
	size_t room = sizeof(record->text) - record->used;
	char *field = record->text + record->used;
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(field, room, fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= room)
		return;
	field[len] = '\n';
	record->used += (size_t)len + 1;
}

static void record_text(struct record *record, const char *name, const char *value)
{
	if (value && *value)
		record_add(record, "%s=%s", name, value);
}

/* sd_journal_sendv() would wait for a journal that does not read.  0 or -errno. */
static int journal_send(const struct record *record)
{
	static const struct sockaddr_un to = { AF_UNIX, JOURNAL_PATH };
	static int fd = -1;

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 ||
	    sendto(fd, record->text, record->used, MSG_DONTWAIT | MSG_NOSIGNAL,
		   (const struct sockaddr *)&to, sizeof(to)) < 0)
		return -errno;
	return 0;
}

static bool journal_write(int level, const char *event, const struct log_ctx *ctx,
			  const char *text)
{
	char line[LOG_LINE_BYTES];
	struct record record = { .used = 0 };
	int err;

	/* people see the message alone, so it has the context too */
	log_format(line, event, ctx, text);
	record_add(&record, "MESSAGE=%s", line);
	record_add(&record, "PRIORITY=%d", level);
	record_add(&record, "SYSLOG_IDENTIFIER=rmemd");
	record_add(&record, "RMEM_EVENT=%s", event);
	if (ctx && ctx->session)
		record_add(&record, "RMEM_SESSION=%" PRIu64, ctx->session);
	if (ctx && ctx->lease)
		record_add(&record, "RMEM_LEASE=%" PRIu64, ctx->lease);
	if (ctx) {
		record_text(&record, "RMEM_POOL", ctx->pool);
		record_text(&record, "RMEM_DEVICE", ctx->device);
		record_text(&record, "RMEM_PEER", ctx->peer);
		record_text(&record, "RMEM_TENANT", ctx->tenant);
	}
	err = journal_send(&record);
	if (err == 0 || err == -EAGAIN)
		return err == 0;
	/* without the journal stderr may still be read */
	return stamped_write(level, event, ctx, text);
}

/* ---- the sink ---- */

/* systemd names the device and inode of the stream it gave us. */
static bool is_journal(const struct stat *st)
{
	const char *stream = getenv("JOURNAL_STREAM");
	char expected[64];

	if (!stream)
		return false;
	(void)snprintf(expected, sizeof(expected), "%ju:%ju", (uintmax_t)st->st_dev,
		       (uintmax_t)st->st_ino);
	return strcmp(stream, expected) == 0;
}

static line_writer *writer_of(enum config_log_target target, bool stream)
{
	switch (target) {
	case CONFIG_LOG_JOURNAL:
		return journal_write;
	case CONFIG_LOG_PLAIN:
		return plain_write;
	case CONFIG_LOG_STDERR:
		return stream ? stream_write : stamped_write;
	case CONFIG_LOG_AUTO:
		break;
	}
	return stream ? journal_write : stamped_write;
}

/* Pipes without a name are on a file system of their own. */
static bool is_named_pipe(const struct stat *st)
{
	struct statfs fs;

	return S_ISFIFO(st->st_mode) && !fstatfs(STDERR_FILENO, &fs) &&
	       fs.f_type != PIPEFS_MAGIC;
}

/* For a pipe with a name the kernel has no RWF_NOWAIT, and whether stderr blocks is also for others
 * that have it to decide: open it again. */
static int pipe_reopen(void)
{
	int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

	return fd < 0 ? STDERR_FILENO : fd;
}

void log_output_open(enum config_log_target target)
{
	struct stat st = { 0 };

	if (stderr_fd != STDERR_FILENO)
		(void)close(stderr_fd);
	(void)fstat(STDERR_FILENO, &st);
	stderr_fd = is_named_pipe(&st) ? pipe_reopen() : STDERR_FILENO;
	/* a file would refuse the flag at each change of its time */
	stderr_flags = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) ? RWF_NOWAIT : 0;
	writer = writer_of(target, is_journal(&st));
}

void log_output_flush(void)
{
	char text[64];

	if (told == dropped)
		return;
	(void)snprintf(text, sizeof(text),
		       "%" PRIu64 " lines were dropped, as nobody read them",
		       dropped - told);
	if (writer(LOG_WARNING, "log-dropped", NULL, text))
		told = dropped;
}

void log_output_sink(int level, const char *event, const struct log_ctx *ctx,
		     const char *text)
{
	log_output_flush();
	if (told != dropped || !writer(level, event, ctx, text))
		dropped++;
}

uint64_t log_output_dropped(void)
{
	return dropped;
}
