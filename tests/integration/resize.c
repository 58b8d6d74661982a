/* SPDX-License-Identifier: BSD-3-Clause */
/* A program with leases in a pool that is resized, against a running server:
 *
 *   resize URI move|keep N BYTES
 *
 * It fills N leases of BYTES each and prints "ready".  For each notice it prints
 * "wanted BYTES REVOKE" or "ended"; with `move` it moves the bytes of a wanted lease to a new one.
 * At each line of input it reads all leases that it has, compares them, and prints "good N" with
 * their number; at "end" it ends.  The exit status is 1 at the first error. */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "program.h"

#define LEASES_MAX 256
#define PIECE 65536

static rmem *session;
static rmem_lease *leases[LEASES_MAX];
static unsigned n_leases;
static uint64_t lease_bytes;
static uint64_t buf[PIECE / sizeof(uint64_t)];

static rmem_lease *allocate(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease;

	params.bytes = lease_bytes;
	must(rmem_alloc(session, &params, &lease), "alloc");
	return lease;
}

MODULAR static uint64_t word(unsigned i, uint64_t at)
{
	return (i + 1) * UINT64_C(0x9e3779b97f4a7c15) + at;
}

static void fill(unsigned i)
{
	for (uint64_t at = 0; at < lease_bytes; at += PIECE) {
		for (uint64_t k = 0; k < PIECE / sizeof(uint64_t); k++)
			buf[k] = word(i, at + k);
		must(rmem_write(leases[i], at, buf, PIECE), "write");
	}
}

static void check(unsigned i)
{
	for (uint64_t at = 0; at < lease_bytes; at += PIECE) {
		must(rmem_read(leases[i], at, buf, PIECE), "read");
		for (uint64_t k = 0; k < PIECE / sizeof(uint64_t); k++)
			if (buf[k] != word(i, at + k))
				fail("a lease has other bytes", i);
	}
}

static void check_all(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < n_leases; i++) {
		if (!leases[i] || rmem_lease_status(leases[i]))
			continue;
		check(i);
		n++;
	}
	(void)printf("good %u\n", n);
}

/* Copy the lease to a new one and free it. */
static void move(unsigned i)
{
	rmem_lease *to = allocate();

	must(rmem_copy(to, 0, leases[i], 0, lease_bytes), "copy");
	must(rmem_destroy(leases[i]), "free");
	leases[i] = to;
}

static unsigned lease_number(const rmem_lease *lease)
{
	unsigned i = 0;

	while (i < n_leases && leases[i] != lease)
		i++;
	if (i == n_leases)
		fail("a notice for an unknown lease", 0);
	return i;
}

static void notice_handle(const struct rmem_notice *notice, bool moves)
{
	struct rmem_wanted wanted = rmem_wanted_init();
	int err;

	if (notice->type == RMEM_NOTICE_RESUMED)
		return;
	if (notice->type == RMEM_NOTICE_VALUE)
		fail("an unexpected notice", (int)notice->value);
	err = notice->type == RMEM_NOTICE_ENDED
		      ? -ESTALE
		      : rmem_lease_wanted(notice->lease, &wanted);
	if (err == -ESTALE) {
		(void)printf("ended\n");
		return;
	}
	must(err, "wanted");
	(void)printf("wanted %" PRIu64 " %d\n", wanted.bytes, wanted.revoke);
	if (wanted.bytes && moves)
		move(lease_number(notice->lease));
}

static void serve(bool moves)
{
	struct pollfd fds[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				{ .fd = rmem_notified_fd(session), .events = POLLIN } };
	struct rmem_notice notice;
	char line[16];

	must(fds[1].fd, "notified_fd");
	for (;;) {
		(void)fflush(stdout);
		if (poll(fds, 2, -1) < 0)
			must(-errno, "poll");
		if (fds[1].revents) {
			int n = rmem_notified(session, &notice, 1, 0);

			must(n, "notified");
			if (n > 0)
				notice_handle(&notice, moves);
		} else if (fds[0].revents) {
			if (read(STDIN_FILENO, line, sizeof(line)) <= 0 ||
			    line[0] == 'e')
				return;
			check_all();
		}
	}
}

int main(int argc, char **argv)
{
	if (argc != 5)
		return 2;
	n_leases = (unsigned)strtoul(argv[3], NULL, 10);
	lease_bytes = strtoull(argv[4], NULL, 10);
	if (n_leases > LEASES_MAX || lease_bytes % PIECE)
		return 2;
	must(rmem_open(argv[1], NULL, &session), "open");
	for (unsigned i = 0; i < n_leases; i++) {
		leases[i] = allocate();
		fill(i);
		must(rmem_watch(leases[i]), "watch");
	}
	(void)printf("ready\n");
	serve(strcmp(argv[2], "move") == 0);
	rmem_close(session);
	return 0;
}
