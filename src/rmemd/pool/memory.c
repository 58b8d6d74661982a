/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/mapping.h"
#include "rmemd/pool/pages.h"
#include "rmemd/pool/capacity.h"

#define PAGE_1G (UINT64_C(1) << 30)
#define PAGE_2M (UINT64_C(1) << 21)

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
		err = capacity_huge_short(memory, node);
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
	err = capacity_pool_bytes(params, work, memory->pages, &memory->bytes);
	if (!err && params->file > 0)
		err = capacity_check_file(memory);
	if (!err)
		err = capacity_claim(memory, params->node, work->room);
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
		err = memory_map(&memory, 0, memory.bytes);
	if (!err)
		err = memory_prepare(&memory, params->node);
	/* memory that was there before has its pages: clients that wait for it wait no longer */
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

/* ---- its end: longer and shorter ---- */

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
	err = capacity_check_file(&more);
	if (!err)
		err = capacity_claim(&more, node, work->room);
	if (!err)
		err = space_extend(memory, bytes);
	if (err)
		return err;
	/* what a cut could not give back is not clean */
	if (ftruncate(memory->fd, (off_t)before))
		return err_errno(-errno, "the end of the pool's file");
	if (ftruncate(memory->fd, (off_t)bytes))
		return err_errno(-errno, "a file of %" PRIu64 " bytes", bytes);
	err = memory_map(memory, before, bytes);
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
		return capacity_huge_short(&more, node);
	return err_set(err, "%s", text);
}
