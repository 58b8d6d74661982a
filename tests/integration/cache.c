/* SPDX-License-Identifier: BSD-3-Clause */
/* A cache over a server: cache.sh says which part.
 * usage: cache PART URI... */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <rmem/cache.h>

#include "integration/program.h"

#define MIB (UINT64_C(1) << 20)
#define CACHE_BYTES (64 * MIB)

static const char *const *uris;
static unsigned n_uris;

_Noreturn static void cache_fail(const char *what, long result)
{
	(void)fprintf(stderr, "cache: %s: %ld (%s)\n", what, result,
		      rmem_cache_error());
	exit(1);
}

static int wanted(int result, int want, const char *what)
{
	if (result != want)
		cache_fail(what, result);
	return result;
}

static void check(bool good, const char *what)
{
	if (!good)
		cache_fail(what, 0);
}

static rmem_cache *cache_open(const char *name, unsigned flags)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	rmem_cache *cache;

	options.flags = flags;
	options.bytes = CACHE_BYTES;
	wanted(rmem_cache_open(uris, n_uris, name, &options, &cache), 0, "open");
	return cache;
}

static struct rmem_cache_stat stat_of(rmem_cache *cache)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();

	wanted(rmem_cache_stat(cache, RMEM_CACHE_ALL, &stat), 0, "stat");
	return stat;
}

/* The value of a key: each word has both, and its place. */
static void value_fill(char *value, uint64_t bytes, uint64_t number)
{
	for (uint64_t i = 0; i < bytes; i++)
		value[i] = (char)(number * 131 + i * 7 + (i >> 8));
}

static bool value_is(const char *value, uint64_t bytes, uint64_t number)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (value[i] != (char)(number * 131 + i * 7 + (i >> 8)))
			return false;
	return true;
}

/* ---- values of every length ---- */

static void lengths(rmem_cache *writer, rmem_cache *reader, bool all)
{
	static const uint64_t some[] = { 0,      1,           63,      64,     65,
					 4096,   100000,      131071,  131072, 131073,
					 262144, 5 * MIB + 3, 16 * MIB };
	char *value = malloc(16 * MIB), *got = malloc(16 * MIB);
	unsigned n = sizeof(some) / sizeof(some[0]);

	check(value && got, "memory");
	for (unsigned i = 0; i < (all ? n : n - 2); i++) {
		char key[64];
		size_t key_bytes = (size_t)snprintf(key, sizeof(key), "length-%u", i);
		uint64_t bytes = 7;

		value_fill(value, some[i], i);
		wanted(rmem_cache_put(writer, key, key_bytes, value, some[i], 0), 0,
		       "put");
		wanted(rmem_cache_exists(reader, key, key_bytes, &bytes), 1, "exists");
		check(bytes == some[i], "exists tells the length");
		for (int again = 0; again < 3; again++) {
			bytes = 7;
			wanted(rmem_cache_get(again ? reader : writer, key, key_bytes,
					      got, some[i], &bytes),
			       1, "get");
			check(bytes == some[i] && value_is(got, bytes, i), "the value");
		}
		if (some[i] > 0) {
			wanted(rmem_cache_get(reader, key, key_bytes, got, some[i] - 1,
					      &bytes),
			       -EMSGSIZE, "get with too little room");
			check(bytes == some[i], "EMSGSIZE tells the length");
		}
		wanted(rmem_cache_delete(reader, key, key_bytes), 1, "delete");
		wanted(rmem_cache_delete(reader, key, key_bytes), 0, "delete again");
		wanted(rmem_cache_get(writer, key, key_bytes, got, some[i], NULL), 0,
		       "get after delete");
	}
	free(value);
	free(got);
}

/* A call that succeeds leaves no text of one that failed before. */
static void texts(rmem_cache *cache)
{
	struct rmem_cache_op op = { .key = "k", .key_bytes = 1 };
	struct rmem_cache_result result;

	wanted(rmem_cache_submit(cache, &op, 1), -EINVAL, "submit of no opcode");
	check(rmem_cache_error()[0], "the text of a failure");
	op.opcode = RMEM_CACHE_EXISTS;
	wanted(rmem_cache_submit(cache, &op, 1), 1, "submit");
	check(!rmem_cache_error()[0], "no text after submit");
	op.opcode = 0;
	wanted(rmem_cache_submit(cache, &op, 1), -EINVAL, "submit of no opcode");
	wanted(rmem_cache_wait(cache, &result, 1, 1, -1), 1, "wait");
	check(!rmem_cache_error()[0], "no text after wait");
}

