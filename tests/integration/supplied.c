/* SPDX-License-Identifier: BSD-3-Clause */
/* A program that supplies its tenant's pre-shared key by a function:
 *
 *   supplied URI KEY
 *
 * KEY: in hex, "none", or "long" for more bytes than there is room for.  The exit status is 1 if
 * the session cannot be opened and used. */
#include <string.h>

#include "program.h"

static const char *tenant_asked;

static int supply(void *ctx, const char *tenant, unsigned char *key, size_t bytes,
		  size_t *ret_bytes)
{
	const char *hex = ctx;
	size_t n = strlen(hex) / 2;

	tenant_asked = tenant ? "asked" : NULL;
	if (strcmp(hex, "none") == 0)
		return 1;
	*ret_bytes = strcmp(hex, "long") == 0 ? bytes + 1 : n;
	for (size_t i = 0; i < n && i < bytes; i++)
		if (sscanf(hex + 2 * i, "%2hhx", &key[i]) != 1)
			key[i] = 0;
	return 0;
}

int main(int argc, char **argv)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_info info = rmem_info_init();
	rmem *session = NULL;

	if (argc != 3)
		fail("usage: supplied URI KEY", argc);
	options.psk = supply;
	options.psk_ctx = argv[2];
	must(rmem_open(argv[1], &options, &session), "rmem_open");
	if (!tenant_asked)
		fail("the function was not called", 0);
	must(rmem_info(session, &info), "rmem_info");
	if (info.auth != RMEM_AUTH_PSK)
		fail("info.auth", info.auth);
	rmem_close(session);
	return 0;
}
