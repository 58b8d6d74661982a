/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT_BYTES 1024

static log_sink *sink = log_stderr;
static atomic_int max_level = LOG_INFO;

void log_set_sink(log_sink *new_sink)
{
	sink = new_sink ? new_sink : log_stderr;
}

void log_set_level(int level)
{
	atomic_store_explicit(&max_level, level, memory_order_relaxed);
}

bool log_enabled(int level)
{
	return level <= atomic_load_explicit(&max_level, memory_order_relaxed);
}

static void field_string(FILE *out, const char **mark, const char *name,
			 const char *value)
{
	if (!value)
		return;
	(void)fprintf(out, "%s%s=%s", *mark, name, value);
	*mark = " ";
}

static void field_id(FILE *out, const char **mark, const char *name, uint64_t id)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, id);
	field_string(out, mark, name, id ? text : NULL);
}

/* In brackets: the text may end in a command that people copy. */
static void fields_write(FILE *out, const struct log_ctx *ctx)
{
	static const char first[] = " [";
	const char *mark = first;

	field_id(out, &mark, "session", ctx->session);
	field_id(out, &mark, "lease", ctx->lease);
	field_string(out, &mark, "pool", ctx->pool);
	field_string(out, &mark, "device", ctx->device);
	field_string(out, &mark, "peer", ctx->peer);
	field_string(out, &mark, "tenant", ctx->tenant);
	if (mark != first)
		(void)fputc(']', out);
}

void log_format(char buf[LOG_LINE_BYTES], const char *event, const struct log_ctx *ctx,
		const char *text)
{
	FILE *out = fmemopen(buf, LOG_LINE_BYTES, "w");

	if (!out) {
		(void)snprintf(buf, LOG_LINE_BYTES, "%s: %s", event, text);
		return;
	}
	(void)fprintf(out, "%s: %s", event, text);
	if (ctx)
		fields_write(out, ctx);
	(void)fclose(out);
	buf[LOG_LINE_BYTES - 1] = '\0';
}

void log_stderr(int level, const char *event, const struct log_ctx *ctx,
		const char *text)
{
	char line[LOG_LINE_BYTES];

	log_format(line, event, ctx, text);
	/* one write, so that lines of several threads do not mix */
	(void)fprintf(stderr, "%s%s\n", level <= LOG_ERR ? "error " : "", line);
}

void log_event(int level, const char *event, const struct log_ctx *ctx, const char *fmt,
	       ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	sink(level, event, ctx, text);
}
