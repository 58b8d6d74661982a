/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/pool/open.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/mailbox.h"
#include "base/thread.h"
#include "rmemd/pool/host.h"

#define NOTE_BYTES 512
#define TEXT_BYTES 512
#define TELL_MS 1000
/* Of 47 bits of addresses the pools reserve so much, that the rest has room. */
#define SPACE_BYTES (UINT64_C(1) << 46)

/* One after the other: what is free is divided when pools of a fixed size have theirs. */
enum stage { STAGE_FIXED, STAGE_FIXED_ANY, STAGE_AUTO, STAGE_AUTO_ANY, STAGES };

/* One pool.  Its node's thread has it until it is in the mailbox. */
struct opening {
	struct list link;
	const struct pool_params *params;
	enum stage stage;
	struct memory_work work;
	struct memory memory;
	char note[NOTE_BYTES];
	int err;
	char text[TEXT_BYTES];
};

/* The pools of one node, and the thread that opens them. */
struct crew {
	struct openings *openings;
	enum stage stage;
	int node;
	pthread_t thread;
};

struct openings {
	const struct opening_events *events;
	void *ctx;
	struct opening *each;
	struct crew *crews;
	size_t n, n_crews;
	struct mailbox done;
	atomic_bool stop;
	_Atomic(uint64_t) room;
	int err; /* the first */
	char text[TEXT_BYTES];
};

/* ---- a node's thread ---- */

static void opening_open(struct opening *opening)
{
	const struct pool_params *params = opening->params;

	opening->err = memory_open(params, &opening->work, &opening->memory,
				   opening->note, sizeof(opening->note));
	if (!opening->err)
		return;
	(void)err_prefix(opening->err, "pool '%s'", params->name);
	(void)snprintf(opening->text, sizeof(opening->text), "%s", err_text());
}

static bool crew_has(const struct crew *crew, const struct opening *opening)
{
	return opening->stage == crew->stage && opening->params->node == crew->node;
}

static void *crew_run(void *ctx)
{
	struct crew *crew = ctx;
	struct openings *openings = crew->openings;
	uint64_t free[AUTO_SIZE_KINDS];

	auto_size_free(crew->node, free);
	for (size_t i = 0; i < openings->n; i++) {
		struct opening *opening = &openings->each[i];

		if (!crew_has(crew, opening))
			continue;
		memcpy(opening->work.free, free, sizeof(free));
		if (atomic_load(&openings->stop))
			opening->err = -ECANCELED;
		else
			opening_open(opening);
		mailbox_post(&openings->done, &opening->link);
	}
	return NULL;
}

/* ---- the caller's ---- */

static void openings_fail(struct openings *openings, int err, const char *text)
{
	/* those that stop because of it are none of the cause */
	if (openings->err)
		return;
	openings->err = err;
	(void)snprintf(openings->text, sizeof(openings->text), "%s", text);
	atomic_store(&openings->stop, true);
}

static void openings_settle(struct openings *openings, struct opening *opening)
{
	int err;

	if (opening->err) {
		openings_fail(openings, opening->err, opening->text);
	} else if (openings->err) {
		memory_close(&opening->memory);
	} else {
		err = openings->events->opened(openings->ctx,
					       (size_t)(opening - openings->each),
					       &opening->memory, opening->note);
		if (err)
			openings_fail(openings, err, err_text());
	}
}

static void openings_tell(const struct openings *openings)
{
	uint64_t done = 0, bytes = 0;

	for (size_t i = 0; i < openings->n; i++) {
		done += atomic_load(&openings->each[i].work.watch.done);
		bytes += atomic_load(&openings->each[i].work.bytes);
	}
	openings->events->populating(openings->ctx, done, bytes);
}

/* Until so many have been opened or have failed. */
static void openings_await(struct openings *openings, size_t n)
{
	struct pollfd pollfd = { .fd = mailbox_fd(&openings->done), .events = POLLIN };
	struct list done;

	list_init(&done);
	while (n > 0) {
		/* woken without cause it only tells once more */
		(void)poll(&pollfd, 1, TELL_MS);
		mailbox_take(&openings->done, &done);
		list_for_each_safe(node, &done) {
			list_remove(node);
			openings_settle(openings,
					container_of(node, struct opening, link));
			n--;
		}
		openings_tell(openings);
	}
}

