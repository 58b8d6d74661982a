/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/host.h"

#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/node_cpus.h"
#include "base/units.h"

#define PATH_BYTES 256
#define THP "/sys/kernel/mm/transparent_hugepage/"
#define SHMEM_ENABLED THP "shmem_enabled"

static const char *root = "";

void host_set_root(const char *new_root)
{
	root = new_root ? new_root : "";
}

FILE *host_open(const char *path)
{
	char full[2 * PATH_BYTES];

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	return fopen(full, "re");
}

static int line_read(const char *path, char *buf, size_t bytes)
{
	FILE *file = host_open(path);
	char *got;

	if (!file)
		return -errno;
	got = fgets(buf, (int)bytes, file);
	(void)fclose(file);
	if (!got)
		return -EIO;
	buf[strcspn(buf, "\n")] = '\0';
	return 0;
}

int host_number(const char *path, uint64_t *ret_value)
{
	char line[64];
	int err = line_read(path, line, sizeof(line));

	return err ? err : units_parse_u64(line, 0, UINT64_MAX, ret_value);
}

bool host_has_nodes(void)
{
	return numa_available() >= 0;
}

bool host_node_exists(int node)
{
	if (!host_has_nodes())
		return node == 0;
	return node >= 0 && node <= numa_max_node() &&
	       numa_bitmask_isbitset(numa_all_nodes_ptr, (unsigned)node);
}

const char *host_nodes(char *buf, size_t buf_bytes)
{
	if (line_read("/sys/devices/system/node/has_memory", buf, buf_bytes))
		(void)snprintf(buf, buf_bytes, "0");
	return buf;
}

unsigned host_cpus(int node)
{
	long online = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t cpus;
	unsigned n = node >= 0 ? node_cpus(node, &cpus) : 0;

	if (n == 0)
		n = online > 0 ? (unsigned)online : 1;
	return n;
}

const char *host_huge_path(uint64_t page_bytes, int node, const char *file, char *buf,
			   size_t buf_bytes)
{
	char at[64] = "/sys/kernel/mm";

	if (node >= 0)
		(void)snprintf(at, sizeof(at), "/sys/devices/system/node/node%d", node);
	(void)snprintf(buf, buf_bytes, "%s/hugepages/hugepages-%" PRIu64 "kB/%s", at,
		       page_bytes >> 10, file);
	return buf;
}

static int huge_read(uint64_t page_bytes, int node, const char *file,
		     uint64_t *ret_value)
{
	char path[PATH_BYTES];

	return host_number(host_huge_path(page_bytes, node, file, path, sizeof(path)),
			   ret_value);
}

int host_huge_pages(uint64_t page_bytes, int node, struct host_huge *ret_huge)
{
	uint64_t reserved = 0, overcommit = 0;
	struct host_huge huge = { 0 };

	if (huge_read(page_bytes, node, "nr_hugepages", &huge.total) ||
	    huge_read(page_bytes, node, "free_hugepages", &huge.free))
		return -ENOENT;
	/* reserved and overcommitted pages are counted for the host alone, or not at all */
	if (node < 0 && huge_read(page_bytes, -1, "resv_hugepages", &reserved) == 0)
		huge.free -= reserved < huge.free ? reserved : huge.free;
	(void)huge_read(page_bytes, -1, "nr_overcommit_hugepages", &overcommit);
	huge.overcommit = overcommit > 0;
	*ret_huge = huge;
	return 0;
}

/* Node's lines are "Node 0 MemFree:  123 kB", the host's lack the first two words. */
static bool meminfo_field(const char *line, const char *field, uint64_t *ret_bytes)
{
	const char *at = strncmp(line, "Node ", 5) == 0 ? strchr(line + 5, ' ') : NULL;
	size_t len = strlen(field);
	uint64_t kib;

	at = at ? at + 1 : line;
	if (strncmp(at, field, len) != 0 || at[len] != ':' ||
	    sscanf(at + len + 1, "%" SCNu64, &kib) != 1)
		return false;
	*ret_bytes = kib << 10;
	return true;
}

int host_available(int node, uint64_t *ret_bytes)
{
	/* the kernel has an estimate for the host alone; on a node add free and droppable memory */
	static const char *const of_node[] = { "MemFree", "Active(file)",
					       "Inactive(file)", "SReclaimable", NULL };
	static const char *const of_host[] = { "MemAvailable", NULL };
	const char *const *fields = node < 0 ? of_host : of_node;
	char path[PATH_BYTES] = "/proc/meminfo", line[256];
	uint64_t bytes, sum = 0;
	bool found = false;
	FILE *file;

	if (node >= 0)
		(void)snprintf(path, sizeof(path),
			       "/sys/devices/system/node/node%d/meminfo", node);
	file = host_open(path);
	if (!file)
		return -ENOENT;
	while (fgets(line, sizeof(line), file)) {
		for (size_t i = 0; fields[i]; i++) {
			if (meminfo_field(line, fields[i], &bytes)) {
				sum += bytes;
				found = true;
			}
		}
	}
	(void)fclose(file);
	if (!found)
		return -ENOENT;
	*ret_bytes = sum;
	return 0;
}

uint64_t host_thp_bytes(void)
{
	uint64_t bytes;

	/* otherwise there are none */
	return host_number(THP "hpage_pmd_size", &bytes) ? UINT64_C(1) << 21 : bytes;
}

int host_shmem_thp(bool *ret_allowed, char *word, size_t word_bytes)
{
	static const char *const allowing[] = { "always", "within_size", "advise",
						"force" };
	char line[128], *begin, *end;
	int err = line_read(SHMEM_ENABLED, line, sizeof(line));

	if (err)
		return -ENOENT;
	/* "always within_size [advise] never deny force" */
	begin = strchr(line, '[');
	end = begin ? strchr(begin, ']') : NULL;
	if (!end)
		return -ENOENT;
	*end = '\0';
	(void)snprintf(word, word_bytes, "%s", begin + 1);
	*ret_allowed = false;
	for (size_t i = 0; i < sizeof(allowing) / sizeof(allowing[0]); i++)
		if (strcmp(word, allowing[i]) == 0)
			*ret_allowed = true;
	return 0;
}

int host_mount_thp(dev_t device, bool *ret_allowed, char path[HOST_MOUNT_BYTES])
{
	FILE *file = host_open("/proc/self/mountinfo");
	const char *options;
	size_t line_bytes = 0;
	bool found = false;
	char *line = NULL;
	unsigned a, b;

	if (!file)
		return -ENOENT;
	/* "36 35 0:29 / /mnt rw,nosuid shared:1 - tmpfs none rw,size=307200k,huge=advise" */
	while (!found && getline(&line, &line_bytes, file) > 0) {
		options = strstr(line, " - ");
		found = options &&
			sscanf(line, "%*u %*u %u:%u %*s %255s", &a, &b, path) == 3 &&
			makedev(a, b) == device;
		if (found)
			*ret_allowed = strstr(options, ",huge=") &&
				       !strstr(options, ",huge=never");
	}
	(void)fclose(file);
	free(line);
	return found ? 0 : -ENOENT;
}
