/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/err.h"
#include "base/units.h"
#include "rmemd/pool/cgroup.h"
#include "rmemd/pool/host.h"
#include "rmemd/pool/memory.h"

/* ---- kinds of pages ---- */

unsigned capacity_kind(enum pool_pages pages)
{
	return pages_hugetlb(pages) ? pages : CAPACITY_MEMORY;
}

uint64_t pages_bytes(enum pool_pages pages)
{
	if (pages_hugetlb(pages))
		return UINT64_C(1) << pages;
	return pages == POOL_PAGES_THP ? host_thp_bytes()
				       : (uint64_t)sysconf(_SC_PAGESIZE);
}

unsigned pages_huge(enum pool_pages ret_pages[POOL_PAGES_END])
{
	struct host_huge huge;
	unsigned n = 0;

	for (unsigned pages = POOL_PAGES_64G; pages >= POOL_PAGES_HUGE; pages--)
		if (!host_huge_pages(UINT64_C(1) << pages, -1, &huge))
			ret_pages[n++] = (enum pool_pages)pages;
	return n;
}

/* What a cgroup counts for them: its limits name huge pages by their length, and other memory
 * not. */
static uint64_t pages_huge_bytes(enum pool_pages pages)
{
	return pages_hugetlb(pages) ? pages_bytes(pages) : 0;
}

int capacity_huge_unknown(enum pool_pages pages)
{
	enum pool_pages known[POOL_PAGES_END];
	unsigned n = pages_huge(known);
	char has[128] = "";

	for (unsigned i = 0; i < n; i++) {
		size_t used = strlen(has);

		(void)snprintf(has + used, sizeof(has) - used, "%s%s",
			       i ? ", " : ", it has ", pool_pages_name(known[i]));
	}
	return err_set(-EINVAL, "this CPU or kernel has no pages of %s%s",
		       pool_pages_name(pages), has);
}

#define WHERE_BYTES 32
#define WHOLE 100 /* per cent */

/* "on node 1" or "on this host" */
#define WHERE(node) where(node, (char[WHERE_BYTES]){ 0 })
static const char *where(int node, char buf[WHERE_BYTES])
{
	if (node < 0)
		(void)snprintf(buf, WHERE_BYTES, "on this host");
	else
		(void)snprintf(buf, WHERE_BYTES, "on node %d", node);
	return buf;
}

/* ---- limits of the groups of this process ---- */

/* What they leave to pools on these pages; UINT64_MAX: there is no limit. */
static uint64_t groups_leave(uint64_t huge_page_bytes, struct cgroup_limit *ret_limit)
{
	return cgroup_limit("self", huge_page_bytes, ret_limit) ? UINT64_MAX
								: ret_limit->left;
}

/* Whether they leave less than the host has free. */
static bool group_is_least(uint64_t huge_page_bytes, struct cgroup_limit *ret_limit)
{
	uint64_t on_host = UINT64_MAX;
	struct host_huge huge;

	if (!huge_page_bytes)
		(void)host_available(-1, &on_host);
	else if (!host_huge_pages(huge_page_bytes, -1, &huge) && !huge.overcommit)
		on_host = huge.free * huge_page_bytes;
	return groups_leave(huge_page_bytes, ret_limit) < on_host;
}

static int group_short(uint64_t wanted, const struct cgroup_limit *limit)
{
	return err_set(-ENOMEM, "%s wanted, %s available: %s, or make the pool smaller",
		       UNITS_BYTES(wanted), UNITS_BYTES(limit->left),
		       CGROUP_TEXT(limit));
}

/* ---- is there enough? ---- */

