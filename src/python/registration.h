/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PYTHON_REGISTRATION_H
#define PYTHON_REGISTRATION_H

#include "python/module.h"

#define REGISTRATION_BUCKETS 256

struct registration {
	void *addr;
	uint64_t bytes;
	rmem_buffer *handle;
	PyObject *owner; /* a weak reference to the object that has the memory */
	unsigned uses;   /* operations under way */
	bool ended;      /* with its session: the last use frees it */
	uint64_t used;   /* when it was used last, in uses of all */
	struct registration *next; /* in its bucket */
};

/* Those of a session. */
struct registrations {
	struct registration *buckets[REGISTRATION_BUCKETS];
	uint64_t uses;
	uint64_t bytes;
	bool on; /* register what is used */
};

/* A use ends. */
void registration_release(struct registration *one);

/* The session has ended, and the registrations with it. */
void registrations_forget(struct registrations *all);

#endif
