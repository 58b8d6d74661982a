/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/memory.h"

#include <errno.h>
#include <inttypes.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/host.h"

#define PAGE_1G (UINT64_C(1) << 30)
#define PAGE_2M (UINT64_C(1) << 21)
#define NODE_SAMPLES 64
#define WHERE_BYTES 32

static bool pages_hugetlb(enum pool_pages pages)
{
	return pages == POOL_PAGES_1G || pages == POOL_PAGES_2M;
}

static uint64_t pages_bytes(enum pool_pages pages)
{
	switch (pages) {
	case POOL_PAGES_1G:
		return PAGE_1G;
	case POOL_PAGES_2M:
	case POOL_PAGES_THP:
		return PAGE_2M;
	case POOL_PAGES_AUTO:
	case POOL_PAGES_BASE:
		break;
	}
	return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* "on node 1" or "on this host" */
static const char *where(int node, char buf[WHERE_BYTES])
{
	if (node < 0)
		(void)snprintf(buf, WHERE_BYTES, "on this host");
	else
		(void)snprintf(buf, WHERE_BYTES, "on node %d", node);
	return buf;
}

/* ---- is there enough?  Each returns 0 or -ENOMEM with cause and remedy ---- */

static int huge_short(const struct memory *memory, int node)
{
	uint64_t wanted = memory->bytes / memory->page_bytes, others;
	const char *name = pool_pages_name(memory->pages);
	char path[256], place[WHERE_BYTES];
	struct host_huge huge;

	if (host_huge_pages(memory->page_bytes, node, &huge))
		return err_set(-ENOMEM, "this CPU or kernel has no pages of %s", name);
	others = huge.total > huge.free ? huge.total - huge.free : 0;
	return err_set(
		-ENOMEM,
		"%" PRIu64 " page%s of %s wanted %s, %" PRIu64
		" free there: echo %" PRIu64 " > %s%s",
		wanted, wanted == 1 ? "" : "s", name, where(node, place), huge.free,
		others + wanted,
		host_huge_path(memory->page_bytes, node, path, sizeof(path)),
		memory->pages == POOL_PAGES_1G
			? ", or hugepagesz=1G hugepages=N on the kernel's command line"
			: "");
}

static int huge_check(const struct memory *memory, int node)
{
	struct host_huge huge;
	int err = host_huge_pages(memory->page_bytes, node, &huge);

	if (err || (!huge.overcommit && huge.free < memory->bytes / memory->page_bytes))
		return huge_short(memory, node);
	return 0;
}

static int thp_check(void)
{
	char word[32] = "";
	bool allowed = false;

	if (host_shmem_thp(&allowed, word, sizeof(word)))
		return err_set(-ENOMEM, "this kernel has no transparent huge pages for "
					"shared memory");
	if (!allowed)
		return err_set(
			-ENOMEM,
			"the kernel gives shared memory no transparent huge pages "
			"(%s): echo advise > "
			"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			word);
	return 0;
}

/* A size mistyped must not make the kernel kill whatever else runs here. */
static int room_short(const struct memory *memory, int node, uint64_t available)
{
	char wanted[32], there[32], place[WHERE_BYTES];

	return err_set(-ENOMEM, "%s wanted, %s available %s: make the pool smaller",
		       units_format_bytes(memory->bytes, wanted, sizeof(wanted)),
		       units_format_bytes(available, there, sizeof(there)),
		       where(node, place));
}

static int room_check(const struct memory *memory, int node)
{
	uint64_t available;

	/* a kernel that does not tell must be believed when populating */
	if (host_available(node, &available) || memory->bytes <= available)
		return 0;
	return room_short(memory, node, available);
}

/* MPOL_BIND or not, the host must have it too, and for all who are at it now. */
static int room_claim(const struct memory *memory, _Atomic(uint64_t) *room)
{
	uint64_t left = atomic_load(room);

	do {
		if (memory->bytes > left)
			return room_short(memory, -1, left);
	} while (!atomic_compare_exchange_weak(room, &left, left - memory->bytes));
	return 0;
}

/* What is claimed of the room is the memory's until it is given up. */
static int memory_check(const struct memory *memory, int node, _Atomic(uint64_t) *room)
{
	int err;

	if (pages_hugetlb(memory->pages))
		return huge_check(memory, node);
	err = memory->pages == POOL_PAGES_THP ? thp_check() : 0;
	if (!err)
		err = room_check(memory, host_has_nodes() ? node : -1);
	return err ? err : room_claim(memory, room);
}

/* ---- how much is it? ---- */

/* The share is less than can be lent: how much must be free for it? */
static int share_short(const struct share *share, uint64_t free, enum pool_pages pages,
		       int node)
{
	uint64_t page = pages_bytes(pages), n = free / page, percent, wanted;
	const char *name = pool_pages_name(pages);
	char path[256], place[WHERE_BYTES], there[32];
	struct host_huge huge;

	if (!share->parts)
		return err_set(-ENOMEM,
			       "the shares of other pools leave nothing to it");
	percent = share->parts * 100 / share->whole;
	wanted = (share->whole + share->parts - 1) / share->parts;
	if (!pages_hugetlb(pages))
		return err_set(-ENOMEM,
			       "its share is %" PRIu64
			       "%% of %s that are available %s, less "
			       "than %s: give it more, or other pools less",
			       percent, units_format_bytes(free, there, sizeof(there)),
			       where(node, place),
			       pages == POOL_PAGES_THP ? "2 MiB" : "1 MiB");
	if (host_huge_pages(page, node, &huge))
		return err_set(-ENOMEM, "this CPU or kernel has no pages of %s", name);
	return err_set(-ENOMEM,
		       "its share is %" PRIu64 "%% of %" PRIu64
		       " page%s of %s free %s, less than one: echo %" PRIu64 " > %s",
		       percent, n, n == 1 ? "" : "s", name, where(node, place),
		       wanted + huge.total -
			       (huge.total > huge.free ? huge.free : huge.total),
		       host_huge_path(page, node, path, sizeof(path)));
}

static int memory_size(const struct pool_params *params, const struct memory_work *work,
		       enum pool_pages pages, uint64_t *ret_bytes)
{
	uint64_t page = pages_bytes(pages), bytes, now[SHARE_KINDS];
	enum share_kind kind = share_kind(pages);

	if (params->bytes != POOL_BYTES_AUTO) {
		*ret_bytes = (params->bytes + page - 1) / page * page;
		return 0;
	}
	bytes = share_bytes(work->share[kind], work->free[kind], page);
	/* others than pools may have taken some meanwhile */
	share_free(params->node, now);
	if (bytes > now[kind])
		bytes = now[kind] / page * page;
	if (bytes < page || bytes < POOL_BYTES_MIN)
		return share_short(&work->share[kind], work->free[kind], pages,
				   params->node);
	*ret_bytes = bytes;
	return 0;
}

/* ---- making it ---- */

static int file_make(struct memory *memory, const char *name)
{
	char file_name[POOL_NAME_MAX + 16];
	unsigned flags = MFD_CLOEXEC;

	if (memory->pages == POOL_PAGES_1G)
		flags |= MFD_HUGETLB | MFD_HUGE_1GB;
	if (memory->pages == POOL_PAGES_2M)
		flags |= MFD_HUGETLB | MFD_HUGE_2MB;
	(void)snprintf(file_name, sizeof(file_name), "rmem-pool-%s", name);
	memory->fd = memfd_create(file_name, flags);
	if (memory->fd < 0)
		return err_errno(-errno, "memfd_create with pages of %s",
				 pool_pages_name(memory->pages));
	return 0;
}

/* Whether the file system that the file is in has the pages asked for. */
static int file_check(const struct memory *memory)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	char has[32], wanted[32];
	struct statfs fs;
	bool hugetlb;

	if (fstatfs(memory->fd, &fs))
		return err_errno(-errno, "the pool's file");
	hugetlb = fs.f_type == HUGETLBFS_MAGIC;
	if (!hugetlb && fs.f_type != TMPFS_MAGIC)
		return err_set(-EINVAL,
			       "the pool's file is neither on tmpfs nor on hugetlbfs, "
			       "so it would be on a disk");
	if (hugetlb)
		page = (uint64_t)fs.f_bsize;
	if (hugetlb == pages_hugetlb(memory->pages) &&
	    (!hugetlb || page == memory->page_bytes))
		return 0;
	return err_set(-ENOMEM, "the pool's file is in pages of %s, not of %s (%s)",
		       units_format_bytes(page, has, sizeof(has)),
		       units_format_bytes(memory->page_bytes, wanted, sizeof(wanted)),
		       pool_pages_name(memory->pages));
}

/* A file system may have a limit of its own. */
static int file_room(const struct memory *memory)
{
	char wanted[32], there[32];
	struct statfs fs;

	if (fstatfs(memory->fd, &fs))
		return err_errno(-errno, "the pool's file");
	/* in blocks, as one without a limit tells all that can be counted, or none at all */
	if (fs.f_blocks == 0 || fs.f_bavail >= memory->bytes / (uint64_t)fs.f_bsize)
		return 0;
	return err_set(
		-ENOMEM,
		"%s wanted, %s free on the file system that its file is on: mount it "
		"with a larger size, or make the pool smaller",
		units_format_bytes(memory->bytes, wanted, sizeof(wanted)),
		units_format_bytes(fs.f_bavail * (uint64_t)fs.f_bsize, there,
				   sizeof(there)));
}

/* It cannot be had after all: what was claimed of the host is there for others. */
static int memory_give_up(struct memory *memory, int node, struct memory_work *work,
			  int err)
{
	/* another kind of pages begins with nothing */
	if (!memory->kept && ftruncate(memory->fd, 0))
		err = err_errno(-errno, "emptying the pool's file");
	memory_close(memory);
	*memory = (struct memory){ .fd = -1,
				   .bytes = memory->bytes,
				   .pages = memory->pages,
				   .page_bytes = memory->page_bytes,
				   .kept = memory->kept };
	atomic_store(&work->watch.done, 0);
	if (memory->kept)
		return err;
	if (!pages_hugetlb(memory->pages))
		(void)atomic_fetch_add(work->room, memory->bytes);
	else if (err == -ENOMEM)
		/* how many there are is seen when those it got are free again */
		err = huge_short(memory, node);
	return err;
}

/* One that is given; what is in it stays. */
static int file_take(struct memory *memory, int file, uint64_t bytes_kept)
{
	struct stat st;
	int err;

	memory->fd = fcntl(file, F_DUPFD_CLOEXEC, 3);
	if (memory->fd < 0 || fstat(memory->fd, &st))
		return err_errno(-errno, "the pool's file");
	err = file_check(memory);
	if (err || !memory->kept)
		return err;
	memory->bytes = (uint64_t)st.st_size;
	if (bytes_kept && bytes_kept < memory->bytes)
		memory->bytes = bytes_kept;
	if (!memory->bytes || memory->bytes % memory->page_bytes)
		return err_set(-EINVAL, "the pool's file is not in whole pages");
	/* the process ended while it made it longer, or shorter */
	if (memory->bytes < (uint64_t)st.st_size &&
	    ftruncate(memory->fd, (off_t)memory->bytes))
		return err_errno(-errno, "the end of the pool's file");
	return 0;
}

/* A file of the pool's size. */
static int file_get(struct memory *memory, const struct pool_params *params,
		    struct memory_work *work)
{
	int err = params->file > 0 ? file_take(memory, params->file, params->bytes_kept)
				   : 0;

	if (err || memory->kept)
		return err;
	err = memory_size(params, work, memory->pages, &memory->bytes);
	if (!err && params->file > 0)
		err = file_room(memory);
	if (!err)
		err = memory_check(memory, params->node, work->room);
	if (err)
		return err;
	atomic_store(&work->bytes, memory->bytes);
	if (memory->fd < 0)
		err = file_make(memory, params->name);
	if (!err && ftruncate(memory->fd, (off_t)memory->bytes))
		err = err_errno(-errno, "a file of %" PRIu64 " bytes", memory->bytes);
	if (err)
		err = memory_give_up(memory, params->node, work, err);
	return err;
}

/* Address space, or MAP_FAILED.  Nothing is behind it, so it costs none of the memory. */
static void *space_map(void *addr, uint64_t bytes, int flags)
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

/* At a multiple of the pages' size, which mmap() sees to for hugetlb files alone; as much of
 * what is wanted as there is. */
static int space_reserve(struct memory *memory, uint64_t wanted)
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

/* Behind what there is. */
static int space_extend(struct memory *memory, uint64_t bytes)
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

/* That part of the file into the space that there is for it. */
static int file_map(struct memory *memory, uint64_t from, uint64_t to)
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

static int memory_populate(const struct memory *memory, int node,
			   struct prefault_watch *watch)
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

/* How much of the mapping is in transparent huge pages, from smaps; 0 when unknown. */
static uint64_t thp_bytes(const struct memory *memory)
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

/* Explicit pages are as asked; transparent ones are the kernel's choice. */
static int thp_settle(uint64_t huge, uint64_t bytes, char *note, size_t note_bytes)
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

/* What is mapped becomes as it has to be, but for its pages. */
static int memory_prepare(const struct memory *memory, int node)
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

static int memory_try(const struct pool_params *params, enum pool_pages pages,
		      struct memory_work *work, struct memory *ret_memory, char *note,
		      size_t note_bytes)
{
	struct memory memory = { .fd = -1,
				 .pages = pages,
				 .page_bytes = pages_bytes(pages),
				 .kept = params->kept,
				 .node = -1 };
	int err = file_get(&memory, params, work);

	if (err) {
		memory_close(&memory);
		return err;
	}
	err = space_reserve(&memory, work->reserve);
	if (!err)
		err = file_map(&memory, 0, memory.bytes);
	if (!err)
		err = memory_prepare(&memory, params->node);
	/* what was there has its pages, and whoever waits for it waits no longer than he must */
	if (!err && !memory.kept)
		err = memory_populate(&memory, params->node, &work->watch);
	if (!err && !memory.kept && pages == POOL_PAGES_THP)
		err = thp_settle(thp_bytes(&memory), memory.bytes, note, note_bytes);
	if (err)
		goto err_close;
	memory.node = memory_node(&memory);
	*ret_memory = memory;
	return 0;

err_close:
	return memory_give_up(&memory, params->node, work, err);
}

/* From the largest pages down; the note collects why each was not to be had. */
static int memory_auto(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory, char *note, size_t note_bytes)
{
	static const enum pool_pages order[] = { POOL_PAGES_1G, POOL_PAGES_2M,
						 POOL_PAGES_THP, POOL_PAGES_BASE };
	char why[512] = "", own[128] = "";
	int err = -ENOMEM;

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		size_t used = strlen(why);

		/* a pool that would grow much by rounding asks for smaller pages */
		if (order[i] == POOL_PAGES_1G && params->bytes % PAGE_1G)
			err = err_set(-ENOMEM, "the size is no multiple of it");
		else if (order[i] != POOL_PAGES_BASE &&
			 params->bytes != POOL_BYTES_AUTO && params->bytes < PAGE_2M)
			err = err_set(-ENOMEM, "the pool is smaller");
		else
			err = memory_try(params, order[i], work, ret_memory, own,
					 sizeof(own));
		if (err != -ENOMEM)
			break;
		(void)snprintf(why + used, sizeof(why) - used, "%snot %s: %s",
			       used ? "; " : "", pool_pages_name(order[i]), err_text());
	}
	if (!err)
		(void)snprintf(note, note_bytes, "%s%s%s", own,
			       *own && *why ? "; " : "", why);
	return err;
}

