/* SPDX-License-Identifier: BSD-3-Clause */
/* Processes that share a cache, and are killed and stopped at random; afterwards each key must have
 * been linearizable, and no get may have found wrong bytes.
 * usage: cache-history URI SECONDS PROCESSES SEED */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rmem/cache.h>

#include "integration/program.h"
#include "unit/cache/history.h"

#define PROCESSES_MAX 64
#define EVENTS_MAX 100000u
#define KEYS 24
#define OUTSTANDING 8
#define VALUE_WORDS_MAX 2600 /* parts of 8 KiB */
#define CACHE_BYTES (UINT64_C(6) << 20)
#define SEGMENT_BYTES 65536

/* What the process of one number does, over all its lives. */
struct record {
	pid_t pid;
	bool stopped;
	uint64_t continue_ns;
	uint64_t next_value;
	unsigned wrong; /* values of wrong bytes */
	uint64_t hits, stored, failed, evictions, losses;
	uint32_t n;
	struct event events[EVENTS_MAX];
};

static struct record *records;
static const char *uri;
static uint64_t state;

static uint64_t now_ns(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t below(uint64_t n)
{
	return random_next(&state) % n;
}

/* ---- a process ---- */

struct slot {
	bool busy;
	uint32_t event;
	unsigned key;
	uint64_t words[VALUE_WORDS_MAX];
};

static unsigned value_words(uint64_t value)
{
	static const unsigned words[] = { 1, 9, 100, 700, 1100, 2500 };

	return words[value % 6];
}

static uint64_t word_of(unsigned key, uint64_t value, unsigned i)
{
	return value << 24 | (uint64_t)key << 12 | i;
}

/* 0: the words are of no value of the key. */
static uint64_t value_of(const struct slot *slot, uint64_t bytes)
{
	uint64_t value = slot->words[0] >> 24;

	if (bytes != 8ull * value_words(value))
		return 0;
	for (unsigned i = 0; i < bytes / 8; i++)
		if (slot->words[i] != word_of(slot->key, value, i))
			return 0;
	return value;
}

static void slot_submit(rmem_cache *cache, struct record *record, struct slot *slot,
			uint64_t cookie)
{
	unsigned x = (unsigned)below(10);
	struct rmem_cache_op op = {
		.key = &slot->key,
		.key_bytes = sizeof(slot->key),
		.value = slot->words,
		.bytes = sizeof(slot->words),
		.cookie = cookie,
		.opcode = x < 5   ? RMEM_CACHE_GET
			  : x < 9 ? RMEM_CACHE_PUT
				  : RMEM_CACHE_DELETE,
	};
	struct event event = { .end = HISTORY_NEVER };

	slot->key = event.key = (unsigned)below(KEYS);
	event.kind = x < 5 ? EVENT_GET : x < 9 ? EVENT_PUT : EVENT_DELETE;
	if (event.kind == EVENT_PUT) {
		event.value = record->next_value++;
		op.bytes = 8ull * value_words(event.value);
		for (unsigned i = 0; i < op.bytes / 8; i++)
			slot->words[i] = word_of(slot->key, event.value, i);
	}
	slot->busy = true;
	slot->event = record->n;
	event.start = now_ns();
	record->events[record->n] = event;
	record->n++;
	must(rmem_cache_submit(cache, &op, 1), "submit");
}

static void slot_end(struct record *record, struct slot *slot,
		     const struct rmem_cache_result *result)
{
	struct event *event = &record->events[slot->event];

	slot->busy = false;
	if (result->outcome == RMEM_CACHE_FAILED) {
		record->failed++;
		return;
	}
	if (result->outcome == RMEM_CACHE_HIT) {
		event->value = value_of(slot, result->bytes);
		record->wrong += event->value == 0;
		record->hits++;
	}
	record->stored += result->outcome == RMEM_CACHE_STORED;
	event->end = now_ns();
}

_Noreturn static void process_run(unsigned number)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	struct record *record = &records[number];
	static struct slot slots[OUTSTANDING];
	struct rmem_cache_result results[OUTSTANDING];
	rmem_cache *cache;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	options.bytes = CACHE_BYTES;
	options.segment_bytes = SEGMENT_BYTES;
	while (rmem_cache_open(&uri, 1, "history", &options, &cache))
		(void)usleep(50000);
	while (record->n < EVENTS_MAX) {
		struct rmem_cache_stat stat = rmem_cache_stat_init();
		unsigned i = (unsigned)below(OUTSTANDING);
		int n;

		if (!slots[i].busy)
			slot_submit(cache, record, &slots[i], i);
		n = rmem_cache_wait(cache, results, OUTSTANDING, 1, 100);
		must(n, "wait");
		for (int j = 0; j < n; j++)
			slot_end(record, &slots[results[j].cookie], &results[j]);
		(void)rmem_cache_stat(cache, RMEM_CACHE_ALL, &stat);
		record->evictions = stat.evictions;
		record->losses = stat.losses;
	}
	exit(0);
}

