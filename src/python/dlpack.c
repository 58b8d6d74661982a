// SPDX-License-Identifier: BSD-3-Clause
#include "python/dlpack.h"

struct device {
	int32_t type;
	int32_t id;
};

/* Not named as in dlpack.h, which is not needed to build. */
struct tensor {
	void *data;
	struct device device;
	int32_t n_dims;
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
	int64_t *shape;
	int64_t *strides; /* in elements; NULL: contiguous */
	uint64_t byte_offset;
};

/* In capsules named "dltensor". */
struct managed {
	struct tensor tensor;
	void *context;
	void (*deleter)(struct managed *);
};

#define READ_ONLY 1u

/* In capsules named "dltensor_versioned". */
struct versioned {
	uint32_t major;
	uint32_t minor;
	void *context;
	void (*deleter)(struct versioned *);
	uint64_t flags;
	struct tensor tensor;
};

/* The number of elements, or -1: they are not next to each other. */
static int64_t elements(const struct tensor *tensor)
{
	int64_t n = 1;
	bool contiguous = true;

	for (int32_t i = tensor->n_dims; i-- > 0;) {
		if (tensor->strides && tensor->shape[i] != 1 && tensor->strides[i] != n)
			contiguous = false;
		n *= tensor->shape[i];
	}
	return contiguous || !n ? n : -1;
}

/* Call __dlpack__() as newer producers have it, then as all have. */
static PyObject *capsule_of(PyObject *object)
{
	PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
	PyObject *arguments, *names, *capsule;

	if (!method) {
		if (PyErr_ExceptionMatches(PyExc_AttributeError))
			PyErr_Format(
				PyExc_TypeError,
				"%R has neither the buffer protocol nor __dlpack__",
				(PyObject *)Py_TYPE(object));
		return NULL;
	}
	arguments = PyTuple_New(0);
	names = Py_BuildValue("{s(ii)}", "max_version", 1, 0);
	capsule = arguments && names ? PyObject_Call(method, arguments, names) : NULL;
	if (!capsule && names && PyErr_ExceptionMatches(PyExc_TypeError)) {
		PyErr_Clear();
		capsule = PyObject_CallNoArgs(method);
	}
	Py_XDECREF(arguments);
	Py_XDECREF(names);
	Py_DECREF(method);
	return capsule;
}

static const struct tensor *tensor_of(PyObject *capsule, bool writable)
{
	struct managed *managed = PyCapsule_IsValid(capsule, "dltensor")
					  ? PyCapsule_GetPointer(capsule, "dltensor")
					  : NULL;
	struct versioned *versioned;

	if (managed)
		return &managed->tensor;
	versioned = PyCapsule_GetPointer(capsule, "dltensor_versioned");
	if (!versioned)
		return NULL;
	if (versioned->major != 1) {
		PyErr_Format(PyExc_BufferError, "version %u of DLPack is unknown",
			     versioned->major);
		return NULL;
	}
	if (writable && versioned->flags & READ_ONLY) {
		PyErr_SetString(PyExc_BufferError,
				"the memory of the tensor is read-only");
		return NULL;
	}
	return &versioned->tensor;
}

static bool is_known(int32_t device)
{
	return device == DLPACK_CPU || device == DLPACK_CUDA ||
	       device == DLPACK_CUDA_HOST;
}

int dlpack_take(PyObject *object, bool writable, struct dlpack *ret_dlpack)
{
	PyObject *capsule = capsule_of(object);
	const struct tensor *tensor = capsule ? tensor_of(capsule, writable) : NULL;
	int64_t n = tensor ? elements(tensor) : -1;

	if (!tensor) {
		Py_XDECREF(capsule);
		return -1;
	}
	if (!is_known(tensor->device.type))
		PyErr_Format(
			PyExc_BufferError,
			"the tensor is on a device of type %d of DLPack, neither on "
			"the CPU nor of CUDA",
			(int)tensor->device.type);
	else if (n < 0)
		PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous: "
						   "contiguous() makes a copy that is");
	if (!is_known(tensor->device.type) || n < 0) {
		Py_DECREF(capsule);
		return -1;
	}
	/* the capsule is not consumed: its destructor ends the tensor */
	*ret_dlpack = (struct dlpack){
		.capsule = capsule,
		.addr = (char *)tensor->data + tensor->byte_offset,
		.bytes = (uint64_t)n *
			 (((uint64_t)tensor->bits * tensor->lanes + 7) / 8),
		.device = tensor->device.type == DLPACK_CUDA ? tensor->device.id : -1,
	};
	return 0;
}

struct given {
	struct managed managed;
	int64_t shape;
	PyObject *owner;
	void (*ended)(PyObject *owner);
};

static void given_free(struct given *given)
{
	given->ended(given->owner);
	Py_DECREF(given->owner);
	PyMem_Free(given);
}

/* The consumer, of any thread, has done with it. */
static void given_end(struct managed *managed)
{
	PyGILState_STATE locked = PyGILState_Ensure();

	given_free(managed->context);
	PyGILState_Release(locked);
}

/* A capsule that was consumed has another name.  Python's lock is held, of a subinterpreter too, in
 * which PyGILState_Ensure() would wait for it. */
static void capsule_end(PyObject *capsule)
{
	if (PyCapsule_IsValid(capsule, "dltensor"))
		given_free(((struct managed *)PyCapsule_GetPointer(capsule, "dltensor"))
				   ->context);
}

PyObject *dlpack_give(PyObject *owner, void *addr, uint64_t bytes,
		      void (*ended)(PyObject *owner))
{
	struct given *given = PyMem_Calloc(1, sizeof(*given));
	PyObject *capsule;

	if (!given)
		return PyErr_NoMemory();
	given->shape = (int64_t)bytes;
	given->managed = (struct managed){
		.tensor = { .data = addr,
			    .device = { .type = DLPACK_CPU },
			    .n_dims = 1,
			    .code = 1, /* unsigned */
			    .bits = 8,
			    .lanes = 1,
			    .shape = &given->shape },
		.context = given,
		.deleter = given_end,
	};
	given->ended = ended;
	given->owner = owner;
	capsule = PyCapsule_New(&given->managed, "dltensor", capsule_end);
	if (!capsule) {
		PyMem_Free(given);
		return NULL;
	}
	Py_INCREF(owner);
	return capsule;
}
