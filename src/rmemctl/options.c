/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/options.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "base/err.h"

struct options options = { .socket = OPTIONS_SOCKET };

static int output_parse(const char *text, void *)
{
	options.wide = strcmp(text, "wide") == 0;
	options.json = strcmp(text, "json") == 0;
	options.names = strcmp(text, "name") == 0;
	if (options.wide || options.json || options.names)
		return 0;
	return err_set(-EINVAL, "--output: '%s' is not wide, json or name", text);
}

const struct option_row options_table[] = {
	{ "socket", 's', OPTION_TEXT, &options.socket, .argument = "PATH",
	  .help = "the admin socket, by default" OPTION_INDENT OPTIONS_SOCKET },
	{ "output", 'o', OPTION_OTHER, NULL, .parse = output_parse,
	  .argument = "FORMAT",
	  .help = "wide: tables with all columns, and whole texts;" OPTION_INDENT
		  "json: as --json; name: of lists, what names each item" },
	{ "json", 0, OPTION_FLAG, &options.json,
	  .help = "print the answer of the daemon unchanged" },
	{ "help", 'h', OPTION_LAST, &options.help,
	  .help = "this text, or that of the command before it" },
	{ "version", 'V', OPTION_LAST, &options.version, .help = "the version" },
	{ 0 },
};

int options_check(void)
{
	const size_t max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;

	if (*options.socket && strlen(options.socket) <= max)
		return 0;
	return err_set(-EINVAL, "--socket: the path is %s, the limit is %zu bytes",
		       *options.socket ? "too long" : "empty", max);
}
