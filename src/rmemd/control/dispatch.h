/* SPDX-License-Identifier: BSD-3-Clause */
/* From a frame to the handler of its request.  Every request gets exactly one answer; who
 * breaks the protocol gets an error, where that is possible, and is cut off.
 * Threads: [loop]. */
#ifndef RMEMD_CONTROL_DISPATCH_H
#define RMEMD_CONTROL_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

struct peer;

/* Handle one frame of a peer that is neither closed nor greeting. */
void dispatch_frame(struct peer *peer, const uint8_t *frame, size_t bytes);

#endif
