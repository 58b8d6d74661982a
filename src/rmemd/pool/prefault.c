/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/prefault.h"

#include <errno.h>
#include <numa.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/thread.h"
#include "rmemd/pool/host.h"

#define SLICE_BYTES (UINT64_C(64) << 20)
#define THREADS_MAX 16

struct work {
	char *addr;
	uint64_t bytes, slice_bytes;
	bool hugetlb;
	int node;
	struct prefault_watch *watch;
	_Atomic uint64_t next; /* offset nobody has taken yet */
	atomic_int err;        /* the first */
};

/* One byte of each page, which stays what it is; only where a missing page cannot end in
 * SIGBUS. */
static void touch(char *addr, uint64_t bytes)
{
	uint64_t step = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < bytes; i += step)
		(void)__atomic_fetch_or(&addr[i], 0, __ATOMIC_RELAXED);
}

static int slice_populate(const struct work *work, char *addr, uint64_t bytes)
{
	int err;

	do {
		err = madvise(addr, bytes, MADV_POPULATE_WRITE) ? -errno : 0;
	} while (err == -EINTR || err == -EAGAIN);
	if (err != -EINVAL)
		return err;
	/* the kernel does not know the advice */
	if (work->hugetlb)
		return -EOPNOTSUPP;
	touch(addr, bytes);
	return 0;
}

static void *work_run(void *ctx)
{
	struct work *work = ctx;

	/* farther CPUs only take longer */
	if (work->node >= 0)
		(void)numa_run_on_node(work->node);
	while (!atomic_load(&work->err)) {
		uint64_t offset = atomic_fetch_add(&work->next, work->slice_bytes),
			 bytes;
		int err, none = 0;

		if (offset >= work->bytes)
			break;
		bytes = work->bytes - offset;
		if (bytes > work->slice_bytes)
			bytes = work->slice_bytes;
		err = atomic_load(work->watch->stop)
			      ? -ECANCELED
			      : slice_populate(work, work->addr + offset, bytes);
		if (err)
			(void)atomic_compare_exchange_strong(&work->err, &none, err);
		else
			(void)atomic_fetch_add(&work->watch->done, bytes);
	}
	return NULL;
}

int prefault(void *addr, uint64_t bytes, uint64_t page_bytes, bool hugetlb, int node,
	     struct prefault_watch *watch)
{
	struct work work = { .addr = addr,
			     .bytes = bytes,
			     .slice_bytes = page_bytes > SLICE_BYTES ? page_bytes
								     : SLICE_BYTES,
			     .hugetlb = hugetlb,
			     .node = host_has_nodes() ? node : -1,
			     .watch = watch };
	uint64_t n_slices = (bytes + work.slice_bytes - 1) / work.slice_bytes;
	pthread_t threads[THREADS_MAX];
	unsigned wanted = host_cpus(node), n = 0;
	int err = 0;

	if (wanted > THREADS_MAX)
		wanted = THREADS_MAX;
	if (wanted > n_slices)
		wanted = (unsigned)n_slices;
	while (n < wanted && !err) {
		err = thread_start("rmemd-prefault", work_run, &work, &threads[n]);
		if (!err)
			n++;
	}
	/* with fewer threads than wanted it works as well, with none it does not */
	if (n > 0)
		err = 0;
	while (n > 0)
		(void)pthread_join(threads[--n], NULL);
	return err ? err : atomic_load(&work.err);
}
