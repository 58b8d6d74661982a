/* SPDX-License-Identifier: BSD-3-Clause */
/* Redis by hiredis: MGET and MSET.  Values go from hiredis's buffer straight to their place. */
#include <err.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cache.h"

struct redis {
	redisContext *context;
	redisReplyObjectFunctions functions;
	void *(*text)(const redisReadTask *task, char *text, size_t bytes);
	struct block *blocks; /* of the get that waits */
	unsigned n;
};

static struct redis *reading; /* what a function of the reader cannot be told */

static void *value_take(const redisReadTask *task, char *text, size_t bytes)
{
	struct block *block;

	if (!reading || !task->parent || (unsigned)task->idx >= reading->n)
		return reading ? reading->text(task, text, bytes) : NULL;
	block = &reading->blocks[task->idx];
	if (bytes != block->bytes)
		errx(1, "redis: a value has %zu bytes", bytes);
	memcpy(block->value, text, bytes);
	block->hit = true;
	return reading->text(task, text, 0);
}

static redisReply *answer(struct redis *redis, int type)
{
	void *reply;

	if (redisGetReply(redis->context, &reply) != REDIS_OK)
		errx(1, "redis: %s", redis->context->errstr);
	if (((redisReply *)reply)->type != type)
		errx(1, "redis: %s", ((redisReply *)reply)->str);
	return reply;
}

static void *store_open(unsigned port, uint64_t capacity)
{
	struct redis *redis = calloc(1, sizeof(*redis));

	if (!redis)
		err(1, "redis");
	redis->context = redisConnect("127.0.0.1", (int)port);
	if (!redis->context || redis->context->err)
		errx(1, "redis: no connection to port %u", port);
	redis->context->reader->maxbuf = 0; /* its buffer is not made anew each time */
	redis->functions = *redis->context->reader->fn;
	redis->text = redis->functions.createString;
	redis->functions.createString = value_take;
	redis->context->reader->fn = &redis->functions;
	redis_store_reset(redis, capacity);
	return redis;
}

static void command(struct redis *redis, int type, const char *text, char *ret_text,
		    size_t bytes)
{
	redisReply *reply;

	reading = redis;
	redis->n = 0;
	if (redisAppendCommand(redis->context, text) != REDIS_OK)
		errx(1, "redis: %s", redis->context->errstr);
	reply = answer(redis, type);
	if (ret_text)
		(void)snprintf(ret_text, bytes, "%s", reply->str);
	freeReplyObject(reply);
}

void redis_store_reset(void *store, uint64_t capacity)
{
	char text[4096], line[80];
	const char *used;

	command(store, REDIS_REPLY_STATUS, "FLUSHALL", NULL, 0);
	command(store, REDIS_REPLY_STRING, "INFO memory", text, sizeof(text));
	used = strstr(text, "used_memory:");
	if (!used)
		errx(1, "redis: how much memory it uses is unknown");
	capacity += strtoull(used + strlen("used_memory:"), NULL, 10);
	(void)snprintf(line, sizeof(line), "CONFIG SET maxmemory %llu",
		       (unsigned long long)capacity);
	command(store, REDIS_REPLY_STATUS, line, NULL, 0);
}

static void store_get(void *store, struct block *blocks, unsigned n)
{
	const char *words[BATCH + 1] = { "MGET" };
	struct redis *redis = store;
	size_t bytes[BATCH + 1] = { strlen("MGET") };

	for (unsigned i = 0; i < n; i++) {
		blocks[i].hit = false;
		words[i + 1] = blocks[i].key;
		bytes[i + 1] = KEY_BYTES;
	}
	redis->blocks = blocks;
	redis->n = n;
	reading = redis;
	if (redisAppendCommandArgv(redis->context, (int)n + 1, words, bytes) !=
	    REDIS_OK)
		errx(1, "redis: %s", redis->context->errstr);
	freeReplyObject(answer(redis, REDIS_REPLY_ARRAY));
}

static void store_put(void *store, struct block *blocks, unsigned n)
{
	const char *words[2 * BATCH + 1] = { "MSET" };
	size_t bytes[2 * BATCH + 1] = { strlen("MSET") };
	struct redis *redis = store;

	for (unsigned i = 0; i < n; i++) {
		words[2 * i + 1] = blocks[i].key;
		bytes[2 * i + 1] = KEY_BYTES;
		words[2 * i + 2] = (const char *)blocks[i].value;
		bytes[2 * i + 2] = blocks[i].bytes;
	}
	reading = redis;
	redis->n = 0;
	if (redisAppendCommandArgv(redis->context, 2 * (int)n + 1, words, bytes) !=
	    REDIS_OK)
		errx(1, "redis: %s", redis->context->errstr);
	freeReplyObject(answer(redis, REDIS_REPLY_STATUS));
}

const struct store store_redis = { "redis", store_open, store_get, store_put };
