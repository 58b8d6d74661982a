/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of the configuration: it accepts any input or refuses it with an error text. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "fuzz/target.h"
#include "rmemd/config/config.h"

const unsigned fuzz_rounds = 20000;

/* They are in corpus/config_seed_corpus.zip. */
size_t fuzz_seed(uint8_t *, size_t, unsigned)
{
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct config config;
	static int fd = -1;
	char path[32];

	if (fd < 0)
		fd = memfd_create("fuzz-config", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, bytes, 0) != (ssize_t)bytes)
		abort();
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err_clear();
	if (config_load(path, &config) < 0 && err_text()[0] == '\0')
		abort();
	return 0;
}
