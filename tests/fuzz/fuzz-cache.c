/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of a cache against others that write anything into its memory, at any time, blocks and
 * directory entries with the right CRCs among them.  Each call ends after so many operations, no
 * length is above the limit, and as long as no CRC was forged a hit is a value that was stored
 * under the key, whole. */
#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include <rmem/cache.h>

#include "cache/link.h"
#include "fuzz/target.h"
#include "fuzz/virtual-time.h"

#define MEMORY_BYTES (UINT64_C(1) << 18)
#define LEASE_ID 7
#define STEPS_MAX 64
#define LATER_MAX 8
#define PUTS_MAX 64
#define KEYS 4
#define VALUE_BYTES 9000
/* of one call, whatever the memory holds */
#define CALL_OPS 200000u

const unsigned fuzz_rounds = 2000;

/* The first byte of a step. */
enum step {
	STEP_PUT,
	STEP_GET,
	STEP_EXISTS,
	STEP_DELETE,
	STEP_SUBMIT, /* a get, and a put */
	STEP_WAIT,
	STEP_LIST,
	STEP_STAT,
	STEP_TIME,
	STEP_WRITE,   /* any bytes anywhere */
	STEP_LATER,   /* a word anywhere, after so many operations */
	STEP_SEGMENT, /* a segment word */
	STEP_SLOT,    /* of a key */
	STEP_BLOCK,   /* with its slot and entry, and the right CRCs */
	STEP_FAIL,    /* an operation is to fail */
	STEP_LOSE,    /* the session is lost */
	STEP_CLOSE,   /* the client ends, and begins again */
	STEPS,
};

/* ---- the memory, and the functions of rmem.h over it ---- */

struct pending {
	struct list link;
	struct rmem_op op;
	struct rmem_atomic atomic;
	struct rmem_source source;
	struct rmem_vec vec[];
};

static struct {
	unsigned char *bytes; /* MEMORY_BYTES */
	struct list pending;
	unsigned n_ops, fail_at;
	int fail_err;
	bool lost;
	bool stubborn; /* all segment words are always `word` */
	uint64_t word;
	struct {
		unsigned at; /* 0: none */
		uint64_t offset, word;
	} later[LATER_MAX];
} memory;

static struct geometry geometry; /* of the client */

static bool inside(uint64_t offset, uint64_t bytes)
{
	return offset <= MEMORY_BYTES && bytes <= MEMORY_BYTES - offset;
}

static void memory_write(uint64_t offset, const void *bytes, uint64_t n)
{
	if (inside(offset, n))
		memcpy(memory.bytes + offset, bytes, n);
}

static void word_write(uint64_t offset, uint64_t word)
{
	word = htole64(word);
	memory_write(offset, &word, sizeof(word));
}

/* Others act between two operations. */
static void others_act(void)
{
	memory.n_ops++;
	ck_assert_uint_lt(memory.n_ops, CALL_OPS);
	for (unsigned i = 0; i < LATER_MAX; i++)
		if (memory.later[i].at && --memory.later[i].at == 0)
			word_write(memory.later[i].offset, memory.later[i].word);
	for (unsigned i = 0; i < geometry.segments && memory.stubborn; i++)
		word_write(geometry_word_at(i), memory.word);
}

static bool is_vector(const struct rmem_op *op)
{
	return op->opcode == RMEM_OP_READV || op->opcode == RMEM_OP_WRITEV;
}

static uint64_t op_bytes(const struct rmem_op *op)
{
	uint64_t bytes = 0;

	if (!is_vector(op))
		return op->bytes;
	for (unsigned i = 0; i < op->n_vec; i++)
		bytes += op->vec[i].bytes;
	return bytes;
}

/* Move bytes between the memory and one piece of the client's. */
static void piece_move(const struct rmem_op *op, uint64_t offset, void *addr,
		       uint64_t bytes)
{
	if (op->opcode == RMEM_OP_READ || op->opcode == RMEM_OP_READV)
		memcpy(addr, memory.bytes + offset, bytes);
	else
		memcpy(memory.bytes + offset, addr, bytes);
}

