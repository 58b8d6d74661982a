/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sessions share memory by name: one allocates it and writes, the other one attaches it read
 * only.  The sessions could belong to two programs on two hosts.
 *
 *   named rmem://HOST[:PORT] */
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmem/rmem.h>

static const char text[] = "written by one, read by the other";

/* rmem_error() tells which call failed and why.  The server frees what the process leaves. */
static _Noreturn void fail(void)
{
	errx(EXIT_FAILURE, "%s", rmem_error());
}

static void lease_write(rmem *session, const char *name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	params.bytes = sizeof(text);
	params.name = name;
	/* a named lease outlives its session; unless removed, it ends after a minute */
	params.ttl_ms = 60000;
	/* detached, the lease stays, under its name */
	if (rmem_alloc(session, &params, &lease) ||
	    rmem_write(lease, 0, text, sizeof(text)) || rmem_detach(lease))
		fail();
}

static void lease_read(rmem *session, const char *name)
{
	char back[sizeof(text)] = "";
	rmem_lease *lease;

	if (rmem_attach(session, name, RMEM_READ, &lease))
		fail();
	if (rmem_lease_bytes(lease) != sizeof(text))
		errx(EXIT_FAILURE, "the length is not what was asked for");
	if (rmem_read(lease, 0, back, sizeof(back)))
		fail();
	if (memcmp(text, back, sizeof(text)) != 0)
		errx(EXIT_FAILURE, "read '%s'", back);
	/* attached read only: a write is refused */
	if (rmem_write(lease, 0, text, sizeof(text)) != -EACCES)
		errx(EXIT_FAILURE, "a write through a read-only lease");
	if (rmem_detach(lease))
		fail();
}

int main(int argc, char **argv)
{
	char name[RMEM_NAME_MAX + 1];
	rmem *writer, *reader;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: named URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &writer) || rmem_open(argv[1], NULL, &reader))
		fail();
	(void)snprintf(name, sizeof(name), "example/named.%ld", (long)getpid());
	lease_write(writer, name);
	lease_read(reader, name);
	if (rmem_remove(writer, name))
		fail();
	rmem_close(reader);
	rmem_close(writer);
	(void)printf("named: OK\n");
	return EXIT_SUCCESS;
}
