/* SPDX-License-Identifier: BSD-3-Clause */
/* Standard descriptors, errors, containers, units, mailboxes, log lines, zeroing and back-off. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/err.h"
#include "base/list.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/map.h"
#include "base/node_cpus.h"
#include "base/random.h"
#include "base/standard_fds.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/zero.h"
#include "unit/unit.h"

/* The number of a closed descriptor is not given to another file, and stays useless. */
START_TEST(standard_fd__closed_is_reserved)
{
	char byte = 'x';
	int saved = dup(_i), other;

	ck_assert_int_eq(close(_i), 0);
	ck_assert_int_eq(standard_fds_open(), 0);
	other = open("/dev/null", O_RDWR);
	ck_assert_int_gt(other, STDERR_FILENO);
	ck_assert_int_eq(_i ? write(_i, &byte, 1) : read(_i, &byte, 1), -1);
	ck_assert_int_eq(errno, EBADF);
	ck_assert_int_eq(dup2(saved, _i), _i);
	(void)close(saved);
	(void)close(other);
}
END_TEST

START_TEST(err_prefix__is_put_before_the_text)
{
	ck_assert_int_eq(err_errno(-ENOENT, "open %s", "/x"), -ENOENT);
	ck_assert_int_eq(err_prefix(-ENOENT, "pool %d", 3), -ENOENT);
	ck_assert_str_eq(err_text(), "pool 3: open /x: No such file or directory");
	err_clear();
	ck_assert_str_eq(err_text(), "");
}
END_TEST

