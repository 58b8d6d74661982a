/* SPDX-License-Identifier: BSD-3-Clause */
/* grant URI SEED ROUNDS STEPS ROUND_BYTES BYTES...: measures the time of grants and frees, by
 * size, and of pings on the control connection, in nanoseconds.
 *
 * A round grants STEPS leases of each size, but at most ROUND_BYTES of a size, then frees them.
 * One ping is sent for each grant and for each free.  The order is random, because the time of a
 * task depends on the one before it and on other load of the machine.  Over RDMA, local memory of
 * the lease's size is registered and deregistered after each grant, as the server does with its
 * own.
 *
 * Before each round the program prints "next" and waits for a line from standard input; the
 * script sends it once all freed memory is zeroed.  At the end it prints "done" and a line
 * "KIND BYTES N P50 P99" for each kind: "alloc", "free", "register", "deregister"; the pings
 * between grants are split into the halves "ping" and "again", those between frees into
 * "ping-free" and "again-free". */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <rmem/rmem.h>

#define SIZES_MAX 16
/* Pings before each round that do not count: they wake both ends. */
#define WARM_UP 50

struct times {
	uint64_t *ns;
	size_t n, capacity;
};

struct size {
	uint64_t bytes;
	unsigned per_round;
	struct times grant, free, reg, dereg;
};

struct task {
	struct size *size; /* NULL: a ping */
	rmem_lease *lease;
};

struct run {
	rmem *session;
	unsigned steps;
	uint64_t round_bytes;
	void *memory; /* as long as the longest size; NULL: nothing is registered */
	struct times pings[2]
			  [2]; /* between grants, between frees; two halves of each */
	unsigned n_pings;
	struct size sizes[SIZES_MAX];
	unsigned n_sizes;
	struct task *tasks;
	unsigned n_tasks;
};

static void die(const char *what)
{
	(void)fprintf(stderr, "grant: %s\n", what);
	exit(1);
}

static void check(int err)
{
	if (err)
		die(rmem_error());
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void times_add(struct times *times, uint64_t ns)
{
	if (times->n == times->capacity) {
		times->capacity = times->capacity ? 2 * times->capacity : 1024;
		times->ns = realloc(times->ns, times->capacity * sizeof(*times->ns));
		if (!times->ns)
			die("no memory");
	}
	times->ns[times->n++] = ns;
}

static int less(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void times_print(struct times *times, const char *kind, uint64_t bytes)
{
	if (times->n == 0)
		die("nothing was measured");
	qsort(times->ns, times->n, sizeof(*times->ns), less);
	(void)printf("%s %" PRIu64 " %zu %" PRIu64 " %" PRIu64 "\n", kind, bytes,
		     times->n, times->ns[times->n / 2], times->ns[times->n * 99 / 100]);
	free(times->ns);
}

/* Wait until all freed memory is zeroed. */
static void zeroed_await(void)
{
	char line[16];

	(void)printf("next\n");
	(void)fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		die("standard input ended before the last round");
}

static void register_measure(struct run *run, struct size *size)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	uint64_t begin = now_ns();
	rmem_buffer *buffer;

	params.addr = run->memory;
	params.bytes = size->bytes;
	check(rmem_buffer_create(run->session, &params, &buffer));
	times_add(&size->reg, now_ns() - begin);
	begin = now_ns();
	check(rmem_buffer_free(buffer));
	times_add(&size->dereg, now_ns() - begin);
}

static void task_measure(struct run *run, struct task *task, bool grant)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	struct size *size = task->size;
	uint64_t begin = now_ns();
	struct times *times;

	if (!size) {
		check(rmem_ping(run->session, NULL));
		times = &run->pings[!grant][run->n_pings++ % 2];
	} else if (grant) {
		params.bytes = size->bytes;
		check(rmem_alloc(run->session, &params, &task->lease));
		times = &size->grant;
	} else {
		check(rmem_destroy(task->lease));
		times = &size->free;
	}
	times_add(times, now_ns() - begin);
	if (size && grant && run->memory)
		register_measure(run, size);
}

