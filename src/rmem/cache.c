/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem cache: look into a cache of librmem-cache, and store and get single keys. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rmem/cache.h>

#include "base/err.h"
#include "base/units.h"
#include "rmem/command.h"
#include "rmem/options.h"

#define SERVERS_MAX 64
#define URI_BYTES 4096

static const char *servers; /* NULL: that of the options */
static uint64_t create_bytes, ttl_ms;
static bool immutable;
static const char *list[SERVERS_MAX];
static unsigned n_servers;

static int cache_result(int result)
{
	return result < 0 ? err_set(result, "%s", rmem_cache_error()) : result;
}

/* Open the cache at the servers of the command line. */
static int cache_open(const char *name, rmem_cache **ret_cache)
{
	struct rmem_cache_options want = rmem_cache_options_init();
	static char uris[URI_BYTES];
	char *rest = uris;
	int err;

	if (servers && strlen(servers) >= sizeof(uris))
		return options_usage("--servers is too long");
	if (!name[0] || strlen(name) > RMEM_CACHE_NAME_MAX)
		return options_usage("a NAME has 1 to %d bytes", RMEM_CACHE_NAME_MAX);
	if (servers)
		(void)strcpy(uris, servers);
	err = servers ? 0 : options_uri(uris, sizeof(uris));
	if (err)
		return err;
	while (n_servers < SERVERS_MAX && (list[n_servers] = strsep(&rest, ",")))
		if (!list[n_servers++][0])
			return options_usage("--servers has an empty URI");
	if (rest)
		return options_usage("--servers has more than %d", SERVERS_MAX);
	want.bytes = create_bytes;
	want.flags = immutable ? RMEM_CACHE_IMMUTABLE : 0;
	want.timeout_ms = (unsigned)options.timeout_ms;
	return cache_result(rmem_cache_open(list, n_servers, name, &want, ret_cache));
}

/* Do the operation, and wait.  -ENOENT: the key is missing; it may be that the server with it could
 * not be asked, which rmem_cache_get() calls missing, too. */
static int key_do(rmem_cache *cache, const char *key, struct rmem_cache_op *op,
		  uint64_t *ret_bytes)
{
	struct rmem_cache_result result;
	size_t bytes = strlen(key);
	int err;

	if (bytes == 0 || bytes > RMEM_CACHE_KEY_MAX)
		return options_usage("a KEY has 1 to %d bytes, and not %zu",
				     RMEM_CACHE_KEY_MAX, bytes);
	op->key = key;
	op->key_bytes = (uint8_t)bytes;
	err = cache_result(rmem_cache_submit(cache, op, 1));
	if (err >= 0)
		err = cache_result(rmem_cache_wait(cache, &result, 1, 1, -1));
	if (err < 0)
		return err;
	if (result.status)
		return err_set(result.status, "the key %s: %s", key,
			       rmem_cache_result_error(cache, &result));
	if (result.outcome == RMEM_CACHE_MISSING)
		return err_set(-ENOENT, "the key %s is missing", key);
	*ret_bytes = result.bytes;
	return 0;
}

/* ---- put and get ---- */

static FILE *file_open(const char *path, const char *mode, FILE *standard)
{
	return !path || strcmp(path, "-") == 0 ? standard : fopen(path, mode);
}

static int value_put(rmem_cache *cache, char **args)
{
	struct rmem_cache_op op = { .opcode = RMEM_CACHE_PUT, .ttl_ms = ttl_ms };
	FILE *file = file_open(args[1], "re", stdin);
	int err = 0;

	if (!file)
		return err_errno(-errno, "%s", args[1]);
	op.value = malloc(RMEM_CACHE_VALUE_MAX + 1);
	if (!op.value)
		err = err_errno(-ENOMEM, "the value");
	op.bytes = op.value ? fread(op.value, 1, RMEM_CACHE_VALUE_MAX + 1, file) : 0;
	if (!err && ferror(file))
		err = err_errno(-errno, "%s", args[1] ? args[1] : "the standard input");
	if (!err)
		err = key_do(cache, args[0], &op, &op.bytes);
	free(op.value);
	if (file != stdin)
		(void)fclose(file);
	return err;
}

/* Write the value of a hit. */
static int value_write(const char *value, uint64_t bytes, const char *path)
{
	FILE *file = file_open(path, "we", stdout);
	bool failed;

	if (!file)
		return err_errno(-errno, "%s", path);
	failed = fwrite(value, 1, bytes, file) != bytes;
	if (file != stdout)
		failed |= fclose(file) != 0;
	return failed ? err_errno(-errno, "%s", path ? path : "the standard output")
		      : 0;
}

static int value_get(rmem_cache *cache, char **args)
{
	struct rmem_cache_op exists = { .opcode = RMEM_CACHE_EXISTS };
	struct rmem_cache_op get = { .opcode = RMEM_CACHE_GET };
	int err = key_do(cache, args[0], &exists, &get.bytes);

	if (err)
		return err;
	get.value = malloc(get.bytes + 1);
	if (!get.value)
		return err_errno(-ENOMEM, "the value");
	err = key_do(cache, args[0], &get, &get.bytes);
	if (!err)
		err = value_write(get.value, get.bytes, args[1]);
	free(get.value);
	return err;
}

static int keys_remove(rmem_cache *cache, char **args)
{
	struct err_saved failed = { 0 };
	uint64_t bytes;

	for (; *args; args++) {
		struct rmem_cache_op op = { .opcode = RMEM_CACHE_DELETE };
		int err = key_do(cache, *args, &op, &bytes);

		if (err)
			err_join(&failed, err);
	}
	return err_restore(&failed);
}

