/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/answers.h"

#include <stdlib.h>
#include <string.h>

void answers_init(struct answers *answers)
{
	answers->dropped_id = 0;
	answers->n = answers->oldest = 0;
}

/* Room for one more, in place of the oldest if need be. */
static struct answer *place_make(struct answers *answers)
{
	struct answer *place = &answers->ring[answers->oldest];

	if (answers->n < ANSWERS_MAX)
		return &answers->ring[answers->n++];
	if (place->id > answers->dropped_id)
		answers->dropped_id = place->id;
	free(place->text);
	answers->oldest = (answers->oldest + 1) % ANSWERS_MAX;
	return place;
}

void answers_keep(struct answers *answers, const struct answer *answer,
		  const char *text)
{
	struct answer *place = place_make(answers);

	*place = *answer;
	place->text = text ? strdup(text) : NULL;
}

const struct answer *answers_find(const struct answers *answers, uint64_t id)
{
	for (unsigned i = 0; i < answers->n; i++)
		if (answers->ring[i].id == id)
			return &answers->ring[i];
	return NULL;
}

void answers_clear(struct answers *answers)
{
	for (unsigned i = 0; i < answers->n; i++)
		free(answers->ring[i].text);
	answers_init(answers);
}
