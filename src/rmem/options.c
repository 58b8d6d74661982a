/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

#define TEXT_BYTES 256
#define TIMEOUT_MAX_MS (UINT64_C(24) * 3600 * 1000)

struct options options = { .server = OPTIONS_SERVER };

static int fabric_parse(const char *text, void *value)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "rdma") != 0 &&
	    strcmp(text, "tcp") != 0)
		return err_set(-EINVAL, "--fabric: '%s' is not auto, rdma or tcp",
			       text);
	*(const char **)value = text;
	return 0;
}

const struct option_row options_table[] = {
	{ "server", 's', OPTION_TEXT, &options.server, .argument = "URI",
	  .help = "the server, rmem://HOST[:PORT] or HOST[:PORT]" OPTION_INDENT
		  "(default $RMEM_SERVER, else " OPTIONS_SERVER ")" },
	{ "fabric", 0, OPTION_OTHER, &options.fabric, .parse = fabric_parse,
	  .argument = "FABRIC", .help = "auto, rdma or tcp, instead of the URI's" },
	{ "channels", 0, OPTION_NUMBER, &options.channels, 1, RMEM_CHANNELS_MAX,
	  .argument = "N", .help = "data connections, instead of the URI's" },
	{ "timeout", 0, OPTION_MS, &options.timeout_ms, 1, TIMEOUT_MAX_MS,
	  .argument = "T",
	  .help = "give up after this time without progress (default 10s)" },
	{ "verbose", 'v', OPTION_FLAG, &options.verbose,
	  .help = "print on stderr which fabric is used, and why" },
	{ "quiet", 'q', OPTION_FLAG, &options.quiet,
	  .help = "no progress, only results and errors" },
	{ "help", 'h', OPTION_LAST, &options.help,
	  .help = "this text, or that of the command before it" },
	{ "version", 'V', OPTION_LAST, &options.version, .help = "the version" },
	{ 0 },
};

int options_usage(const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	options.bad_usage = true;
	return err_set(-EINVAL, "%s", text);
}

/* The URI under construction; what does not fit is counted. */
struct uri_text {
	char *at;
	size_t bytes, used;
};

static void __attribute__((format(printf, 2, 3))) uri_append(struct uri_text *uri,
							     const char *fmt, ...)
{
	bool fits = uri->used < uri->bytes;
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(fits ? uri->at + uri->used : NULL,
		      fits ? uri->bytes - uri->used : 0, fmt, ap);
	va_end(ap);
	uri->used += n < 0 ? uri->bytes : (size_t)n;
}

/* Whether an option of the command line replaces this "KEY=VALUE".  A wrong value stays, for the
 * library's error. */
static bool is_replaced(const char *item, size_t len)
{
	char text[32];
	const char *value;
	unsigned channels;

	if (len >= sizeof(text))
		return false;
	memcpy(text, item, len);
	text[len] = '\0';
	value = strchr(text, '=');
	if (options.fabric && strncmp(text, "fabric=", 7) == 0)
		return fabric_parse(value + 1, &value) == 0;
	return options.channels && strncmp(text, "channels=", 9) == 0 &&
	       option_number("channels", value + 1, 1, RMEM_CHANNELS_MAX, &channels) ==
		       0;
}

/* What follows the key in the URI, up to '&' or the end; NULL: it is not there. */
static const char *uri_value(const char *key)
{
	const char *item = options.server + strcspn(options.server, "?");
	size_t len = strlen(key);

	while (*item) {
		item++;
		if (strncmp(item, key, len) == 0 && item[len] == '=')
			return item + len + 1;
		item += strcspn(item, "&");
	}
	return NULL;
}

const char *options_fabric(void)
{
	const char *value = uri_value("fabric");

	if (options.fabric)
		return options.fabric;
	if (value && strncmp(value, "rdma", 4) == 0)
		return "rdma";
	return value && strncmp(value, "tcp", 3) == 0 ? "tcp" : "auto";
}

bool options_tls(void)
{
	return uri_value("psk") || uri_value("ca") || getenv("RMEM_PSK") ||
	       getenv("RMEM_CA");
}

int options_uri(char *buf, size_t buf_bytes)
{
	struct uri_text uri = { buf, buf_bytes, 0 };
	const char *item = options.server + strcspn(options.server, "?");
	char mark = '?';

	uri_append(&uri, "%.*s", (int)(item - options.server), options.server);
	while (*item) {
		size_t len = strcspn(++item, "&");

		if (!is_replaced(item, len)) {
			uri_append(&uri, "%c%.*s", mark, (int)len, item);
			mark = '&';
		}
		item += len;
	}
	if (options.fabric) {
		uri_append(&uri, "%cfabric=%s", mark, options.fabric);
		mark = '&';
	}
	if (options.channels)
		uri_append(&uri, "%cchannels=%u", mark, options.channels);
	return uri.used < buf_bytes ? 0 : options_usage("the server's URI is too long");
}