START_TEST(err_set__accepts_its_own_text_and_cuts_long_text)
{
	char longer[2000];

	memset(longer, 'a', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	(void)err_set(-EINVAL, "%s", longer);
	(void)err_prefix(-EINVAL, "head");
	(void)err_set(-EINVAL, "%s", err_text());
	ck_assert_uint_eq(strlen(err_text()), 511);
	ck_assert_int_eq(strncmp(err_text(), "head: aaa", 9), 0);
}
END_TEST

/* Whatever was put into it, as a URI or what a peer says, and wherever it was cut. */
START_TEST(err_set__is_one_line_of_visible_text)
{
	char longer[ERR_TEXT_BYTES + 2];

	(void)err_set(-EINVAL, "'%s' is no name", "a\x1b]0;b\x07\n\xc2\x9b");
	ck_assert_str_eq(err_text(), "'a?]0;b?\?\?\?' is no name");
	(void)err_prefix(-EINVAL, "%s", "\xe2\x80\xae");
	ck_assert_str_eq(err_text(), "?\?\?: 'a?]0;b?\?\?\?' is no name");
	for (size_t i = 0; i < 3; i++) {
		memset(longer, 'x', i);
		for (size_t k = i; k + 1 < sizeof(longer); k += 2)
			memcpy(longer + k, "\xc3\xa9", 2);
		longer[sizeof(longer) - 1] = '\0';
		(void)err_set(-EINVAL, "%s", longer);
		ck_assert(utf8_clean(err_text(), strlen(err_text())));
		(void)err_prefix(-EINVAL, "%s", "a");
		ck_assert(utf8_clean(err_text(), strlen(err_text())));
	}
}
END_TEST

START_TEST(err_keep__outlasts_other_texts)
{
	struct err_kept kept = { .err = 0 };

	ck_assert_int_eq(err_kept_restore(&kept), 0);
	err_keep(&kept, err_set(-EINVAL, "first"));
	(void)err_set(-ENOENT, "second");
	ck_assert_int_eq(err_kept_restore(&kept), -EINVAL);
	ck_assert_str_eq(err_text(), "first");
	err_kept_free(&kept);
	err_kept_free(&kept);
}
END_TEST

struct item {
	struct map_node node;
	struct list link;
	uint64_t key;
};

static struct item *item_find(const struct map *map, uint64_t key)
{
	struct map_node *node = map_find(map, map_hash_u64(key));

	while (node && container_of(node, struct item, node)->key != key)
		node = map_find_next(node);
	return node ? container_of(node, struct item, node) : NULL;
}

START_TEST(map__has_the_nodes_that_were_not_removed)
{
	enum { N = 1000 };
	struct item *items = calloc(N, sizeof(*items));
	struct map map;
	size_t seen = 0;

	map_init(&map);
	ck_assert_ptr_null(item_find(&map, 7));
	for (size_t i = 0; i < N; i++) {
		items[i].key = i * 3;
		ck_assert_int_eq(
			map_insert(&map, &items[i].node, map_hash_u64(items[i].key)),
			0);
	}
	for (size_t i = 0; i < N; i += 2)
		map_remove(&map, &items[i].node);
	for (size_t i = 0; i < N; i++)
		ck_assert_ptr_eq(item_find(&map, i * 3), i % 2 ? &items[i] : NULL);
	for (struct map_node *n = map_next(&map, NULL); n; n = map_next(&map, n))
		seen++;
	ck_assert_uint_eq(seen, N / 2);
	map_destroy(&map);
	free(items);
}
END_TEST

/* An insert moves the nodes of one bucket at most: it takes the same time in a large map. */
START_TEST(map__grows_by_one_bucket)
{
	static struct item items[5000];
	struct map map;

	map_init(&map);
	for (unsigned i = 0; i < 5000; i++) {
		size_t before = map.n_buckets;

		items[i].key = i;
		ck_assert_int_eq(
			map_insert(&map, &items[i].node, map_hash_u64(items[i].key)),
			0);
		ck_assert(i == 0 || map.n_buckets <= before + 1);
		ck_assert_uint_ge(map.n_buckets, map.n_nodes);
	}
	for (unsigned i = 0; i < 5000; i++)
		ck_assert_ptr_eq(item_find(&map, i), &items[i]);
	map_destroy(&map);
}
END_TEST

START_TEST(map__finds_all_nodes_of_one_hash)
{
	struct item items[3] = { { .key = 1 }, { .key = 2 }, { .key = 3 } };
	struct map map;
	unsigned seen = 0;

	map_init(&map);
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(map_insert(&map, &items[i].node, 42), 0);
	for (struct map_node *n = map_find(&map, 42); n; n = map_find_next(n))
		seen |= 1u << container_of(n, struct item, node)->key;
	ck_assert_uint_eq(seen, 0xe);
	map_destroy(&map);
}
END_TEST

START_TEST(list__splices_in_order)
{
	struct list a, b;
	struct item items[4] = {
		{ .key = 0 }, { .key = 1 }, { .key = 2 }, { .key = 3 }
	};
	uint64_t expected = 0;

	list_init(&a);
	list_init(&b);
	for (size_t i = 0; i < 4; i++)
		list_append(i < 2 ? &a : &b, &items[i].link);
	list_splice(&a, &b);
	ck_assert(list_empty(&b));
	list_for_each_entry_safe(struct item, item, &a, link) {
		ck_assert_uint_eq(item->key, expected);
		expected++;
		list_remove(&item->link);
	}
	ck_assert_uint_eq(expected, 4);
	ck_assert(list_empty(&a));
}
END_TEST

static const struct {
	const char *text;
	int err;
	uint64_t value;
} sizes[] = {
	{ "0", 0, 0 },
	{ "4096", 0, 4096 },
	{ "64K", 0, 65536 },
	{ "2 MiB", 0, 2 << 20 },
	{ "1k", 0, 1024 },
	{ "3m", 0, 3 << 20 },
	{ "1g", 0, 1 << 30 },
	{ "1t", 0, UINT64_C(1) << 40 },
	{ "7B", 0, 7 },
	{ "1G", 0, 1 << 30 },
	{ "16777215T", 0, UINT64_C(16777215) << 40 },
	{ "16777216T", -ERANGE, 0 },
	{ "99999999999999999999", -ERANGE, 0 },
	{ "", -EINVAL, 0 },
	{ "-1", -EINVAL, 0 },
	{ " 1", -EINVAL, 0 },
	{ "1X", -EINVAL, 0 },
	{ "1MB", -EINVAL, 0 },
	{ "1gib", -EINVAL, 0 },
	{ "1.5G", -EINVAL, 0 },
	{ "G", -EINVAL, 0 },
	{ "1 G ", -EINVAL, 0 },
};

START_TEST(units__parse_bytes)
{
	uint64_t value = 77;

	ck_assert_int_eq(units_parse_bytes(sizes[_i].text, &value), sizes[_i].err);
	ck_assert_uint_eq(value, sizes[_i].err ? 77 : sizes[_i].value);
	if (sizes[_i].err == -EINVAL)
		ck_assert_ptr_nonnull(strstr(err_text(), "is not a size: a whole"));
}
END_TEST

START_TEST(units__parse_ms_requires_a_unit)
{
	uint64_t value = 0;

	ck_assert_int_eq(units_parse_ms("250ms", &value), 0);
	ck_assert_uint_eq(value, 250);
	ck_assert_int_eq(units_parse_ms("2h", &value), 0);
	ck_assert_uint_eq(value, 7200000);
	ck_assert_int_eq(units_parse_ms("0", &value), 0);
	ck_assert_uint_eq(value, 0);
	ck_assert_int_eq(units_parse_ms("5", &value), -EINVAL);
	ck_assert_int_eq(units_parse_ms("5S", &value), -EINVAL);
	ck_assert_int_eq(units_parse_ms("", &value), -EINVAL);
	ck_assert_str_eq(err_text(),
			 "'' is not a time: a whole number with ms, s, min, "
			 "h or d, such as 200ms");
	ck_assert_int_eq(units_parse_ms("5 s", &value), 0);
	ck_assert_uint_eq(value, 5000);
}
END_TEST

START_TEST(units__are_written_exactly)
{
	char buf[32];

	ck_assert_str_eq(units_write_bytes(0, buf, sizeof(buf)), "0");
	ck_assert_str_eq(units_write_bytes(4097, buf, sizeof(buf)), "4097");
	ck_assert_str_eq(units_write_bytes(UINT64_C(1536) << 20, buf, sizeof(buf)),
			 "1536M");
	ck_assert_str_eq(units_write_bytes(UINT64_C(3) << 40, buf, sizeof(buf)), "3T");
	ck_assert_str_eq(units_write_ms(0, buf, sizeof(buf)), "0");
	ck_assert_str_eq(units_write_ms(1500, buf, sizeof(buf)), "1500ms");
	ck_assert_str_eq(units_write_ms(90000, buf, sizeof(buf)), "90s");
	ck_assert_str_eq(units_write_ms(172800000, buf, sizeof(buf)), "2d");
}
END_TEST

START_TEST(units__parse_switch_knows_two_words)
{
	static const char *const others[] = { "true", "on", "Yes", "1", "" };
	bool on = false;

	ck_assert_int_eq(units_parse_switch("yes", &on), 0);
	ck_assert(on);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert_int_eq(units_parse_switch(others[i], &on), -EINVAL);
	ck_assert(on);
	ck_assert_int_eq(units_parse_switch("no", &on), 0);
	ck_assert(!on);
}
END_TEST

START_TEST(units__parse_u64_checks_the_range)
{
	uint64_t value = 5;

	ck_assert_int_eq(units_parse_u64("10", 1, 10, &value), 0);
	ck_assert_uint_eq(value, 10);
	ck_assert_int_eq(units_parse_u64("11", 1, 10, &value), -ERANGE);
	ck_assert_int_eq(units_parse_u64("0", 1, 10, &value), -ERANGE);
	ck_assert_int_eq(units_parse_u64("3x", 1, 10, &value), -EINVAL);
	ck_assert_uint_eq(value, 10);
}
END_TEST

START_TEST(units__format_bytes)
{
	char buf[32];

	ck_assert_str_eq(units_format_bytes(0, buf, sizeof(buf)), "0 B");
	ck_assert_str_eq(units_format_bytes(1536, buf, sizeof(buf)), "1.5 KiB");
	ck_assert_str_eq(units_format_bytes(UINT64_C(3) << 30, buf, sizeof(buf)),
			 "3 GiB");
}
END_TEST

START_TEST(secret_equal__compares_every_byte)
{
	uint8_t a[16], b[16];

	random_bytes(a, sizeof(a));
	memcpy(b, a, sizeof(a));
	ck_assert(secret_equal(a, b, sizeof(a)));
	for (size_t i = 0; i < sizeof(a); i++) {
		b[i] ^= 0x80;
		ck_assert(!secret_equal(a, b, sizeof(a)));
		b[i] ^= 0x80;
	}
}
END_TEST

enum { SENDERS = 4, MESSAGES = 2000 };

struct sender {
	pthread_t thread;
	struct mailbox *box;
	struct item items[MESSAGES];
};

static void *sender_run(void *arg)
{
	struct sender *sender = arg;

	for (size_t i = 0; i < MESSAGES; i++) {
		sender->items[i].key = i;
		mailbox_post(sender->box, &sender->items[i].link);
	}
	return NULL;
}

static bool readable(const struct mailbox *box, int timeout_ms)
{
	struct pollfd pfd = { .fd = mailbox_fd(box), .events = POLLIN };
	int n = poll(&pfd, 1, timeout_ms);

	ck_assert_int_ge(n, 0);
	return n == 1;
}

/* The descriptor is readable while messages wait. */
START_TEST(mailbox__take_some_leaves_the_rest)
{
	struct list messages[5], got;
	struct mailbox box;

	ck_assert_int_eq(mailbox_init(&box), 0);
	list_init(&got);
	mailbox_receive_some(&box, &got, 3);
	ck_assert(list_empty(&got));
	for (unsigned i = 0; i < 5; i++)
		mailbox_post(&box, &messages[i]);
	mailbox_receive_some(&box, &got, 3);
	ck_assert(readable(&box, 0));
	ck_assert_ptr_eq(got.prev, &messages[2]);
	mailbox_receive_some(&box, &got, 3);
	ck_assert(!readable(&box, 0));
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_ptr_eq(got.next, &messages[i]);
		list_remove(&messages[i]);
	}
	ck_assert(list_empty(&got));
	mailbox_post(&box, &messages[0]);
	ck_assert(readable(&box, 0));
	mailbox_receive_some(&box, &got, 1);
	ck_assert(!readable(&box, 0));
	mailbox_destroy(&box);
}
END_TEST