/* The child of a fork may not use the cache. */
static void forked(rmem_cache *cache)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();
	pid_t child = fork();
	int status;

	check(child >= 0, "fork");
	if (child == 0) {
		wanted(rmem_cache_submit(cache, NULL, 0), -ESTALE, "submit");
		wanted(rmem_cache_stat(cache, RMEM_CACHE_ALL, &stat), -ESTALE, "stat");
		wanted(rmem_cache_fd(cache), -ESTALE, "fd");
		wanted(rmem_cache_arm(cache), -ESTALE, "arm");
		_exit(0);
	}
	check(waitpid(child, &status, 0) == child && status == 0, "the child");
}

static void part_keys(void)
{
	rmem_cache *one = cache_open("keys", 0), *two = cache_open("keys", 0);
	char key[RMEM_CACHE_KEY_MAX], got[8];

	lengths(one, two, true);
	texts(one);
	forked(one);
	memset(key, 'k', sizeof(key));
	for (size_t bytes = 1; bytes <= sizeof(key); bytes += 127) {
		wanted(rmem_cache_put(one, key, bytes, "first", 5, 0), 0, "put");
		wanted(rmem_cache_get(two, key, bytes, got, 8, NULL), 1, "get");
		wanted(rmem_cache_put(two, key, bytes, "second", 6, 0), 0, "put");
		wanted(rmem_cache_get(one, key, bytes, got, 8, NULL), 1, "get");
		check(memcmp(got, "second", 6) == 0, "the second value");
		wanted(rmem_cache_put(one, key, bytes, "third", 5, 0), 0, "put");
		wanted(rmem_cache_get(two, key, bytes, got, 8, NULL), 1, "get");
		check(memcmp(got, "third", 5) == 0, "the third value");
	}
	wanted(rmem_cache_put(one, "brief", 5, "x", 1, 1), 0,
	       "put with a time to live");
	for (int i = 0; rmem_cache_get(two, "brief", 5, got, 8, NULL) == 1; i++) {
		check(i < 1000, "it expires");
		(void)usleep(1000);
	}
	wanted(rmem_cache_put(one, "lasting", 7, "x", 1, UINT64_MAX), 0,
	       "put with the longest time to live");
	wanted(rmem_cache_get(two, "lasting", 7, got, 8, NULL), 1,
	       "get what lives longest");
	wanted(rmem_cache_put(one, "k", 0, "x", 1, 0), -EINVAL, "a key of no bytes");
	wanted(rmem_cache_put(one, key, 256, "x", 1, 0), -EINVAL, "a key of 256 bytes");
	wanted(rmem_cache_stat(one, RMEM_CACHE_ALL, NULL), -EINVAL, "stat to nowhere");
	wanted(rmem_cache_list(one, NULL, NULL), -EINVAL, "a list for nobody");
	rmem_cache_close(one);
	rmem_cache_close(two);
	kept("keys and values of every length");
}

/* ---- what a hit costs ---- */

static uint64_t reads_of_gets(rmem_cache *cache, unsigned n)
{
	uint64_t before = stat_of(cache).reads;
	char got[4096];

	for (unsigned i = 0; i < n; i++)
		wanted(rmem_cache_get(cache, &i, sizeof(i), got, sizeof(got), NULL), 1,
		       "get");
	return stat_of(cache).reads - before;
}

