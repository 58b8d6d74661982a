/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/nearest.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

#define LENGTH_MAX 63

static bool char_equal(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static size_t min3(size_t a, size_t b, size_t c)
{
	size_t least = a < b ? a : b;

	return least < c ? least : c;
}

/* The Levenshtein distance, one row of the matrix at a time. */
size_t nearest_distance(const char *a, const char *b)
{
	size_t a_len = strnlen(a, LENGTH_MAX), b_len = strnlen(b, LENGTH_MAX);
	size_t row[LENGTH_MAX + 1];

	for (size_t j = 0; j <= b_len; j++)
		row[j] = j;
	for (size_t i = 1; i <= a_len; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= b_len; j++) {
			size_t replace = diagonal + !char_equal(a[i - 1], b[j - 1]);

			diagonal = row[j];
			row[j] = min3(row[j] + 1, row[j - 1] + 1, replace);
		}
	}
	return row[b_len];
}

void nearest_init(struct nearest *nearest, const char *word)
{
	*nearest = (struct nearest){ .word = word, .distance = SIZE_MAX };
}

void nearest_offer(struct nearest *nearest, const char *candidate)
{
	size_t distance = nearest_distance(nearest->word, candidate);

	if (distance < nearest->distance) {
		nearest->best = candidate;
		nearest->distance = distance;
	}
}

const char *nearest_get(const struct nearest *nearest)
{
	/* two typing errors in a short word, more in a longer one */
	size_t limit = strlen(nearest->word) / 2;

	return nearest->distance <= (limit < 3 ? limit : 3) ? nearest->best : NULL;
}

int nearest_unknown(const struct nearest *nearest, const char *kind)
{
	const char *meant = nearest_get(nearest);

	return err_set(-EINVAL, "unknown %s '%s'%s%s%s", kind, nearest->word,
		       meant ? "; did you mean '" : "", meant ? meant : "",
		       meant ? "'?" : "");
}
