/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/answers.h"

#include <stdlib.h>
#include <string.h>

void answers_keep(struct answers *answers, const struct answer *answer,
		  const char *text)
{
	struct answer *place = &answers->ring[answers->oldest];

	if (place->id > answers->dropped_id)
		answers->dropped_id = place->id;
	free(place->text);
	*place = *answer;
	place->text = text ? strdup(text) : NULL;
	answers->oldest = (answers->oldest + 1) % ANSWERS_MAX;
}

const struct answer *answers_find(const struct answers *answers, uint64_t id)
{
	for (unsigned i = 0; i < ANSWERS_MAX; i++)
		if (id && answers->ring[i].id == id)
			return &answers->ring[i];
	return NULL;
}

void answers_clear(struct answers *answers)
{
	for (unsigned i = 0; i < ANSWERS_MAX; i++)
		free(answers->ring[i].text);
	memset(answers, 0, sizeof(*answers));
}
