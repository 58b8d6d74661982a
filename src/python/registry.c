// SPDX-License-Identifier: BSD-3-Clause
#include "python/registry.h"

#include <errno.h>

#include "python/cuda.h"
#include "python/device_range.h"
#include "python/registration.h"
#include "python/staging.h"

#define LEAST_BYTES 256                /* librmem copies as few faster */
#define MOST_BYTES (UINT64_C(4) << 30) /* registered here, beyond which idle ones end */

/* ---- whose memory it is ---- */

/* The name of a type's attribute is this one. */
static bool names(PyObject *type, const char *attribute, const char *name)
{
	PyObject *value = PyObject_GetAttrString(type, attribute);
	bool same = value && PyUnicode_Check(value) &&
		    PyUnicode_CompareWithASCIIString(value, name) == 0;

	Py_XDECREF(value);
	PyErr_Clear();
	return same;
}

/* Memory of these stays where it is as long as they live; that of bytearray, array and mmap may
 * move between calls. */
static bool stays(PyObject *object)
{
	PyObject *type = (PyObject *)Py_TYPE(object);

	return names(type, "__module__", "numpy") ||
	       names(type, "__module__", "torch") ||
	       names((PyObject *)Py_TYPE(type), "__name__", "PyCArrayType");
}

/* The object that a view was made of, or the object itself: a new reference. */
static PyObject *owner_of(PyObject *object)
{
	Py_INCREF(object);
	for (;;) {
		PyObject *base = PyObject_GetAttrString(object, "base");

		if (!base) {
			PyErr_Clear();
			base = PyObject_GetAttrString(object, "_base");
		}
		if (!base || base == Py_None) {
			PyErr_Clear();
			Py_XDECREF(base);
			return object;
		}
		Py_DECREF(object);
		object = base;
	}
}

/* ---- entries ---- */

static struct registration **bucket_of(struct registrations *all, const PyObject *owner)
{
	return &all->buckets[(uintptr_t)owner >> 4 & (REGISTRATION_BUCKETS - 1)];
}

/* The memory is a part of what the entry or the memory of the owner has. */
static bool within(const struct memory *memory, const void *addr, uint64_t bytes)
{
	uintptr_t offset = (uintptr_t)memory->addr - (uintptr_t)addr;

	return offset <= bytes && memory->bytes <= bytes - offset;
}

/* Its owner lives. */
static bool lives(const struct registration *one)
{
	return PyWeakref_GetObject(one->owner) != Py_None;
}

static void use(struct registrations *all, struct registration *one,
		struct memory *memory)
{
	one->uses++;
	one->used = ++all->uses;
	memory->registration = one;
	memory->more = true;
}

static bool find(struct registrations *all, PyObject *owner, struct memory *memory)
{
	for (struct registration *one = *bucket_of(all, owner); one; one = one->next)
		if (PyWeakref_GetObject(one->owner) == owner &&
		    within(memory, one->addr, one->bytes)) {
			use(all, one, memory);
			return true;
		}
	return false;
}

/* End a registration that nothing uses.  The session is entered.  Returns 0, or -EBUSY: operations
 * use its memory by another object, and it stays. */
static int end(struct session *session, struct registration **link)
{
	struct registrations *all = &session->registrations;
	struct registration *one = *link;
	int err;

	*link = one->next;
	Py_BEGIN_ALLOW_THREADS
	err = rmem_buffer_free(one->handle);
	Py_END_ALLOW_THREADS
	if (err) {
		one->next = all->buckets[0]; /* any: it is not found, but ended later */
		all->buckets[0] = one;
		return err;
	}
	all->bytes -= one->bytes;
	session->registered_bytes -= one->bytes;
	Py_DECREF(one->owner);
	PyMem_Free(one);
	return 0;
}

/* Returns the one that is to end first: one whose owner is gone, or, where `idle`, the one that was
 * used longest ago. */
static struct registration **first_to_end(struct registrations *all, bool idle)
{
	struct registration **oldest = NULL;

