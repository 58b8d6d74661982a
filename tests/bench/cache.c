/* SPDX-License-Identifier: BSD-3-Clause */
/* cache rates MS ROUNDS RMEM REDIS MEMCACHED TRACED: blocks per second of rmem, Redis and two
 *     memcacheds on these ports, in windows of MS milliseconds: lines "rate CELL STORE RATE".
 * cache hits REQUESTS CLIENTS RMEM REDIS: hit rates of traces, with so many clients of rmem in
 *     turn: lines "hits TRACE BAR RMEM REDIS".  BAR is how much rmem should be ahead. */
#include <err.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/random.h"
#include "bench/cache.h"

#define MIB 1048576u
#define VALUE_MAX MIB
#define STORES 3u

static unsigned char *memory; /* BATCH values, which all stores use */
static uint64_t seed = 1;

static uint64_t now_ns(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static double chance(void)
{
	return (double)(random_next(&seed) >> 11) * 0x1p-53;
}

static unsigned below(unsigned n)
{
	return (unsigned)(chance() * n);
}

static struct block block_of(unsigned at, unsigned key, uint32_t bytes)
{
	struct block block = { .value = memory + (size_t)at * VALUE_MAX,
			       .bytes = bytes };

	(void)snprintf(block.key, sizeof(block.key), "%0*u", (int)KEY_BYTES, key);
	return block;
}

/* A value begins with its key. */
static void check(const struct block *block, const char *store)
{
	if (memcmp(block->value, block->key, KEY_BYTES) != 0)
		errx(1, "%s: wrong value of %s", store, block->key);
}

static void fill(struct block *block)
{
	memcpy(block->value, block->key, KEY_BYTES);
}

/* ---- traces ---- */

enum kind { ZIPF, SCAN, TWICE, RECENCY };

static unsigned n_keys;
static double *cdf;
static unsigned *order; /* the keys by popularity */

static void keys_make(unsigned n, double exponent)
{
	double sum = 0;

	n_keys = n;
	cdf = realloc(cdf, n * sizeof(*cdf));
	order = realloc(order, n * sizeof(*order));
	if (!cdf || !order)
		err(1, "keys");
	for (unsigned i = 0; i < n; i++) {
		unsigned j = below(i + 1);

		sum += pow(i + 1, -exponent);
		cdf[i] = sum;
		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned i = 0; i < n; i++)
		cdf[i] /= sum;
}

static unsigned zipf(void)
{
	unsigned low = 0, high = n_keys - 1;
	double at = chance();

	while (low < high) {
		unsigned middle = (low + high) / 2;

		if (cdf[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return order[low];
}

/* Each key comes twice, with about two fifths of what fits in between; beside Zipf. */
static unsigned twice(void)
{
	enum { MAX = 4096 };
	static unsigned waiting[MAX], at; /* the key and 1 */
	unsigned n = n_keys / 25, *key = &waiting[at++ % (n < MAX ? n : MAX)], found;

	if (*key == 0)
		*key = below(n_keys) + 1;
	else {
		found = *key - 1;
		*key = 0;
		return found;
	}
	return *key - 1;
}

/* Sessions, each of which asks for eight keys of its own again and again, until it ends. */
static unsigned recency(void)
{
	enum { MAX = 2000 };
	static struct {
		unsigned base;
		int left;
	} sessions[MAX];
	unsigned n = n_keys / 50, i = below(n < MAX ? n : MAX);

	if (sessions[i].left <= 0) {
		sessions[i].base = below(n_keys);
		sessions[i].left = 1 + (int)(-log(chance() + 1e-12) * 30);
	}
	sessions[i].left--;
	return (sessions[i].base + below(8)) % n_keys;
}

static unsigned key_next(enum kind kind)
{
	static unsigned scanned;

	switch (kind) {
	case SCAN:
		if (chance() < 0.3)
			return order[n_keys - 1 - scanned++ % (n_keys / 2)];
		return zipf();
	case TWICE:
		return chance() < 0.5 ? twice() : zipf();
	case RECENCY:
		return recency();
	case ZIPF:
		break;
	}
	return zipf();
}

/* ---- a client of a trace: what is missing is put ---- */

struct client {
	const struct store *store;
	void *handle;
	uint64_t hits, gets;
};

/* Whether an earlier block of the batch has the key, and so puts it. */
static bool is_put(const struct block *missing, unsigned n, const struct block *block)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(missing[i].key, block->key, KEY_BYTES) == 0)
			return true;
	return false;
}

static void serve(struct client *client, const unsigned *keys, const uint32_t *bytes)
{
	struct block blocks[BATCH], missing[BATCH];
	unsigned n = 0;

	for (unsigned i = 0; i < BATCH; i++)
		blocks[i] = block_of(i, keys[i], bytes[i]);
	client->store->get(client->handle, blocks, BATCH);
	client->gets += BATCH;
	for (unsigned i = 0; i < BATCH; i++) {
		if (blocks[i].hit) {
			client->hits++;
			check(&blocks[i], client->store->name);
		} else if (!is_put(missing, n, &blocks[i])) {
			fill(&blocks[i]);
			missing[n++] = blocks[i];
		}
	}
	if (n)
		client->store->put(client->handle, missing, n);
}

/* ---- rates ---- */

#define CAPACITY (UINT64_C(1024) * MIB)
#define TRACE_CAPACITY (UINT64_C(256) * MIB)
#define CHUNK 8 /* batches of the trace between two looks at the clock */

static const struct store *const stores[STORES] = { &store_rmem, &store_redis,
						    &store_memcached };
static const uint32_t sizes[] = { 4096, 65536, 1048576 };
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static uint64_t window_ns;

/* All blocks of a length. */
static void batch(const struct client *client, bool get, uint32_t bytes)
{
	struct block blocks[BATCH];

	for (unsigned i = 0; i < BATCH; i++) {
		blocks[i] = block_of(i, bytes + i, bytes);
		if (!get)
			fill(&blocks[i]);
	}
	(get ? client->store->get : client->store->put)(client->handle, blocks, BATCH);
	for (unsigned i = 0; get && i < BATCH; i++) {
		if (!blocks[i].hit)
			errx(1, "%s: %s is missing", client->store->name,
			     blocks[i].key);
		check(&blocks[i], client->store->name);
	}
}

/* Blocks per second; they are there. */
static double window(const struct client *client, bool get, uint32_t bytes)
{
	uint64_t begin = now_ns(), ns = 0;
	unsigned n = 0;

	while (ns < window_ns) {
		batch(client, get, bytes);
		n += BATCH;
		ns = now_ns() - begin;
	}
	return n * 1e9 / (double)ns;
}

static void sets_measure(struct client clients[STORES], unsigned rounds)
{
	double best[SIZES][2][STORES] = { 0 };

	for (unsigned round = 0; round < rounds; round++)
		for (unsigned s = 0; s < SIZES; s++)
			for (unsigned i = 0; i < STORES; i++) {
				const struct client *client =
					&clients[(i + round) % STORES];
				double *to = &best[s][0][(i + round) % STORES];

				batch(client, false, sizes[s]);
				for (unsigned get = 2; get-- > 0; to += STORES)
					*to = fmax(*to, window(client, get, sizes[s]));
			}
	for (unsigned s = 0; s < SIZES; s++)
		for (unsigned op = 0; op < 2; op++)
			for (unsigned i = 0; i < STORES; i++)
				(void)printf("rate %s-%u %s %.0f\n", op ? "put" : "get",
					     sizes[s], stores[i]->name, best[s][op][i]);
}

/* Some of the trace: the same of each store. */
static void trace_chunk(struct client clients[STORES], const uint32_t *bytes,
			uint64_t spent_ns[STORES])
{
	unsigned keys[CHUNK][BATCH];
	uint32_t lengths[CHUNK][BATCH];

	for (unsigned b = 0; b < CHUNK; b++)
		for (unsigned i = 0; i < BATCH; i++) {
			keys[b][i] = key_next(ZIPF);
			lengths[b][i] = bytes[keys[b][i]];
		}
	for (unsigned i = 0; i < STORES; i++) {
		uint64_t begin = now_ns();

		for (unsigned b = 0; b < CHUNK; b++)
			serve(&clients[i], keys[b], lengths[b]);
		spent_ns[i] += now_ns() - begin;
	}
}

/* Values of 4 KiB to 1 MiB, a tenth of which fits.  Chunks differ, so their sum counts. */
static void trace_measure(struct client clients[STORES], unsigned rounds)
{
	unsigned n = (unsigned)(10 * TRACE_CAPACITY / 188000);
	uint32_t *bytes = calloc(n, sizeof(*bytes));
	uint64_t spent_ns[STORES] = { 0 };

	if (!bytes)
		err(1, "keys");
	for (unsigned i = 0; i < n; i++)
		bytes[i] = (uint32_t)exp2(12 + 8 * chance());
	keys_make(n, 0.9);
	for (unsigned i = 0; i < 2 * n / (CHUNK * BATCH); i++)
		trace_chunk(clients, bytes, spent_ns);
	for (unsigned i = 0; i < STORES; i++) {
		spent_ns[i] = 0;
		clients[i].hits = clients[i].gets = 0;
	}
	for (unsigned round = 0; round < rounds; round++)
		trace_chunk(clients, bytes, spent_ns);
	for (unsigned i = 0; i < STORES; i++)
		(void)printf("rate trace %s %.0f\n", stores[i]->name,
			     (double)clients[i].gets * 1e9 / (double)spent_ns[i]);
	free(bytes);
}

static void rates(char **argv)
{
	unsigned rounds = (unsigned)atoi(argv[1]), ports[STORES];
	struct client clients[STORES];

	window_ns = (uint64_t)atoi(argv[0]) * 1000000;
	for (unsigned i = 0; i < STORES; i++) {
		ports[i] = (unsigned)atoi(argv[2 + i]);
		clients[i] = (struct client){ .store = stores[i],
					      .handle = stores[i]->open(ports[i],
									CAPACITY) };
	}
	sets_measure(clients, rounds);
	clients[0].handle = rmem_store_open(ports[0], "trace", TRACE_CAPACITY, 0);
	redis_store_reset(clients[1].handle, TRACE_CAPACITY);
	clients[2].handle = store_memcached.open((unsigned)atoi(argv[5]), 0);
	trace_measure(clients, rounds);
}

/* ---- hit rates ---- */

#define CLIENTS_MAX 64u
#define KEYS 64000u
/* what suits Redis's allocator best: with what is beside it 4 KiB */
#define VALUE_BYTES 4000u
#define BLOCK_BYTES 4240u /* of rmem, all included */
#define SEGMENT_BYTES 65536u

static const struct trace {
	const char *name;
	enum kind kind;
	double exponent, bar;
} traces[] = {
	{ "zipf-0.7", ZIPF, 0.7, 0.03 },   { "zipf-0.7-scan", SCAN, 0.7, 0.03 },
	{ "zipf-0.8", ZIPF, 0.8, 0.03 },   { "zipf-0.8-scan", SCAN, 0.8, 0.03 },
	{ "zipf-0.9", ZIPF, 0.9, 0.03 },   { "zipf-0.9-scan", SCAN, 0.9, 0.03 },
	{ "zipf-0.99", ZIPF, 0.99, 0.03 }, { "zipf-0.99-scan", SCAN, 0.99, 0.03 },
	{ "twice", TWICE, 0.9, -0.01 },    { "recency", RECENCY, 0.9, -0.03 },
};

static void hits_measure(const struct trace *trace, unsigned requests, unsigned clients,
			 unsigned port, void *redis)
{
	uint64_t capacity = (uint64_t)KEYS / 10 * BLOCK_BYTES, hits[2] = { 0 },
		 gets = 0;
	struct client client[2] = { { .store = &store_rmem },
				    { .store = &store_redis, .handle = redis } };
	void *handles[CLIENTS_MAX];
	unsigned keys[BATCH];
	uint32_t bytes[BATCH];

	for (unsigned i = 0; i < clients; i++)
		handles[i] =
			rmem_store_open(port, trace->name, capacity, SEGMENT_BYTES);
	redis_store_reset(redis, capacity);
	keys_make(KEYS, trace->exponent);
	for (unsigned b = 0; b < requests / BATCH; b++) {
		for (unsigned i = 0; i < BATCH; i++) {
			keys[i] = key_next(trace->kind);
			bytes[i] = VALUE_BYTES;
		}
		client[0].handle = handles[b % clients];
		for (unsigned i = 0; i < 2; i++) {
			uint64_t before = client[i].hits;

			serve(&client[i], keys, bytes);
			if (b >= requests / BATCH / 3)
				hits[i] += client[i].hits - before;
		}
		gets += b >= requests / BATCH / 3 ? BATCH : 0;
	}
	(void)printf("hits %s %g %.4f %.4f\n", trace->name, trace->bar,
		     (double)hits[0] / (double)gets, (double)hits[1] / (double)gets);
	for (unsigned i = 0; i < clients; i++)
		rmem_store_close(handles[i]);
}

static void hits(char **argv)
{
	unsigned requests = (unsigned)atoi(argv[0]), clients = (unsigned)atoi(argv[1]);
	void *redis = store_redis.open((unsigned)atoi(argv[3]), CAPACITY);

	if (clients == 0 || clients > CLIENTS_MAX)
		errx(2, "1 to %u clients", CLIENTS_MAX);
	for (size_t i = 0; i < sizeof(traces) / sizeof(traces[0]); i++)
		hits_measure(&traces[i], requests, clients, (unsigned)atoi(argv[2]),
			     redis);
}

int main(int argc, char **argv)
{
	memory = calloc(BATCH, VALUE_MAX);
	if (!memory)
		err(1, "values");
	if (argc == 8 && strcmp(argv[1], "rates") == 0)
		rates(argv + 2);
	else if (argc == 6 && strcmp(argv[1], "hits") == 0)
		hits(argv + 2);
	else
		return 2;
	return 0;
}
