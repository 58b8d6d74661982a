/* SPDX-License-Identifier: BSD-3-Clause */
/* Registrations of a session that are made when memory is first used, and kept: of numpy arrays,
 * torch tensors and ctypes arrays, whose memory stays where it is as long as they live.  An entry
 * counts only for the object that it was made for: memory that was freed comes back at the same
 * address, and a registration of what was there before would move bytes of lost pages. */
#ifndef PYTHON_REGISTRY_H
#define PYTHON_REGISTRY_H

#include "python/memory.h"
#include "python/session.h"

/* Register the memory of an object, if it is worth that, and hold the registration as long as the
 * memory.  What fails is left unregistered: librmem copies it. */
void registry_hold(struct session *session, PyObject *object, struct memory *memory);

#endif
