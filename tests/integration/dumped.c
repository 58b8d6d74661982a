/* SPDX-License-Identifier: BSD-3-Clause */
/* dumped PID HEX: how often these bytes are in the memory of a process that a core dump would have:
 * all that can be read, but for mappings that are excluded by MADV_DONTDUMP.  Prints the number.
 * Exit status 77: this user may not read that memory; or it has terabytes, as ThreadSanitizer
 * maps. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET_MAX 64
#define CHUNK_BYTES ((size_t)1 << 20)

struct mapping {
	unsigned long begin, end;
	bool readable;
};

static uint8_t secret[SECRET_MAX];
static size_t secret_bytes;
/* With the last bytes of the chunk before. */
static uint8_t memory[SECRET_MAX + CHUNK_BYTES];

static void secret_parse(const char *hex)
{
	unsigned byte;

	while (secret_bytes < SECRET_MAX &&
	       sscanf(hex + 2 * secret_bytes, "%2x", &byte) == 1)
		secret[secret_bytes++] = (uint8_t)byte;
}

static unsigned found_in(size_t bytes)
{
	unsigned n = 0;
	const uint8_t *at = memory;

	while ((at = memmem(at, bytes - (size_t)(at - memory), secret, secret_bytes))) {
		n++;
		at++;
	}
	return n;
}

static unsigned mapping_search(int fd, const struct mapping *mapping)
{
	size_t kept = 0;
	unsigned n = 0;

	for (unsigned long at = mapping->begin; at < mapping->end;) {
		size_t wanted = mapping->end - at < CHUNK_BYTES ? mapping->end - at
								: CHUNK_BYTES;
		ssize_t got = pread(fd, memory + kept, wanted, (off_t)at);

		/* such as [vvar] */
		if (got <= 0)
			break;
		at += (unsigned long)got;
		n += found_in(kept + (size_t)got);
		kept += (size_t)got;
		if (kept >= secret_bytes) {
			memmove(memory, memory + kept - (secret_bytes - 1),
				secret_bytes - 1);
			kept = secret_bytes - 1;
		}
	}
	return n;
}

int main(int argc, char **argv)
{
	struct mapping mapping = { 0 };
	char path[64], line[512], rights[8];
	unsigned found = 0;
	FILE *maps;
	int fd;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: dumped PID HEX\n");
		return 2;
	}
#ifdef __SANITIZE_THREAD__
	(void)printf("not with ThreadSanitizer\n");
	return 77;
#endif
	secret_parse(argv[2]);
	(void)snprintf(path, sizeof(path), "/proc/%s/mem", argv[1]);
	fd = open(path, O_RDONLY);
	(void)snprintf(path, sizeof(path), "/proc/%s/smaps", argv[1]);
	maps = fopen(path, "r");
	if (fd < 0 || !maps) {
		(void)printf("%s: %s\n", path, strerror(errno));
		return 77;
	}
	while (fgets(line, sizeof(line), maps)) {
		struct mapping next;

		if (sscanf(line, "%lx-%lx %7s", &next.begin, &next.end, rights) == 3) {
			next.readable = rights[0] == 'r';
			mapping = next;
		} else if (!strncmp(line, "VmFlags:", 8) && mapping.readable &&
			   !strstr(line, " dd")) {
			found += mapping_search(fd, &mapping);
		}
	}
	(void)fclose(maps);
	(void)close(fd);
	(void)printf("%u\n", found);
	return 0;
}