int capacity_huge_short(const struct memory *memory, int node)
{
	uint64_t wanted = memory->bytes / memory->page_bytes, others;
	const char *name = pool_pages_name(memory->pages);
	char path[256], boot[96] = "";
	struct cgroup_limit limit;
	struct host_huge huge;

	if (host_huge_pages(memory->page_bytes, node, &huge))
		return capacity_huge_unknown(memory->pages);
	if (groups_leave(memory->page_bytes, &limit) < memory->bytes)
		return group_short(memory->bytes, &limit);
	/* more of them would not help */
	if (huge.free >= wanted)
		return err_set(-ENOMEM,
			       "%" PRIu64 " page%s of %s wanted %s, %" PRIu64
			       " free there, which the kernel does not give to this "
			       "process: has it a cpuset without their node?",
			       wanted, wanted == 1 ? "" : "s", name, WHERE(node),
			       huge.free);
	others = huge.total > huge.free ? huge.total - huge.free : 0;
	if (memory->pages >= POOL_PAGES_1G)
		(void)snprintf(boot, sizeof(boot),
			       ", or hugepagesz=%s hugepages=N on the kernel's command "
			       "line",
			       name);
	return err_set(-ENOMEM,
		       "%" PRIu64 " page%s of %s wanted %s, %" PRIu64
		       " free there: echo %" PRIu64 " > %s%s",
		       wanted, wanted == 1 ? "" : "s", name, WHERE(node), huge.free,
		       others + wanted,
		       host_huge_path(memory->page_bytes, node, "nr_hugepages", path,
				      sizeof(path)),
		       boot);
}

static int huge_check(const struct memory *memory, int node)
{
	struct cgroup_limit limit;
	struct host_huge huge;
	int err = host_huge_pages(memory->page_bytes, node, &huge);

	if (err ||
	    (!huge.overcommit && huge.free < memory->bytes / memory->page_bytes) ||
	    groups_leave(memory->page_bytes, &limit) < memory->bytes)
		return capacity_huge_short(memory, node);
	return 0;
}

