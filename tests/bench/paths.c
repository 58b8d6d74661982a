/* SPDX-License-Identifier: BSD-3-Clause */
/* paths URI: opens a session, allocates a lease for each line that it reads, and prints
 * "allocated" or the error.  No thread sends heartbeats, which the count would include. */
#include <stdio.h>

#include <rmem/rmem.h>

int main(int argc, char **argv)
{
	struct rmem_options options = rmem_options_init();
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem *session = NULL;
	rmem_lease *lease;
	char line[16];
	int err;

	options.flags = RMEM_NO_THREAD;
	/* the daemon runs under valgrind */
	options.timeout_ms = 60000;
	params.bytes = 65536;
	err = argc == 2 ? rmem_open(argv[1], &options, &session) : -1;
	while (!err && fgets(line, sizeof(line), stdin)) {
		err = rmem_alloc(session, &params, &lease);
		(void)printf("%s\n", err ? rmem_error() : "allocated");
		(void)fflush(stdout);
	}
	rmem_close(session);
	return err ? 1 : 0;
}