START_TEST(mailbox__loses_neither_message_nor_wakeup_nor_order)
{
	struct sender *senders = calloc(SENDERS, sizeof(*senders));
	struct mailbox box;
	size_t seen = 0;

	ck_assert_int_eq(mailbox_init(&box), 0);
	for (size_t i = 0; i < SENDERS; i++) {
		senders[i].box = &box;
		ck_assert_int_eq(pthread_create(&senders[i].thread, NULL, sender_run,
						&senders[i]),
				 0);
	}
	uint64_t next[SENDERS] = { 0 };
	while (seen < SENDERS * MESSAGES) {
		struct list got;

		list_init(&got);
		ck_assert(readable(&box, 10000));
		mailbox_receive(&box, &got);
		list_for_each_entry_safe(struct item, item, &got, link) {
			size_t from = (size_t)((char *)item - (char *)senders) /
				      sizeof(*senders);

			ck_assert_uint_eq(item->key, next[from]);
			next[from]++;
			seen++;
		}
	}
	for (size_t i = 0; i < SENDERS; i++)
		ck_assert_int_eq(pthread_join(senders[i].thread, NULL), 0);
	mailbox_destroy(&box);
	free(senders);
}
END_TEST

static char logged[256];

static void store_line(int level, const char *event, const struct log_ctx *ctx,
		       const char *text)
{
	(void)snprintf(logged, sizeof(logged), "%d %s %lu %s", level, event,
		       (unsigned long)ctx->lease, text);
}

