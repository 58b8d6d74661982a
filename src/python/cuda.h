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
/* Let copies of a device reach this memory by themselves; where that fails they are slower. */
void cuda_pin(int device, void *addr, uint64_t bytes);
void cuda_unpin(void *addr);

#endif
