/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of the configuration: it accepts any input or refuses it with an error text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "driver.h"
#include "rmemd/config/config.h"

static const char *const seeds[] = {
	"[server]\nlisten = 127.0.0.1 ::1\nport = 7460\n",
	"[session]\nheartbeat = 500ms\nfence = 2s\ngrace = 1min\n",
	"[pool a]\nnode = 0\nsize = 1G\npage_size = auto\n[pool b]\nsize = 4K\n",
	"[limits]\nsessions = 5\nchannels = 9\n; comment\n[log]\nlevel = debug\n",
	"[tenant a]\nlease_max = 1T\nttl_max = 1h\n",
};

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	const char *seed = seeds[which % (sizeof(seeds) / sizeof(seeds[0]))];
	size_t bytes = strlen(seed);

	if (bytes > max)
		return 0;
	memcpy(input, seed, bytes);
	return bytes;
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
