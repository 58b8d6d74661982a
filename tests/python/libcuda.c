/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of CUDA's driver: addresses of devices are those of this process, far above what can be
 * mapped, so that whoever uses one ends.  There are two devices. */
#include <stdint.h>
#include <string.h>

#define FAR (1ull << 62)

/* for the test */
unsigned fake_copies, fake_pinned, fake_retained, fake_entered;
int fake_failure; /* of copies */

static _Thread_local void *current;
static int contexts[2];

int cuInit(unsigned flags)
{
	return flags ? 1 : 0;
}

int cuDeviceGet(int *ret_device, int ordinal)
{
	*ret_device = ordinal;
	return ordinal < 2 ? 0 : 101;
}

int cuDevicePrimaryCtxRetain(void **ret_context, int device)
{
	*ret_context = &contexts[device];
	fake_retained++;
	return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
	current = context;
	fake_entered++;
	return 0;
}

int cuCtxPopCurrent_v2(void **ret_context)
{
	*ret_context = current;
	current = NULL;
	fake_entered--;
	return 0;
}

static int copy(void *to, const void *from, size_t bytes)
{
	if (!current)
		return 201;
	if (fake_failure)
		return fake_failure;
	memcpy(to, from, bytes);
	fake_copies++;
	return 0;
}

int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t bytes)
{
	return copy(to, (void *)(uintptr_t)(from - FAR), bytes);
}

int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t bytes)
{
	return copy((void *)(uintptr_t)(to - FAR), from, bytes);
}

int cuStreamSynchronize(void *stream)
{
	return stream || !current ? 400 : 0;
}

int cuMemHostRegister_v2(void *addr, size_t bytes, unsigned flags)
{
	fake_pinned += addr && bytes && flags == 1 && current;
	return 0;
}

int cuMemHostUnregister(void *addr)
{
	fake_pinned -= addr != NULL;
	return 0;
}

int cuGetErrorString(int error, const char **ret_text)
{
	*ret_text = error == 700 ? "an illegal memory access was encountered" : "other";
	return 0;
}
