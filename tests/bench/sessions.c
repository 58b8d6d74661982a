/* SPDX-License-Identifier: BSD-3-Clause */
/* Many sessions of one program with one server.  They are opened in blocks, and between them
 * as many bare connections are made, so that both meet the same machine.  Each session then
 * attaches one lease and reads from it in turn.  A script can look meanwhile: the program says
 * where it is and waits for a line at each step.
 *
 *   sessions URI ADDRESS PORT N      begun -> (line) -> opened -> (line) -> read -> (line)
 *
 * Its last line is the rate of librmem's set-up, the bare one's, and their quotient, by the
 * medians of the blocks. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <rmem/rmem.h>

#include "sessions.h"

#define BLOCK 20u
#define LEASE_BYTES 8192u
#define NAME "sessions"

static struct {
	const char *uri, *address;
	uint16_t port;
	unsigned n;
	rmem **sessions;
} all;

_Noreturn void give_up(const char *what)
{
	(void)fprintf(stderr, "sessions: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void must(int result, const char *what)
{
	if (result >= 0)
		return;
	(void)fprintf(stderr, "sessions: %s: %s\n", what, rmem_error());
	exit(1);
}

static void step(const char *where)
{
	char line[16];

	(void)printf("%s\n", where);
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
}

static double now(void)
{
	struct timespec time;

	(void)clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static uint32_t pattern(uint32_t i)
{
	return (i + 1) * UINT32_C(2654435761);
}

/* A first session that stays, with a lease for all of them. */
static rmem *lease_make(void)
{
	struct rmem_alloc_params alloc = RMEM_ALLOC_INIT;
	uint32_t words[LEASE_BYTES / sizeof(uint32_t)];
	rmem_lease *lease;
	rmem *session;

	alloc.bytes = LEASE_BYTES;
	alloc.name = NAME;
	must(rmem_open(all.uri, NULL, &session), "open");
	must(rmem_alloc(session, &alloc, &lease), "alloc");
	for (uint32_t i = 0; i < LEASE_BYTES / sizeof(uint32_t); i++)
		words[i] = pattern(i);
	must(rmem_write(lease, 0, words, sizeof(words)), "write");
	return session;
}

static int shorter(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double median(double *values, unsigned n)
{
	qsort(values, n, sizeof(*values), shorter);
	return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* The seconds that one took by librmem, and by the bare calls: medians of the blocks. */
static void sessions_open(double *ret_librmem, double *ret_bare)
{
	unsigned blocks = (all.n + BLOCK - 1) / BLOCK, block = 0;
	double *librmem = calloc(blocks, sizeof(*librmem));
	double *bare = calloc(blocks, sizeof(*bare));

	if (!librmem || !bare)
		give_up("room for the times");
	for (unsigned done = 0; done < all.n; block++) {
		unsigned n = all.n - done < BLOCK ? all.n - done : BLOCK;
		double start = now(), middle;

		for (unsigned i = 0; i < n; i++)
			must(rmem_open(all.uri, NULL, &all.sessions[done + i]), "open");
		middle = now();
		for (unsigned i = 0; i < n; i++)
			bare_connect(all.address, all.port);
		librmem[block] = (middle - start) / n;
		bare[block] = (now() - middle) / n;
		done += n;
	}
	*ret_librmem = median(librmem, blocks);
	*ret_bare = median(bare, blocks);
	free(librmem);
	free(bare);
}

static void session_read(rmem *session, uint32_t number)
{
	uint32_t at = number % (LEASE_BYTES / sizeof(uint32_t)), word = 0;
	rmem_lease *lease;

	must(rmem_attach(session, NAME, RMEM_READ, &lease), "attach");
	must(rmem_read(lease, (uint64_t)at * sizeof(word), &word, sizeof(word)),
	     "read");
	if (word == pattern(at))
		return;
	(void)fprintf(stderr, "sessions: session %u reads a wrong word\n", number);
	exit(1);
}

int main(int argc, char **argv)
{
	double librmem, bare;
	rmem *first;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: sessions URI ADDRESS PORT N\n");
		return 2;
	}
	all.uri = argv[1];
	all.address = argv[2];
	all.port = (uint16_t)strtoul(argv[3], NULL, 10);
	all.n = (unsigned)strtoul(argv[4], NULL, 10);
	all.sessions = calloc(all.n + 1, sizeof(rmem *));
	if (!all.sessions || all.n == 0)
		give_up("N");
	bare_serve(all.address, all.port);
	first = lease_make();
	step("begun");
	sessions_open(&librmem, &bare);
	step("opened");
	for (uint32_t i = 0; i < all.n; i++)
		session_read(all.sessions[i], i);
	step("read");
	for (unsigned i = 0; i < all.n; i++)
		rmem_close(all.sessions[i]);
	rmem_close(first);
	(void)printf("%.1f %.1f %.3f\n", 1 / librmem, 1 / bare, bare / librmem);
	return 0;
}
