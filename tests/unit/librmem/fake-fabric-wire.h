/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire of the fake fabric: what was posted is done, or not, and ends.  For fake-fabric.c
 * alone. */
#ifndef TESTS_UNIT_FAKE_FABRIC_WIRE_H
#define TESTS_UNIT_FAKE_FABRIC_WIRE_H

#include "unit/librmem/fake-fabric.h"

void fake_lock(void);
void fake_unlock(void);

/* All under the lock.  What an operation does to the memory. */
void wire_perform(const struct fake_wr *wr);
/* End the oldest operation; end all, as those of a channel that is dead. */
void wire_complete(struct fabric_channel *channel, int status);
void wire_flush(struct fabric_channel *channel);

#endif
