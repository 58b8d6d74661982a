/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/options.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/option.h"
#include "base/units.h"

#define SCHEME "rmem://"
#define TEXT_BYTES 256

int options_usage(struct options *options, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	options->bad_usage = true;
	return err_set(-EINVAL, "%s", text);
}

int options_number(struct options *options, const char *name, const char *text,
		   unsigned min, unsigned max, unsigned *ret_value)
{
	uint64_t value;

	if (units_parse_u64(text, min, max, &value))
		return options_usage(options, "%s: %s", name, err_text());
	*ret_value = (unsigned)value;
	return 0;
}

static int fabric_option(struct options *options, const char *text)
{
	if (strcmp(text, "auto") != 0 && strcmp(text, "rdma") != 0 &&
	    strcmp(text, "tcp") != 0)
		return options_usage(options, "--fabric: '%s' is not auto, rdma or tcp",
				     text);
	options->fabric = text;
	return 0;
}

int options_handle(struct options *options, int opt, char **argv)
{
	switch (opt) {
	case 's':
		options->server = optarg;
		return 0;
	case OPTIONS_FABRIC:
		return fabric_option(options, optarg);
	case OPTIONS_CHANNELS:
		return options_number(options, "--channels", optarg, 1,
				      RMEM_CHANNELS_MAX, &options->channels);
	case 'v':
		options->verbose = true;
		return 0;
	case 'h':
		options->help = true;
		return OPTIONS_STOP;
	case 'V':
		options->version = true;
		return OPTIONS_STOP;
	default:
		options->bad_usage = true;
		return option_error(opt, ":" OPTIONS_SHORT, argv);
	}
}

int options_parse(struct options *options, int argc, char **argv)
{
	static const struct option table[] = { OPTIONS_LONG };
	int opt, err;

	while ((opt = getopt_long(argc, argv, ":" OPTIONS_SHORT, table, NULL)) != -1) {
		err = options_handle(options, opt, argv);
		if (err)
			return err;
	}
	return 0;
}

/* Append to a terminated text; false: it does not fit. */
static bool text_add(char *buf, size_t buf_bytes, const char *text, size_t text_bytes)
{
	size_t used = strlen(buf);

	if (text_bytes >= buf_bytes - used)
		return false;
	memcpy(buf + used, text, text_bytes);
	buf[used + text_bytes] = '\0';
	return true;
}

/* The last item of a key counts, and the library still checks the others. */
static bool query_add(const char *item, char *buf, size_t buf_bytes)
{
	return text_add(buf, buf_bytes, strchr(buf, '?') ? "&" : "?", 1) &&
	       text_add(buf, buf_bytes, item, strlen(item));
}

int options_uri(struct options *options, char *buf, size_t buf_bytes)
{
	const char *server = options->server;
	char item[32];
	bool fits = buf_bytes > 0;

	if (fits)
		buf[0] = '\0';
	if (fits && !strstr(server, "://"))
		fits = text_add(buf, buf_bytes, SCHEME, strlen(SCHEME));
	fits = fits && text_add(buf, buf_bytes, server, strlen(server));
	if (fits && options->fabric) {
		(void)snprintf(item, sizeof(item), "fabric=%s", options->fabric);
		fits = query_add(item, buf, buf_bytes);
	}
	if (fits && options->channels) {
		(void)snprintf(item, sizeof(item), "channels=%u", options->channels);
		fits = query_add(item, buf, buf_bytes);
	}
	if (!fits)
		return options_usage(options, "the server's URI is too long");
	return 0;
}
