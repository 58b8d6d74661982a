/* SPDX-License-Identifier: BSD-3-Clause */
/* Borrow a page of another host's memory, write to it, read it back.
 *
 *   hello rmem://HOST[:PORT] */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

/* rmem_error() tells which call failed and why.  The server frees what the process leaves. */
static _Noreturn void fail(void)
{
	errx(EXIT_FAILURE, "%s", rmem_error());
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	static const char text[] = "hello, far memory";
	char back[sizeof(text)] = "";
	rmem_lease *lease;
	rmem *session;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: hello URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &session))
		fail();
	/* without a name the lease ends with the session */
	params.bytes = 4096;
	if (rmem_alloc(session, &params, &lease) ||
	    rmem_write(lease, 100, text, sizeof(text)) ||
	    rmem_read(lease, 100, back, sizeof(back)))
		fail();
	if (memcmp(text, back, sizeof(text)) != 0)
		errx(EXIT_FAILURE, "read '%s'", back);
	if (rmem_destroy(lease))
		fail();
	rmem_close(session);
	(void)printf("hello: OK\n");
	return EXIT_SUCCESS;
}