/* Fisher-Yates */
static void shuffle(struct run *run)
{
	for (unsigned i = run->n_tasks; i > 1; i--) {
		unsigned k = (unsigned)((double)random() / ((double)RAND_MAX + 1) * i);
		struct task task = run->tasks[k];

		run->tasks[k] = run->tasks[i - 1];
		run->tasks[i - 1] = task;
	}
}

static void round_run(struct run *run)
{
	zeroed_await();
	for (unsigned i = 0; i < WARM_UP; i++)
		check(rmem_ping(run->session, NULL));
	for (int grant = 1; grant >= 0; grant--) {
		shuffle(run);
		for (unsigned i = 0; i < run->n_tasks; i++)
			task_measure(run, &run->tasks[i], grant);
	}
}

static void size_add(struct run *run, const char *text)
{
	struct size *size = &run->sizes[run->n_sizes++];
	uint64_t fit;

	size->bytes = strtoull(text, NULL, 10);
	if (size->bytes == 0 || size->bytes > run->round_bytes)
		die("BYTES is not a number from 1 to ROUND_BYTES");
	fit = run->round_bytes / size->bytes;
	size->per_round = fit < run->steps ? (unsigned)fit : run->steps;
	run->n_tasks += 2 * size->per_round;
}

static void tasks_make(struct run *run)
{
	unsigned n = 0;

	/* the second half stays zero: pings */
	run->tasks = calloc(run->n_tasks, sizeof(*run->tasks));
	if (!run->tasks)
		die("no memory");
	for (unsigned i = 0; i < run->n_sizes; i++)
		for (unsigned k = 0; k < run->sizes[i].per_round; k++)
			run->tasks[n++].size = &run->sizes[i];
}

static void run_print(struct run *run)
{
	times_print(&run->pings[0][0], "ping", 0);
	times_print(&run->pings[0][1], "again", 0);
	times_print(&run->pings[1][0], "ping-free", 0);
	times_print(&run->pings[1][1], "again-free", 0);
	for (unsigned i = 0; i < run->n_sizes; i++) {
		times_print(&run->sizes[i].grant, "alloc", run->sizes[i].bytes);
		times_print(&run->sizes[i].free, "free", run->sizes[i].bytes);
		if (!run->memory)
			continue;
		times_print(&run->sizes[i].reg, "register", run->sizes[i].bytes);
		times_print(&run->sizes[i].dereg, "deregister", run->sizes[i].bytes);
	}
}

/* Allocate the memory to register; its pages are populated, like the server's. */
static void memory_make(struct run *run)
{
	struct rmem_info info = rmem_info_init();
	uint64_t bytes = 0;

	check(rmem_info(run->session, &info));
	if (info.fabric != RMEM_FABRIC_RDMA)
		return;
	for (unsigned i = 0; i < run->n_sizes; i++)
		if (run->sizes[i].bytes > bytes)
			bytes = run->sizes[i].bytes;
	run->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (run->memory == MAP_FAILED)
		die("no memory to register");
}

int main(int argc, char **argv)
{
	static struct run run;
	unsigned long rounds;

	if (argc < 7 || argc - 6 > SIZES_MAX)
		die("usage: grant URI SEED ROUNDS STEPS ROUND_BYTES BYTES...");
	srandom((unsigned)strtoul(argv[2], NULL, 10));
	rounds = strtoul(argv[3], NULL, 10);
	run.steps = (unsigned)strtoul(argv[4], NULL, 10);
	run.round_bytes = strtoull(argv[5], NULL, 10);
	for (int i = 6; i < argc; i++)
		size_add(&run, argv[i]);
	tasks_make(&run);
	check(rmem_open(argv[1], NULL, &run.session));
	memory_make(&run);
	for (unsigned long i = 0; i < rounds; i++)
		round_run(&run);
	(void)printf("done\n");
	run_print(&run);
	rmem_close(run.session);
	free(run.tasks);
	return 0;
}