START_TEST(log_format__has_fields_and_cuts_long_lines)
{
	const struct log_ctx ctx = { .session = 7, .device = "rxe0", .tenant = "a" };
	char line[LOG_LINE_BYTES], text[2 * LOG_LINE_BYTES];

	log_format(line, "event", NULL, "text");
	ck_assert_str_eq(line, "event: text");
	log_format(line, "event", &(struct log_ctx){ .session = 0, .device = "" },
		   "text");
	ck_assert_str_eq(line, "event: text");
	log_format(line, "event", &ctx, "text");
	ck_assert_str_eq(line, "event: text [session=7 device=rxe0 tenant=a]");
	/* a name that imitates fields, and one that begins another line */
	log_format(line, "event", NULL, "lease \"a\" [session=9 tenant=b]");
	ck_assert_str_eq(line, "event: lease \"a\" [session=9 tenant=b] []");
	log_format(line, "event", &ctx, "a [session=9]");
	ck_assert_str_eq(line, "event: a [session=9] [session=7 device=rxe0 tenant=a]");
	log_format(line, "event", NULL, "a\nnext: \x1b[1m");
	ck_assert_str_eq(line, "event: a?next: ?[1m");
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	log_format(line, "event", &ctx, text);
	ck_assert_uint_eq(strlen(line), LOG_LINE_BYTES - 1);
	ck_assert_int_eq(strncmp(line, "event: xxx", 10), 0);
	ck_assert_int_eq(line[LOG_LINE_BYTES - 2], 'x');
}
END_TEST

