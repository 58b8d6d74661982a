/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <numaif.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/node_cpus.h"
#include "base/thread.h"
#include "base/units.h"
#include "rmemd/pool/host.h"

#define NODE_SAMPLES 64
#define SLICE_BYTES (UINT64_C(64) << 20)
#define ROUNDING_BYTES (UINT64_C(2) << 20)
#define THREADS_MAX 16
#define NODES_MAX 1024 /* of Linux */
#define LONG_BITS (8 * (int)sizeof(long))

/* ---- address space ---- */

/* Map address space without memory.  Returns it, or MAP_FAILED. */
static void *space_map(void *addr, uint64_t bytes, int flags)
{
	return mmap(addr, bytes, PROT_NONE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

/* Reserve as much of what is wanted as is available, at a multiple of the page size, which mmap()
 * ensures for hugetlb files alone. */
static int space_reserve(struct memory *memory, uint64_t wanted)
{
	uint64_t page = memory->page_bytes, least = memory->bytes, skip;
	uint64_t slack = page > (uint64_t)sysconf(_SC_PAGESIZE) ? page : 0;
	struct rlimit limit;
	/* with a limit, the rest of the process needs what is left of it */
	bool limited =
		getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
	uint64_t bytes = limited ? least : wanted / page * page;
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
	skip = slack ? align_gap((uintptr_t)area, slack) : 0;
	if (skip)
		(void)munmap(area, skip);
	area += skip;
	if (slack > skip)
		(void)munmap(area + bytes, slack - skip);
	memory->addr = area;
	memory->reserved = bytes;
	return 0;
}

/* Extend the reserved address space to `bytes`. */
static int space_extend(struct memory *memory, uint64_t bytes)
{
	char *end = memory->addr + memory->reserved, *got;

	if (bytes <= memory->reserved)
		return 0;
	got = space_map(end, bytes - memory->reserved, MAP_FIXED_NOREPLACE);
	if (got == end) {
		memory->reserved = bytes;
		return 0;
	}
	/* a kernel without MAP_FIXED_NOREPLACE takes the address for a hint */
	if (got != MAP_FAILED)
		(void)munmap(got, bytes - memory->reserved);
	return err_set(-ENOMEM,
		       "there is address space for %s alone where the pool is, which "
		       "must not move: restart rmemd",
		       UNITS_BYTES(memory->reserved));
}

/* Mapping a range of a hugetlb file for the first time reserves its pages, which stays so.  This
 * must not be done in the pool's space: a mapping that fails for lack of pages leaves a hole
 * there, which another thread may fill. */
static int file_reserve(const struct memory *memory, uint64_t from, uint64_t to)
{
	void *trial = mmap(NULL, to - from, PROT_READ | PROT_WRITE, MAP_SHARED,
			   memory->fd, (off_t)from);

	if (trial == MAP_FAILED)
		return err_errno(-errno, "mapping the pool");
	(void)munmap(trial, to - from);
	return 0;
}

/* Map this range of the file into the reserved address space. */
static int memory_map(struct memory *memory, uint64_t from, uint64_t to)
{
	int err = pages_hugetlb(memory->pages) ? file_reserve(memory, from, to) : 0;

	if (err)
		return err;
	if (mmap(memory->addr + from, to - from, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_FIXED, memory->fd, (off_t)from) == MAP_FAILED) {
		err = err_errno(-errno, "mapping the pool");
		/* another mapping may be there now */
		memory->reserved = from;
	}
	return err;
}

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
	/* not one of libnuma's, which ends the process when it has no memory */
	unsigned long mask[NODES_MAX / LONG_BITS] = { 0 };

	if (node < 0 || !host_has_nodes())
		return 0;
	if (node >= NODES_MAX)
		return bind_refused(-EINVAL, node);
	mask[node / LONG_BITS] = 1ul << node % LONG_BITS;
	return mbind(memory->addr, memory->bytes, MPOL_BIND, mask, NODES_MAX + 1, 0)
		       ? bind_refused(-errno, node)
		       : 0;
}

static uint64_t locked_bytes(void)
{
	FILE *file = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1)
			break;
	if (file)
		(void)fclose(file);
	return kib << 10;
}

