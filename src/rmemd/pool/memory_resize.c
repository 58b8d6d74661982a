/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a pool's memory, where it becomes longer and shorter. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/pool/mapping.h"
#include "rmemd/pool/capacity.h"

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
