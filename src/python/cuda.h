/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of GPUs, by the driver of CUDA, which is loaded when it is first needed. */
#ifndef PYTHON_CUDA_H
#define PYTHON_CUDA_H

#include "python/module.h"

/* Load the driver.  Returns 0, or -1 with an exception set. */
int cuda_load(void);
/* Copy between memory of this process and of a device, by its number, and wait for the end; after
 * what streams that others wait for have begun.  Needs no lock of Python.  Returns 0, or a number
 * for cuda_error(). */
int cuda_copy(int device, void *host, uint64_t address, uint64_t bytes, bool to_device);
const char *cuda_error(int result);

/* An allocation of a device. */
struct cuda_range {
	uint64_t base;
	uint64_t bytes;
	uint64_t id; /* no other allocation has it, ever */
};

/* Devices may reach memory of this one by dma-bufs, and what they have written is seen there when
 * their operation has ended. */
bool cuda_exports(int device);
/* Find the allocation of an address.  Returns as cuda_copy(). */
int cuda_range(int device, uint64_t address, struct cuda_range *ret_range);
/* Wait for what cuda_copy() waits for.  Returns as that. */
int cuda_wait(int device);
/* Returns a descriptor of its dma-buf, or -1: it has none, as it is not of whole pages. */
int cuda_export(int device, const struct cuda_range *range);
/* Let copies of a device reach this memory by themselves; where that fails they are slower. */
void cuda_pin(int device, void *addr, uint64_t bytes);
void cuda_unpin(void *addr);

#endif
