/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/model.h"

#include "simulate/checks.h"
#include "simulate/sim.h"

void model_begin(struct model *model, uint64_t id, uint64_t bytes)
{
	model->id = id;
	model->bytes = bytes;
	model->bytes_known = true;
	model->version = 0;
	for (unsigned i = 0; i < MODEL_BYTES_MAX; i++)
		model->may[i] = 1;
}

void model_write_begin(struct model *model, uint64_t offset, uint64_t bytes,
		       unsigned char *buf)
{
	model->version = model->version % 15 + 1;
	for (uint64_t i = 0; i < bytes; i++) {
		buf[i] = pattern(model->id, offset + i, model->version);
		model->may[offset + i] |= (uint16_t)(1u << model->version);
	}
}

void model_write_end(struct model *model, uint64_t offset, uint64_t bytes, bool done)
{
	for (uint64_t i = 0; done && i < bytes; i++)
		model->may[offset + i] = (uint16_t)(1u << model->version);
}

void model_read(struct model *model, uint64_t offset, uint64_t bytes,
		const unsigned char *buf)
{
	for (uint64_t i = 0; i < bytes; i++) {
		int version = pattern_version(model->id, offset + i, buf[i]);

		if (version < 0 || !(model->may[offset + i] & 1u << version))
			sim_fail("lease %llu has the byte %#x (version %d) at %llu, "
				 "and may have the versions %#x",
				 (unsigned long long)model->id, buf[i], version,
				 (unsigned long long)(offset + i),
				 model->may[offset + i]);
		model->may[offset + i] = (uint16_t)(1u << version);
	}
}

void model_resize(struct model *model, uint64_t bytes, bool done)
{
	uint64_t from = model->bytes < bytes ? model->bytes : bytes;

	/* what was cut off reads as zero if it comes back */
	for (uint64_t i = from; i < MODEL_BYTES_MAX; i++)
		model->may[i] = done ? 1 : model->may[i] | 1;
	if (done)
		model->bytes = bytes;
	model->bytes_known = done;
}
