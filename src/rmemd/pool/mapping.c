/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/mapping.h"

#include <errno.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/pages.h"

#define NODE_SAMPLES 64

void *space_map(void *addr, uint64_t bytes, int flags)
{
	return mmap(addr, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

/* Where there is a limit the rest of the process needs what is left of it. */
static bool space_limited(void)
{
	struct rlimit rlimit;

	return getrlimit(RLIMIT_AS, &rlimit) == 0 && rlimit.rlim_cur != RLIM_INFINITY;
}

int space_reserve(struct memory *memory, uint64_t wanted)
{
	uint64_t page = memory->page_bytes, least = memory->bytes, skip;
	uint64_t slack = page > (uint64_t)sysconf(_SC_PAGESIZE) ? page : 0;
	uint64_t bytes = space_limited() ? least : wanted / page * page;
	char *area;

	for (;; bytes = bytes / 2 / page * page) {
		if (bytes < least)
			bytes = least;
		area = space_map(NULL, bytes + slack, 0);
		if (area != MAP_FAILED)
			break;
		if (bytes == least)
			return err_errno(-errno, "address space for the pool");
	}
	skip = slack ? -(uint64_t)(uintptr_t)area & (slack - 1) : 0;
	if (skip)
		(void)munmap(area, skip);
	area += skip;
	if (slack > skip)
		(void)munmap(area + bytes, slack - skip);
	memory->addr = area;
	memory->reserved = bytes;
	return 0;
}

int space_extend(struct memory *memory, uint64_t bytes)
{
	uint64_t more = bytes - memory->reserved;
	char *end = memory->addr + memory->reserved, *got;
	char text[32];

	if (bytes <= memory->reserved)
		return 0;
	got = space_map(end, more, MAP_FIXED_NOREPLACE);
	if (got == end) {
		memory->reserved = bytes;
		return 0;
	}
	/* a kernel that does not know the flag takes it for a wish */
	if (got != MAP_FAILED)
		(void)munmap(got, more);
	return err_set(-ENOMEM,
		       "there is address space for %s alone where the pool is, which "
		       "must not move: restart rmemd",
		       units_format_bytes(memory->reserved, text, sizeof(text)));
}

/* Huge pages are promised to a file the first time they are mapped, and stay so.  Where there
 * are too few, that must not be in the pool's space: a mapping that fails there leaves a hole,
 * which others may have filled at once. */
static int file_promise(const struct memory *memory, uint64_t from, uint64_t to)
{
	void *trial = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED,
			   memory->fd, (off_t)from);

	if (trial == MAP_FAILED)
		return err_errno(-errno, "mapping the pool");
	(void)munmap(trial, to - from);
	return 0;
}

int memory_map(struct memory *memory, uint64_t from, uint64_t to)
{
	int err = pages_hugetlb(memory->pages) ? file_promise(memory, from, to) : 0;

	if (err)
		return err;
	if (mmap(memory->addr + from, to - from, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, memory->fd, (off_t)from) == MAP_FAILED) {
		err = err_errno(-errno, "mapping the pool");
		/* nobody knows whose it is now */
		memory->reserved = from;
	}
	return err;
}

/* Containers often refuse it, as it is of use to few. */
static int bind_refused(int err, int node)
{
	if (err != -EPERM && err != -ENOSYS)
		return err_errno(err, "binding to node %d", node);
	return err_errno(err,
			 "mbind to node %d is refused to this process: allow it in its "
			 "sandbox or container (CAP_SYS_NICE), or take node = any",
			 node);
}

static int memory_bind(const struct memory *memory, int node)
{
	struct bitmask *mask;
	int err = 0;

	if (node < 0 || !host_has_nodes())
		return 0;
	mask = numa_allocate_nodemask();
	if (!mask)
		return err_errno(-ENOMEM, "binding to node %d", node);
	numa_bitmask_setbit(mask, (unsigned)node);
	if (mbind(memory->addr, memory->bytes, MPOL_BIND, mask->maskp, mask->size + 1,
		  0))
		err = bind_refused(-errno, node);
	numa_free_nodemask(mask);
	return err;
}

static int memory_lock(const struct memory *memory)
{
	char limit[32] = "unlimited", wanted[32];
	struct rlimit rlimit;

	/* on fault: pages come later and in parallel, but a limit shows now */
	if (mlock2(memory->addr, memory->bytes, MLOCK_ONFAULT) == 0)
		return 0;
	/* valgrind knows the older call alone, which libc turns into EINVAL */
	if ((errno == ENOSYS || errno == EINVAL) &&
	    mlock(memory->addr, memory->bytes) == 0)
		return 0;
	if (errno != ENOMEM && errno != EPERM && errno != EAGAIN)
		return err_errno(-errno, "mlock");
	if (getrlimit(RLIMIT_MEMLOCK, &rlimit) == 0 && rlimit.rlim_cur != RLIM_INFINITY)
		(void)units_format_bytes(rlimit.rlim_cur, limit, sizeof(limit));
	return err_set(
		-ENOMEM,
		"RLIMIT_MEMLOCK is %s, too little to pin %s: LimitMEMLOCK=infinity in "
		"the service, or ulimit -l unlimited",
		limit, units_format_bytes(memory->bytes, wanted, sizeof(wanted)));
}

int memory_prepare(const struct memory *memory, int node)
{
	int err = memory_bind(memory, node);

	if (err)
		return err;
	/* a memfd counts as anonymous memory, which core dumps hold */
	if (madvise(memory->addr, memory->bytes, MADV_DONTDUMP))
		return err_errno(-errno, "keeping the pool out of core dumps");
	if (memory->pages == POOL_PAGES_THP &&
	    madvise(memory->addr, memory->bytes, MADV_HUGEPAGE))
		return err_errno(-errno, "asking for transparent huge pages");
	/* hugetlb pages are never swapped */
	return pages_hugetlb(memory->pages) ? 0 : memory_lock(memory);
}

int memory_populate(const struct memory *memory, int node, struct prefault_watch *watch)
{
	bool hugetlb = pages_hugetlb(memory->pages);
	int err = prefault(memory->addr, memory->bytes, memory->page_bytes, hugetlb,
			   node, watch);

	switch (err) {
	case 0:
		return 0;
	case -ECANCELED:
		return err_set(err, "told to stop");
	case -EFAULT:
	case -ENOMEM:
		return err_set(-ENOMEM,
			       "the kernel ran out of memory while populating");
	case -EOPNOTSUPP:
		return err_set(err, "huge pages need Linux 5.14 or later");
	default:
		return err_errno(err, "populating the pool");
	}
}

int memory_node(const struct memory *memory)
{
	uint64_t n_pages = memory->bytes / memory->page_bytes;
	unsigned n = n_pages < NODE_SAMPLES ? (unsigned)n_pages : NODE_SAMPLES;
	void *pages[NODE_SAMPLES];
	int status[NODE_SAMPLES], node;

	if (!host_has_nodes())
		return 0;
	for (unsigned i = 0; i < n; i++) {
		pages[i] = memory->addr + n_pages * i / n * memory->page_bytes;
		/* it tells of those alone that were touched */
		(void)*(volatile char *)pages[i];
	}
	if (move_pages(0, n, pages, NULL, status, 0))
		return -1;
	node = status[0];
	for (unsigned i = 1; i < n; i++)
		if (status[i] != node)
			return -1;
	return node < 0 ? -1 : node;
}

uint64_t thp_bytes(const struct memory *memory)
{
	uint64_t first = (uint64_t)(uintptr_t)memory->addr, begin, end, kib, sum = 0;
	FILE *file = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[512];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		/* what was added to it may be a mapping of its own, or not */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
			inside = begin >= first && begin < first + memory->reserved;
		else if (inside && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			sum += kib << 10;
	}
	(void)fclose(file);
	return sum;
}

int thp_settle(uint64_t huge, uint64_t bytes, char *note, size_t note_bytes)
{
	char got[32], all[32];

	if (huge == 0)
		return err_set(-ENOMEM,
			       "the kernel gave no transparent huge page: memory "
			       "may be too fragmented");
	if (huge < bytes)
		(void)snprintf(note, note_bytes, "%s of %s are in huge pages",
			       units_format_bytes(huge, got, sizeof(got)),
			       units_format_bytes(bytes, all, sizeof(all)));
	return 0;
}