	for (unsigned i = 0; i < REGISTRATION_BUCKETS; i++)
		for (struct registration **link = &all->buckets[i]; *link;
		     link = &(*link)->next) {
			if ((*link)->uses)
				continue;
			if (!lives(*link))
				return link;
			if (idle && (!oldest || (*link)->used < (*oldest)->used))
				oldest = link;
		}
	return oldest;
}

static void make_room(struct session *session, uint64_t bytes)
{
	struct registrations *all = &session->registrations;
	struct registration **link;

	do
		link = first_to_end(all, all->bytes + bytes > MOST_BYTES);
	while (link && !end(session, link));
}

static int create(struct session *session, const struct memory *whole,
		  rmem_buffer **ret_handle)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	struct registration **idle;
	int err;

	params.addr = whole->addr;
	params.bytes = whole->bytes;
	for (;;) {
		Py_BEGIN_ALLOW_THREADS
		err = rmem_buffer_create(session->handle, &params, ret_handle);
		Py_END_ALLOW_THREADS
		idle = err == -ENOMEM ? first_to_end(&session->registrations, true)
				      : NULL;
		if (!idle || end(session, idle))
			return err;
	}
}

static void add(struct session *session, PyObject *owner, rmem_buffer *handle,
		const struct memory *whole, struct memory *memory)
{
	struct registrations *all = &session->registrations;
	struct registration *one = PyMem_Calloc(1, sizeof(*one));
	PyObject *reference = PyWeakref_NewRef(owner, NULL);

	if (!one || !reference) {
		(void)rmem_buffer_free(handle);
		Py_XDECREF(reference);
		PyMem_Free(one);
		return;
	}
	one->addr = whole->addr;
	one->bytes = whole->bytes;
	one->handle = handle;
	one->owner = reference;
	one->next = *bucket_of(all, owner);
	*bucket_of(all, owner) = one;
	all->bytes += one->bytes;
	session->n_registrations++;
	session->registered_bytes += one->bytes;
	use(all, one, memory);
}

/* Register all memory of the owner, so that other parts of it find the registration too. */
static void register_new(struct session *session, PyObject *owner,
			 struct memory *memory)
{
	struct memory whole, held = { 0 };
	rmem_buffer *handle;

	if (memory_take(owner, false, &held) || !within(memory, held.addr, held.bytes))
		whole = *memory;
	else
		whole = held;
	PyErr_Clear();
	make_room(session, whole.bytes);
	if (!create(session, &whole, &handle))
		add(session, owner, handle, &whole, memory);
	memory_release(&held);
}

void registry_hold(struct session *session, PyObject *object, struct memory *memory)
{
	PyObject *owner;

	if (!session->registrations.on || memory->bytes <= LEAST_BYTES ||
	    !stays(object))
		return;
	owner = owner_of(object);
	if (find(&session->registrations, owner, memory)) {
		session->registration_hits++;
	} else if (stays(owner) && !session_enter(session)) {
		register_new(session, owner, memory);
		session_leave(session);
	}
	PyErr_Clear();
	Py_DECREF(owner);
}

/* Hold the registration of memory of a device, or let a block stand for it. */
static int hold_of_device(struct session *session, int device, bool writable,
			  struct memory *memory)
{
	int err = 0;

	if (cuda_load() || session_enter(session))
		return -1;
	if (!device_range_hold(session, device, memory)) {
		memory->staging = staging_take(session, device, (uintptr_t)memory->addr,
					       memory->bytes, !writable);
		if (memory->staging)
			memory->addr = memory->staging->addr;
		else
			err = -1;
	}
	session_leave(session);
	return err;
}

int registry_take_other(struct session *session, PyObject *object, bool writable,
			struct memory *ret_memory)
{
	int device;

	PyErr_Clear();
	if (memory_take_any(object, writable, &device, ret_memory))
		return -1;
	if (device < 0) {
		registry_hold(session, object, ret_memory);
	} else if (hold_of_device(session, device, writable, ret_memory)) {
		memory_release(ret_memory);
		return -1;
	}
	return 0;
}