int memory_open(const struct pool_params *params, struct memory_work *work,
		struct memory *ret_memory, char *note, size_t note_bytes)
{
	char nodes[64];
	int err;

	note[0] = '\0';
	if (params->node >= 0 && !host_node_exists(params->node))
		return err_set(-EINVAL, "no NUMA node %d with memory here (nodes: %s)",
			       params->node, host_nodes(nodes, sizeof(nodes)));
	if (params->kept)
		err = memory_try(params, params->pages_kept, work, ret_memory, note,
				 note_bytes);
	else if (params->pages == POOL_PAGES_AUTO)
		err = memory_auto(params, work, ret_memory, note, note_bytes);
	else
		err = memory_try(params, params->pages, work, ret_memory, note,
				 note_bytes);
	return err;
}

void memory_close(struct memory *memory)
{
	if (memory->addr)
		(void)munmap(memory->addr, memory->reserved);
	if (memory->fd >= 0)
		(void)close(memory->fd);
}

/* ---- its end ---- */

int memory_cut(struct memory *memory, uint64_t bytes)
{
	uint64_t before = memory->bytes;

	memory->bytes = bytes;
	/* first, as this lets others map and fault meanwhile: a mapping that takes the place of
	 * pages holds up the whole process until the last of them is gone */
	if (ftruncate(memory->fd, (off_t)bytes))
		return err_errno(-errno, "the end of the pool's file");
	/* the space stays the pool's, so that it can become longer again */
	if (space_map(memory->addr + bytes, before - bytes, MAP_FIXED) == MAP_FAILED)
		memory->reserved = bytes;
	/* the rest may be on one node alone */
	memory->node = memory_node(memory);
	return 0;
}

