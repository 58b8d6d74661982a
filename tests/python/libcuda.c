/* SPDX-License-Identifier: BSD-3-Clause */
/* In place of CUDA's driver: addresses of devices are those of this process, far above what can be
 * mapped, so that whoever uses one ends.  There are two devices. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAR (1ull << 62)

/* for the test */
unsigned fake_copies, fake_pinned, fake_retained, fake_entered;
int fake_failure; /* of copies */
int fake_ordering = 100;
int fake_exports = 1;

/* the one allocation that knows its bounds; its memory can be exported, and goes on beyond it */
static struct {
	unsigned long long base;
	size_t bytes;
	int memfd;
	unsigned long long id;
} range;

static _Thread_local void *current;
static int contexts[2];

unsigned long long fake_alloc(size_t bytes)
{
	void *addr;

	range.memfd = memfd_create("device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (range.memfd < 0 || ftruncate(range.memfd, (off_t)(2 * bytes)) ||
	    fcntl(range.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return 0;
	addr = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED, range.memfd,
		    0);
	range.base = (uintptr_t)addr + FAR;
	range.bytes = bytes;
	range.id++;
	return range.base;
}

/* Another allocation, at the same address. */
void fake_replace(void)
{
	void *addr = (void *)(uintptr_t)(range.base - FAR);

	(void)close(range.memfd);
	range.memfd = memfd_create("device", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	(void)!ftruncate(range.memfd, (off_t)(2 * range.bytes));
	(void)fcntl(range.memfd, F_ADD_SEALS, F_SEAL_SHRINK);
	(void)mmap(addr, 2 * range.bytes, PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_FIXED, range.memfd, 0);
	range.id++;
}

int cuDeviceGetAttribute(int *ret_value, int attribute, int device)
{
	*ret_value = attribute == 118 ? fake_ordering : fake_exports;
	return device >= 2 || (attribute != 118 && attribute != 124);
}

int cuMemGetAddressRange_v2(unsigned long long *ret_base, size_t *ret_bytes,
			    unsigned long long address)
{
	if (!current || address < range.base || address >= range.base + range.bytes)
		return 500;
	*ret_base = range.base;
	*ret_bytes = range.bytes;
	return 0;
}

int cuPointerGetAttribute(void *ret_value, int attribute, unsigned long long address)
{
	*(unsigned long long *)ret_value = range.id;
	return attribute != 7 || address != range.base;
}

int cuMemGetHandleForAddressRange(void *ret_handle, unsigned long long address,
				  size_t bytes, int type, unsigned long long flags)
{
	struct udmabuf_create create = { .memfd = (unsigned)range.memfd,
					 .flags = UDMABUF_FLAGS_CLOEXEC,
					 .size = bytes };
	int device, fd;

	if (type != 1 || flags || address != range.base || bytes != range.bytes)
		return 1;
	device = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	if (device < 0)
		return 801;
	fd = ioctl(device, UDMABUF_CREATE, &create);
	(void)close(device);
	*(int *)ret_handle = fd;
	return fd < 0;
}

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
