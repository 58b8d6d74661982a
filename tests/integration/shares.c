/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease that is shared with another tenant, through the public API, against a running server:
 *
 *   shares OWNER-URI USER-URI USER-TENANT OWNER-TENANT
 *
 * Prints a line per promise; the exit status is 1 at the first that is broken. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "program.h"

#define BYTES 10000
#define WORD UINT64_C(0x2222222222222222)
#define VALUE 77
#define WAIT_MS 20000

static const char *owner_name, *user_name;
static rmem *owner, *user;
static uint8_t buf[BYTES];

static void expect(int result, int wanted, const char *what)
{
	if (result != wanted)
		fail(what, result);
}

static void expect_text(const char *part)
{
	if (!strstr(rmem_error(), part))
		fail(part, 0);
}

/* Without a thread a session does not learn of the end of a lease before the operations that must
 * fail. */
static rmem *session_open(const char *uri, bool thread)
{
	struct rmem_options options = rmem_options_init();
	rmem *session;

	options.flags = thread ? 0 : RMEM_NO_THREAD;
	must(rmem_open(uri, &options, &session), "open");
	return session;
}

static void expect_bytes(rmem_lease *lease, uint8_t value, const char *what)
{
	memset(buf, (uint8_t)~value, BYTES);
	must(rmem_read(lease, 0, buf, BYTES), what);
	for (size_t i = 0; i < BYTES; i++)
		if (buf[i] != value)
			fail(what, (long)i);
}

static void write_all(rmem_lease *lease, uint8_t value)
{
	memset(buf, value, BYTES);
	must(rmem_write(lease, 0, buf, BYTES), "write");
}

static int attach(unsigned rights, rmem_lease **ret_view)
{
	return rmem_attach_shared(user, owner_name, "thing", rights, ret_view);
}

static void not_shared(rmem_lease *lease)
{
	rmem_lease *view;

	expect(attach(RMEM_READ, &view), -ENOENT, "attach of what is not shared");
	expect_text("shares no lease named \"thing\"");
	expect(rmem_attach(user, "thing", RMEM_READ, &view), -ENOENT, "attach");
	expect(rmem_share(lease, "no-such-tenant", RMEM_READ), -ENOENT, "share");
	expect(rmem_share(lease, owner_name, RMEM_READ), -EINVAL, "share with itself");
	expect(rmem_share(lease, user_name, RMEM_WRITE), -EINVAL, "rights");
	expect(rmem_share(NULL, user_name, RMEM_READ), -EINVAL, "no lease");
	expect(rmem_share(lease, NULL, RMEM_READ), -EINVAL, "no tenant");
	expect(rmem_share(lease, "", RMEM_READ), -EINVAL, "an empty tenant");
	must(rmem_unshare(lease, user_name), "the end of no share");
	kept("a lease is reachable for its tenant alone");
}

static void for_reading(rmem_lease *lease)
{
	rmem_lease *view, *again;

	must(rmem_share(lease, user_name, RMEM_READ), "share");
	expect(attach(RMEM_READ | RMEM_WRITE, &view), -EACCES, "attach for writing");
	expect_text("for reading only");
	must(attach(RMEM_READ, &view), "attach");
	must(attach(RMEM_READ, &again), "attach again");
	if (again != view || rmem_lease_rights(view) != RMEM_READ)
		fail("another handle, or other rights", rmem_lease_rights(view));
	must(rmem_detach(again), "detach");
	expect_bytes(view, 0x11, "read of a shared lease");
	memset(buf, 0x99, BYTES);
	expect(rmem_write(view, 0, buf, BYTES), -EACCES, "write");
	must(rmem_detach(view), "detach");
	expect_bytes(lease, 0x11, "the lease after a refused write");
	kept("a lease that is shared for reading is read and not written");
}

