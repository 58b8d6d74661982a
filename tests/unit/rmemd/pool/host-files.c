/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/pool/host-files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "rmemd/pool/host.h"
#include "unit/unit.h"

static char root[sizeof("/tmp/rmem-test-XXXXXX")];

void host_file(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + sizeof(root), '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		ck_assert(mkdir(full, 0700) == 0 || errno == EEXIST);
		*slash = '/';
	}
	file = fopen(full, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

void host_files_setup(void)
{
	memcpy(root, "/tmp/rmem-test-XXXXXX", sizeof(root));
	ck_assert_ptr_nonnull(mkdtemp(root));
	host_set_root(root);
}

void host_files_teardown(void)
{
	char command[64];

	host_set_root(NULL);
	(void)snprintf(command, sizeof(command), "rm -rf %s", root);
	ck_assert_int_eq(system(command), 0);
}
