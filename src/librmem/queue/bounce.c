/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/queue/bounce.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define CHUNK_MIN 4096u
#define CHUNKS 64u

static void regions_free(struct bounce *bounce)
{
	for (unsigned i = 0; i < bounce->domains->n; i++)
		if (bounce->mrs[i]) {
			bounce->domains->ops->dereg_mr(bounce->mrs[i]);
			bounce->mrs[i] = NULL;
		}
}

static int reg_mr(struct bounce *bounce, unsigned domain)
{
	const struct domain_set *set = bounce->domains;

	return set->ops->reg_mr(set->domains[domain].fabric, bounce->memory,
				bounce->bytes, &bounce->mrs[domain]);
}

static int regions_create(struct bounce *bounce)
{
	for (unsigned i = 0; i < bounce->domains->n; i++) {
		int err = bounce->held & 1u << i ? reg_mr(bounce, i) : 0;

		if (err) {
			regions_free(bounce);
			return err;
		}
	}
	return 0;
}

/* Lay out the chunks: many, but none smaller than a page. */
static void chunks_layout(struct bounce *bounce, size_t bytes)
{
	size_t chunk = bytes / CHUNKS / CHUNK_MIN * CHUNK_MIN;

	if (chunk == 0)
		chunk = CHUNK_MIN;
	bounce->chunk_bytes = chunk;
	bounce->n_free = (unsigned)(bytes / chunk);
	if (bounce->n_free == 0)
		bounce->n_free = 1;
	bounce->bytes = bounce->n_free * chunk;
}

void bounce_init(const struct domain_set *domains, size_t bytes,
		 struct bounce *ret_bounce)
{
	*ret_bounce = (struct bounce){ .domains = domains };
	chunks_layout(ret_bounce, bytes);
}

int bounce_create(struct bounce *bounce)
{
	void *memory;
	int err;

	bounce->free = calloc(bounce->n_free, sizeof(*bounce->free));
	if (!bounce->free)
		return -ENOMEM;
	memory = mmap(NULL, bounce->bytes, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		err = -errno;
		goto err_free;
	}
	bounce->memory = memory;
	err = regions_create(bounce);
	if (err)
		goto err_unmap;
	for (unsigned i = 0; i < bounce->n_free; i++)
		bounce->free[i] = bounce->memory + i * bounce->chunk_bytes;
	return 0;

err_unmap:
	(void)munmap(memory, bounce->bytes);
	bounce->memory = NULL;
err_free:
	free(bounce->free);
	bounce->free = NULL;
	return err;
}

void bounce_destroy(struct bounce *bounce)
{
	if (!bounce->memory)
		return;
	regions_free(bounce);
	(void)munmap(bounce->memory, bounce->bytes);
	free(bounce->free);
	bounce->memory = NULL;
}

void bounce_leave(struct bounce *bounce, unsigned domain)
{
	bounce->held &= ~(1u << domain);
	if (bounce->mrs[domain])
		bounce->domains->ops->dereg_mr(bounce->mrs[domain]);
	bounce->mrs[domain] = NULL;
}

int bounce_return(struct bounce *bounce, unsigned domain)
{
	int err = bounce->memory ? reg_mr(bounce, domain) : 0;

	if (!err)
		bounce->held |= 1u << domain;
	return err;
}

unsigned char *bounce_acquire(struct bounce *bounce)
{
	if (bounce->n_free == 0 || (!bounce->memory && bounce_create(bounce)))
		return NULL;
	return bounce->free[--bounce->n_free];
}

void bounce_release(struct bounce *bounce, unsigned char *chunk)
{
	bounce->free[bounce->n_free++] = chunk;
}
