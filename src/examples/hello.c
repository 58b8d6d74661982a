/* SPDX-License-Identifier: BSD-3-Clause */
/* Borrow a page of another host's memory, write to it, read it back.
 *
 *   hello rmem://HOST[:PORT] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/rmem.h>

/* rmem_error() tells which call failed and why. */
static int fail(void)
{
	(void)fprintf(stderr, "hello: %s\n", rmem_error());
	return -1;
}

static int greet(rmem *session)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	static const char text[] = "hello, far memory";
	char back[sizeof(text)] = "";
	rmem_lease *lease;

	/* without a name the lease ends with the session */
	params.bytes = 4096;
	if (rmem_alloc(session, &params, &lease))
		return fail();
	if (rmem_write(lease, 100, text, sizeof(text)))
		return fail();
	if (rmem_read(lease, 100, back, sizeof(back)))
		return fail();
	if (memcmp(text, back, sizeof(text)) != 0) {
		(void)fprintf(stderr, "hello: read '%s'\n", back);
		return -1;
	}
	if (rmem_destroy(lease))
		return fail();
	return 0;
}

int main(int argc, char **argv)
{
	rmem *session;
	int err;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: hello URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &session)) {
		(void)fail();
		return EXIT_FAILURE;
	}
	err = greet(session);
	rmem_close(session);
	if (err)
		return EXIT_FAILURE;
	(void)printf("hello: OK\n");
	return EXIT_SUCCESS;
}
