/* SPDX-License-Identifier: BSD-3-Clause */
/* sessions URI ADDRESS PORT N: opens N sessions with one server, N bare RDMA connections and N
 * bare TCP connections.  Blocks of the three kinds alternate, so that other load of the machine
 * meets all of them.  Set-up ends with the first word read.  So that a script can inspect the
 * daemon, the program prints "begun", "opened" and "read" when it gets there, and waits for a
 * line after each.
 *
 * The last line has the median time of each stage over the blocks, in microseconds for one
 * session or connection. */
#include <arpa/inet.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "integration/program.h"
#include "sessions.h"

#define BLOCK 20u
#define BUFFER_BYTES 4096u
#define NAME "sessions"
/* Lengths of a hello and of a request. */
#define HELLO_BYTES 200u
#define REQUEST_BYTES 100u

/* A session and the two connections that it is compared with. */
struct one {
	rmem *session;
	rmem_lease *lease;
	rmem_buffer *buffer;
	struct bare *bare;
	int control;
};

static struct {
	const char *uri, *address;
	uint16_t port;
	unsigned n;
	struct one *ones;
} all;

struct stage {
	void (*run)(struct one *one, uint32_t number);
	double *seconds; /* of each block, for one run */
};

_Noreturn void give_up(const char *what)
{
	(void)fprintf(stderr, "sessions: %s: %s\n", what, strerror(errno));
	exit(1);
}

struct sockaddr_in address_of(const char *text, uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	if (inet_pton(AF_INET, text, &address.sin_addr) != 1)
		give_up("the address");
	return address;
}

