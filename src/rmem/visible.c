/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/visible.h"

#include <string.h>

#include "base/utf8.h"

/* Go on with the character that the piece before this one began; returns how many bytes it
 * takes. */
static size_t cut_complete(struct visible *visible, const char *data, size_t bytes,
			   bool *ret_clean)
{
	size_t i = 0;

	*ret_clean = true;
	while (*ret_clean && visible->n_cut > 0 && i < bytes) {
		visible->cut[visible->n_cut++] = data[i++];
		if (utf8_begins(visible->cut, visible->n_cut))
			continue;
		(void)utf8_next(visible->cut, visible->n_cut, ret_clean);
		visible->n_cut = 0;
	}
	return i;
}

bool visible_check(struct visible *visible, const char *data, size_t bytes, bool last)
{
	bool clean;
	size_t i = cut_complete(visible, data, bytes, &clean);

	while (clean && i < bytes) {
		size_t n = utf8_next(data + i, bytes - i, &clean);

		if (!clean && data[i] && strchr("\t\n\v\f\r", data[i]))
			clean = true;
		if (!clean && utf8_begins(data + i, bytes - i)) {
			visible->n_cut = bytes - i;
			memcpy(visible->cut, data + i, visible->n_cut);
			return !last;
		}
		i += n;
	}
	return clean && !(last && visible->n_cut > 0);
}