static int memory_lock(const struct memory *memory)
{
	struct rlimit rlimit = { .rlim_cur = RLIM_INFINITY };

	/* ONFAULT, as pages are populated later, in parallel; a limit shows now */
	if (mlock2(memory->addr, memory->bytes, MLOCK_ONFAULT) == 0)
		return 0;
	/* valgrind knows only mlock(), and libc returns EINVAL then */
	if ((errno == ENOSYS || errno == EINVAL) &&
	    mlock(memory->addr, memory->bytes) == 0)
		return 0;
	if (errno != ENOMEM && errno != EPERM && errno != EAGAIN)
		return err_errno(-errno, "mlock");
	(void)getrlimit(RLIMIT_MEMLOCK, &rlimit);
	return err_set(
		-ENOMEM,
		"RLIMIT_MEMLOCK is %s, %s of it used, too little to pin %s more: "
		"LimitMEMLOCK=infinity in the service, or ulimit -l unlimited",
		rlimit.rlim_cur == RLIM_INFINITY ? "unlimited"
						 : UNITS_BYTES(rlimit.rlim_cur),
		UNITS_BYTES(locked_bytes()), UNITS_BYTES(memory->bytes));
}

/* Bind and pin what is mapped, before it has pages. */
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

/* Populating by several threads on the node of the memory, as one thread takes minutes for a
 * terabyte. */
struct prefault {
	const struct memory *memory;
	struct memory_work *work;
	int node; /* -1: run anywhere */
	uint64_t slice_bytes;
	_Atomic uint64_t next; /* offset of the next slice */
	atomic_int err;        /* the first */
};

/* Write a byte of each page, without changing it; only where a missing page cannot cause SIGBUS. */
static void touch(char *addr, uint64_t bytes)
{
	uint64_t step = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < bytes; i += step)
		(void)__atomic_fetch_or(&addr[i], 0, __ATOMIC_RELAXED);
}

static int slice_populate(const struct memory *memory, uint64_t offset, uint64_t bytes)
{
	char *addr = memory->addr + offset;
	int err;

	do {
		err = madvise(addr, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
	} while (err == -EINTR || err == -EAGAIN);
	if (err != -EINVAL)
		return err;
	/* the kernel does not know MADV_POPULATE_WRITE */
	if (pages_hugetlb(memory->pages))
		return -EOPNOTSUPP;
	touch(addr, bytes);
	return 0;
}

static void *prefault_run(void *ctx)
{
	struct prefault *prefault = ctx;
	const struct memory *memory = prefault->memory;

	node_cpus_use(prefault->node);
	while (!atomic_load(&prefault->err)) {
		uint64_t bytes = prefault->slice_bytes;
		uint64_t offset = atomic_fetch_add(&prefault->next, bytes);
		int err = -ECANCELED, none = 0;

		if (offset >= memory->bytes)
			break;
		if (bytes > memory->bytes - offset)
			bytes = memory->bytes - offset;
		if (!atomic_load(prefault->work->stop))
			err = slice_populate(memory, offset, bytes);
		if (err)
			(void)atomic_compare_exchange_strong(&prefault->err, &none,
							     err);
		else
			(void)atomic_fetch_add(&prefault->work->done, bytes);
	}
	return NULL;
}

/* Errors are without text:
 *   -EFAULT      a node has no huge page left
 *   -ENOMEM      no memory
 *   -EOPNOTSUPP  huge pages on a kernel without MADV_POPULATE_WRITE (before 5.14)
 *   -ECANCELED   told to stop */
static int prefault(const struct memory *memory, int node, struct memory_work *work)
{
	struct prefault prefault = {
		.memory = memory,
		.work = work,
		.node = host_has_nodes() ? node : -1,
		.slice_bytes = memory->page_bytes > SLICE_BYTES ? memory->page_bytes
								: SLICE_BYTES,
	};
	uint64_t slices =
		(memory->bytes + prefault.slice_bytes - 1) / prefault.slice_bytes;
	pthread_t threads[THREADS_MAX];
	unsigned wanted = host_cpus(node), n = 0;
	int err = 0;

	if (wanted > THREADS_MAX)
		wanted = THREADS_MAX;
	if (wanted > slices)
		wanted = (unsigned)slices;
	while (n < wanted && !err) {
		err = thread_start("rmemd-prefault", prefault_run, &prefault,
				   &threads[n]);
		n += !err;
	}
	/* one thread is enough */
	if (n > 0)
		err = 0;
	while (n > 0)
		(void)pthread_join(threads[--n], NULL);
	return err ? err : atomic_load(&prefault.err);
}

/* -ECANCELED: told to stop */
static int memory_populate(const struct memory *memory, int node,
			   struct memory_work *work)
{
	int err = prefault(memory, node, work);

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
		/* the kernel knows no node of a page that was not touched */
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

/* The bytes of the mapping that are in transparent huge pages, from smaps; 0 when unknown. */
static uint64_t thp_bytes(const struct memory *memory)
{
	uint64_t first = (uint64_t)(uintptr_t)memory->addr, begin, end, kib, sum = 0;
	FILE *file = fopen("/proc/self/smaps", "re");
	bool inside = false;
	char line[512];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file)) {
		/* growth may have made several mappings */
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &begin, &end) == 2)
			inside = begin >= first && begin < first + memory->reserved;
		else if (inside && sscanf(line, "ShmemPmdMapped: %" SCNu64, &kib) == 1)
			sum += kib << 10;
	}
	(void)fclose(file);
	return sum;
}