START_TEST(log__drops_events_below_its_level)
{
	struct log_ctx ctx = { .lease = 9 };

	log_set_sink(store_line);
	log_event(LOG_DEBUG, "noise", &ctx, "%d", 1);
	ck_assert_str_eq(logged, "");
	log_event(LOG_NOTICE, "lease-freed", &ctx, "%s", "by its owner");
	ck_assert_str_eq(logged, "5 lease-freed 9 by its owner");
}
END_TEST

START_TEST(zero_stream__zeroes_only_its_range)
{
	enum { BYTES = 16 * ZERO_GRAIN };
	static _Alignas(ZERO_GRAIN) unsigned char memory[BYTES];

	for (size_t from = 0; from <= BYTES; from += ZERO_GRAIN)
		for (size_t to = from; to <= BYTES; to += ZERO_GRAIN) {
			memset(memory, 0xa5, BYTES);
			zero_stream(memory + from, to - from);
			for (size_t i = 0; i < BYTES; i++)
				ck_assert_uint_eq(memory[i],
						  i >= from && i < to ? 0 : 0xa5);
		}
}
END_TEST

static void expect_wait(struct backoff *backoff, unsigned longest_ms)
{
	unsigned ms = backoff_next(backoff);

	ck_assert_uint_le(ms, longest_ms);
	ck_assert_uint_ge(ms, longest_ms / 2);
}

