/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/error_texts.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

int error_texts_init(struct error_texts *texts, unsigned operations)
{
	uint32_t n = 1;

	while (n < operations && n < ERROR_TEXTS_MAX)
		n *= 2;
	texts->texts = calloc(n, sizeof(texts->texts[0]));
	texts->mask = n - 1;
	texts->last = 0;
	return texts->texts ? 0 : -ENOMEM;
}

void error_texts_free(struct error_texts *texts)
{
	free(texts->texts);
	texts->texts = NULL;
}

char *error_texts_next(struct error_texts *texts, uint32_t *ret_number)
{
	/* 0 is that of no text */
	if (++texts->last == 0)
		texts->last = 1;
	*ret_number = texts->last;
	return texts->texts[texts->last & texts->mask];
}

const char *error_texts_find(const struct error_texts *texts, uint32_t number)
{
	if (number == 0 || texts->last - number > texts->mask)
		return NULL;
	return texts->texts[number & texts->mask];
}
