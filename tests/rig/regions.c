/* SPDX-License-Identifier: BSD-3-Clause */
/* A library to preload: RDMA devices register at most so many bytes at once as the file
 * RMEM_REGION_FILE has, and say so. */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#undef ibv_reg_mr

#define EXPORT __attribute__((visibility("default")))

/* The library's own function of this name. */
static void real(const char *name, void *ret_function, size_t bytes)
{
	void *found = dlsym(RTLD_NEXT, name);

	if (!found)
		abort();
	memcpy(ret_function, &found, bytes);
}
#define REAL(name, function) real(name, &(function), sizeof(function))

static size_t limit(void)
{
	FILE *file = fopen(getenv("RMEM_REGION_FILE"), "re");
	size_t bytes;

	if (!file || fscanf(file, "%zu", &bytes) != 1)
		abort();
	(void)fclose(file);
	return bytes;
}

/* ---- what a device says ---- */

static int (*query)(struct ibv_context *context,
		    const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t attr_bytes);

static int query_limited(struct ibv_context *context,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_bytes)
{
	int err = query(context, input, attr, attr_bytes);

	attr->orig_attr.max_mr_size = limit();
	return err;
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *(*open)(struct ibv_device *device), *context;
	struct verbs_context *verbs;

	REAL("ibv_open_device", open);
	context = open(device);
	verbs = context ? verbs_get_ctx_op(context, query_device_ex) : NULL;
	if (verbs) {
		query = verbs->query_device_ex;
		verbs->query_device_ex = query_limited;
	}
	return context;
}

/* ---- what it does ---- */

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes,
				 int access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t bytes, int access);

	REAL("ibv_reg_mr", reg);
	if (bytes <= limit())
		return reg(pd, addr, bytes, access);
	errno = EINVAL;
	return NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes,
				       uint64_t iova, unsigned access)
{
	struct ibv_mr *(*reg)(struct ibv_pd *pd, void *addr, size_t bytes,
			      uint64_t iova, unsigned access);

	REAL("ibv_reg_mr_iova2", reg);
	if (bytes <= limit())
		return reg(pd, addr, bytes, iova, access);
	errno = EINVAL;
	return NULL;
}
