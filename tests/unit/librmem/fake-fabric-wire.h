/* SPDX-License-Identifier: BSD-3-Clause */
/* The wire of the fake fabric: executes and completes posted operations.  For fake-fabric.c
 * and fake-server.c only. */
#ifndef TESTS_UNIT_FAKE_FABRIC_WIRE_H
#define TESTS_UNIT_FAKE_FABRIC_WIRE_H

#include "unit/librmem/fake-fabric.h"

void fake_lock(void);
void fake_unlock(void);

/* The functions below are called under the lock. */

/* Execute an operation. */
void wire_perform(const struct fake_wr *wr);
/* Complete the oldest operation of the channel. */
void wire_complete(struct fabric_channel *channel, int status);
/* Complete all operations of a dead channel as flushed. */
void wire_flush(struct fabric_channel *channel);
/* Report to the client that the peer has ended the channel. */
void wire_peer_gone(struct fabric_channel *channel);

#endif
