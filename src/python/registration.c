// SPDX-License-Identifier: BSD-3-Clause
#include "python/registration.h"

void registration_release(struct registration *one)
{
	if (!--one->uses && one->ended)
		PyMem_Free(one);
}

void registrations_forget(struct registrations *all)
{
	for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++) {
		struct registration *one = all->buckets[i];

		all->buckets[i] = NULL;
		while (one) {
			struct registration *next = one->next;

			Py_DECREF(one->owner);
			one->ended = true;
			if (!one->uses)
				PyMem_Free(one);
			one = next;
		}
	}
	all->bytes = 0;
}
