/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sessions share memory by name: one allocates it and writes, the other one attaches it read
 * only.  The sessions could belong to two programs on two hosts.
 *
 *   named rmem://HOST[:PORT] */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rmem/rmem.h>

static const char text[] = "written by one, read by the other";

static int fail(void)
{
	(void)fprintf(stderr, "named: %s\n", rmem_error());
	return -1;
}

static int lease_write(rmem *session, const char *name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	params.bytes = sizeof(text);
	params.name = name;
	/* a named lease outlives its session; unless removed, it ends after a minute */
	params.ttl_ms = 60000;
	if (rmem_alloc(session, &params, &lease))
		return fail();
	if (rmem_write(lease, 0, text, sizeof(text)))
		return fail();
	/* the lease stays, under its name */
	if (rmem_detach(lease))
		return fail();
	return 0;
}

static int lease_read(rmem *session, const char *name)
{
	char back[sizeof(text)] = "";
	rmem_lease *lease;

	if (rmem_attach(session, name, RMEM_READ, &lease))
		return fail();
	if (rmem_lease_bytes(lease) != sizeof(text)) {
		(void)fprintf(stderr, "named: the length is not what was asked for\n");
		return -1;
	}
	if (rmem_read(lease, 0, back, sizeof(back)))
		return fail();
	if (memcmp(text, back, sizeof(text)) != 0) {
		(void)fprintf(stderr, "named: read '%s'\n", back);
		return -1;
	}
	/* attached read only: a write is refused */
	if (rmem_write(lease, 0, text, sizeof(text)) != -EACCES) {
		(void)fprintf(stderr, "named: a write through a read-only lease\n");
		return -1;
	}
	if (rmem_detach(lease))
		return fail();
	return 0;
}

static int memory_share(rmem *writer, rmem *reader)
{
	char name[RMEM_NAME_MAX + 1];
	int err;

	(void)snprintf(name, sizeof(name), "example/named.%ld", (long)getpid());
	if (lease_write(writer, name))
		return -1;
	err = lease_read(reader, name);
	if (rmem_remove(writer, name))
		return fail();
	return err;
}

int main(int argc, char **argv)
{
	rmem *writer, *reader;
	int err;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: named URI\n");
		return 2;
	}
	if (rmem_open(argv[1], NULL, &writer)) {
		(void)fail();
		return EXIT_FAILURE;
	}
	if (rmem_open(argv[1], NULL, &reader)) {
		(void)fail();
		rmem_close(writer);
		return EXIT_FAILURE;
	}
	err = memory_share(writer, reader);
	rmem_close(reader);
	rmem_close(writer);
	if (err)
		return EXIT_FAILURE;
	(void)printf("named: OK\n");
	return EXIT_SUCCESS;
}
