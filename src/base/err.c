/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static _Thread_local char text[ERR_TEXT_BYTES];

/* Truncates at the end of the buffer, which snprintf() would warn of. */
static void text_append(char *dst, const char *src)
{
	size_t len = strlen(dst), more = strnlen(src, ERR_TEXT_BYTES - 1 - len);

	memcpy(dst + len, src, more);
	dst[len + more] = '\0';
}

/* Set the text, with ": end" appended; NULL: nothing is.  The arguments may point into `text`, so a
 * copy is written first. */
static void __attribute__((format(printf, 2, 0))) text_set(const char *end,
							   const char *fmt, va_list ap)
{
	char line[ERR_TEXT_BYTES];

	(void)vsnprintf(line, sizeof(line), fmt, ap);
	if (end) {
		text_append(line, ": ");
		text_append(line, end);
	}
	memcpy(text, utf8_sanitize(line, ""), sizeof(text));
}

int err_set(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_set(NULL, fmt, ap);
	va_end(ap);
	return err;
}

static const char *description(int err)
{
	const char *desc = strerrordesc_np(-err);

	/* the usual text names no limit */
	if (err == -EFBIG)
		return "the file would be larger than its file system, or the limit of "
		       "this process (ulimit -f, LimitFSIZE=), allows";
	return desc ? desc : "unknown error";
}

int err_errno(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_set(description(err), fmt, ap);
	va_end(ap);
	return err;
}

bool err_is_lack(int err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS || err == -ENOMEM;
}

int err_prefix(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	text_set(text, fmt, ap);
	va_end(ap);
	return err;
}

const char *err_text(void)
{
	return text;
}

void err_clear(void)
{
	text[0] = '\0';
}

void err_save(struct err_saved *saved, int err)
{
	saved->err = err;
	memcpy(saved->text, text, sizeof(text));
}

int err_restore(const struct err_saved *saved)
{
	return err_set(saved->err, "%s", saved->text);
}

void err_join(struct err_saved *failed, int err)
{
	if (failed->err)
		err = err_set(failed->err, "%s; %s", failed->text, err_text());
	err_save(failed, err);
}

void err_keep(struct err_kept *kept, int err)
{
	kept->err = err;
	if (err)
		kept->text = strdup(text);
}

int err_kept_restore(const struct err_kept *kept)
{
	if (!kept->text && kept->err)
		return err_errno(kept->err, "no memory for the cause");
	return err_set(kept->err, "%s", kept->text ? kept->text : "");
}

void err_kept_free(struct err_kept *kept)
{
	free(kept->text);
	kept->text = NULL;
}
