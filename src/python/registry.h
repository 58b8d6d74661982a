/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of a session that are made when memory is first used, and kept: of numpy arrays,
 * torch tensors and ctypes arrays, whose memory stays where it is as long as they live.  An entry
 * counts only for the object that it was made for: memory that was freed comes back at the same
 * address, and a registration of what was there before would move bytes of lost pages. */
#ifndef PYTHON_REGISTRY_H
#define PYTHON_REGISTRY_H

#include "python/memory.h"
#include "python/session.h"

/* Register the memory of an object, if it is worth that and registering is on. */
void registry_hold(struct session *session, PyObject *object, struct memory *memory);
/* registry_take() of what has no buffer, or refuses it. */
int registry_take_other(struct session *session, PyObject *object, bool writable,
			struct memory *ret_memory);

/* Take the memory of an object for an operation.  It is registered, if it is worth that, and the
 * registration is held as long as the memory; what cannot be is left unregistered: librmem copies
 * it.  Memory of a GPU that cannot be registered is copied to a block that stands for it or, where
 * `writable`, from there by staging_copy_out().  Returns 0, or -1 with an exception set, as
 * memory_take(). */
static inline int registry_take(struct session *session, PyObject *object,
				bool writable, struct memory *ret_memory)
{
	if (!memory_take_buffer(object, writable, ret_memory))
		return registry_take_other(session, object, writable, ret_memory);
	if (session->registrations.on)
		registry_hold(session, object, ret_memory);
	return 0;
}

#endif