/* How many pools its thread has to open. */
static size_t crew_pools(const struct crew *crew)
{
	size_t n = 0;

	for (size_t i = 0; i < crew->openings->n; i++)
		n += crew_has(crew, &crew->openings->each[i]);
	return n;
}

/* Returns how many pools will come to the mailbox. */
static size_t crew_start(struct openings *openings, enum stage stage, int node)
{
	struct crew *crew = &openings->crews[openings->n_crews];
	int err;

	*crew = (struct crew){ .openings = openings, .stage = stage, .node = node };
	err = thread_start("rmemd-pools", crew_run, crew, &crew->thread);
	if (err) {
		openings_fail(openings, err, err_text());
		return 0;
	}
	openings->n_crews++;
	return crew_pools(crew);
}

static bool node_has_crew(const struct openings *openings, int node)
{
	for (size_t i = 0; i < openings->n_crews; i++)
		if (openings->crews[i].node == node)
			return true;
	return false;
}

static void openings_stage(struct openings *openings, enum stage stage)
{
	uint64_t available;
	size_t n = 0;

	/* a kernel that does not tell must be believed when populating */
	if (host_available(-1, &available))
		available = UINT64_MAX;
	atomic_store(&openings->room, available);
	openings->n_crews = 0;
	for (size_t i = 0; i < openings->n && !openings->err; i++) {
		int node = openings->each[i].params->node;

		if (openings->each[i].stage == stage && !node_has_crew(openings, node))
			n += crew_start(openings, stage, node);
	}
	openings_await(openings, n);
	for (size_t i = 0; i < openings->n_crews; i++)
		(void)pthread_join(openings->crews[i].thread, NULL);
}

static enum stage stage_of(const struct pool_params *params)
{
	bool any = params->node == POOL_NODE_ANY;

	if (params->bytes == POOL_BYTES_AUTO)
		return any ? STAGE_AUTO_ANY : STAGE_AUTO;
	return any ? STAGE_FIXED_ANY : STAGE_FIXED;
}

/* No pool becomes larger than the host. */
static uint64_t space_share(const struct openings *openings)
{
	uint64_t host =
		(uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t each = SPACE_BYTES / openings->n;

	return host < each ? host : each;
}

static void openings_begin(struct openings *openings, const struct pool_params *params)
{
	host_look();
	for (size_t i = 0; i < openings->n; i++) {
		struct opening *opening = &openings->each[i];

		list_init(&opening->link);
		opening->params = &params[i];
		opening->stage = stage_of(&params[i]);
		opening->work.watch.stop = &openings->stop;
		opening->work.room = &openings->room;
		opening->work.reserve = space_share(openings);
		atomic_store(&opening->work.bytes, params[i].bytes);
		for (unsigned kind = 0; kind < AUTO_SIZE_KINDS; kind++)
			opening->work.share[kind] =
				auto_size_share(params, openings->n, i, kind);
	}
	openings_tell(openings);
}

int open_run(const struct pool_params *params, size_t n_params,
	     const struct opening_events *events, void *ctx)
{
	struct openings openings = { .events = events, .ctx = ctx, .n = n_params };
	int err = mailbox_init(&openings.done);

	if (err)
		return err;
	openings.each = calloc(n_params, sizeof(*openings.each));
	openings.crews = calloc(n_params, sizeof(*openings.crews));
	if (!openings.each || !openings.crews) {
		err = err_errno(-ENOMEM, "pools");
		goto out;
	}
	openings_begin(&openings, params);
	for (unsigned stage = 0; stage < STAGES && !openings.err; stage++)
		openings_stage(&openings, stage);
	err = openings.err;
	if (err)
		(void)err_set(err, "%s", openings.text);
out:
	free(openings.crews);
	free(openings.each);
	mailbox_destroy(&openings.done);
	return err;
}
