/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/pages.h"

#define WHERE_BYTES 32

/* "on node 1" or "on this host" */
static const char *where(int node, char buf[WHERE_BYTES])
{
	if (node < 0)
		(void)snprintf(buf, WHERE_BYTES, "on this host");
	else
		(void)snprintf(buf, WHERE_BYTES, "on node %d", node);
	return buf;
}

/* ---- is there enough? ---- */

int capacity_huge_short(const struct memory *memory, int node)
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
		return capacity_huge_short(memory, node);
	return 0;
}

static int thp_check_mount(dev_t device)
{
	char path[HOST_MOUNT_BYTES];
	bool allowed;

	/* a kernel that does not tell is asked by populating */
	if (host_mount_thp(device, &allowed, path) || allowed)
		return 0;
	return err_set(
		-ENOMEM,
		"the tmpfs at %s gives its files no transparent huge pages: mount "
		"-o remount,huge=advise %s",
		path, path);
}

static int thp_check(const struct memory *memory)
{
	char word[32] = "";
	bool allowed = false;
	struct stat st;

	if (host_shmem_thp(&allowed, word, sizeof(word)))
		return err_set(-ENOMEM, "this kernel has no transparent huge pages for "
					"shared memory");
	/* of files in a directory the mount decides, unless it is overruled; a memfd is in none */
	if (memory->fd >= 0 && strcmp(word, "deny") != 0 &&
	    strcmp(word, "force") != 0 && fstat(memory->fd, &st) == 0 &&
	    st.st_nlink > 0)
		return thp_check_mount(st.st_dev);
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

int capacity_claim(const struct memory *memory, int node, _Atomic(uint64_t) *room)
{
	int err;

	if (pages_hugetlb(memory->pages))
		return huge_check(memory, node);
	err = memory->pages == POOL_PAGES_THP ? thp_check(memory) : 0;
	if (!err)
		err = room_check(memory, host_has_nodes() ? node : -1);
	return err ? err : room_claim(memory, room);
}

int capacity_check_file(const struct memory *memory)
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

int capacity_pool_bytes(const struct pool_params *params,
			const struct memory_work *work, enum pool_pages pages,
			uint64_t *ret_bytes)
{
	uint64_t page = pages_bytes(pages), bytes, now[AUTO_SIZE_KINDS];
	enum auto_size_kind kind = auto_size_kind(pages);

	if (params->bytes != POOL_BYTES_AUTO) {
		*ret_bytes = (params->bytes + page - 1) / page * page;
		return 0;
	}
	bytes = auto_size_bytes(work->share[kind], work->free[kind], page);
	/* others than pools may have taken some meanwhile */
	auto_size_free(params->node, now);
	if (bytes > now[kind])
		bytes = now[kind] / page * page;
	if (bytes < page || bytes < POOL_BYTES_MIN)
		return share_short(&work->share[kind], work->free[kind], pages,
				   params->node);
	*ret_bytes = bytes;
	return 0;
}