/* What is new of it, mapped already. */
static int memory_add(const struct memory *memory, const struct memory *more, int node,
		      struct memory_work *work, char *note, size_t note_bytes)
{
	bool thp = memory->pages == POOL_PAGES_THP;
	int err = memory_prepare(more, node);
	uint64_t huge = thp && !err ? thp_bytes(memory) : 0;

	if (!err)
		err = memory_populate(more, node, &work->watch);
	if (!err && thp)
		err = thp_settle(thp_bytes(memory) - huge, more->bytes, note,
				 note_bytes);
	return err;
}

int memory_grow(struct memory *memory, uint64_t bytes, int node,
		struct memory_work *work, char *note, size_t note_bytes)
{
	uint64_t before = memory->bytes;
	struct memory more = *memory;
	char text[512];
	int err;

	note[0] = '\0';
	more.addr += before;
	more.bytes = bytes - before;
	atomic_store(&work->bytes, more.bytes);
	err = file_room(&more);
	if (!err)
		err = memory_check(&more, node, work->room);
	if (!err)
		err = space_extend(memory, bytes);
	if (err)
		return err;
	/* what a cut could not give back is not clean */
	if (ftruncate(memory->fd, (off_t)before))
		return err_errno(-errno, "the end of the pool's file");
	if (ftruncate(memory->fd, (off_t)bytes))
		return err_errno(-errno, "a file of %" PRIu64 " bytes", bytes);
	err = file_map(memory, before, bytes);
	if (!err)
		memory->bytes = bytes;
	if (!err)
		err = memory_add(memory, &more, node, work, note, note_bytes);
	if (!err) {
		memory->node = memory_node(memory);
		return 0;
	}
	(void)snprintf(text, sizeof(text), "%s", err_text());
	if (memory->bytes > before)
		(void)memory_cut(memory, before);
	else
		/* what it has too much of goes at the next start */
		(void)!ftruncate(memory->fd, (off_t)before);
	/* how many there are is seen when those it got are free again */
	if (err == -ENOMEM && pages_hugetlb(memory->pages))
		return huge_short(&more, node);
	return err_set(err, "%s", text);
}
