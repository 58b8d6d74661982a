/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/cgroup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "rmemd/pool/host.h"

#define PREFIX_BYTES 32
/* Of a limit of memory for the process itself, and the part for page tables and what finds the
 * pages of a file: 1/240 of base pages. */
#define KEPT_BYTES (UINT64_C(8) << 20)
#define KEPT_PART 128

/* The files of a group, of whichever version: a limit, and what counts against it. */
static const struct {
	const char *limit, *used;
	const char *stat; /* of the names in memory.stat with the groups below */
	const char *setting;
} kinds[] = {
	{ "max", "current", "", "MemoryMax=" },
	{ "high", "current", "", "MemoryHigh=" },
	{ "rsvd.max", "rsvd.current", "", NULL },
	{ "limit_in_bytes", "usage_in_bytes", "total_", "MemoryMax=" },
	{ "rsvd.limit_in_bytes", "rsvd.usage_in_bytes", "", NULL },
};

struct search {
	char prefix[PREFIX_BYTES]; /* of the files: "memory.", "hugetlb.2MB." */
	struct cgroup_limit least;
	bool found;
};

/* ---- a group ---- */

/* Pages of files, which the kernel drops before it refuses others. */
static uint64_t droppable(const char *group, const char *stat)
{
	static const char *const names[] = { "active_file", "inactive_file",
					     "slab_reclaimable" };
	char path[CGROUP_PATH_BYTES + PREFIX_BYTES], line[128], name[64];
	uint64_t bytes, sum = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/memory.stat", group);
	file = host_open(path);
	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, stat, strlen(stat)) != 0 ||
		    sscanf(line + strlen(stat), "%63s %" SCNu64, name, &bytes) != 2)
			continue;
		for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strcmp(name, names[i]) == 0)
				sum += bytes;
	}
	if (file)
		(void)fclose(file);
	return sum;
}

static uint64_t less(uint64_t value, uint64_t taken)
{
	return value > taken ? value - taken : 0;
}

void cgroup_set_memory(struct cgroup_limit *limit, uint64_t bytes, uint64_t used)
{
	limit->bytes = bytes;
	limit->used = used;
	limit->kept = KEPT_BYTES + bytes / KEPT_PART;
	limit->left = less(less(bytes, used), limit->kept);
}

static bool is_service(const char *group)
{
	const char *name = strrchr(group, '/');

	return name && strcmp(name, "/rmemd.service") == 0;
}

/* A limit of the group, if it has such a file with a number: the others say "max". */
static void limit_look(struct search *search, const char *group, const char *prefix,
		       size_t kind)
{
	bool memory = strcmp(prefix, "memory.") == 0;
	struct cgroup_limit limit = { .setting = memory ? kinds[kind].setting : NULL };
	char used[CGROUP_PATH_BYTES];

	if (snprintf(limit.path, sizeof(limit.path), "%s/%s%s", group, prefix,
		     kinds[kind].limit) >= (int)sizeof(limit.path) ||
	    snprintf(used, sizeof(used), "%s/%s%s", group, prefix, kinds[kind].used) >=
		    (int)sizeof(used) ||
	    host_number(limit.path, &limit.bytes) || host_number(used, &limit.used))
		return;
	if (memory)
		cgroup_set_memory(&limit, limit.bytes,
				  less(limit.used, droppable(group, kinds[kind].stat)));
	else
		limit.left = less(limit.bytes, limit.used);
	if (search->found && limit.left >= search->least.left)
		return;
	limit.service = is_service(group);
	search->least = limit;
	search->found = true;
}

/* ---- the groups above ---- */

struct mount {
	char point[CGROUP_PATH_BYTES];
	char root[CGROUP_PATH_BYTES]; /* the group that is seen there */
	bool charges_huge;            /* huge pages count as memory, too */
};

static bool list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += len)
		if ((at == list || at[-1] == ',') &&
		    (at[len] == ',' || at[len] == '\0'))
			return true;
	return false;
}

/* The path of the group below the one at the mount; NULL: it is not below. */
static const char *path_below(const char *path, const char *root)
{
	size_t len = strcmp(root, "/") == 0 ? 0 : strlen(root);

	if (strncmp(path, root, len) != 0 || (path[len] && path[len] != '/'))
		return NULL;
	return strcmp(path + len, "/") == 0 ? "" : path + len;
}

