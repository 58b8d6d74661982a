/* SPDX-License-Identifier: BSD-3-Clause */
/* idle URI N: opens N sessions, prints "idle", and closes them when it reads a line. */
#include <stdio.h>
#include <stdlib.h>

#include <rmem/rmem.h>

int main(int argc, char **argv)
{
	unsigned long n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	rmem **sessions = calloc(n + 1, sizeof(rmem *));
	char line[16];

	if (n == 0 || !sessions) {
		(void)fprintf(stderr, "usage: idle URI N\n");
		return 2;
	}
	for (unsigned long i = 0; i < n; i++) {
		if (rmem_open(argv[1], NULL, &sessions[i]) == 0)
			continue;
		(void)fprintf(stderr, "idle: %s\n", rmem_error());
		return 1;
	}
	(void)printf("idle\n");
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (unsigned long i = 0; i < n; i++)
		rmem_close(sessions[i]);
	free(sessions);
	return 0;
}