static void part_costs(void)
{
	enum { N = 500 };
	char value[4096] = { 0 };

	for (unsigned flags = 0; flags <= RMEM_CACHE_IMMUTABLE; flags++) {
		const char *name = flags ? "costs-immutable" : "costs";
		rmem_cache *writer = cache_open(name, flags),
			   *reader = cache_open(name, flags);
		struct rmem_cache_stat stat;
		uint64_t unknown, known;

		for (unsigned i = 0; i < N; i++)
			wanted(rmem_cache_put(writer, &i, sizeof(i), value,
					      sizeof(value), 0),
			       0, "put");
		stat = stat_of(writer);
		(void)printf("%s: %.3f swaps and %.3f reads a put of a new key\n", name,
			     (double)stat.swaps / N, (double)stat.reads / N);
		unknown = reads_of_gets(reader, N);
		known = reads_of_gets(reader, N);
		(void)printf("%s: %.3f reads a hit of an unknown place, %.3f of a "
			     "known one\n",
			     name, (double)unknown / N, (double)known / N);
		/* and the table, now and then */
		check(unknown >= 2 * N && unknown < 3 * N,
		      "2 reads a hit of an unknown place");
		check(known >= (flags ? 1 : 2) * N && known < (flags ? 2 : 3) * N,
		      "reads of a known place");
		stat = stat_of(reader);
		check(stat.torn == 0 && stat.swaps == 1 - 1, "a hit swaps nothing");
		rmem_cache_close(writer);
		rmem_cache_close(reader);
	}
	kept("a hit costs one or two reads");
}

/* ---- memory of the program ---- */

enum { POOL = 4 << 20, BLOCK = 8192 };

static void block_fill(char *block, int number)
{
	memset(block, number, BLOCK);
}

static bool block_is(const char *block, int number)
{
	return block[0] == (char)number && memcmp(block, block + 1, BLOCK - 1) == 0;
}

/* Put and get blocks, and one value of several parts, in place. */
static void move_values(rmem_cache *cache, char *pool)
{
	enum { BLOCKS = 32 };
	char *got = pool + POOL / 2;

	for (int i = 0; i < BLOCKS; i++) {
		block_fill(pool + i * BLOCK, i);
		wanted(rmem_cache_put(cache, &i, sizeof(i), pool + i * BLOCK, BLOCK, 0),
		       0, "put from the pool");
	}
	for (int i = 0; i < BLOCKS; i++) {
		wanted(rmem_cache_get(cache, &i, sizeof(i), got, BLOCK, NULL), 1,
		       "get into the pool");
		check(block_is(got, i), "the block that was got");
	}
	wanted(rmem_cache_put(cache, "long", 4, pool, POOL / 2, 0), 0, "put parts");
	memset(got, 'x', POOL / 2);
	wanted(rmem_cache_get(cache, "long", 4, got, POOL / 2, NULL), 1, "get parts");
	check(memcmp(pool, got, POOL / 2) == 0, "the value in parts");
}