static void pending_swap(const struct pending *pending)
{
	unsigned char *at = memory.bytes + pending->op.offset;
	uint64_t found;

	memcpy(&found, at, 8);
	memcpy(pending->op.addr, &found, 8);
	if (found == pending->atomic.compare)
		memcpy(at, &pending->atomic.operand, 8);
}

static void pending_apply(const struct pending *pending)
{
	const struct rmem_op *op = &pending->op;
	uint64_t offset = op->offset;

	switch (op->opcode) {
	case RMEM_OP_CAS:
		pending_swap(pending);
		break;
	case RMEM_OP_COPY:
		memmove(memory.bytes + offset, memory.bytes + pending->source.offset,
			op->bytes);
		break;
	case RMEM_OP_READV:
	case RMEM_OP_WRITEV:
		for (unsigned i = 0; i < op->n_vec; i++) {
			piece_move(op, offset, op->vec[i].addr, op->vec[i].bytes);
			offset += op->vec[i].bytes;
		}
		break;
	default:
		piece_move(op, offset, op->addr, op->bytes);
	}
}

int rmem_submit(rmem_queue *, const struct rmem_op *ops, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		const struct rmem_op *op = &ops[i];
		uint64_t n_vec = is_vector(op) ? op->n_vec : 0;
		struct pending *pending;

		if (!inside(op->offset, op_bytes(op)) ||
		    (op->opcode == RMEM_OP_COPY &&
		     !inside(op->source->offset, op->bytes)) ||
		    (op->opcode == RMEM_OP_CAS && op->offset % 8))
			return i ? (int)i : -EINVAL;
		pending = calloc(1, sizeof(*pending) + n_vec * sizeof(op->vec[0]));
		ck_assert_ptr_nonnull(pending);
		pending->op = *op;
		if (op->opcode == RMEM_OP_CAS)
			pending->atomic = *op->atomic;
		if (op->opcode == RMEM_OP_COPY)
			pending->source = *op->source;
		for (uint64_t v = 0; v < n_vec; v++)
			pending->vec[v] = op->vec[v];
		if (n_vec)
			pending->op.vec = pending->vec;
		list_append(&memory.pending, &pending->link);
	}
	return (int)n;
}

/* Do the first operation, or let it fail: of an atomic it is unknown then whether it was done. */
static struct rmem_completion pending_end(struct pending *pending)
{
	struct rmem_completion done = {
		.cookie = pending->op.cookie,
		.opcode = pending->op.opcode,
	};

	others_act();
	if (memory.lost)
		done.status = -ESTALE;
	else if (memory.fail_at && --memory.fail_at == 0)
		done.status = memory.fail_err;
	if (done.status == 0 || done.status == -ETIMEDOUT)
		pending_apply(pending);
	if (done.status && done.opcode == RMEM_OP_CAS)
		done.reason = RMEM_REASON_OUTCOME;
	list_remove(&pending->link);
	free(pending);
	return done;
}

int rmem_poll(rmem_queue *, struct rmem_completion *completions, unsigned n)
{
	unsigned i = 0;

	for (; i < n && !list_empty(&memory.pending); i++)
		completions[i] =
			pending_end(list_first(&memory.pending, struct pending, link));
	return (int)i;
}

int rmem_wait(rmem_queue *queue, struct rmem_completion *completions, unsigned n,
	      unsigned, int timeout_ms)
{
	virtual_time_pass(list_empty(&memory.pending) ? (unsigned)timeout_ms : 1);
	others_act();
	return rmem_poll(queue, completions, n);
}

int rmem_queue_arm(rmem_queue *)
{
	return !list_empty(&memory.pending);
}

int rmem_queue_fd(const rmem_queue *)
{
	static int fd = -1;

	if (fd < 0)
		fd = eventfd(0, EFD_CLOEXEC);
	return fd;
}

int rmem_read(rmem_lease *, uint64_t offset, void *dst, uint64_t bytes)
{
	if (!inside(offset, bytes))
		return -EINVAL;
	others_act();
	memcpy(dst, memory.bytes + offset, bytes);
	return 0;
}

const char *rmem_completion_error(const rmem_queue *, const struct rmem_completion *)
{
	return "made to fail";
}

const char *rmem_error(void)
{
	return "made to fail";
}

int rmem_lease_status(const rmem_lease *)
{
	return memory.lost ? -ESTALE : 0;
}