/* "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory", and of version 2
 * "... - cgroup2 cgroup2 rw".  controller "": version 2. */
static bool mount_parse(const char *line, const char *controller, struct mount *mount)
{
	const char *type = strstr(line, " - ");
	char name[16], options[256];

	if (!type || sscanf(type, " - %15s %*s %255s", name, options) != 2 ||
	    sscanf(line, "%*s %*s %*s %511s %511s", mount->root, mount->point) != 2)
		return false;
	mount->charges_huge = list_has(options, "memory_hugetlb_accounting");
	return *controller
		       ? strcmp(name, "cgroup") == 0 && list_has(options, controller)
		       : strcmp(name, "cgroup2") == 0;
}

/* Where the group is, from a mount that has it. */
static bool group_find(const char *controller, const char *path, struct mount *mount,
		       char group[CGROUP_PATH_BYTES])
{
	FILE *file = host_open("/proc/self/mountinfo");
	size_t line_bytes = 0;
	char *line = NULL;
	bool found = false;

	while (file && !found && getline(&line, &line_bytes, file) > 0) {
		const char *below = mount_parse(line, controller, mount)
					    ? path_below(path, mount->root)
					    : NULL;

		found = below && snprintf(group, CGROUP_PATH_BYTES, "%s%s",
					  mount->point, below) < CGROUP_PATH_BYTES;
	}
	if (file)
		(void)fclose(file);
	free(line);
	return found;
}

/* Look at the group and at all above it, up to that of the mount. */
static void groups_look(struct search *search, const char *controller, const char *path)
{
	char group[CGROUP_PATH_BYTES];
	struct mount mount;

	if (!group_find(controller, path, &mount, group))
		return;
	for (;;) {
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
			limit_look(search, group, search->prefix, i);
			if (mount.charges_huge)
				limit_look(search, group, "memory.", i);
		}
		if (strlen(group) <= strlen(mount.point))
			break;
		*strrchr(group, '/') = '\0';
	}
}

/* The kernel writes "hugetlb.2MB.", "hugetlb.1GB.", "hugetlb.64KB.". */
static void prefix_set(struct search *search, uint64_t page_bytes)
{
	static const char units[] = "KMG";
	uint64_t number = page_bytes >> 10;
	unsigned unit = 0;

	for (; units[unit + 1] && number >= 1024; unit++)
		number >>= 10;
	(void)snprintf(search->prefix, sizeof(search->prefix),
		       page_bytes ? "hugetlb.%" PRIu64 "%cB." : "memory.", number,
		       units[unit]);
}

int cgroup_limit(const char *process, uint64_t page_bytes,
		 struct cgroup_limit *ret_limit)
{
	const char *wanted = page_bytes ? "hugetlb" : "memory";
	struct search search = { .found = false };
	size_t line_bytes = 0;
	char path[64], *line = NULL;
	FILE *file;

	prefix_set(&search, page_bytes);
	(void)snprintf(path, sizeof(path), "/proc/%s/cgroup", process);
	file = host_open(path);
	/* "4:cpu,memory:/a/b" of version 1, "0::/a/b" of version 2 */
	while (file && getline(&line, &line_bytes, file) > 0) {
		char *controllers = strchr(line, ':'), *of_group;

		of_group = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!of_group)
			continue;
		*of_group++ = '\0';
		of_group[strcspn(of_group, "\n")] = '\0';
		if (controllers[1] == '\0')
			groups_look(&search, "", of_group);
		else if (list_has(controllers + 1, wanted))
			groups_look(&search, wanted, of_group);
	}
	if (file)
		(void)fclose(file);
	free(line);
	if (!search.found)
		return -ENOENT;
	*ret_limit = search.least;
	return 0;
}

const char *cgroup_text(const struct cgroup_limit *limit, char buf[CGROUP_TEXT_BYTES])
{
	char kept[64] = "", how[64] = "";

	if (limit->kept)
		(void)snprintf(kept, sizeof(kept), " and %s are for rmemd itself",
			       UNITS_BYTES(limit->kept));
	if (limit->setting)
		(void)snprintf(how, sizeof(how), " (%s in a unit of systemd)",
			       limit->setting);
	(void)snprintf(buf, CGROUP_TEXT_BYTES,
		       "%s is %s, of which %s are used%s: raise it%s", limit->path,
		       UNITS_BYTES(limit->bytes), UNITS_BYTES(limit->used), kept, how);
	return buf;
}
