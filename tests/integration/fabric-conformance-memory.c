/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-state.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"

#define PAGE 4096

struct expose_call {
	struct lent *lent;
	unsigned rights;
};

static void call_expose(void *arg)
{
	struct expose_call *call = arg;
	struct lent *lent = call->lent;
	int err = SERVER->reg_mr(lent->party->session, lent->addr, lent->bytes,
				 call->rights, lent, &lent->exposure);

	ck_assert_msg(err == 0, "expose: %d: %s", err, err_text());
}

static void call_withdraw(void *arg)
{
	struct lent *lent = arg;
	struct fabric_mr *exposure = lent->exposure;

	lent->exposure = NULL;
	SERVER->dereg_mr(exposure);
}

static bool lent_is_exposed(void *arg)
{
	return ((const struct lent *)arg)->exposed;
}

static bool lent_is_withdrawn(void *arg)
{
	return ((const struct lent *)arg)->withdrawn;
}

static void lent_expose(struct lent *lent, unsigned rights)
{
	struct expose_call call = { lent, rights };

	stage_call(call_expose, &call);
	stage_await("exposed", lent_is_exposed, lent);
	ck_assert_int_eq(lent->err, 0);
}

struct lent *lent_new(struct party *party, size_t bytes, unsigned rights)
{
	struct lent *lent = calloc(1, sizeof(*lent));
	size_t around = (bytes + PAGE - 1) / PAGE * PAGE;

	ck_assert_ptr_nonnull(lent);
	lent->party = party;
	lent->bytes = bytes;
	lent->map_bytes = 3 * around;
	lent->map = mmap(NULL, lent->map_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(lent->map, MAP_FAILED);
	lent->addr = lent->map + around;
	stage_fill(lent->map, lent->map_bytes, (uint64_t)(uintptr_t)lent->map);
	lent_expose(lent, rights);
	return lent;
}

struct lent *lent_share(struct party *party, const struct lent *of)
{
	struct lent *lent = calloc(1, sizeof(*lent));

	ck_assert_ptr_nonnull(lent);
	lent->party = party;
	lent->bytes = of->bytes;
	lent->addr = of->addr;
	lent_expose(lent, RW);
	return lent;
}

void lent_withdraw_start(struct lent *lent)
{
	stage_call(call_withdraw, lent);
}

void lent_await_withdrawn(struct lent *lent)
{
	stage_await("withdrawn", lent_is_withdrawn, lent);
}

struct notes_wait {
	const struct lent *lent;
	uint64_t n;
};

static bool notes_have_come(void *arg)
{
	const struct notes_wait *wait = arg;

	return wait->lent->notes + wait->lent->lost >= wait->n;
}

void lent_await_notes(struct lent *lent, uint64_t n)
{
	struct notes_wait wait = { lent, n };

	stage_await("notified", notes_have_come, &wait);
}

void lent_free(struct lent *lent)
{
	if (stage.server) {
		if (!lent->withdrawn && lent->exposure && lent->party->session)
			lent_withdraw_start(lent);
		lent_await_withdrawn(lent);
	}
	if (lent->map)
		(void)munmap(lent->map, lent->map_bytes);
	free(lent);
}

char *lent_snapshot(const struct lent *lent)
{
	char *copy = malloc(lent->map_bytes);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, lent->map, lent->map_bytes);
	return copy;
}

bool lent_unchanged(const struct lent *lent, const char *snapshot)
{
	return memcmp(lent->map, snapshot, lent->map_bytes) == 0;
}

struct local *local_new(struct party *party, size_t bytes)
{
	struct local *local = calloc(1, sizeof(*local));
	int err;

	ck_assert_ptr_nonnull(local);
	local->bytes = bytes;
	local->addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(local->addr, MAP_FAILED);
	err = CLIENT->reg_mr(party->domain, local->addr, bytes, &local->region);
	ck_assert_msg(err == 0, "region_create: %d: %s", err, err_text());
	return local;
}

void local_free(struct local *local)
{
	CLIENT->dereg_mr(local->region);
	(void)munmap(local->addr, local->bytes);
	free(local);
}