START_TEST(backoff__doubles_up_to_its_maximum_and_starts_again)
{
	static const unsigned expected[] = { 20, 40, 80, 160, 320, 500, 500 };
	struct backoff backoff = BACKOFF_INIT(500), huge = BACKOFF_INIT(UINT_MAX);

	for (unsigned i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		expect_wait(&backoff, expected[i]);
	backoff_reset(&backoff);
	expect_wait(&backoff, 20);
	/* doubling does not wrap */
	for (unsigned i = 0; i < 40; i++)
		(void)backoff_next(&huge);
	expect_wait(&huge, UINT_MAX);
}
END_TEST

/* Clients that have lost their server together do not come back together. */
START_TEST(backoff__differs)
{
	unsigned first = 0, others = 0;

	for (unsigned i = 0; i < 100; i++) {
		struct backoff backoff = BACKOFF_INIT(1000);
		unsigned ms;

		for (unsigned k = 0; k < 5; k++)
			(void)backoff_next(&backoff);
		ms = backoff_next(&backoff);
		first = i ? first : ms;
		others += ms != first;
	}
	ck_assert_uint_gt(others, 50);
}
END_TEST

START_TEST(node_cpus__of_a_list)
{
	cpu_set_t cpus;

	ck_assert_uint_eq(node_cpus_parse("0-3,8,10-11\n", &cpus), 7);
	ck_assert(CPU_ISSET(0, &cpus) && CPU_ISSET(3, &cpus) && CPU_ISSET(8, &cpus));
	ck_assert(CPU_ISSET(11, &cpus) && !CPU_ISSET(9, &cpus));
	/* a node without CPUs, and text that the kernel does not write */
	ck_assert_uint_eq(node_cpus_parse("\n", &cpus), 0);
	ck_assert_uint_eq(node_cpus_parse("", &cpus), 0);
	ck_assert_uint_eq(node_cpus_parse("1,x", &cpus), 1);
	ck_assert_uint_eq(node_cpus_parse("0-99999999999999999999", &cpus),
			  CPU_SETSIZE);
	/* CPUs that the set has no room for */
	ck_assert_uint_eq(node_cpus_parse("5000-6000", &cpus), 0);
}
END_TEST

START_TEST(node_cpus__of_this_host)
{
	cpu_set_t cpus;

	ck_assert_uint_eq(node_cpus(4000, &cpus), 0);
	node_cpus_use(4000);
	node_cpus_use(-1);
	if (node_cpus(0, &cpus) > 0)
		node_cpus_use(0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("base", NULL, NULL);

	tcase_add_loop_test(tc, standard_fd__closed_is_reserved, 0, 3);
	tcase_add_test(tc, err_prefix__is_put_before_the_text);
	tcase_add_test(tc, err_keep__outlasts_other_texts);
	tcase_add_test(tc, err_set__is_one_line_of_visible_text);
	tcase_add_test(tc, err_set__accepts_its_own_text_and_cuts_long_text);
	tcase_add_test(tc, map__has_the_nodes_that_were_not_removed);
	tcase_add_test(tc, map__grows_by_one_bucket);
	tcase_add_test(tc, map__finds_all_nodes_of_one_hash);
	tcase_add_test(tc, list__splices_in_order);
	tcase_add_loop_test(tc, units__parse_bytes, 0,
			    sizeof(sizes) / sizeof(sizes[0]));
	tcase_add_test(tc, units__parse_ms_requires_a_unit);
	tcase_add_test(tc, units__parse_switch_knows_two_words);
	tcase_add_test(tc, units__are_written_exactly);
	tcase_add_test(tc, units__parse_u64_checks_the_range);
	tcase_add_test(tc, units__format_bytes);
	tcase_add_test(tc, secret_equal__compares_every_byte);
	tcase_add_test(tc, mailbox__take_some_leaves_the_rest);
	tcase_add_test(tc, mailbox__loses_neither_message_nor_wakeup_nor_order);
	tcase_add_test(tc, log_format__has_fields_and_cuts_long_lines);
	tcase_add_test(tc, log__drops_events_below_its_level);
	tcase_add_test(tc, zero_stream__zeroes_only_its_range);
	tcase_add_test(tc, backoff__doubles_up_to_its_maximum_and_starts_again);
	tcase_add_test(tc, backoff__differs);
	tcase_add_test(tc, node_cpus__of_a_list);
	tcase_add_test(tc, node_cpus__of_this_host);
	return unit_main();
}
