/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/moves.h"

#include <assert.h>

unsigned moves_next(const struct move *moves, size_t n, unsigned from, unsigned step)
{
	size_t i = 0;

	while (i < n && (moves[i].from != from || moves[i].step != step))
		i++;
	assert(i < n);
	return moves[i].to;
}
