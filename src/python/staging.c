// SPDX-License-Identifier: BSD-3-Clause
#include "python/staging.h"

#include <errno.h>
#include <sys/mman.h>

#include "python/cuda.h"
#include "python/failure.h"
#include "python/session.h"

#define LEAST_BYTES (UINT64_C(64) << 10)
#define MOST_BYTES (UINT64_C(1) << 30) /* of a session, beyond which idle blocks end */

static void block_end(struct staging *block)
{
	(void)munmap(block->addr, block->bytes);
	PyMem_Free(block);
}

/* End idle blocks until there is room, or none. */
static void make_room(struct session *session, uint64_t bytes)
{
	struct stagings *all = &session->stagings;

	while (all->idle && all->bytes + bytes > MOST_BYTES) {
		struct staging *block = all->idle;

		all->idle = block->next;
		all->bytes -= block->bytes;
		session->registered_bytes -= block->bytes;
		Py_BEGIN_ALLOW_THREADS(void)
		rmem_buffer_free(block->handle);
		cuda_unpin(block->addr);
		Py_END_ALLOW_THREADS
		block_end(block);
	}
}

static int map_and_register(struct staging *block, rmem *session, int device)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	int err;

	block->addr = mmap(NULL, block->bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (block->addr == MAP_FAILED)
		return -ENOMEM;
	params.addr = block->addr;
	params.bytes = block->bytes;
	err = rmem_buffer_create(session, &params, &block->handle);
	if (err)
		(void)munmap(block->addr, block->bytes);
	else
		cuda_pin(device, block->addr, block->bytes);
	return err;
}

static struct staging *block_new(struct session *session, int device, uint64_t bytes)
{
	struct staging *block = PyMem_Calloc(1, sizeof(*block));
	int err;

	if (!block)
		return (void *)PyErr_NoMemory();
	block->bytes = LEAST_BYTES;
	while (block->bytes < bytes)
		block->bytes *= 2;
	make_room(session, block->bytes);
	Py_BEGIN_ALLOW_THREADS
	err = map_and_register(block, session->handle, device);
	Py_END_ALLOW_THREADS
	if (err) {
		PyMem_Free(block);
		return failure_of_call(session->module, err);
	}
	session->stagings.bytes += block->bytes;
	session->n_registrations++;
	session->registered_bytes += block->bytes;
	return block;
}

/* The smallest idle block that has room, or NULL. */
static struct staging *idle_block(struct stagings *all, uint64_t bytes)
{
	struct staging **best = NULL, *block;

	for (struct staging **link = &all->idle; *link; link = &(*link)->next)
		if ((*link)->bytes >= bytes &&
		    (!best || (*link)->bytes < (*best)->bytes))
			best = link;
	if (!best)
		return NULL;
	block = *best;
	*best = block->next;
	return block;
}

/* Returns 0, or the exception: a new reference. */
static PyObject *copied(struct staging *staging, int result)
{
	struct session *session = staging->session;
	PyObject *text, *error;

	if (!result) {
		session->pinned_copies++;
		session->pinned_bytes += staging->used;
		return NULL;
	}
	text = PyUnicode_FromFormat(
		"%llu bytes between a pinned buffer and CUDA device "
		"%d: %s",
		(unsigned long long)staging->used, staging->device, cuda_error(result));
	error = text ? failure_new(session->module, -EIO,
				   PyUnicode_AsUTF8AndSize(text, NULL),
				   RMEM_REASON_NONE)
		     : NULL;
	Py_XDECREF(text);
	if (!error) {
		PyErr_Clear();
		Py_INCREF(PyExc_MemoryError);
		error = PyExc_MemoryError;
	}
	return error;
}

static int copy_in(struct staging *staging)
{
	PyObject *error;
	int result;

	Py_BEGIN_ALLOW_THREADS
	result = cuda_copy(staging->device, staging->addr, staging->address,
			   staging->used, false);
	Py_END_ALLOW_THREADS
	error = copied(staging, result);
	if (error) {
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
		Py_DECREF(error);
	}
	return result ? -1 : 0;
}

struct staging *staging_take(struct session *session, int device, uint64_t address,
			     uint64_t bytes, bool filled)
{
	struct staging *staging;

	staging = idle_block(&session->stagings, bytes);
	if (!staging)
		staging = block_new(session, device, bytes);
	if (!staging)
		return NULL;
	staging->session = session;
	staging->address = address;
	staging->used = bytes;
	staging->device = device;
	if (filled && copy_in(staging)) {
		staging_give_back(staging);
		return NULL;
	}
	return staging;
}

PyObject *staging_copy_out(struct staging *staging)
{
	return copied(staging, cuda_copy(staging->device, staging->addr,
					 staging->address, staging->used, true));
}

void staging_give_back(struct staging *staging)
{
	struct session *session = staging->session;

	staging->next = session->stagings.idle;
	session->stagings.idle = staging;
}

void stagings_end(struct stagings *all, bool of_this_process)
{
	while (all->idle) {
		struct staging *block = all->idle;

		all->idle = block->next;
		if (of_this_process)
			cuda_unpin(block->addr);
		block_end(block);
	}
}