static int thp_check_mount(dev_t device)
{
	char path[HOST_MOUNT_BYTES];
	bool allowed;

	/* if unknown, populating shows whether there are huge pages */
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
	/* for files in a directory the mount decides, unless the kernel overrules it; a memfd is
	 * in none */
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

uint64_t capacity_available(void)
{
	struct cgroup_limit limit;
	uint64_t available, left = groups_leave(0, &limit);

	/* where the kernel tells no number, populating shows whether there is enough */
	if (host_available(-1, &available) || available > left)
		available = left;
	return available;
}

/* A mistyped size must not make the kernel kill other processes. */
static int space_short(const struct memory *memory, int node, uint64_t available)
{
	return err_set(-ENOMEM, "%s wanted, %s available %s: make the pool smaller",
		       UNITS_BYTES(memory->bytes), UNITS_BYTES(available), WHERE(node));
}

static int space_check(const struct memory *memory, int node)
{
	uint64_t available;

	/* if unknown, populating shows whether there is enough */
	if (host_available(node, &available) || memory->bytes <= available)
		return 0;
	return space_short(memory, node, available);
}

/* There is less room than wanted, for the reason that leaves least: the host, or a group. */
static int room_short(const struct memory *memory, uint64_t left)
{
	struct cgroup_limit limit;

	if (!group_is_least(0, &limit))
		return space_short(memory, -1, left);
	limit.left = left;
	return group_short(memory->bytes, &limit);
}

/* Whatever its node, the memory must fit on the host and into the groups, together with pools being
 * opened now. */
static int space_claim(const struct memory *memory, _Atomic(uint64_t) *room)
{
	uint64_t left = atomic_load(room);

	do {
		if (memory->bytes > left)
			return room_short(memory, left);
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
		err = space_check(memory, host_has_nodes() ? node : -1);
	return err ? err : space_claim(memory, room);
}

int capacity_check_file(const struct memory *memory)
{
	struct statfs fs;

	if (fstatfs(memory->fd, &fs))
		return err_errno(-errno, "the pool's file");
	/* in blocks, as a file system without a limit reports the maximum, or no blocks at all */
	if (fs.f_blocks == 0 || fs.f_bavail >= memory->bytes / (uint64_t)fs.f_bsize)
		return 0;
	return err_set(
		-ENOMEM,
		"%s wanted, %s free on the file system that its file is on: mount it "
		"with a larger size, or make the pool smaller",
		UNITS_BYTES(memory->bytes),
		UNITS_BYTES(fs.f_bavail * (uint64_t)fs.f_bsize));
}

/* ---- shares ---- */

/* The percentage that pools without a share divide. */
static unsigned divided(unsigned kind)
{
	return kind == CAPACITY_MEMORY ? 50 : WHOLE;
}

/* "free pages of 2M" */
static const char *kind_name(unsigned kind, char *buf, size_t buf_bytes)
{
	if (kind == CAPACITY_MEMORY)
		(void)snprintf(buf, buf_bytes, "free memory");
	else
		(void)snprintf(buf, buf_bytes, "free pages of %s",
			       pool_pages_name((enum pool_pages)kind));
	return buf;
}

/* Whether it may get memory of that kind.  A kept pool has its memory already, which is not counted
 * as free. */
static bool may_claim(const struct pool_params *pool, unsigned kind)
{
	return pool->bytes == POOL_BYTES_AUTO && !pool->kept &&
	       (pool->pages == POOL_PAGES_AUTO || capacity_kind(pool->pages) == kind);
}

/* The sum of the shares of a kind of the first n pools that are on a node, and how many have
 * none. */
static unsigned shares_sum(const struct pool_params *pools, size_t n, int node,
			   unsigned kind, unsigned *ret_n_without)
{
	unsigned sum = 0, n_without = 0;

	for (size_t i = 0; i < n; i++) {
		if (pools[i].node != node || !may_claim(&pools[i], kind))
			continue;
		sum += pools[i].share;
		n_without += pools[i].share == POOL_SHARE_AUTO;
	}
	*ret_n_without = n_without;
	return sum;
}

struct share capacity_share(const struct pool_params *pools, size_t n, size_t i,
			    unsigned kind)
{
	struct share share = { pools[i].share, WHOLE };
	unsigned n_without, sum;

	if (pools[i].share != POOL_SHARE_AUTO || !may_claim(&pools[i], kind))
		return share;
	sum = shares_sum(pools, n, pools[i].node, kind, &n_without);
	share.parts = sum < divided(kind) ? divided(kind) - sum : 0;
	share.whole = WHOLE * n_without;
	return share;
}

uint64_t capacity_share_bytes(struct share share, uint64_t free, uint64_t page_bytes)
{
	uint64_t pages = free / page_bytes;

	/* quotient and rest, as the product may overflow */
	return (pages / share.whole * share.parts +
		pages % share.whole * share.parts / share.whole) *
	       page_bytes;
}

/* What the groups leave is divided among the nodes as free memory is, since pools of all nodes are
 * opened at the same time. */
static uint64_t group_part(uint64_t on_node, uint64_t on_host, uint64_t left)
{
	if (on_host <= left)
		return on_node;
	return (uint64_t)((double)left * ((double)on_node / (double)on_host));
}

static uint64_t huge_free(uint64_t page_bytes, int node)
{
	struct cgroup_limit limit;
	struct host_huge here, huge;

	if (host_huge_pages(page_bytes, node, &here) ||
	    host_huge_pages(page_bytes, -1, &huge))
		return 0;
	return group_part(here.free * page_bytes, huge.free * page_bytes,
			  groups_leave(page_bytes, &limit));
}

static uint64_t memory_free(int node)
{
	struct cgroup_limit limit;
	uint64_t on_host, on_node;

	if (host_available(-1, &on_host))
		on_host = 0;
	if (host_available(host_has_nodes() ? node : -1, &on_node) || on_node > on_host)
		on_node = on_host;
	return group_part(on_node, on_host, groups_leave(0, &limit));
}

void capacity_free(int node, uint64_t ret_bytes[CAPACITY_KINDS])
{
	for (unsigned kind = POOL_PAGES_HUGE; kind < CAPACITY_KINDS; kind++)
		ret_bytes[kind] = huge_free(UINT64_C(1) << kind, node);
	ret_bytes[CAPACITY_MEMORY] = memory_free(node);
}

static const char *node_name(int node, char *buf, size_t buf_bytes)
{
	if (node == POOL_NODE_ANY)
		(void)snprintf(buf, buf_bytes, "any node");
	else
		(void)snprintf(buf, buf_bytes, "node %d", node);
	return buf;
}

static int kind_check(const struct pool_params *pools, size_t n, size_t i,
		      unsigned kind)
{
	const struct pool_params *pool = &pools[i];
	unsigned n_without, sum;
	char name[32], of[32];

	if (!may_claim(pool, kind))
		return 0;
	sum = shares_sum(pools, i + 1, pool->node, kind, &n_without);
	if (pool->share != POOL_SHARE_AUTO && sum > WHOLE)
		return err_set(-EINVAL,
			       "pool '%s': the shares of the pools of %s come to %u%% "
			       "of its %s",
			       pool->name, node_name(pool->node, name, sizeof(name)),
			       sum, kind_name(kind, of, sizeof(of)));
	sum = shares_sum(pools, n, pool->node, kind, &n_without);
	/* with page_size = auto the pool may find another kind */
	if (pool->share == POOL_SHARE_AUTO && pool->pages != POOL_PAGES_AUTO &&
	    sum >= divided(kind))
		return err_set(-EINVAL,
			       "pool '%s': without a share it has what the others of "
			       "%s, with %u%%, leave of %u%% of its %s: nothing",
			       pool->name, node_name(pool->node, name, sizeof(name)),
			       sum, divided(kind), kind_name(kind, of, sizeof(of)));
	return 0;
}

int capacity_check_shares(const struct pool_params *pools, size_t n, size_t *ret_i)
{
	for (size_t i = 0; i < n; i++) {
		for (unsigned kind = 0; kind < CAPACITY_KINDS; kind++) {
			int err = kind_check(pools, n, i, kind);

			if (err) {
				*ret_i = i;
				return err;
			}
		}
	}
	return 0;
}

/* ---- how much does a pool get? ---- */

/* The share is less than can be lent: tell how much must be free. */
static int share_short(const struct share *share, uint64_t free, enum pool_pages pages,
		       int node)
{
	uint64_t page = pages_bytes(pages), n = free / page, percent, wanted;
	const char *name = pool_pages_name(pages);
	struct cgroup_limit limit;
	struct host_huge huge;
	char path[256];

	if (!share->parts)
		return err_set(-ENOMEM,
			       "the shares of other pools leave nothing to it");
	percent = share->parts * 100 / share->whole;
	if (group_is_least(pages_huge_bytes(pages), &limit))
		return err_set(
			-ENOMEM,
			"its share is %" PRIu64
			"%% of %s that are available %s, too little: %s, or give "
			"the pool more, and others less",
			percent, UNITS_BYTES(free), WHERE(node), CGROUP_TEXT(&limit));
	wanted = (share->whole + share->parts - 1) / share->parts;
	if (!pages_hugetlb(pages))
		return err_set(
			-ENOMEM,
			"its share is %" PRIu64 "%% of %s that are available %s, less "
			"than %s: give it more, or other pools less",
			percent, UNITS_BYTES(free), WHERE(node),
			UNITS_BYTES(page > POOL_BYTES_MIN ? page : POOL_BYTES_MIN));
	if (host_huge_pages(page, node, &huge))
		return capacity_huge_unknown(pages);
	return err_set(-ENOMEM,
		       "its share is %" PRIu64 "%% of %" PRIu64
		       " page%s of %s free %s, less than one: echo %" PRIu64 " > %s",
		       percent, n, n == 1 ? "" : "s", name, WHERE(node),
		       wanted + huge.total -
			       (huge.total > huge.free ? huge.free : huge.total),
		       host_huge_path(page, node, "nr_hugepages", path, sizeof(path)));
}

int capacity_pool_bytes(const struct pool_params *params,
			const struct memory_work *work, enum pool_pages pages,
			uint64_t *ret_bytes)
{
	uint64_t page = pages_bytes(pages), bytes, now[CAPACITY_KINDS];
	unsigned kind = capacity_kind(pages);

	if (params->bytes != POOL_BYTES_AUTO) {
		if (checked_align_up(params->bytes, page, ret_bytes))
			return 0;
		return err_set(-ENOMEM, "there is no memory of %" PRIu64 " bytes",
			       params->bytes);
	}
	bytes = capacity_share_bytes(work->share[kind], work->free[kind], page);
	/* other processes may have used some of the memory meanwhile */
	capacity_free(params->node, now);
	if (bytes > now[kind])
		bytes = now[kind] / page * page;
	if (bytes < page || bytes < POOL_BYTES_MIN)
		return share_short(&work->share[kind], work->free[kind], pages,
				   params->node);
	*ret_bytes = bytes;
	return 0;
}

void capacity_note(const struct memory *memory, const struct memory_work *work,
		   char *buf, size_t buf_bytes)
{
	struct cgroup_limit limit;

	buf[0] = '\0';
	if (group_is_least(pages_huge_bytes(memory->pages), &limit))
		(void)snprintf(buf, buf_bytes, "its share is of what %s leaves, %s",
			       limit.path,
			       UNITS_BYTES(work->free[capacity_kind(memory->pages)]));
}