/* ---- stat and ls ---- */

static void stat_print(const struct rmem_cache_stat *stat)
{
	(void)printf("servers   %u of %u\n", stat->servers_open, stat->servers);
	(void)printf("bytes     %" PRIu64 " (%s)\n", stat->bytes,
		     UNITS_BYTES(stat->bytes));
	(void)printf("segments  %" PRIu64 " of %s\n", stat->segments,
		     UNITS_BYTES(stat->segment_bytes));
	(void)printf("free      %" PRIu64 "\nopen      %" PRIu64 "\n",
		     stat->segments_free, stat->segments_open);
}

static bool server_is_known(rmem_cache *cache, unsigned i)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();

	return rmem_cache_stat(cache, (int)i, &stat) || !stat.servers_open ||
	       stat.hits + stat.misses >= 2;
}

/* A client learns what is in use when it works: look for keys of each server that is open. */
static void servers_ask(rmem_cache *cache)
{
	unsigned known = 0;

	for (unsigned n = 0; known < n_servers && n < 100 * n_servers; n++) {
		(void)rmem_cache_exists(cache, &n, sizeof(n), NULL);
		while (known < n_servers && server_is_known(cache, known))
			known++;
	}
}

/* Servers that do not answer. */
static int lost_print(rmem_cache *cache)
{
	int err = 0;

	for (unsigned i = 0; !err && i < n_servers; i++) {
		struct rmem_cache_stat stat = rmem_cache_stat_init();

		err = cache_result(rmem_cache_stat(cache, (int)i, &stat));
		if (!err && !stat.servers_open)
			(void)printf("lost      %.*s\n", (int)strcspn(list[i], "?"),
				     list[i]);
	}
	return err;
}

static int cache_stat(rmem_cache *cache, char **)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();
	int err;

	servers_ask(cache);
	err = cache_result(rmem_cache_stat(cache, RMEM_CACHE_ALL, &stat));
	if (err)
		return err;
	stat_print(&stat);
	return lost_print(cache);
}

/* A key in one line: what is no visible character is \xNN. */
static int entry_print(const struct rmem_cache_entry *entry, void *prefix)
{
	const unsigned char *key = entry->key;
	size_t n = prefix ? strlen(prefix) : 0;

	if (n > entry->key_bytes || (n && memcmp(key, prefix, n) != 0))
		return 0;
	(void)printf("%12" PRIu64 " ", entry->bytes);
	if (entry->ttl_ms)
		(void)printf("%10" PRIu64 "s  ", entry->ttl_ms / 1000);
	else
		(void)printf("%11s  ", "-");
	for (size_t i = 0; i < entry->key_bytes; i++) {
		if (key[i] < ' ' || key[i] > '~' || key[i] == '\\')
			(void)printf("\\x%02x", key[i]);
		else
			(void)putchar(key[i]);
	}
	(void)putchar('\n');
	return 0;
}

static int cache_list(rmem_cache *cache, char **args)
{
	return cache_result(rmem_cache_list(cache, entry_print, args[0]));
}

/* ---- */

static const struct action {
	const char *name;
	int args_min, args_max; /* behind NAME */
	int (*run)(rmem_cache *cache, char **args);
} actions[] = {
	{ "stat", 0, 0, cache_stat }, { "get", 1, 2, value_get },
	{ "put", 1, 2, value_put },   { "rm", 1, COMMAND_ARGS_ANY, keys_remove },
	{ "ls", 0, 1, cache_list },
};

static const struct action *action_find(char **args)
{
	int n = 0;

	while (args[n + 2])
		n++;
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strcmp(actions[i].name, args[0]) == 0 && n >= actions[i].args_min &&
		    n <= actions[i].args_max)
			return &actions[i];
	return NULL;
}

static int cache_run(char **args)
{
	const struct action *action = action_find(args);
	rmem_cache *cache;
	int err;

	if (!action)
		return options_usage(
			"it takes stat NAME, get NAME KEY [FILE], put NAME KEY [FILE], "
			"rm NAME KEY... or ls NAME [PREFIX]");
	err = cache_open(args[1], &cache);
	if (err)
		return err;
	err = action->run(cache, args + 2);
	rmem_cache_close(cache);
	return err;
}

static const struct option_row cache_options[] = {
	{ "servers", 0, OPTION_TEXT, &servers, .argument = "URIS",
	  .help = "of the cache, if it has several, with commas between" },
	{ "create", 0, OPTION_BYTES, &create_bytes, .min = 1, .max = UINT64_MAX,
	  .argument = "SIZE",
	  .help = "allocate the memory, if there is no such cache" },
	{ "immutable", 0, OPTION_FLAG, &immutable,
	  .help = "the cache is one in which a key never has two values" },
	{ "ttl", 0, OPTION_MS, &ttl_ms, .min = 1, .max = UINT64_MAX / 2,
	  .argument = "TIME", .help = "put: the key expires after this time" },
	{ .more = options_table },
	{ 0 },
};

const struct command cache_command = {
	.name = "cache",
	.synopsis = "cache stat|get|put|rm|ls NAME [KEY [FILE|-]]",
	.summary = "look into a cache that clients share, store and get keys",
	.options = cache_options,
	.args_min = 2,
	.args_max = COMMAND_ARGS_ANY,
	.args = "an action, the NAME of a cache, and what the action takes",
	.run_alone = cache_run,
};
