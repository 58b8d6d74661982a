/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of a GPU is copied through pinned blocks of this process, which a session has registered
 * and keeps. */
#ifndef PYTHON_STAGING_H
#define PYTHON_STAGING_H

#include "python/module.h"

struct session;

struct staging {
	struct staging *next; /* of those that are idle */
	void *addr;
	uint64_t bytes;
	rmem_buffer *handle;
	struct session *session; /* whoever has the memory holds it */
	/* what it stands for */
	uint64_t address;
	uint64_t used;
	int device;
};

/* Those of a session. */
struct stagings {
	struct staging *idle;
	uint64_t bytes; /* of all blocks */
};

/* Take a block for memory of a device, and where `filled` copy that into it.  The driver is loaded,
 * and the session entered.  Returns NULL with an exception set. */
struct staging *staging_take(struct session *session, int device, uint64_t address,
			     uint64_t bytes, bool filled);
/* Copy the block to the memory of the device: an operation has read into it.  Returns 0, or the
 * exception: a new reference. */
PyObject *staging_copy_out(struct staging *staging);
/* The operation has ended. */
void staging_give_back(struct staging *staging);
/* The session has ended, and nothing is in use. */
void stagings_end(struct stagings *all, bool of_this_process);

#endif
