/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-state.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/err.h"

#define PAGE 4096

struct register_call {
	struct remote *remote;
	unsigned rights;
};

static void call_register(void *arg)
{
	struct register_call *call = arg;
	struct remote *remote = call->remote;
	struct fabric_session *session = remote->party->session;
	int done = SERVER->reg_mr(session, remote->addr, remote->bytes, call->rights,
				  remote, &remote->mr, &remote->key);

	remote->registered = done == 1;
	ck_assert_msg(done >= 0, "reg_mr: %d: %s", done, err_text());
}

static void call_deregister(void *arg)
{
	struct remote *remote = arg;
	struct fabric_mr *mr = remote->mr;

	remote->mr = NULL;
	remote->deregistered = SERVER->dereg_mr(mr);
}

static bool remote_is_registered(void *arg)
{
	return ((const struct remote *)arg)->registered;
}

static bool remote_is_deregistered(void *arg)
{
	return ((const struct remote *)arg)->deregistered;
}

static void remote_register(struct remote *remote, unsigned rights)
{
	struct register_call call = { remote, rights };

	stage_call(call_register, &call);
	stage_await("mr_registered", remote_is_registered, remote);
	ck_assert_int_eq(remote->err, 0);
}

struct remote *remote_new(struct party *party, size_t bytes, unsigned rights)
{
	struct remote *remote = calloc(1, sizeof(*remote));
	size_t around = (bytes + PAGE - 1) / PAGE * PAGE;

	ck_assert_ptr_nonnull(remote);
	remote->party = party;
	remote->bytes = bytes;
	remote->map_bytes = 3 * around;
	remote->map = mmap(NULL, remote->map_bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(remote->map, MAP_FAILED);
	remote->addr = remote->map + around;
	stage_fill(remote->map, remote->map_bytes, (uint64_t)(uintptr_t)remote->map);
	remote_register(remote, rights);
	return remote;
}

struct remote *remote_share(struct party *party, const struct remote *of)
{
	struct remote *remote = calloc(1, sizeof(*remote));

	ck_assert_ptr_nonnull(remote);
	remote->party = party;
	remote->bytes = of->bytes;
	remote->addr = of->addr;
	remote_register(remote, RW);
	return remote;
}

void remote_deregister(struct remote *remote)
{
	stage_call(call_deregister, remote);
}

void remote_await_deregistered(struct remote *remote)
{
	stage_await("mr_deregistered", remote_is_deregistered, remote);
}

struct notes_wait {
	const struct remote *remote;
	uint64_t n;
};

static bool notes_have_come(void *arg)
{
	const struct notes_wait *wait = arg;

	return wait->remote->notes + wait->remote->lost >= wait->n;
}

void remote_await_notes(struct remote *remote, uint64_t n)
{
	struct notes_wait wait = { remote, n };

	stage_await("notified", notes_have_come, &wait);
}

void remote_free(struct remote *remote)
{
	if (stage.server) {
		if (!remote->deregistered && remote->mr)
			remote_deregister(remote);
		remote_await_deregistered(remote);
	}
	if (remote->map)
		(void)munmap(remote->map, remote->map_bytes);
	free(remote);
}

char *remote_snapshot(const struct remote *remote)
{
	char *copy = malloc(remote->map_bytes);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, remote->map, remote->map_bytes);
	return copy;
}

bool remote_unchanged(const struct remote *remote, const char *snapshot)
{
	return memcmp(remote->map, snapshot, remote->map_bytes) == 0;
}

struct local *local_new(struct party *party, size_t bytes)
{
	struct local *local = calloc(1, sizeof(*local));
	int err = 0;

	ck_assert_ptr_nonnull(local);
	local->bytes = bytes;
	local->addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(local->addr, MAP_FAILED);
	if (CLIENT->needs_local_mr)
		err = CLIENT->reg_mr(party->domain, local->addr, bytes, &local->region);
	ck_assert_msg(err == 0, "reg_mr: %d: %s", err, err_text());
	return local;
}

void local_free(struct local *local)
{
	if (CLIENT->needs_local_mr)
		CLIENT->dereg_mr(local->region);
	(void)munmap(local->addr, local->bytes);
	free(local);
}