/* Transparent huge pages are the kernel's choice: the note tells how much is in such pages, where
 * that is not all.
 *   -ENOMEM  none is */
static int thp_report(uint64_t huge, uint64_t bytes, struct memory_work *work)
{
	if (huge == 0)
		return err_set(-ENOMEM,
			       "the kernel gave no transparent huge page: memory "
			       "may be too fragmented");
	if (huge < bytes)
		(void)snprintf(work->note, sizeof(work->note),
			       "%s of %s are in huge pages", UNITS_BYTES(huge),
			       UNITS_BYTES(bytes));
	return 0;
}

/* ---- the file ---- */

static int file_make(struct memory *memory, const char *name)
{
	char file_name[POOL_NAME_MAX + 16];
	unsigned flags = MFD_CLOEXEC;

	if (pages_hugetlb(memory->pages))
		flags |= MFD_HUGETLB | (unsigned)memory->pages << MFD_HUGE_SHIFT;
	(void)snprintf(file_name, sizeof(file_name), "rmem-pool-%s", name);
	memory->fd = memfd_create(file_name, flags);
	if (memory->fd < 0)
		return err_errno(-errno, "memfd_create with pages of %s",
				 pool_pages_name(memory->pages));
	return 0;
}

/* Whether the file system of the file has the pages asked for. */
static int file_check(const struct memory *memory)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct statfs fs;
	bool hugetlb;

	if (fstatfs(memory->fd, &fs))
		return err_errno(-errno, "the pool's file");
	hugetlb = fs.f_type == HUGETLBFS_MAGIC;
	if (!hugetlb && fs.f_type != TMPFS_MAGIC)
		return err_set(-EINVAL,
			       "the pool's file is neither on tmpfs nor on hugetlbfs, "
			       "so it would be on a disk: give [server] state a "
			       "directory there");
	if (hugetlb)
		page = (uint64_t)fs.f_bsize;
	if (hugetlb == pages_hugetlb(memory->pages) &&
	    (!hugetlb || page == memory->page_bytes))
		return 0;
	return err_set(-ENOMEM, "the pool's file is in pages of %s, not of %s (%s)",
		       UNITS_BYTES(page), UNITS_BYTES(memory->page_bytes),
		       pool_pages_name(memory->pages));
}

/* Close after a failure, and return what was claimed of the room. */
static int memory_abandon(struct memory *memory, int node, struct memory_work *work,
			  int err)
{
	/* the next attempt, with another kind of pages, begins with an empty file */
	if (memory->fd >= 0 && !memory->kept && ftruncate(memory->fd, 0))
		err = err_errno(-errno, "emptying the pool's file");
	memory_close(memory);
	atomic_store(&work->done, 0);
	if (memory->kept)
		return err;
	if (!pages_hugetlb(memory->pages))
		(void)atomic_fetch_add(work->room, memory->bytes);
	else if (err == -ENOMEM)
		/* counted now, as the pages that the pool got are free again */
		err = capacity_huge_short(memory, node);
	return err;
}