static void register_refusals(rmem_cache *cache, char *pool)
{
	char *unmapped =
		mmap(NULL, POOL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	wanted(rmem_cache_register(cache, NULL, POOL), -EINVAL, "register NULL");
	wanted(rmem_cache_register(cache, pool, 0), -EINVAL, "register nothing");
	wanted(rmem_cache_register(cache, pool, UINT64_MAX), -EINVAL,
	       "register too much");
	check(unmapped != MAP_FAILED && munmap(unmapped, POOL) == 0, "no memory");
	wanted(rmem_cache_register(cache, unmapped, POOL), -EFAULT,
	       "register what is not there");
	check(rmem_cache_error()[0], "the text of what cannot be registered");
	wanted(rmem_cache_unregister(cache, unmapped, POOL), -ENOENT,
	       "unregister what is not there");
	wanted(rmem_cache_unregister(cache, pool, POOL / 2), -ENOENT,
	       "unregister other bytes");
}

static void unregister_busy(rmem_cache *cache, char *pool)
{
	struct rmem_cache_op op = { .key = "long",
				    .key_bytes = 4,
				    .opcode = RMEM_CACHE_GET,
				    .value = pool + POOL - BLOCK,
				    .bytes = BLOCK };
	struct rmem_cache_result result;

	wanted(rmem_cache_submit(cache, &op, 1), 1, "submit");
	wanted(rmem_cache_unregister(cache, pool, POOL), -EBUSY,
	       "unregister what is used");
	wanted(rmem_cache_wait(cache, &result, 1, 1, -1), 1, "wait");
}

static void part_registered(void)
{
	bool rdma = strstr(uris[0], "fabric=rdma");
	char *pool = aligned_alloc(4096, POOL);
	rmem_cache *cache = cache_open("registered", 0);
	uint64_t before;

	check(pool, "memory");
	wanted(rmem_cache_register(cache, pool, POOL), 0, "register");
	wanted(rmem_cache_register(cache, pool, POOL), 0, "register again");
	register_refusals(cache, pool);
	before = stat_of(cache).copied_bytes;
	move_values(cache, pool);
	check(stat_of(cache).copied_bytes == before, "nothing is copied");
	unregister_busy(cache, pool);
	wanted(rmem_cache_unregister(cache, pool, POOL), 0, "unregister");
	move_values(cache, pool);
	check(stat_of(cache).copied_bytes == before,
	      "the other one registers it still");
	wanted(rmem_cache_unregister(cache, pool, POOL), 0, "unregister the other");
	wanted(rmem_cache_unregister(cache, pool, POOL), -ENOENT, "unregister more");
	move_values(cache, pool);
	(void)printf("copied without registration: %llu bytes\n",
		     (unsigned long long)(stat_of(cache).copied_bytes - before));
	check((stat_of(cache).copied_bytes > before) == rdma, "what is copied");
	rmem_cache_close(cache);
	free(pool);
	kept("registered memory is moved in place");
}

/* ---- batches, and more than there is room for ---- */

static void batch(rmem_cache *cache, struct rmem_cache_op *ops, unsigned n,
		  struct rmem_cache_result *results)
{
	unsigned done = 0, submitted = 0;

	while (done < n) {
		int more;

		if (submitted < n) {
			more = rmem_cache_submit(cache, ops + submitted, n - submitted);
			check(more >= 0 || more == -EOVERFLOW, "submit");
			submitted += more > 0 ? (unsigned)more : 0;
		}
		more = rmem_cache_wait(cache, results + done, n - done, 1, -1);
		check(more >= 0, "wait");
		done += (unsigned)more;
	}
}

static void part_full(void)
{
	enum { N = 64, BYTES = 65536, ROUNDS = 48 };
	rmem_cache *cache = cache_open("full", 0), *other = cache_open("full", 0);
	char *values = malloc((size_t)N * BYTES);
	struct rmem_cache_op ops[N];
	struct rmem_cache_result results[N];
	struct rmem_cache_stat stat;
	uint64_t keys[N];
	unsigned hits = 0;

	check(values != NULL, "memory");
	for (unsigned round = 0; round < 2 * ROUNDS; round++) {
		bool put = round % 2 == 0;

		for (unsigned i = 0; i < N; i++) {
			keys[i] = (uint64_t)(round / 2) * N + i;
			if (put)
				value_fill(values + (size_t)i * BYTES, BYTES, keys[i]);
			ops[i] = (struct rmem_cache_op){
				.opcode = put ? RMEM_CACHE_PUT : RMEM_CACHE_GET,
				.key = &keys[i],
				.key_bytes = sizeof(keys[i]),
				.value = values + (size_t)i * BYTES,
				.bytes = BYTES,
				.cookie = i,
			};
		}
		if (!put)
			memset(values, 0, (size_t)N * BYTES);
		batch(put || round % 4 == 1 ? cache : other, ops, N, results);
		for (unsigned i = 0; i < N; i++) {
			if (put)
				check(results[i].outcome == RMEM_CACHE_STORED,
				      rmem_cache_result_error(cache, &results[i]));
			if (put || results[i].outcome != RMEM_CACHE_HIT)
				continue;
			hits++;
			check(results[i].bytes == BYTES &&
				      value_is(values + results[i].cookie * BYTES,
					       BYTES, keys[results[i].cookie]),
			      "the value");
		}
	}
	stat = stat_of(cache);
	(void)printf("full: %u of %u hits, %llu evictions, %llu dropped, %llu moved\n",
		     hits, ROUNDS * N, (unsigned long long)stat.evictions,
		     (unsigned long long)stat.dropped, (unsigned long long)stat.moved);
	check(stat.evictions > 0 && stat.dropped > 0, "segments are evicted");
	/* what was just stored is there */
	check(hits == ROUNDS * N, "new keys are found");
	check(stat.torn == 0, "no block is torn");
	rmem_cache_close(cache);
	rmem_cache_close(other);
	free(values);
	kept("a full cache evicts the oldest");
}

/* ---- who may do what ---- */

static void part_flags(void)
{
	rmem_cache *cache = cache_open("flags", 0), *reader, *other;
	struct rmem_cache_options options = rmem_cache_options_init();
	char got[8];

	wanted(rmem_cache_put(cache, "key", 3, "value", 5, 0), 0, "put");
	options.flags = RMEM_CACHE_IMMUTABLE;
	wanted(rmem_cache_open(uris, n_uris, "flags", &options, &other), -ENOTSUP,
	       "open as immutable");
	options.flags = RMEM_CACHE_READ_ONLY;
	wanted(rmem_cache_open(uris, n_uris, "other", &options, &other), -ENOENT,
	       "open what is not there");
	wanted(rmem_cache_open(uris, n_uris, "flags", &options, &reader), 0,
	       "open to read");
	wanted(rmem_cache_get(reader, "key", 3, got, sizeof(got), NULL), 1, "get");
	wanted(rmem_cache_put(reader, "key", 3, "value", 5, 0), -EROFS, "put");
	wanted(rmem_cache_delete(reader, "key", 3), -EROFS, "delete");
	rmem_cache_close(reader);
	rmem_cache_close(cache);
	kept("flags");
}

/* ---- a server that goes, and comes back empty ---- */

static void part_lost(void)
{
	rmem_cache *cache = cache_open("lost", 0);
	char got[8], *pool = aligned_alloc(4096, POOL);
	uint64_t copied;
	int result;

	check(pool, "memory");
	wanted(rmem_cache_register(cache, pool, POOL), 0, "register");
	wanted(rmem_cache_put(cache, "key", 3, "value", 5, 0), 0, "put");
	step("stop the server");
	/* misses, no errors */
	for (int i = 0; i < 3; i++)
		wanted(rmem_cache_get(cache, "key", 3, got, sizeof(got), NULL), 0,
		       "get");
	step("start it again");
	for (int i = 0; (result = rmem_cache_put(cache, "key", 3, "again", 5, 0)) < 0;
	     i++) {
		if (i > 3000)
			cache_fail("put", result);
		(void)usleep(1000);
	}
	wanted(rmem_cache_get(cache, "key", 3, got, sizeof(got), NULL), 1, "get");
	check(memcmp(got, "again", 5) == 0, "the value");
	check(stat_of(cache).losses == 1, "the loss is counted");
	copied = stat_of(cache).copied_bytes;
	move_values(cache, pool);
	check(stat_of(cache).copied_bytes == copied, "the new session copies nothing");
	rmem_cache_close(cache);
	free(pool);
	kept("a server comes back");
}

/* ---- several servers ---- */

static void part_servers(void)
{
	enum { N = 300 };
	rmem_cache *cache = cache_open("servers", 0), *other;
	const char *turned[8];
	struct rmem_cache_stat stat = rmem_cache_stat_init();
	char got[8];

	for (unsigned i = 0; i < n_uris; i++)
		turned[i] = uris[n_uris - 1 - i];
	wanted(rmem_cache_open(turned, n_uris, "servers", NULL, &other), 0, "open");
	for (unsigned i = 0; i < N; i++)
		wanted(rmem_cache_put(cache, &i, sizeof(i), "value", 5, 0), 0, "put");
	for (unsigned i = 0; i < N; i++)
		wanted(rmem_cache_get(other, &i, sizeof(i), got, sizeof(got), NULL), 1,
		       "get");
	for (unsigned i = 0; i < n_uris; i++) {
		wanted(rmem_cache_stat(cache, (int)i, &stat), 0, "stat");
		(void)printf("server %u: %llu keys\n", i,
			     (unsigned long long)stat.stored);
		check(stat.stored > N / n_uris / 2, "its share of the keys");
	}
	rmem_cache_close(other);
	rmem_cache_close(cache);
	kept("keys are spread");
}

static const struct {
	const char *name;
	void (*run)(void);
} parts[] = {
	{ "keys", part_keys },
	{ "costs", part_costs },
	{ "full", part_full },
	{ "flags", part_flags },
	{ "lost", part_lost },
	{ "servers", part_servers },
	{ "registered", part_registered },
};

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uris = (const char *const *)&argv[2];
	n_uris = (unsigned)argc - 2;
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		if (strcmp(parts[i].name, argv[1]) == 0) {
			parts[i].run();
			return 0;
		}
	return 2;
}
