/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/lease/segment.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "rmemd/lease/lease_table.h"

/* A segment that was cut and grows again is zeroed on the loop, up to this size, which takes a
 * fraction of a millisecond. */
#define ZERO_INLINE_BYTES (UINT64_C(2) << 20)

int segment_create(struct lease *lease, struct extent extent, uint64_t bytes,
		   struct segment **ret_segment)
{
	struct segment *segment = malloc(sizeof(*segment));

	if (!segment)
		return err_set(-ENOMEM, "no memory for a segment");
	*segment = (struct segment){
		.lease = lease,
		.extent = extent,
		.bytes = bytes,
		.dirty = bytes,
		.refs = 1,
	};
	list_init(&segment->releasing);
	lease->tenant->bytes += extent.bytes;
	extent_set_owner(&extent, lease->tenant->name);
	*ret_segment = segment;
	return 0;
}

void segment_unref(struct segment *segment)
{
	const struct leases *leases = segment->lease->leases;

	if (--segment->refs)
		return;
	if (!list_empty(&segment->releasing)) {
		extent_set_releasing(&segment->extent, false);
		list_remove(&segment->releasing);
	}
	assert(segment->extent.bytes <= segment->lease->tenant->bytes);
	segment->lease->tenant->bytes -= segment->extent.bytes;
	/* when the table is closed, the extent stays for the next process */
	if (!leases->closing)
		pools_free(leases->pools, segment->extent);
	free(segment);
}

void segment_release(struct segment *segment)
{
	list_append(&segment->lease->leases->releasing, &segment->releasing);
	extent_set_releasing(&segment->extent, true);
	segment_unref(segment);
}

uint64_t segment_slack(const struct segment *segment)
{
	if (segment->dirty > segment->bytes &&
	    segment->dirty - segment->bytes > ZERO_INLINE_BYTES)
		return 0;
	return segment->extent.bytes - segment->bytes;
}

void segment_extend(struct segment *segment, uint64_t bytes)
{
	uint64_t end = segment->bytes + bytes;

	if (segment->dirty > segment->bytes) {
		uint64_t stop = segment->dirty < end ? segment->dirty : end;

		memset((char *)extent_addr(&segment->extent) + segment->bytes, 0,
		       stop - segment->bytes);
	}
	segment->bytes = end;
	if (segment->dirty < end)
		segment->dirty = end;
}

void segment_shed(struct segment *segment)
{
	struct lease *lease = segment->lease;

	lease->tenant->bytes -=
		pools_free_tail(lease->leases->pools, &segment->extent, segment->bytes);
	if (segment->dirty > segment->extent.bytes)
		segment->dirty = segment->extent.bytes;
}
