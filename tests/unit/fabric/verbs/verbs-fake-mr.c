/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and memory regions of the fake. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <check.h>
#include <errno.h>
#include <stdlib.h>

/* Access flags of the last registration, and its thread. */
static unsigned last_access;
static pthread_t last_thread;
static struct fake_dmabuf last_dmabuf;

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct pd *pd;

	if (fake_fails("ibv_alloc_pd"))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	ck_assert_ptr_nonnull(pd);
	pd->public.context = context;
	fake_live_add(1);
	return &pd->public;
}

int ibv_dealloc_pd(struct ibv_pd *public)
{
	struct pd *pd = (struct pd *)public;

	ck_assert_uint_eq(pd->children, 0);
	free(pd);
	fake_live_add(-1);
	return verbs_fake.dealloc_error;
}

/* Keys that have died, the last one last; with verbs_fake.repeats_keys. */
static uint32_t dead_keys[64];
static unsigned n_dead;

static uint32_t key_new(void)
{
	static uint32_t keys = 100;

	return verbs_fake.repeats_keys && n_dead ? dead_keys[--n_dead] : keys++;
}

static void key_free(uint32_t key)
{
	if (verbs_fake.repeats_keys && n_dead < 64)
		dead_keys[n_dead++] = key;
}

static struct ibv_mr *mr_new(struct ibv_pd *pd, void *addr, size_t bytes,
			     unsigned access)
{
	struct ibv_mr *mr = calloc(1, sizeof(*mr));

	ck_assert_ptr_nonnull(mr);
	mr->pd = pd;
	mr->addr = addr;
	mr->length = bytes;
	LOCKED(mr->rkey = mr->lkey = key_new(); last_access = access;
	       last_thread = pthread_self(); fake_state.live++; fake_state.mrs++;
	       ((struct pd *)pd)->children++);
	return mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t bytes,
				uint64_t iova, unsigned int access)
{
	(void)iova;
	if (verbs_fake.before_reg_mr)
		verbs_fake.before_reg_mr();
	if (fake_fails("ibv_reg_mr"))
		return NULL;
	if (verbs_fake.reg_error && access) {
		errno = verbs_fake.reg_error;
		return NULL;
	}
	return mr_new(pd, addr, bytes, access);
}

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t bytes,
				 uint64_t iova, int fd, int access)
{
	if (fake_fails("ibv_reg_dmabuf_mr"))
		return NULL;
	if (verbs_fake.dmabuf_error) {
		errno = verbs_fake.dmabuf_error;
		return NULL;
	}
	LOCKED(last_dmabuf = ((struct fake_dmabuf){ fd, offset, iova, bytes }));
	return mr_new(pd, (void *)(uintptr_t)iova, bytes, (unsigned)access);
}

struct fake_dmabuf fake_dmabuf(void)
{
	struct fake_dmabuf dmabuf;

	LOCKED(dmabuf = last_dmabuf);
	return dmabuf;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t bytes, int access)
{
	return ibv_reg_mr_iova2(pd, addr, bytes, (uintptr_t)addr, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	int err = verbs_fake.dereg_error;

	if (verbs_fake.dereg_refusals) {
		verbs_fake.dereg_refusals--;
		return EBUSY;
	}
	/* a failed deregistration would keep the protection domain; the fake frees
	 * both */
	LOCKED(fake_state.live--; fake_state.mrs--; ((struct pd *)mr->pd)->children--;
	       key_free(mr->rkey));
	free(mr);
	return err;
}

bool fake_registered_here(void)
{
	bool here;

	LOCKED(here = pthread_equal(last_thread, pthread_self()));
	return here;
}

unsigned fake_access(void)
{
	unsigned access;

	LOCKED(access = last_access);
	return access;
}
