/* SPDX-License-Identifier: BSD-3-Clause */
/* What a client knows of a lease: its length, and for each byte the versions that it may have.  A
 * write that was reported done leaves one; one that failed leaves another, until a read tells which
 * it is, for good. */
#ifndef TESTS_SIMULATE_MODEL_H
#define TESTS_SIMULATE_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#define MODEL_BYTES_MAX (12u * 4096u)

struct model {
	uint64_t id;
	uint64_t bytes;
	bool bytes_known;              /* a resize has no unknown outcome */
	unsigned version;              /* the last one, 1 to 15 */
	uint16_t may[MODEL_BYTES_MAX]; /* bit 0: zero; bit n: version n */
};

void model_begin(struct model *model, uint64_t id, uint64_t bytes);
/* Fill buf with the next version for the range. */
void model_write_begin(struct model *model, uint64_t offset, uint64_t bytes,
		       unsigned char *buf);
void model_write_end(struct model *model, uint64_t offset, uint64_t bytes, bool done);
/* Bytes were read: each is one of those that may be there, and stays it. */
void model_read(struct model *model, uint64_t offset, uint64_t bytes,
		const unsigned char *buf);
/* A resize has ended. */
void model_resize(struct model *model, uint64_t bytes, bool done);

#endif