/* ---- a link that opens at once ---- */

struct link {
	struct link_params params;
	struct opened opened;
	bool taken;
	int err;
};

static void link_open(struct link *link)
{
	struct opened *opened = &link->opened;

	memory.lost = false;
	link->taken = false;
	*opened = (struct opened){
		.queue = (rmem_queue *)(void *)&memory,
		.lease = (rmem_lease *)(void *)&memory,
		.client = (uint32_t)word_read(memory.bytes + FORMAT_NEXT_CLIENT_AT) %
			  FORMAT_CLIENTS,
		.claim_ms = 30000,
		.rest_ms = 90000,
		.read_only = link->params.options.flags & RMEM_CACHE_READ_ONLY,
	};
	link->err = geometry_decode(word_read(memory.bytes), LEASE_ID, MEMORY_BYTES,
				    &opened->geometry);
	if (!link->err) {
		geometry = opened->geometry;
		opened->scratch = calloc(1, scratch_bytes(&geometry));
		ck_assert_ptr_nonnull(opened->scratch);
		word_write(FORMAT_NEXT_CLIENT_AT, opened->client + 1);
	}
	atomic_store(link->params.news, true);
}

static void link_close(struct link *link)
{
	list_for_each_entry_safe(struct pending, pending, &memory.pending, link)
		free(pending);
	list_init(&memory.pending);
	free(link->opened.scratch);
	link->opened.scratch = NULL;
}

int link_create(const struct link_params *params, struct link **ret_link)
{
	struct link *link = calloc(1, sizeof(*link));

	ck_assert_ptr_nonnull(link);
	link->params = *params;
	link_open(link);
	*ret_link = link;
	return 0;
}

void link_end(struct link *)
{
}

void link_free(struct link *link)
{
	link_close(link);
	free(link);
}

int link_result(struct link *link, bool *ret_ended, char *text, size_t bytes)
{
	*ret_ended = true;
	if (bytes)
		text[0] = '\0';
	return link->err;
}

bool link_take(struct link *link, struct opened *ret_opened)
{
	if (link->err || link->taken)
		return false;
	link->taken = true;
	*ret_opened = link->opened;
	return true;
}

void link_reopen(struct link *link)
{
	link_close(link);
	link_open(link);
}

int64_t link_clock_ms(struct link *link)
{
	return link->opened.clock_ms;
}

uint64_t link_copied_bytes(struct link *link)
{
	(void)link;
	return 0;
}

/* ---- the client ---- */

static rmem_cache *cache;
static bool forged; /* a CRC */
static unsigned n_puts;
static unsigned char values[PUTS_MAX][VALUE_BYTES]; /* of put i, of key i % KEYS */
static uint64_t lengths[PUTS_MAX];
static unsigned char room[VALUE_BYTES];
static char keys[KEYS][8] = { "a", "b", "key", "another" };

static void cache_begin(unsigned flags)
{
	struct rmem_cache_options options = rmem_cache_options_init();
	const char *server = "server";

	options.flags = flags & (RMEM_CACHE_READ_ONLY | RMEM_CACHE_IMMUTABLE);
	options.places = 16;
	memory.n_ops = 0;
	if (rmem_cache_open(&server, 1, "name", &options, &cache))
		cache = NULL;
}

static uint64_t length_read(struct fuzz_input *input)
{
	static const uint64_t some[] = { 0,   1,   63,   64,   65,   200,
					 512, 513, 1500, 4097, 9000, 8192 };

	return some[fuzz_number(input, 1) % (sizeof(some) / sizeof(some[0]))];
}

/* A value for the key; each put has one of its own. */
static unsigned value_make(struct fuzz_input *input, unsigned key)
{
	unsigned put = n_puts / KEYS * KEYS + key;

	n_puts += KEYS;
	lengths[put] = length_read(input);
	for (uint64_t i = 0; i < lengths[put]; i++)
		values[put][i] = (unsigned char)(put * 37 + i * 7 + (i >> 8));
	return put;
}

static bool value_was_put(unsigned key, const unsigned char *value, uint64_t bytes)
{
	for (unsigned put = key; put < n_puts; put += KEYS)
		if (lengths[put] == bytes && memcmp(values[put], value, bytes) == 0)
			return true;
	return false;
}

