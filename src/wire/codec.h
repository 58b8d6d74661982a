/* SPDX-License-Identifier: BSD-3-Clause */
/* Frames to structures and back.  Pure functions, no I/O.  Threads: [any]. */
#ifndef WIRE_CODEC_H
#define WIRE_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"

/* Encode a message as a frame into buf.  Returns the frame's length, or
 *   -EMSGSIZE  the frame does not fit buf or WIRE_FRAME_MAX
 *   -EINVAL    a list or string is longer than its limit, or the type is unknown */
int wire_encode(const struct wire_msg *msg, uint8_t *buf, size_t buf_bytes);

/* Set the id of an encoded frame. */
void wire_frame_number(uint8_t *frame, uint64_t id);

/* The length of the frame at the start of a stream; 0: too few bytes to tell; or
 *   -EPROTO    no frame can have this length (text says which) */
int wire_frame_bytes(const uint8_t *buf, size_t bytes);

/* The type in the header of a complete frame, known or not. */
unsigned wire_frame_type(const uint8_t *buf);

/* Whether the header of a complete frame has reserved bits set. */
bool wire_frame_reserved(const uint8_t *buf);

/* The id in the header of a frame; 0: the header is not complete. */
uint64_t wire_frame_id(const uint8_t *buf, size_t bytes);

/* Set the type and zero its fields.  The rest of the structure, which is many times larger than
 * most messages, is not touched. */
void wire_msg_init(struct wire_msg *msg, enum wire_type type);

/* Decode exactly one frame of `bytes` bytes.  Only fields and list items that the frame has are
 * written; after a failure the contents are undefined.
 *   -EPROTO    truncated, unknown type, a limit exceeded, a string that is not utf8_clean(); the
 *              text names message and field */
int wire_decode(const uint8_t *buf, size_t bytes, struct wire_msg *msg);

#endif