/* Use a file of the caller, and keep its content. */
static int file_adopt(struct memory *memory, const struct pool_params *params)
{
	const uint64_t bytes_kept = params->bytes_kept;
	struct stat st;
	int err;

	memory->fd = fcntl(params->file, F_DUPFD_CLOEXEC, 3);
	if (memory->fd < 0 || fstat(memory->fd, &st))
		return err_errno(-errno, "the pool's file");
	err = file_check(memory);
	if (err || !memory->kept)
		return err;
	memory->bytes = (uint64_t)st.st_size;
	if (bytes_kept && bytes_kept < memory->bytes)
		memory->bytes = bytes_kept;
	if (!memory->bytes || memory->bytes % memory->page_bytes)
		return err_set(-EBADMSG,
			       "its file, pool-%" PRIu32 ", is damaged: it has %" PRIu64
			       " bytes, and not whole pages of %s",
			       params->id, (uint64_t)st.st_size,
			       UNITS_BYTES(memory->page_bytes));
	/* the last process ended while it resized the file */
	if (memory->bytes < (uint64_t)st.st_size &&
	    ftruncate(memory->fd, (off_t)memory->bytes))
		return err_errno(-errno, "the end of the pool's file");
	return 0;
}

/* The caller's file, or the size of a new one, whose memory is claimed. */
static int file_plan(struct memory *memory, const struct pool_params *params,
		     struct memory_work *work)
{
	int err = params->file > 0 ? file_adopt(memory, params) : 0;

	if (err || memory->kept)
		return err;
	err = capacity_pool_bytes(params, work, memory->pages, &memory->bytes);
	if (!err && params->file > 0)
		err = capacity_check_file(memory);
	if (!err)
		err = capacity_claim(memory, params->node, work->room);
	return err;
}

/* Set the size of a file that holds nothing yet. */
static int file_size(struct memory *memory, const char *name)
{
	int err = memory->fd < 0 ? file_make(memory, name) : 0;

	if (!err && ftruncate(memory->fd, (off_t)memory->bytes))
		err = err_errno(-errno, "a file of %" PRIu64 " bytes", memory->bytes);
	return err;
}

/* Prepare and populate a part of the memory, which is mapped already. */
static int memory_fill(const struct memory *memory, const struct memory *part, int node,
		       struct memory_work *work)
{
	bool thp = memory->pages == POOL_PAGES_THP;
	int err = memory_prepare(part, node);
	uint64_t huge = thp && !err ? thp_bytes(memory) : 0;

	if (!err)
		err = memory_populate(part, node, work);
	if (!err && thp)
		err = thp_report(thp_bytes(memory) - huge, part->bytes, work);
	return err;
}

static int memory_try(const struct pool_params *params, enum pool_pages pages,
		      struct memory_work *work, struct memory *ret_memory)
{
	struct memory memory = { .fd = -1,
				 .pages = pages,
				 .page_bytes = pages_bytes(pages),
				 .kept = params->kept,
				 .node = -1 };
	int err = file_plan(&memory, params, work);

	if (err) {
		memory_close(&memory);
		return err;
	}
	if (!memory.kept) {
		atomic_store(&work->bytes, memory.bytes);
		err = file_size(&memory, params->name);
	}
	if (!err)
		err = space_reserve(&memory, work->reserve);
	if (!err)
		err = memory_map(&memory, 0, memory.bytes);
	/* a kept file has its pages already, and clients wait for it */
	if (!err)
		err = memory.kept ? memory_prepare(&memory, params->node)
				  : memory_fill(&memory, &memory, params->node, work);
	if (err)
		return memory_abandon(&memory, params->node, work, err);
	memory.node = memory_node(&memory);
	*ret_memory = memory;
	return 0;
}

static void note_add(struct memory_work *work, const char *text)
{
	size_t used = strlen(work->note);

	(void)snprintf(work->note + used, sizeof(work->note) - used, "%s%s",
		       used && *text ? "; " : "", text);
}

/* A pool that would grow much by rounding asks for smaller pages.  -ENOMEM: it does */
static int auto_check(const struct pool_params *params, enum pool_pages pages)
{
	uint64_t page = pages_bytes(pages);

	if (page > ROUNDING_BYTES && params->bytes % page)
		return err_set(-ENOMEM, "the size is no multiple of it");
	if (params->bytes != POOL_BYTES_AUTO && params->bytes < page)
		return err_set(-ENOMEM, "the pool is smaller");
	return 0;
}

/* From the largest pages down; the note tells why larger ones were not possible. */
static int memory_auto(const struct pool_params *params, struct memory_work *work,
		       struct memory *ret_memory)
{
	enum pool_pages order[POOL_PAGES_END];
	char why[sizeof(work->note)] = "";
	unsigned n = pages_huge(order);
	size_t used;
	int err = -ENOMEM;

