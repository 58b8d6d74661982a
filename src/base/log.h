/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines with a stable event name and fields.  A sink writes them: log_stderr by default, or
 * the daemon's for the journal.  Threads: log_event [any]; the setters before
 * threads start (the level also later). */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <syslog.h>

#define LOG_LINE_BYTES 2048

/* The objects that a line is about; 0, NULL or "": none of this kind. */
struct log_ctx {
	uint64_t session;
	uint64_t lease;
	const char *pool;
	const char *device;
	const char *peer; /* address:port */
	const char *tenant;
	bool act; /* an administrator's: written whatever the level and the rate */
};

/* One line.  `event` is a stable lower-case name with dashes; `text` is one line. */
typedef void log_sink(int level, const char *event, const struct log_ctx *ctx,
		      const char *text);

void log_set_sink(log_sink *sink); /* NULL: stderr */
void log_set_level(int level);     /* LOG_ERR ... LOG_DEBUG; more detail is dropped */
int log_level(void);
bool log_enabled(int level);

/* Format a line with all fields: "event: text [session=1 lease=2]".  Behind a text that ends in a
 * ']' there are brackets also if there is no field. */
void log_format(char buf[LOG_LINE_BYTES], const char *event, const struct log_ctx *ctx,
		const char *text);

/* The sink for stderr: the line of log_format(), after "error " for errors. */
log_sink log_stderr;

/* Besides the sink, which gets the lines of its level alone, a tap gets those that it wants, of any
 * level.  It is asked before the line is made.  NULL: no tap. */
struct log_tap {
	bool (*wants)(int level, const char *event, const struct log_ctx *ctx);
	log_sink *sink;
};
void log_set_tap(const struct log_tap *tap); /* borrowed */

/* Write a line.  ctx may be NULL. */
void log_event(int level, const char *event, const struct log_ctx *ctx, const char *fmt,
	       ...) __attribute__((format(printf, 4, 5)));

#endif
