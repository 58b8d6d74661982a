/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/pool/pools-case.h"

#include <stdio.h>
#include <sys/mman.h>

struct pools *pools;
struct extent taken[EXTENTS_MAX];
unsigned n_taken;

int open_params(uint64_t bytes, int node, enum pool_pages pages)
{
	struct pool_params params = {
		.name = "a", .node = node, .bytes = bytes, .pages = pages
	};

	return pools_open(&params, 1, NULL, &pools);
}

int take_into(uint64_t bytes, uint64_t align, int node, struct extent *extents,
	      unsigned max, unsigned *ret_n)
{
	const struct pool_request request = { .bytes = bytes,
					      .align = align,
					      .nodes = &node,
					      .n_nodes = node != POOL_NODE_ANY };

	return pools_alloc(pools, &request, extents, max, ret_n);
}

int take(uint64_t bytes, unsigned max)
{
	return take_into(bytes, 1, POOL_NODE_ANY, taken, max, &n_taken);
}

struct pool_status opened;
char opened_note[512];

static void keep_ready(void *ctx, const struct pool_status *status, const char *note)
{
	(void)ctx;
	opened = *status;
	(void)snprintf(opened_note, sizeof(opened_note), "%s", note);
}

const struct pools_events keeping = { .ready = keep_ready };

int kept_fd = -1;

void kept_make(unsigned flags)
{
	kept_fd = memfd_create("kept", MFD_CLOEXEC | flags);
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