static void hit_check(unsigned key, const unsigned char *value, uint64_t bytes)
{
	ck_assert_uint_le(bytes, VALUE_BYTES);
	ck_assert(forged || value_was_put(key, value, bytes));
}

static void step_get(unsigned key, uint64_t bytes)
{
	unsigned char *value = malloc(bytes ? bytes : 1);
	uint64_t found = 0;
	int result;

	ck_assert_ptr_nonnull(value);
	result = rmem_cache_get(cache, keys[key], strlen(keys[key]), value, bytes,
				&found);
	if (result == 1) {
		ck_assert_uint_le(found, bytes);
		hit_check(key, value, found);
	} else if (result == -EMSGSIZE) {
		ck_assert_uint_gt(found, bytes);
		ck_assert_uint_le(found, RMEM_CACHE_VALUE_MAX);
	} else {
		ck_assert_int_eq(result, 0);
	}
	free(value);
}

static void step_put(struct fuzz_input *input, unsigned key)
{
	uint64_t ttl_ms = fuzz_number(input, 1);
	unsigned put;
	int err;

	if (n_puts + KEYS > PUTS_MAX)
		return;
	put = value_make(input, key);
	err = rmem_cache_put(cache, keys[key], strlen(keys[key]), values[put],
			     lengths[put], ttl_ms < 128 ? 0 : ttl_ms << 56);
	ck_assert_int_le(err, 0);
}

static void step_exists(unsigned key)
{
	uint64_t bytes = 0;

	ck_assert_int_ge(rmem_cache_exists(cache, keys[key], strlen(keys[key]), &bytes),
			 0);
	ck_assert_uint_le(bytes, RMEM_CACHE_VALUE_MAX);
}

static void step_submit(struct fuzz_input *input, unsigned key)
{
	struct rmem_cache_op ops[2] = {
		{ .opcode = RMEM_CACHE_GET, .value = room, .bytes = sizeof(room) },
		{ .opcode = RMEM_CACHE_PUT },
	};
	unsigned n = 1;

	if (n_puts + KEYS <= PUTS_MAX) {
		unsigned put = value_make(input, key);

		ops[n].value = values[put];
		ops[n++].bytes = lengths[put];
	}
	for (unsigned i = 0; i < n; i++) {
		ops[i].key = keys[key];
		ops[i].key_bytes = (uint8_t)strlen(keys[key]);
	}
	(void)rmem_cache_submit(cache, ops, n);
}

static void step_wait(void)
{
	struct rmem_cache_result results[8];
	int n = rmem_cache_wait(cache, results, 8, 8, -1);

	ck_assert_int_ge(n, 0);
	for (int i = 0; i < n; i++) {
		ck_assert_ptr_nonnull(rmem_cache_result_error(cache, &results[i]));
		ck_assert_uint_le(results[i].bytes, RMEM_CACHE_VALUE_MAX);
	}
}

static int each(const struct rmem_cache_entry *entry, void *)
{
	unsigned char key[RMEM_CACHE_KEY_MAX];

	ck_assert_uint_ge(entry->key_bytes, 1);
	ck_assert_uint_le(entry->key_bytes, RMEM_CACHE_KEY_MAX);
	ck_assert_uint_le(entry->bytes, RMEM_CACHE_VALUE_MAX);
	memcpy(key, entry->key, entry->key_bytes);
	return 0;
}

static void step_stat(void)
{
	struct rmem_cache_stat stat = rmem_cache_stat_init();

	ck_assert_int_eq(rmem_cache_stat(cache, RMEM_CACHE_ALL, &stat), 0);
	ck_assert_uint_le(stat.segments_free + stat.segments_open, stat.segments);
}

/* ---- the others ---- */

/* A number, or one near where something begins. */
static uint64_t offset_read(struct fuzz_input *input)
{
	uint64_t offset = fuzz_number(input, 3);

	switch (offset % 4) {
	case 0:
		return offset / 4 % 2048;
	case 1:
		return geometry.buckets_at + offset / 4 % 2048;
	case 2:
		return geometry.heap_at + offset / 4 % 65536;
	default:
		return offset / 4;
	}
}

