/* SPDX-License-Identifier: BSD-3-Clause */
#include "cache/delete.h"

#include <errno.h>

#include "cache/bucket.h"
#include "cache/request.h"
#include "cache/swap.h"

#define ATTEMPTS_MAX 8

static struct request *request_of(struct task *task)
{
	return container_of(task, struct request, task);
}

static void delete_bucket(struct task *task);

static void delete_swapped(struct task *task)
{
	struct request *r = request_of(task);

	if (task->result == SWAP_DONE)
		request_end(r, RMEM_CACHE_DELETED, 0, NULL);
	else if (task->result == SWAP_UNKNOWN)
		request_failed(r, task->swap_err ? task->swap_err : -ECONNRESET,
			       "whether it was deleted is unknown");
	else if (task->swap_err)
		request_failed(r, task->swap_err, "not deleted");
	else if (++r->attempt == ATTEMPTS_MAX)
		request_end(r, RMEM_CACHE_FAILED, -EAGAIN,
			    "not deleted: other clients change the key");
	else
		request_read_bucket(r, delete_bucket);
}

static void delete_bucket(struct task *task)
{
	struct request *r = request_of(task);
	int index;

	if (task->err) {
		request_failed(r, task->err, "reading the bucket");
		return;
	}
	/* of a stale slot too: clients with an older copy of the table would find its block */
	index = bucket_final(r->piece->bucket, print_of_hash(r->hash));
	if (index < 0) {
		request_end(r, RMEM_CACHE_MISSING, 0, NULL);
		return;
	}
	if (r->attempt)
		r->server->counters.contended++;
	swap_start(&r->server->io, task, request_slot_at(r, (unsigned)index),
		   bucket_slot(r->piece->bucket, (unsigned)index), 0, &r->piece->word,
		   delete_swapped);
}

void delete_start(struct request *r)
{
	known_forget(&r->server->known, r->hash);
	request_read_bucket(r, delete_bucket);
}
