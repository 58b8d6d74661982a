// SPDX-License-Identifier: BSD-3-Clause
#include "python/cuda.h"

#include <dlfcn.h>

#define DEVICES 64

/* of CUDA's enumerations */
#define DEVICE_WRITES_ORDERING 118
#define ORDERING_OWNER 100
#define DEVICE_DMA_BUF_SUPPORTED 124
#define POINTER_BUFFER_ID 7
#define HANDLE_DMA_BUF_FD 1

/* X(return type, function, parameters), as of cuda.h, which is not needed to build. */
#define FUNCTIONS(X)                                                                   \
	X(int, cuInit, unsigned)                                                       \
	X(int, cuDeviceGet, int *, int)                                                \
	X(int, cuDevicePrimaryCtxRetain, void **, int)                                 \
	X(int, cuCtxPushCurrent_v2, void *)                                            \
	X(int, cuCtxPopCurrent_v2, void **)                                            \
	X(int, cuMemcpyDtoH_v2, void *, unsigned long long, size_t)                    \
	X(int, cuMemcpyHtoD_v2, unsigned long long, const void *, size_t)              \
	X(int, cuDeviceGetAttribute, int *, int, int)                                  \
	X(int, cuMemGetAddressRange_v2, unsigned long long *, size_t *,                \
	  unsigned long long)                                                          \
	X(int, cuPointerGetAttribute, void *, int, unsigned long long)                 \
	X(int, cuMemGetHandleForAddressRange, void *, unsigned long long, size_t, int, \
	  unsigned long long)                                                          \
	X(int, cuStreamSynchronize, void *)                                            \
	X(int, cuMemHostRegister_v2, void *, size_t, unsigned)                         \
	X(int, cuMemHostUnregister, void *)                                            \
	X(int, cuGetErrorString, int, const char **)

#define MEMBER(type, name, ...) type (*name)(__VA_ARGS__);
static struct {
	FUNCTIONS(MEMBER)
	bool loaded;
	/* the primary ones, which torch uses too; NULL: not asked for yet */
	void *contexts[DEVICES];
} cuda;

int cuda_load(void)
{
	void *library;
	int result;

	if (cuda.loaded)
		return 0;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		PyErr_Format(
			PyExc_BufferError,
			"the tensor is on a GPU, and CUDA's driver cannot be loaded: "
			"%s",
			dlerror());
		return -1;
	}
#define FIND(type, name, ...)                                                  \
	*(void **)&cuda.name = dlsym(library, #name);                          \
	if (!cuda.name) {                                                      \
		PyErr_SetString(PyExc_BufferError,                             \
				"CUDA's driver is too old: it has no " #name); \
		return -1;                                                     \
	}
	FUNCTIONS(FIND)
	result = cuda.cuInit(0);
	if (result) {
		PyErr_Format(PyExc_BufferError, "CUDA cannot be used: %s",
			     cuda_error(result));
		return -1;
	}
	cuda.loaded = true;
	return 0;
}

const char *cuda_error(int result)
{
	const char *text;

	return cuda.cuGetErrorString(result, &text) ? "an unknown error" : text;
}

/* Make the device's context that of the thread.  Two threads at a time retain it twice, which
 * lasts to the end of the process as once does. */
static int enter(int device)
{
	void *context = NULL;
	int number, result;

	if (device < 0 || device >= DEVICES)
		return 101; /* CUDA_ERROR_INVALID_DEVICE */
	context = __atomic_load_n(&cuda.contexts[device], __ATOMIC_ACQUIRE);
	if (!context) {
		result = cuda.cuDeviceGet(&number, device);
		if (!result)
			result = cuda.cuDevicePrimaryCtxRetain(&context, number);
		if (result)
			return result;
		__atomic_store_n(&cuda.contexts[device], context, __ATOMIC_RELEASE);
	}
	return cuda.cuCtxPushCurrent_v2(context);
}

static void leave(void)
{
	void *context;

	(void)cuda.cuCtxPopCurrent_v2(&context);
}

int cuda_copy(int device, void *host, uint64_t address, uint64_t bytes, bool to_device)
{
	int result = enter(device);

	if (result)
		return result;
	result = to_device ? cuda.cuMemcpyHtoD_v2(address, host, bytes)
			   : cuda.cuMemcpyDtoH_v2(host, address, bytes);
	if (!result) /* of the stream that both use, on which a tensor's producer has waited */
		result = cuda.cuStreamSynchronize(NULL);
	leave();
	return result;
}

bool cuda_exports(int device)
{
	int number, supported, ordering;

	return !cuda.cuDeviceGet(&number, device) &&
	       !cuda.cuDeviceGetAttribute(&supported, DEVICE_DMA_BUF_SUPPORTED,
					  number) &&
	       !cuda.cuDeviceGetAttribute(&ordering, DEVICE_WRITES_ORDERING, number) &&
	       supported && ordering >= ORDERING_OWNER;
}

int cuda_wait(int device)
{
	int result = enter(device);

	if (result)
		return result;
	result = cuda.cuStreamSynchronize(NULL);
	leave();
	return result;
}

int cuda_range(int device, uint64_t address, struct cuda_range *ret_range)
{
	unsigned long long base, id;
	size_t bytes;
	int result = enter(device);

	if (result)
		return result;
	result = cuda.cuMemGetAddressRange_v2(&base, &bytes, address);
	if (!result)
		result = cuda.cuPointerGetAttribute(&id, POINTER_BUFFER_ID, base);
	leave();
	if (!result)
		*ret_range = (struct cuda_range){ base, bytes, id };
	return result;
}

int cuda_export(int device, const struct cuda_range *range)
{
	int fd, result = enter(device);

	if (result)
		return -1;
	result = cuda.cuMemGetHandleForAddressRange(&fd, range->base, range->bytes,
						    HANDLE_DMA_BUF_FD, 0);
	leave();
	return result ? -1 : fd;
}

void cuda_pin(int device, void *addr, uint64_t bytes)
{
	if (enter(device))
		return;
	(void)cuda.cuMemHostRegister_v2(addr, bytes, 1); /* for all contexts */
	leave();
}

void cuda_unpin(void *addr)
{
	(void)cuda.cuMemHostUnregister(addr);
}
