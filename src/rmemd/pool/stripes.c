/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/stripes.h"

#define UNIT_BYTES (UINT64_C(2) << 20) /* a huge page */
#define PART_OF_SEGMENTS 4
/* With fewer huge pages for each node, one more or less makes a large difference. */
#define UNITS_MIN 8

void stripes_plan(uint64_t bytes, uint64_t align_bytes, unsigned n_nodes, unsigned max,
		  struct stripes *ret_stripes)
{
	uint64_t unit = align_bytes > UNIT_BYTES ? align_bytes : UNIT_BYTES;
	uint64_t total, rounds = n_nodes ? max / PART_OF_SEGMENTS / n_nodes : 0;
	unsigned n;

	*ret_stripes = (struct stripes){ .bytes = bytes };
	if (n_nodes < 2 || n_nodes > max)
		return;
	if (rounds > bytes / unit / n_nodes)
		rounds = bytes / unit / n_nodes;
	if (bytes / unit / n_nodes < UNITS_MIN)
		unit = align_bytes;
	total = bytes / unit + (bytes % unit != 0);
	n = (unsigned)rounds * n_nodes;
	/* at least one for each node, if there are as many units */
	if (n == 0)
		n = total < n_nodes ? (unsigned)total : n_nodes;
	ret_stripes->n = n;
	ret_stripes->unit_bytes = unit;
	ret_stripes->units = total / n;
	ret_stripes->longer = (unsigned)(total % n);
}

uint64_t stripes_bytes(const struct stripes *stripes, unsigned i)
{
	uint64_t before =
		i * stripes->units + (i < stripes->longer ? i : stripes->longer);
	uint64_t units = stripes->units + (i < stripes->longer);

	return i + 1 < stripes->n ? units * stripes->unit_bytes
				  : stripes->bytes - before * stripes->unit_bytes;
}