static void step_write(struct fuzz_input *input)
{
	uint64_t offset = offset_read(input);
	size_t bytes;
	const uint8_t *from = fuzz_bytes(input, fuzz_number(input, 1), &bytes);

	memory_write(offset, from, bytes);
}

static void step_later(struct fuzz_input *input)
{
	unsigned i = (unsigned)fuzz_number(input, 1) % LATER_MAX;

	memory.later[i].at = (unsigned)fuzz_number(input, 1);
	memory.later[i].offset = offset_read(input);
	memory.later[i].word = fuzz_number(input, 8);
}

static unsigned segment_read(struct fuzz_input *input)
{
	return (unsigned)fuzz_number(input, 1) % geometry.segments;
}

/* One segment, all of them, or all of them again and again. */
static void step_segment(struct fuzz_input *input)
{
	unsigned what = (unsigned)fuzz_number(input, 1);
	unsigned from = segment_read(input), to = from + 1;
	uint64_t word = fuzz_number(input, 8);

	word = (word & ~(UINT64_C(7) << 37)) | (uint64_t)(what & 7) << 37;
	if (what & 0x80)
		from = 0, to = geometry.segments;
	for (; from < to; from++)
		word_write(geometry_word_at(from), word);
	memory.stubborn = what & 0x40;
	memory.word = word;
}

static uint64_t bucket_of(uint64_t hash)
{
	return geometry_bucket_at(&geometry, hash);
}

static void slot_write(uint64_t hash, unsigned index, uint64_t slot, unsigned count)
{
	uint8_t hint = hint_encode(slot, count & HINT_MAX);

	index %= FORMAT_SLOTS;
	word_write(bucket_of(hash) + 8 * (uint64_t)index, slot);
	memory_write(bucket_of(hash) + FORMAT_HINTS_AT + index, &hint, 1);
}

static void step_slot(struct fuzz_input *input, unsigned key)
{
	uint64_t hash =
		format_hash(keys[key], strlen(keys[key]), fuzz_number(input, 1) % 4);
	unsigned index = (unsigned)fuzz_number(input, 1);
	uint64_t slot = fuzz_number(input, 8);

	slot = (slot & ((UINT64_C(1) << 50) - 1)) | (uint64_t)print_of_hash(hash) << 50;
	slot_write(hash, index, slot, index >> 6);
}

static uint32_t generation_of(unsigned segment)
{
	return segment_decode(word_read(memory.bytes + geometry_word_at(segment)))
		.generation;
}

/* The CRC of what is where the value would be. */
static void value_prove(struct block *block)
{
	uint64_t at = geometry_place_at(&geometry, block->place) +
		      block_value_at(block->key_bytes);
	uint64_t bytes = block->part < block->parts ? block_part_bytes(&geometry, block)
						    : UINT64_MAX;

	if (inside(at, bytes))
		block->value_crc = block_value_crc(&geometry, memory.bytes + at, bytes);
}

static uint64_t bytes_read(struct fuzz_input *input)
{
	uint64_t number = fuzz_number(input, 8);

	return number >> (number & 63);
}

static void step_block(struct fuzz_input *input, unsigned key)
{
	unsigned char head[FORMAT_HEAD_MAX + 64], entry[FORMAT_ENTRY_BYTES];
	unsigned segment = segment_read(input), index, flags;
	unsigned char longer[FORMAT_KEY_MAX] = { 0 };
	uint64_t parts, hash, slot;
	struct block block = {
		.generation = generation_of(segment),
		.segment = segment,
		.key_bytes = (uint8_t)strlen(keys[key]),
		.key = longer,
	};

	memcpy(longer, keys[key], block.key_bytes);
	flags = (unsigned)fuzz_number(input, 1);
	index = (unsigned)fuzz_number(input, 1);
	block.place =
		(uint32_t)((segment << (geometry.segment_bits - geometry.unit_bits)) +
			   fuzz_number(input, 1) % (1u << (geometry.segment_bits -
							   geometry.unit_bits)));
	block.value_bytes = bytes_read(input);
	block.value_id = fuzz_number(input, 1);
	block.expiry_ms = flags & 1 ? fuzz_number(input, 8) : 0;
	parts = block.value_bytes == 0
			? 1
			: (block.value_bytes - 1) / geometry_part_bytes(&geometry) + 1;
	block.parts = flags & 2 ? (uint16_t)fuzz_number(input, 2) : (uint16_t)parts;
	block.part = flags & 4 ? (uint16_t)fuzz_number(input, 2) : 0;
	if (flags & 8)
		block.key_bytes = (uint8_t)(fuzz_number(input, 1) | 1);
	value_prove(&block);
	hash = format_hash(keys[key], strlen(keys[key]), block.part);
	slot = slot_encode(hash, flags & 16 ? UINT64_C(1) << 34 : block.value_bytes,
			   block.generation, block.place);
	block_encode(&geometry, &block, head);
	memory_write(geometry_place_at(&geometry, block.place), head,
		     FORMAT_HEAD_BYTES + block.key_bytes);
	entry_encode(&geometry, segment, block.generation, index, slot,
		     (uint32_t)((bucket_of(hash) - geometry.buckets_at) /
				FORMAT_BUCKET_BYTES),
		     entry);
	memory_write(entry_at(&geometry, segment, index), entry, sizeof(entry));
	slot_write(hash, index, slot, flags >> 6);
	forged = true;
}

