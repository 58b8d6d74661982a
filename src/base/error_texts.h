/* SPDX-License-Identifier: BSD-3-Clause */
/* The texts of what failed last, completions of a queue or results of a cache: each has the number
 * of its text.  Threads: [owner] of the queue or the cache. */
#ifndef BASE_ERROR_TEXTS_H
#define BASE_ERROR_TEXTS_H

#include <stdint.h>

#define ERROR_TEXT_BYTES 320
#define ERROR_TEXTS_MAX 256u /* as rmem.h and cache.h promise */

struct error_texts {
	char (*texts)[ERROR_TEXT_BYTES]; /* that of number n at n & mask */
	uint32_t mask;
	uint32_t last; /* number of the last one; 0: none yet */
};

/* Room for the texts of as many as there are operations, at most ERROR_TEXTS_MAX.
 * -ENOMEM. */
int error_texts_init(struct error_texts *texts, unsigned operations);
void error_texts_free(struct error_texts *texts);

/* Memory for the next text, in place of the oldest one, and its number. */
char *error_texts_next(struct error_texts *texts, uint32_t *ret_number);
/* NULL: the text is not kept any more, or there is none of that number. */
const char *error_texts_find(const struct error_texts *texts, uint32_t number);

#endif
