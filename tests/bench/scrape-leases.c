/* SPDX-License-Identifier: BSD-3-Clause */
/* scrape-leases URI N: one session with N leases of 4 KiB; prints "ready", and ends when it reads a
 * line. */
#include "integration/program.h"

int main(int argc, char **argv)
{
	unsigned long n = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;
	char line[16];
	rmem *session;

	if (n == 0) {
		(void)fprintf(stderr, "usage: scrape-leases URI N\n");
		return 2;
	}
	must(rmem_open(argv[1], NULL, &session), "rmem_open");
	params.bytes = 4096;
	for (unsigned long i = 0; i < n; i++)
		must(rmem_alloc(session, &params, &lease), "rmem_alloc");
	(void)printf("ready\n");
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	rmem_close(session);
	return 0;
}
