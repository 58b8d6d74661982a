/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem fill, copy and crc: the server works on its memory, and no data is transferred. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rmem/command.h"
#include "rmem/lease_options.h"
#include "rmem/session.h"

/* ---- fill ---- */

static uint64_t pattern;

/* The pattern of 1, 2, 4 or 8 bytes is repeated to 8 bytes. */
static int fill_check(char **args)
{
	const char *text = args[1];
	size_t n = strlen(text) / 2;
	unsigned char raw[8];

	if (strlen(text) != 2 * n || (n != 1 && n != 2 && n != 4 && n != 8))
		return options_usage("'%s' is not a pattern of 1, 2, 4 or 8 bytes in "
				     "hexadecimal, as ff or 00c0ffee",
				     text);
	if (strspn(text, "0123456789abcdefABCDEF") != 2 * n)
		return options_usage("'%s' is not hexadecimal", text);
	for (size_t i = 0; i < sizeof(raw); i++) {
		const char *at = text + 2 * (i % n);
		const char byte[] = { at[0], at[1], '\0' };

		raw[i] = (unsigned char)strtoul(byte, NULL, 16);
	}
	memcpy(&pattern, raw, sizeof(raw));
	return 0;
}

static int fill_run(rmem *session, char **args)
{
	rmem_lease *lease;
	uint64_t bytes = 0;
	int err = session_result(
		rmem_attach(session, args[0], RMEM_READ | RMEM_WRITE, &lease));

	if (!err)
		err = range_resolve(lease, &bytes);
	if (err)
		return err;
	return session_result(rmem_fill(lease, range_offset, bytes, pattern));
}

const struct command fill_command = {
	.name = "fill",
	.synopsis = "fill [--offset N] [--length N] NAME PATTERN",
	.summary = "have the server fill what is stored with 1, 2, 4 or 8 bytes",
	.options = range_options,
	.args_min = 2,
	.args_max = 2,
	.args = "NAME and PATTERN",
	.names = 1,
	.check = fill_check,
	.run = fill_run,
};

/* ---- crc ---- */

static int crc_run(rmem *session, char **args)
{
	for (; *args; args++) {
		rmem_lease *lease;
		uint64_t bytes = 0;
		uint32_t crc;
		int err =
			session_result(rmem_attach(session, *args, RMEM_READ, &lease));

		if (!err)
			err = range_resolve(lease, &bytes);
		if (!err)
			err = session_result(
				rmem_crc32c(lease, range_offset, bytes, &crc));
		if (err)
			return err;
		(void)printf("%08" PRIx32 "  %s\n", crc, *args);
		/* cannot fail: no operation is outstanding */
		(void)rmem_detach(lease);
	}
	return 0;
}

const struct command crc_command = {
	.name = "crc",
	.synopsis = "crc [--offset N] [--length N] NAME...",
	.summary = "have the server compute the CRC-32C of what is stored",
	.options = range_options,
	.args_min = 1,
	.args_max = COMMAND_ARGS_ANY,
	.args = "at least one NAME",
	.names = COMMAND_ARGS_ANY,
	.run = crc_run,
};

/* ---- copy ---- */

/* The copy gets its name when it is complete, and then replaces a lease of that name. */
static int copy_run(rmem *session, char **args)
{
	rmem_lease *source, *lease;
	int err = naming_prepare(session, args[1]);

	if (!err)
		err = session_result(rmem_attach(session, args[0], RMEM_READ, &source));
	if (err)
		return err;
	new_lease.bytes = rmem_lease_bytes(source);
	err = session_result(rmem_alloc(session, &new_lease, &lease));
	if (err)
		return err;
	place_show(lease);
	err = session_result(rmem_copy(lease, 0, source, 0, new_lease.bytes));
	/* without a name it ends with the session */
	return err ? err : naming_give(lease, args[1]);
}

const struct command copy_command = {
	.name = "copy",
	.synopsis = "copy [--place PLACE] [--ttl T] [--if-absent] SOURCE NAME",
	.summary = "have the server copy what is stored to another name",
	.options = new_lease_options,
	.args_min = 2,
	.args_max = 2,
	.args = "SOURCE and NAME",
	.names = 2,
	.run = copy_run,
};