static void for_writing(rmem_lease *lease)
{
	struct rmem_notice notice;
	rmem_lease *view;

	must(rmem_share(lease, user_name, RMEM_READ | RMEM_WRITE), "share");
	must(attach(RMEM_READ | RMEM_WRITE, &view), "attach");
	write_all(view, 0x22);
	expect_bytes(lease, 0x22, "what the other tenant wrote");
	expect(rmem_destroy(view), -EACCES, "free by the other tenant");
	expect_text("belongs to tenant");
	expect(rmem_rename(view, "mine", 0), -EACCES, "rename by the other tenant");
	expect(rmem_grow(view, 2 * BYTES), -EACCES, "growth by the other tenant");
	expect(rmem_shrink(view, 1), -EACCES, "cut by the other tenant");
	expect(rmem_renew(view, 1000), -EACCES, "renewal by the other tenant");
	expect(rmem_share(view, "default", RMEM_READ), -EACCES, "share of a share");
	must(rmem_watch(view), "watch");
	must(rmem_write_notify(lease, 0, NULL, 0, VALUE), "notify");
	expect(rmem_notified(user, &notice, 1, WAIT_MS), 1, "notice");
	if (notice.lease != view || notice.value != VALUE)
		fail("another notice", (long)notice.value);
	must(rmem_grow(lease, BYTES + 1), "growth by the owner");
	must(rmem_shrink(lease, BYTES), "cut by the owner");
	expect_bytes(view, 0x22, "a lease that was changed by its owner");
	must(rmem_detach(view), "detach");
	kept("a lease that is shared for writing is written, and changed by its owner "
	     "alone");
}

/* The user has not learnt of the end and uses its old rkeys. */
static void ended(rmem_lease *lease)
{
	rmem_lease *view;

	must(attach(RMEM_READ | RMEM_WRITE, &view), "attach");
	write_all(view, 0x22);
	must(rmem_unshare(lease, user_name), "unshare");
	write_all(lease, 0x33);
	memset(buf, 0x44, BYTES);
	expect(rmem_write(view, 0, buf, BYTES), -ESTALE, "write after the end");
	expect(rmem_read(view, 0, buf, BYTES), -ESTALE, "read after the end");
	if (rmem_lease_reason(view) != RMEM_REASON_UNSHARED)
		fail("another reason", rmem_lease_reason(view));
	expect(rmem_lease_status(view), -ESTALE, "status");
	must(rmem_detach(view), "detach");
	expect_bytes(lease, 0x33, "the lease after the end of the share");
	expect(attach(RMEM_READ, &view), -ENOENT, "attach after the end");
	kept("after the end of a share no read and no write has an effect or succeeds");
}

/* ---- a writer that does not stop ---- */

static atomic_ulong n_writes;

static void *writer(void *view)
{
	const uint64_t word = WORD;
	int err;

	do {
		err = rmem_write(view, 0, &word, sizeof(word));
		if (!err)
			atomic_fetch_add(&n_writes, 1);
	} while (!err);
	return (void *)(intptr_t)err;
}

static void ended_while_written(const char *uri, rmem_lease *lease, unsigned rounds)
{
	rmem *busy = session_open(uri, true);
	rmem_lease *view;
	pthread_t thread;
	void *result;
	uint64_t word;

	for (unsigned i = 0; i < rounds; i++) {
		unsigned long before = atomic_load(&n_writes);

		must(rmem_share(lease, user_name, RMEM_READ | RMEM_WRITE), "share");
		must(rmem_attach_shared(busy, owner_name, "thing",
					RMEM_READ | RMEM_WRITE, &view),
		     "attach");
		if (pthread_create(&thread, NULL, writer, view))
			fail("thread", 0);
		while (atomic_load(&n_writes) < before + 3)
			must(rmem_ping(owner, NULL), "ping");
		must(rmem_unshare(lease, user_name), "unshare");
		/* from here on the old key reaches nothing */
		word = i;
		must(rmem_write(lease, 0, &word, sizeof(word)), "write");
		if (pthread_join(thread, &result))
			fail("join", 0);
		expect((int)(intptr_t)result, -ESTALE, "the writer's end");
		must(rmem_read(lease, 0, &word, sizeof(word)), "read");
		if (word != i)
			fail("a write after the end of the share", (long)word);
		must(rmem_detach(view), "detach");
	}
	rmem_close(busy);
	kept("the keys of a share are dead when its end is confirmed");
}

int main(int argc, char **argv)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: shares OWNER-URI USER-URI USER-TENANT "
				      "OWNER-TENANT\n");
		return 2;
	}
	user_name = argv[3];
	owner_name = argv[4];
	owner = session_open(argv[1], false);
	user = session_open(argv[2], false);
	params.bytes = BYTES;
	must(rmem_alloc(owner, &params, &lease), "alloc");
	expect(rmem_share(lease, user_name, RMEM_READ), -EINVAL,
	       "share without a name");
	must(rmem_rename(lease, "thing", 0), "rename");
	write_all(lease, 0x11);
	not_shared(lease);
	for_reading(lease);
	for_writing(lease);
	ended(lease);
	ended_while_written(argv[2], lease, 20);
	must(rmem_destroy(lease), "free");
	rmem_close(user);
	rmem_close(owner);
	return 0;
}