static double now(void)
{
	struct timespec time;

	(void)clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

/* Open a session with the lease that all other sessions attach to. */
static rmem *lease_make(void)
{
	struct rmem_alloc_params alloc = rmem_alloc_params_init();
	uint32_t words[BENCH_BYTES / sizeof(uint32_t)];
	rmem_lease *lease;
	rmem *session;

	alloc.bytes = BENCH_BYTES;
	alloc.name = NAME;
	must(rmem_open(all.uri, NULL, &session), "open");
	must(rmem_alloc(session, &alloc, &lease), "alloc");
	for (uint32_t i = 0; i < BENCH_BYTES / sizeof(uint32_t); i++)
		words[i] = bench_pattern(i);
	must(rmem_write(lease, 0, words, sizeof(words)), "write");
	return session;
}

/* ---- the stages ---- */

static void library_open(struct one *one, uint32_t number)
{
	(void)number;
	must(rmem_open(all.uri, NULL, &one->session), "open");
}

static void library_attach(struct one *one, uint32_t number)
{
	struct rmem_buffer_params buffer = rmem_buffer_params_init();

	(void)number;
	buffer.bytes = BUFFER_BYTES;
	must(rmem_buffer_create(one->session, &buffer, &one->buffer), "buffer");
	must(rmem_attach(one->session, NAME, RMEM_READ, &one->lease), "attach");
}

static uint32_t word_of(uint32_t number)
{
	return number % (BENCH_BYTES / sizeof(uint32_t));
}

static void word_check(uint32_t number, uint32_t word)
{
	if (word != bench_pattern(word_of(number)))
		fail("a session or connection reads a wrong word", number);
}

static void library_read(struct one *one, uint32_t number)
{
	uint32_t *word = rmem_buffer_addr(one->buffer);

	must(rmem_read(one->lease, (uint64_t)word_of(number) * sizeof(*word), word,
		       sizeof(*word)),
	     "read");
	word_check(number, *word);
}

static void library_close(struct one *one, uint32_t number)
{
	(void)number;
	rmem_close(one->session);
}

static void bare_stage_connect(struct one *one, uint32_t number)
{
	(void)number;
	one->bare = bare_connect(all.address, all.port);
}

static void bare_stage_read(struct one *one, uint32_t number)
{
	word_check(number,
		   bare_read(one->bare, (uint64_t)word_of(number) * sizeof(uint32_t)));
}

static void bare_stage_close(struct one *one, uint32_t number)
{
	(void)number;
	bare_close(one->bare);
}

static void control_stage_open(struct one *one, uint32_t number)
{
	(void)number;
	one->control = control_open(all.address, (uint16_t)(all.port + 1));
	control_ask(one->control, HELLO_BYTES);
	control_ask(one->control, REQUEST_BYTES);
}

static void control_stage_close(struct one *one, uint32_t number)
{
	(void)number;
	(void)close(one->control);
}

enum {
	OPEN,
	ATTACH,
	READ,
	CLOSE,
	BARE_CONNECT,
	BARE_READ,
	BARE_CLOSE,
	CONTROL_OPEN,
	CONTROL_CLOSE,
	N_STAGES
};

static struct stage stages[N_STAGES] = {
	[OPEN] = { .run = library_open },
	[ATTACH] = { .run = library_attach },
	[READ] = { .run = library_read },
	[CLOSE] = { .run = library_close },
	[BARE_CONNECT] = { .run = bare_stage_connect },
	[BARE_READ] = { .run = bare_stage_read },
	[BARE_CLOSE] = { .run = bare_stage_close },
	[CONTROL_OPEN] = { .run = control_stage_open },
	[CONTROL_CLOSE] = { .run = control_stage_close },
};

static unsigned blocks_count(void)
{
	return (all.n + BLOCK - 1) / BLOCK;
}

static void block_run(struct stage *stage, unsigned block)
{
	unsigned from = block * BLOCK, to = from + BLOCK < all.n ? from + BLOCK : all.n;
	double start = now();

	for (unsigned i = from; i < to; i++)
		stage->run(&all.ones[i], i);
	stage->seconds[block] = (now() - start) / (to - from);
}

static void blocks_run(const unsigned *which, unsigned n)
{
	for (unsigned block = 0; block < blocks_count(); block++)
		for (unsigned i = 0; i < n; i++)
			block_run(&stages[which[i]], block);
}

static int shorter(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* The median over the blocks of the sum of these stages. */
static double median_us(const unsigned *which, unsigned n)
{
	unsigned blocks = blocks_count();
	double *sums = calloc(blocks, sizeof(*sums)), median;

	if (!sums)
		give_up("calloc");
	for (unsigned block = 0; block < blocks; block++)
		for (unsigned i = 0; i < n; i++)
			sums[block] += stages[which[i]].seconds[block];
	qsort(sums, blocks, sizeof(*sums), shorter);
	median = blocks % 2 ? sums[blocks / 2]
			    : (sums[blocks / 2 - 1] + sums[blocks / 2]) / 2;
	free(sums);
	return median * 1e6;
}

static void report(void)
{
	static const unsigned library[] = { OPEN, ATTACH, READ };
	static const unsigned bare[] = { BARE_CONNECT, BARE_READ };
	static const unsigned one[N_STAGES] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 };

	(void)printf("{\"librmem_us\": {\"setup\": %.1f, \"open\": %.1f, "
		     "\"attach\": %.1f, \"read\": %.1f, \"close\": %.1f}, ",
		     median_us(library, 3), median_us(&one[OPEN], 1),
		     median_us(&one[ATTACH], 1), median_us(&one[READ], 1),
		     median_us(&one[CLOSE], 1));
	(void)printf("\"bare_us\": {\"setup\": %.1f, \"open\": %.1f, \"read\": %.1f, "
		     "\"close\": %.1f}, ",
		     median_us(bare, 2), median_us(&one[BARE_CONNECT], 1),
		     median_us(&one[BARE_READ], 1), median_us(&one[BARE_CLOSE], 1));
	(void)printf("\"control_us\": {\"setup\": %.1f, \"close\": %.1f}}\n",
		     median_us(&one[CONTROL_OPEN], 1),
		     median_us(&one[CONTROL_CLOSE], 1));
}

static void arguments_parse(char **argv)
{
	all.uri = argv[1];
	all.address = argv[2];
	all.port = (uint16_t)strtoul(argv[3], NULL, 10);
	all.n = (unsigned)strtoul(argv[4], NULL, 10);
	if (all.n == 0)
		give_up("N");
	all.ones = calloc(all.n, sizeof(*all.ones));
	for (unsigned i = 0; i < N_STAGES; i++) {
		stages[i].seconds = calloc(blocks_count(), sizeof(double));
		if (!all.ones || !stages[i].seconds)
			give_up("calloc");
	}
}

int main(int argc, char **argv)
{
	static const unsigned setup[] = { OPEN,         ATTACH,    READ,
					  BARE_CONNECT, BARE_READ, CONTROL_OPEN };
	static const unsigned end[] = { CLOSE, BARE_CLOSE, CONTROL_CLOSE };
	rmem *stays;

	if (argc != 5) {
		(void)fprintf(stderr, "usage: sessions URI ADDRESS PORT N\n");
		return 2;
	}
	arguments_parse(argv);
	bare_serve(all.address, all.port);
	control_serve(all.address, (uint16_t)(all.port + 1));
	stays = lease_make();
	step("begun");
	blocks_run(setup, 6);
	step("opened");
	/* once more, now that all sessions are open */
	for (uint32_t i = 0; i < all.n; i++)
		library_read(&all.ones[i], i);
	step("read");
	blocks_run(end, 3);
	rmem_close(stays);
	report();
	return 0;
}
