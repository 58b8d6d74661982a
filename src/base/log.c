/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define TEXT_BYTES 1024

static log_sink *sink = log_stderr;
static const struct log_tap *tap;
static atomic_int max_level = LOG_INFO;

void log_set_sink(log_sink *new_sink)
{
	sink = new_sink ? new_sink : log_stderr;
}

void log_set_tap(const struct log_tap *new_tap)
{
	tap = new_tap;
}

void log_set_level(int level)
{
	atomic_store_explicit(&max_level, level, memory_order_relaxed);
}

int log_level(void)
{
	return atomic_load_explicit(&max_level, memory_order_relaxed);
}

bool log_enabled(int level)
{
	return level <= log_level();
}

/* A line under construction; what does not fit is cut off. */
struct line {
	char *at;
	size_t left; /* including the terminator */
};

static void line_append(struct line *line, const char *text)
{
	size_t n = strnlen(text, line->left - 1);

	memcpy(line->at, text, n);
	line->at += n;
	line->left -= n;
	*line->at = '\0';
}

static void field_string(struct line *line, const char **mark, const char *name,
			 const char *value)
{
	if (!value || !*value)
		return;
	line_append(line, *mark);
	line_append(line, name);
	line_append(line, "=");
	line_append(line, value);
	*mark = " ";
}

static void field_id(struct line *line, const char **mark, const char *name,
		     uint64_t id)
{
	char text[24];

	if (!id)
		return;
	(void)snprintf(text, sizeof(text), "%" PRIu64, id);
	field_string(line, mark, name, text);
}

/* In brackets, because the text may end in a command that people copy. */
static void fields_write(struct line *line, const struct log_ctx *ctx)
{
	static const char first[] = " [";
	const char *mark = first;

	field_id(line, &mark, "session", ctx->session);
	field_id(line, &mark, "lease", ctx->lease);
	field_string(line, &mark, "pool", ctx->pool);
	field_string(line, &mark, "device", ctx->device);
	field_string(line, &mark, "peer", ctx->peer);
	field_string(line, &mark, "tenant", ctx->tenant);
	if (mark != first)
		line_append(line, "]");
	/* the last brackets are of fields, whatever name a peer has put into the text */
	else if (line->at[-1] == ']')
		line_append(line, " []");
}

void log_format(char buf[LOG_LINE_BYTES], const char *event, const struct log_ctx *ctx,
		const char *text)
{
	static const struct log_ctx none;
	struct line line = { buf, LOG_LINE_BYTES };

	line_append(&line, event);
	line_append(&line, ": ");
	line_append(&line, text);
	fields_write(&line, ctx ? ctx : &none);
	(void)utf8_sanitize(buf, "");
}

void log_stderr(int level, const char *event, const struct log_ctx *ctx,
		const char *text)
{
	char line[LOG_LINE_BYTES], buf[LOG_LINE_BYTES + 8];
	int n;

	log_format(line, event, ctx, text);
	n = snprintf(buf, sizeof(buf), "%s%s\n", level <= LOG_ERR ? "error " : "",
		     line);
	/* one write, so that lines of several threads do not mix */
	(void)fwrite(buf, (size_t)n, 1, stderr);
}

void log_event(int level, const char *event, const struct log_ctx *ctx, const char *fmt,
	       ...)
{
	bool tapped = tap && tap->wants(level, event, ctx),
	     enabled = log_enabled(level) || (ctx && ctx->act);
	char text[TEXT_BYTES];
	va_list ap;

	if (!tapped && !enabled)
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	(void)utf8_sanitize(text, "");
	if (tapped)
		tap->sink(level, event, ctx, text);
	if (enabled)
		sink(level, event, ctx, text);
}