	order[n++] = POOL_PAGES_THP;
	order[n++] = POOL_PAGES_BASE;
	for (unsigned i = 0; i < n; i++) {
		used = strlen(why);
		err = auto_check(params, order[i]);
		if (!err)
			err = memory_try(params, order[i], work, ret_memory);
		if (err != -ENOMEM)
			break;
		(void)snprintf(why + used, sizeof(why) - used, "%snot %s: %s",
			       used ? "; " : "", pool_pages_name(order[i]), err_text());
	}
	note_add(work, why);
	return err;
}

int memory_open(const struct pool_params *params, struct memory_work *work,
		struct memory *ret_memory)
{
	char nodes[64], share[sizeof(work->note)];
	int err;

	work->note[0] = '\0';
	if (params->node >= 0 && !host_node_exists(params->node))
		return err_set(-EINVAL, "no NUMA node %d with memory here (nodes: %s)",
			       params->node, host_nodes(nodes, sizeof(nodes)));
	if (params->kept)
		return memory_try(params, params->pages_kept, work, ret_memory);
	err = params->pages == POOL_PAGES_AUTO
		      ? memory_auto(params, work, ret_memory)
		      : memory_try(params, params->pages, work, ret_memory);
	if (!err && params->bytes == POOL_BYTES_AUTO) {
		capacity_note(ret_memory, work, share, sizeof(share));
		note_add(work, share);
	}
	return err;
}

void memory_close(struct memory *memory)
{
	if (memory->addr)
		(void)munmap(memory->addr, memory->reserved);
	if (memory->fd >= 0)
		(void)close(memory->fd);
	memory->addr = NULL;
	memory->fd = -1;
}

void memory_give_back(struct memory *memory)
{
	/* before unmapping, as in memory_cut(); a file that cannot be emptied is empty when its
	 * last descriptor is closed */
	if (memory->fd >= 0)
		(void)!ftruncate(memory->fd, 0);
	memory_close(memory);
}

/* ---- its end: longer and shorter ---- */

int memory_cut(struct memory *memory, uint64_t bytes)
{
	uint64_t before = memory->bytes;

	memory->bytes = bytes;
	/* before mapping: replacing a mapping with pages blocks all other mappings and faults of
	 * the process until the last page is freed, truncating does not */
	if (ftruncate(memory->fd, (off_t)bytes))
		return err_errno(-errno, "the end of the pool's file");
	/* reserve the space, so that the pool can grow again */
	if (space_map(memory->addr + bytes, before - bytes, MAP_FIXED) == MAP_FAILED)
		memory->reserved = bytes;
	/* the remaining memory may be on a single node */
	memory->node = memory_node(memory);
	return 0;
}

int memory_grow(struct memory *memory, uint64_t bytes, int node,
		struct memory_work *work)
{
	uint64_t before = memory->bytes;
	struct memory more = *memory;
	struct err_saved failed;
	int err;

	work->note[0] = '\0';
	more.addr += before;
	more.bytes = bytes - before;
	atomic_store(&work->bytes, more.bytes);
	err = capacity_check_file(&more);
	if (!err)
		err = capacity_claim(&more, node, work->room);
	if (!err)
		err = space_extend(memory, bytes);
	if (err)
		return err;
	/* pages that an earlier cut could not give back are not clean */
	if (ftruncate(memory->fd, (off_t)before))
		return err_errno(-errno, "the end of the pool's file");
	if (ftruncate(memory->fd, (off_t)bytes))
		return err_errno(-errno, "a file of %" PRIu64 " bytes", bytes);
	err = memory_map(memory, before, bytes);
	if (!err)
		memory->bytes = bytes;
	if (!err)
		err = memory_fill(memory, &more, node, work);
	if (!err) {
		memory->node = memory_node(memory);
		return 0;
	}
	err_save(&failed, err);
	if (memory->bytes > before)
		(void)memory_cut(memory, before);
	else
		/* if this fails, the next start cuts the file */
		(void)!ftruncate(memory->fd, (off_t)before);
	/* counted now, as the pages that the pool got are free again */
	if (err == -ENOMEM && pages_hugetlb(memory->pages))
		return capacity_huge_short(&more, node);
	return err_restore(&failed);
}
