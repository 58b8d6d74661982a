/* SPDX-License-Identifier: BSD-3-Clause */
/* The isolation of sessions and leases, through the public API, against a running server:
 *
 *   isolation URI
 *
 * Prints a line per promise; the exit status is 1 at the first that is broken. */
#include <stdbool.h>
#include <string.h>

#include "program.h"

#define BYTES 10000

static const char *uri;
static uint8_t buf[2 * BYTES];

static void expect(int result, int wanted, const char *what)
{
	if (result != wanted)
		fail(what, result);
}

/* The session has no thread, so it does not learn of the end of a lease before the operations
 * that must fail. */
static rmem *session_open(void)
{
	struct rmem_options options = rmem_options_init();
	rmem *session;

	options.flags = RMEM_NO_THREAD;
	must(rmem_open(uri, &options, &session), "open");
	return session;
}

static rmem_lease *lease_named(rmem *session, const char *name)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	params.bytes = BYTES;
	params.name = name;
	must(rmem_alloc(session, &params, &lease), "alloc");
	return lease;
}

static bool all(const uint8_t *p, size_t n, uint8_t value)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != value)
			return false;
	return true;
}

static void expect_bytes(rmem_lease *lease, uint8_t value, const char *what)
{
	memset(buf, (uint8_t)~value, BYTES);
	must(rmem_read(lease, 0, buf, BYTES), what);
	if (!all(buf, BYTES, value))
		fail(what, 0);
}

static void bounds(rmem_lease *lease)
{
	memset(buf, 0x22, sizeof(buf));
	must(rmem_write(lease, BYTES - 1, buf, 1), "write of the last byte");
	expect(rmem_write(lease, BYTES, buf, 1), -EINVAL, "write beyond the end");
	expect(rmem_write(lease, BYTES - 1, buf, 2), -EINVAL, "write over the end");
	expect(rmem_read(lease, 0, buf, BYTES + 1), -EINVAL, "read over the end");
	expect(rmem_read(lease, UINT64_MAX, buf, 2), -EINVAL, "read that wraps around");
	expect(rmem_read(lease, 1, buf, UINT64_MAX), -EINVAL,
	       "length that wraps around");
	must(rmem_read(lease, BYTES, buf, 0), "nothing at the end");
	kept("no access out of bounds, not by one byte");
}

static void read_only(rmem *other, rmem_lease *lease)
{
	rmem_lease *view;

	memset(buf, 0x33, BYTES);
	must(rmem_write(lease, 0, buf, BYTES), "write");
	must(rmem_attach(other, "shared", RMEM_READ, &view), "attach");
	expect_bytes(view, 0x33, "read of an attached lease");
	memset(buf, 0x44, BYTES);
	expect(rmem_write(view, 0, buf, BYTES), -EACCES, "write to a read-only lease");
	expect(rmem_shrink(view, 1), -EACCES, "a read-only lease made shorter");
	expect(rmem_destroy(view), -EACCES, "free of a read-only lease");
	expect(rmem_rename(view, "mine", 0), -EACCES, "rename of a read-only lease");
	expect_bytes(lease, 0x33, "the lease after a refused write");
	must(rmem_detach(view), "detach");
	kept("a lease attached for reading only is not changed");
}

/* The other session has not learnt of the end yet and uses its old rkeys. */
static void freed(rmem *owner, rmem *other)
{
	rmem_lease *lease = lease_named(owner, "doomed"), *view, *next;

	must(rmem_attach(other, "doomed", RMEM_READ | RMEM_WRITE, &view), "attach");
	memset(buf, 0x55, BYTES);
	must(rmem_write(view, 0, buf, BYTES), "write before the free");
	must(rmem_destroy(lease), "free");
	expect(rmem_write(view, 0, buf, BYTES), -ESTALE, "write after the free");
	expect(rmem_write(view, 0, buf, 1), -ESTALE, "short write after the free");
	expect(rmem_read(view, 0, buf, BYTES), -ESTALE, "read after the free");
	expect(rmem_lease_status(view), -ESTALE, "status after the free");
	must(rmem_detach(view), "detach of a lease that has ended");
	next = lease_named(owner, NULL);
	expect_bytes(next, 0, "the next lease");
	must(rmem_destroy(next), "free");
	kept("after a free no read and no write has an effect or succeeds");
}

static void shrunk(rmem *owner, rmem *other)
{
	rmem_lease *lease = lease_named(owner, "short"), *view;

	must(rmem_attach(other, "short", RMEM_READ | RMEM_WRITE, &view), "attach");
	memset(buf, 0x66, BYTES);
	must(rmem_write(view, 0, buf, BYTES), "write");
	must(rmem_shrink(lease, 100), "shrink");
	if (rmem_write(view, 100, buf, 1) >= 0)
		fail("write beyond the end of a lease that was shrunk", 0);
	must(rmem_grow(lease, BYTES), "grow");
	must(rmem_read(lease, 0, buf, BYTES), "read");
	if (!all(buf, 100, 0x66) || !all(buf + 100, BYTES - 100, 0))
		fail("bytes cut off and grown again are not zero", 0);
	must(rmem_detach(view), "detach");
	must(rmem_destroy(lease), "free");
	kept("a lease that was shrunk ends at its new length, and grows with zeros");
}

static void expect_service(rmem_lease *lease)
{
	for (unsigned i = 0; i < 50; i++) {
		memset(buf, (int)i, BYTES);
		must(rmem_write(lease, 0, buf, BYTES), "write");
		expect_bytes(lease, (uint8_t)i, "read");
	}
	kept("refused operations do not affect a session");
}

int main(int argc, char **argv)
{
	rmem *owner, *other;
	rmem_lease *lease, *own;

	if (argc != 2) {
		(void)fprintf(stderr, "usage: isolation URI\n");
		return 2;
	}
	uri = argv[1];
	owner = session_open();
	other = session_open();
	lease = lease_named(owner, "shared");
	own = lease_named(other, NULL);
	expect_bytes(lease, 0, "a new lease");
	bounds(lease);
	read_only(other, lease);
	freed(owner, other);
	shrunk(owner, other);
	expect_service(lease);
	expect_service(own);
	must(rmem_destroy(lease), "free");
	must(rmem_destroy(own), "free");
	rmem_close(other);
	rmem_close(owner);
	return 0;
}
