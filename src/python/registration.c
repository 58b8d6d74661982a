// SPDX-License-Identifier: BSD-3-Clause
#include "python/registration.h"

void registrations_forget(struct registrations *all)
{
	for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++) {
		struct registration *one = all->buckets[i];

		all->buckets[i] = NULL;
		while (one) {
			struct registration *next = one->next;

			Py_DECREF(one->owner);
			PyMem_Free(one);
			one = next;
		}
	}
	all->bytes = 0;
}
