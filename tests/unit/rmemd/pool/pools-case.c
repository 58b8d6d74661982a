/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/pool/pools-case.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"

struct pools *pools;
struct extent allocated[EXTENTS_MAX];
unsigned n_allocated;
int kept_fd = -1;

void close_pools(void)
{
	pools_close(pools);
	pools = NULL;
}

void pools_teardown(void)
{
	close_pools();
	if (kept_fd >= 0)
		(void)close(kept_fd);
}

void open_pools(const struct pool_params *params, size_t n)
{
	ck_assert_msg(pools_open(params, n, &recorder, &pools) == 0, "%s", err_text());
}

void open_one(uint64_t bytes)
{
	const struct pool_params params =
		POOL("a", POOL_NODE_ANY, bytes, POOL_PAGES_BASE);

	open_pools(&params, 1);
}

int open_params(uint64_t bytes, int node, enum pool_pages pages)
{
	const struct pool_params params = POOL("a", node, bytes, pages);

	return pools_open(&params, 1, NULL, &pools);
}

int alloc_as(const struct pool_request *request, unsigned max)
{
	return pools_alloc(pools, request, allocated, max, &n_allocated);
}

int alloc(uint64_t bytes, unsigned max)
{
	return alloc_as(&(struct pool_request){ .bytes = bytes, .align = 1 }, max);
}

struct extent alloc_one(uint64_t bytes)
{
	ck_assert_msg(alloc(bytes, 1) == 0, "%s", err_text());
	return allocated[0];
}

uint64_t await_event(void)
{
	struct pollfd pollfd = { .fd = pools_fd(pools), .events = POLLIN };

	ck_assert_int_eq(poll(&pollfd, 1, 20000), 1);
	return pools_process(pools);
}

bool extent_is(const struct extent *extent, char value)
{
	const char *addr = extent_addr(extent);

	/* every byte is equal to the next one */
	return addr[0] == value && memcmp(addr, addr + 1, extent->bytes - 1) == 0;
}

void extent_fill(const struct extent *extent, char value)
{
	memset(extent_addr(extent), value, extent->bytes);
}

struct pool_status opened;
char opened_note[512];

static void record_ready(void *ctx, const struct pool_status *status, const char *note)
{
	(void)ctx;
	opened = *status;
	(void)snprintf(opened_note, sizeof(opened_note), "%s", note);
}

const struct pools_events recorder = { .ready = record_ready };

void kept_make(void)
{
	kept_fd = memfd_create("kept", MFD_CLOEXEC);
	ck_assert_int_ge(kept_fd, 0);
}

int open_kept(uint64_t bytes, enum pool_pages asked, enum pool_pages kept)
{
	const struct pool_params params = { .name = "a",
					    .node = POOL_NODE_ANY,
					    .bytes = bytes,
					    .pages = asked,
					    .id = 7,
					    .file = kept_fd,
					    .kept = kept != POOL_PAGES_AUTO,
					    .pages_kept = kept };

	return pools_open(&params, 1, NULL, &pools);
}