/* ---- what goes wrong ---- */

static void process_start(unsigned number)
{
	pid_t pid;

	(void)fflush(stdout);
	state = random_next(&state);
	pid = fork();
	if (pid < 0)
		fail("fork", -errno);
	if (pid == 0) {
		state += number;
		process_run(number);
	}
	records[number].pid = pid;
	records[number].stopped = false;
}

static void process_kill(unsigned number)
{
	int status;

	(void)kill(records[number].pid, SIGKILL);
	(void)waitpid(records[number].pid, &status, 0);
}

static void process_stop(unsigned number)
{
	static const unsigned times_ms[] = { 100, 500, 1000, 2500, 5000, 9000, 40000 };

	(void)kill(records[number].pid, SIGSTOP);
	records[number].stopped = true;
	records[number].continue_ns = now_ns() + times_ms[below(7)] * UINT64_C(1000000);
}

static void processes_continue(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (records[i].stopped && now_ns() >= records[i].continue_ns) {
			(void)kill(records[i].pid, SIGCONT);
			records[i].stopped = false;
		}
}

static void processes_disturb(unsigned n, uint64_t end_ns)
{
	unsigned stops = 0, kills = 0;

	while (now_ns() < end_ns) {
		unsigned i = (unsigned)below(n);

		(void)usleep((useconds_t)below(200000));
		processes_continue(n);
		if (below(3) == 0) {
			process_kill(i);
			process_start(i);
			kills++;
		} else if (!records[i].stopped) {
			process_stop(i);
			stops++;
		}
	}
	(void)printf("%u kills, %u stops\n", kills, stops);
}

/* ---- */

static void totals_print(unsigned n)
{
	struct record sum = { 0 };

	for (unsigned i = 0; i < n; i++) {
		sum.hits += records[i].hits;
		sum.stored += records[i].stored;
		sum.failed += records[i].failed;
		sum.evictions += records[i].evictions;
		sum.losses += records[i].losses;
		sum.wrong += records[i].wrong;
		sum.n += records[i].n;
	}
	(void)printf("%u operations: %llu hits, %llu stored, %llu failed, %u with "
		     "wrong bytes; "
		     "%llu evictions and %llu losses of the last lives\n",
		     sum.n, (unsigned long long)sum.hits,
		     (unsigned long long)sum.stored, (unsigned long long)sum.failed,
		     sum.wrong, (unsigned long long)sum.evictions,
		     (unsigned long long)sum.losses);
	if (sum.wrong || sum.hits == 0 || sum.stored == 0)
		fail("wrong bytes, or nothing was found", 0);
}

int main(int argc, char **argv)
{
	unsigned n = argc == 5 ? (unsigned)atoi(argv[3]) : 0;
	struct history history = { 0 };
	const char *failure;

	if (n == 0 || n > PROCESSES_MAX)
		return 2;
	uri = argv[1];
	state = strtoull(argv[4], NULL, 10);
	records = mmap(NULL, n * sizeof(*records), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (records == MAP_FAILED)
		fail("mmap", -errno);
	for (unsigned i = 0; i < n; i++) {
		records[i].next_value = (uint64_t)(i + 1) << 24;
		process_start(i);
	}
	processes_disturb(n, now_ns() + (uint64_t)atoi(argv[2]) * 1000000000u);
	for (unsigned i = 0; i < n; i++)
		process_kill(i);
	totals_print(n);
	for (unsigned i = 0; i < n; i++)
		for (uint32_t j = 0; j < records[i].n; j++)
			(void)history_add(&history, records[i].events[j]);
	failure = history_check(&history);
	if (failure) {
		(void)fprintf(stderr, "cache-history: %s\n", failure);
		return 1;
	}
	history_free(&history);
	kept("every key is linearizable");
	return 0;
}
