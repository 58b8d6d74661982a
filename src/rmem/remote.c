/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem fill, copy and crc: the server works on its memory, and no data is transferred. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/options.h"
#include "rmem/place.h"
#include "rmem/session.h"

/* A part of a lease. */
struct range {
	uint64_t offset;
	uint64_t bytes; /* UINT64_MAX: to the end */
};

enum { OPTION_OFFSET = OPTIONS_OWN, OPTION_LENGTH };

static int bytes_option(struct options *options, const char *name, const char *text,
			uint64_t *ret_bytes)
{
	if (units_parse_bytes(text, ret_bytes))
		return options_usage(options, "%s: %s", name, err_text());
	return 0;
}

static int range_parse(struct options *options, int argc, char **argv,
		       struct range *range)
{
	static const struct option table[] = {
		{ "offset", required_argument, NULL, OPTION_OFFSET },
		{ "length", required_argument, NULL, OPTION_LENGTH },
		OPTIONS_LONG,
	};
	int opt, err;

	*range = (struct range){ .bytes = UINT64_MAX };
	while ((opt = getopt_long(argc, argv, ":" OPTIONS_SHORT, table, NULL)) != -1) {
		if (opt == OPTION_OFFSET)
			err = bytes_option(options, "--offset", optarg, &range->offset);
		else if (opt == OPTION_LENGTH)
			err = bytes_option(options, "--length", optarg, &range->bytes);
		else
			err = options_handle(options, opt, argv);
		if (err)
			return err;
	}
	return 0;
}

/* Bytes of the range in the lease; the library refuses a range beyond its end. */
static uint64_t range_bytes(const struct range *range, const rmem_lease *lease)
{
	uint64_t bytes = rmem_lease_bytes(lease);

	if (range->bytes != UINT64_MAX)
		return range->bytes;
	return range->offset < bytes ? bytes - range->offset : 0;
}

/* ---- fill ---- */

static int digit_of(char c)
{
	const char *digits = "0123456789abcdef", *at;

	at = c ? strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Repeat the pattern of 1, 2, 4 or 8 bytes to 8 bytes. */
static int pattern_parse(struct options *options, const char *text,
			 uint64_t *ret_pattern)
{
	size_t n = strlen(text) / 2;
	unsigned char raw[8];

	if (strlen(text) != 2 * n || (n != 1 && n != 2 && n != 4 && n != 8))
		return options_usage(options,
				     "'%s' is not a pattern of 1, 2, 4 or 8 bytes in "
				     "hexadecimal, as ff or 00c0ffee",
				     text);
	for (size_t i = 0; i < n; i++) {
		int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return options_usage(options, "'%s' is not hexadecimal", text);
		raw[i] = (unsigned char)(16 * high + low);
	}
	for (size_t i = n; i < sizeof(raw); i++)
		raw[i] = raw[i - n];
	memcpy(ret_pattern, raw, sizeof(raw));
	return 0;
}

static int name_fill(rmem *session, const char *name, const struct range *range,
		     uint64_t pattern)
{
	rmem_lease *lease;
	int err = rmem_attach(session, name, RMEM_READ | RMEM_WRITE, &lease);

	if (!err)
		err = rmem_fill(lease, range->offset, range_bytes(range, lease),
				pattern);
	return err ? session_failed(err) : 0;
}

static int fill_run(struct options *options, int argc, char **argv)
{
	struct range range;
	uint64_t pattern = 0;
	rmem *session;
	int err = range_parse(options, argc, argv, &range);

	if (err)
		return err;
	if (argc - optind != 2)
		return options_usage(options, "it takes NAME and PATTERN");
	err = pattern_parse(options, argv[optind + 1], &pattern);
	if (err)
		return err;
	err = session_open(options, &session);
	if (err)
		return err;
	err = name_fill(session, argv[optind], &range, pattern);
	rmem_close(session);
	return err;
}

#define RANGE_DETAILS                                    \
	"  --offset BYTES      first byte (default 0)\n" \
	"  --length BYTES      number of bytes (default: to the end)\n"

const struct command fill_command = {
	.name = "fill",
	.synopsis = "fill [--offset N] [--length N] NAME PATTERN",
	.summary = "have the server fill what is stored with 1, 2, 4 or 8 bytes",
	.details = RANGE_DETAILS,
	.run = fill_run,
};

/* ---- crc ---- */

static int name_crc(rmem *session, const char *name, const struct range *range)
{
	rmem_lease *lease;
	uint32_t crc;
	int err = rmem_attach(session, name, RMEM_READ, &lease);

	if (!err)
		err = rmem_crc32c(lease, range->offset, range_bytes(range, lease),
				  &crc);
	if (err)
		return session_failed(err);
	(void)printf("%08" PRIx32 "  %s\n", crc, name);
	/* cannot fail: no operation is outstanding */
	(void)rmem_detach(lease);
	return 0;
}

static int crc_run(struct options *options, int argc, char **argv)
{
	struct range range;
	rmem *session;
	int err = range_parse(options, argc, argv, &range);

	if (err)
		return err;
	if (argc == optind)
		return options_usage(options, "it takes at least one NAME");
	err = session_open(options, &session);
	if (err)
		return err;
	for (int i = optind; i < argc && !err; i++)
		err = name_crc(session, argv[i], &range);
	rmem_close(session);
	return err;
}

const struct command crc_command = {
	.name = "crc",
	.synopsis = "crc [--offset N] [--length N] NAME...",
	.summary = "have the server compute the CRC-32C of what is stored",
	.details = RANGE_DETAILS,
	.run = crc_run,
};

/* ---- copy ---- */

/* The copy gets its name when it is complete, and then replaces a lease of that name. */
static int lease_copy(const struct options *options, rmem *session, rmem_lease *source,
		      const char *name, struct rmem_alloc_params *params)
{
	rmem_lease *lease;
	int err;

	params->bytes = rmem_lease_bytes(source);
	err = rmem_alloc(session, params, &lease);
	if (err)
		return session_failed(err);
	place_show(options, lease);
	err = rmem_copy(lease, 0, source, 0, params->bytes);
	if (!err)
		err = rmem_rename(lease, name, RMEM_REPLACE);
	/* without a name it ends with the session */
	return err ? session_failed(err) : 0;
}

static int copy_run(struct options *options, int argc, char **argv)
{
	struct rmem_alloc_params params = RMEM_ALLOC_INIT;
	rmem_lease *source;
	rmem *session;
	int err = place_options(options, argc, argv, &params);

	if (err)
		return err;
	if (argc - optind != 2)
		return options_usage(options, "it takes SOURCE and NAME");
	err = session_name_check(argv[optind + 1]);
	if (err)
		return err;
	err = session_open(options, &session);
	if (err)
		return err;
	err = rmem_attach(session, argv[optind], RMEM_READ, &source);
	if (err)
		err = session_failed(err);
	else
		err = lease_copy(options, session, source, argv[optind + 1], &params);
	rmem_close(session);
	return err;
}

const struct command copy_command = {
	.name = "copy",
	.synopsis = "copy [--place PLACE] SOURCE NAME",
	.summary = "have the server copy what is stored to another name",
	.details = PLACE_DETAILS,
	.run = copy_run,
};
