/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

#define SCHEME "rmem://"
#define TEXT_BYTES 256

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
	{ "verbose", 'v', OPTION_FLAG, &options.verbose,
	  .help = "print on stderr which fabric is used, and why" },
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

int options_uri(char *buf, size_t buf_bytes)
{
	const char *scheme = strstr(options.server, "://") ? "" : SCHEME;
	const char *first = strchr(options.server, '?') ? "&" : "?";
	char fabric[32] = "", channels[32] = "";
	int n;

	/* the last item of a key counts, and the library still checks the others */
	if (options.fabric) {
		(void)snprintf(fabric, sizeof(fabric), "%sfabric=%s", first,
			       options.fabric);
		first = "&";
	}
	if (options.channels)
		(void)snprintf(channels, sizeof(channels), "%schannels=%u", first,
			       options.channels);
	n = snprintf(buf, buf_bytes, "%s%s%s%s", scheme, options.server, fabric,
		     channels);
	if (n < 0 || (size_t)n >= buf_bytes)
		return options_usage("the server's URI is too long");
	return 0;
}