static void step_fail(struct fuzz_input *input)
{
	static const int errs[] = { -ETIMEDOUT, -ECONNRESET, -ENOTSUP, -EINVAL };

	memory.fail_at = (unsigned)fuzz_number(input, 1);
	memory.fail_err = errs[fuzz_number(input, 1) % 4];
}

/* ---- */

static void step(struct fuzz_input *input, unsigned flags)
{
	unsigned what = (unsigned)fuzz_number(input, 1) % STEPS;
	unsigned key = (unsigned)fuzz_number(input, 1) % KEYS;

	memory.n_ops = 0;
	switch ((enum step)what) {
	case STEP_PUT:
		step_put(input, key);
		break;
	case STEP_GET:
		step_get(key, length_read(input));
		break;
	case STEP_EXISTS:
		step_exists(key);
		break;
	case STEP_DELETE:
		(void)rmem_cache_delete(cache, keys[key], strlen(keys[key]));
		break;
	case STEP_SUBMIT:
		step_submit(input, key);
		break;
	case STEP_WAIT:
		step_wait();
		break;
	case STEP_LIST:
		(void)rmem_cache_list(cache, each, NULL);
		break;
	case STEP_STAT:
		step_stat();
		break;
	case STEP_TIME:
		virtual_time_pass(fuzz_number(input, 3));
		break;
	case STEP_WRITE:
		step_write(input);
		break;
	case STEP_LATER:
		step_later(input);
		break;
	case STEP_SEGMENT:
		step_segment(input);
		break;
	case STEP_SLOT:
		step_slot(input, key);
		break;
	case STEP_BLOCK:
		step_block(input, key);
		break;
	case STEP_FAIL:
		step_fail(input);
		break;
	case STEP_LOSE:
		memory.lost = true;
		break;
	case STEP_CLOSE:
		rmem_cache_close(cache);
		cache_begin(flags);
		break;
	case STEPS:
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	unsigned flags = (unsigned)fuzz_number(&input, 1);

	fuzz_random_reset();
	virtual_time_reset();
	memset(&memory, 0, sizeof(memory));
	list_init(&memory.pending);
	memory.bytes = calloc(1, MEMORY_BYTES);
	ck_assert_ptr_nonnull(memory.bytes);
	word_write(0, fuzz_number(&input, 8));
	memset(lengths, 0xff, sizeof(lengths));
	forged = false;
	n_puts = 0;
	cache_begin(flags);
	for (unsigned i = 0; i < STEPS_MAX && cache && input.left > 0; i++)
		step(&input, flags);
	memory.n_ops = 0;
	rmem_cache_close(cache);
	cache = NULL;
	free(memory.bytes);
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put(uint64_t number, unsigned bytes)
{
	fuzz_put(out, number, bytes);
}

static void put_step(enum step what, unsigned key)
{
	put(what, 1);
	put(key, 1);
}

static void put_value(unsigned key, unsigned length)
{
	put_step(STEP_PUT, key);
	put(0, 1);
	put(length, 1);
}

static void put_get(unsigned key)
{
	put_step(STEP_GET, key);
	put(10, 1);
}

static void put_super(unsigned segment_bits, bool immutable)
{
	const struct geometry g = {
		.immutable = immutable,
		.segment_bits = segment_bits,
		.bucket_bits = 1,
		.table_bits = 5,
		.unit_bits = 6,
		.random = 12345,
	};

	put(immutable ? RMEM_CACHE_IMMUTABLE : 0, 1);
	put(geometry_encode(&g), 8);
}

static void put_segment(unsigned what, unsigned segment, uint64_t word)
{
	put_step(STEP_SEGMENT, 0);
	put(what, 1);
	put(segment, 1);
	put(word, 8);
}

static void put_block(unsigned key, unsigned flags, unsigned place, uint64_t bytes)
{
	put_step(STEP_BLOCK, key);
	put(0, 1); /* segment */
	put(flags, 1);
	put(place, 1); /* its entry */
	put(place, 1);
	put(bytes, 8);
	put(1, 1);
}

/* Values of all lengths, found, listed, replaced and deleted. */
static void seed_honest(void)
{
	put_super(12, false);
	for (unsigned i = 0; i < 12; i++) {
		put_value(i % KEYS, i);
		put_get(i % KEYS);
	}
	put_step(STEP_LIST, 0);
	put_step(STEP_STAT, 0);
	put_step(STEP_SUBMIT, 1);
	put(3, 1);
	put_step(STEP_WAIT, 0);
	put_step(STEP_EXISTS, 2);
	put_step(STEP_DELETE, 2);
	put_step(STEP_CLOSE, 0);
	put_get(1);
}

static void seed_immutable(void)
{
	put_super(10, true);
	for (unsigned i = 0; i < KEYS; i++) {
		put_value(i, 3 + i);
		put_get(i);
		put_get(i);
	}
	put_step(STEP_LOSE, 0);
	put_get(0);
	put_get(0);
}

/* Small segments are filled, and evicted. */
static void seed_full(void)
{
	put_super(9, false);
	for (unsigned i = 0; i < 12; i++)
		put_value(i % KEYS, 11);
	put_segment(0x83, 0, 0);
	put_step(STEP_TIME, 0);
	put(100000, 3);
	for (unsigned i = 0; i < KEYS; i++) {
		put_value(i, 10);
		put_get(i);
	}
}

/* Segments of others: left, with any fill, and of clients that are gone. */
static void seed_segments(void)
{
	put_super(12, false);
	put_segment(0x82, 0, 0xfffff);
	put_value(0, 4);
	put_segment(0x82, 0, UINT64_C(0xffff) << 20);
	put_value(1, 4);
	put_segment(0x81, 0, 0);
	put_step(STEP_TIME, 0);
	put(100000, 3);
	put_value(2, 4);
	put_segment(0x84, 0, 0);
	put_step(STEP_TIME, 0);
	put(200000, 3);
	put_value(3, 4);
	put_get(3);
	for (unsigned state = 0; state < 8; state++) {
		put_step(STEP_CLOSE, 0);
		put_segment(0xc0 + state, 0, 0xfffff);
		put_value(0, 4);
	}
}

/* Blocks of any length, that are evicted. */
static void seed_forged(void)
{
	put_super(12, false);
	put_value(0, 4);
	put_block(0, 0, 0, 100 << 6);
	put_step(STEP_EXISTS, 0);
	put_get(0);
	put_block(1, 16, 3, 37);
	put_step(STEP_EXISTS, 1);
	put_step(STEP_LIST, 0);
	put_block(2, 0xc0, 5, 100 << 6);
	put_segment(0x83, 0, 0);
	put_step(STEP_TIME, 0);
	put(100000, 3);
	put_value(3, 4);
	put_value(3, 10);
	put_step(STEP_FAIL, 0);
	put(3, 1);
	put(1, 1);
	put_value(3, 10);
}

/* Longer than a value may be. */
static void seed_long(void)
{
	put_super(14, false);
	put_block(0, 0, 0, (1 << 26) + 64);
	put_step(STEP_EXISTS, 0);
	put_get(0);
	put_step(STEP_LIST, 0);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(
		void) = { seed_honest,   seed_immutable, seed_full,
			  seed_segments, seed_forged,    seed_long };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}
