/* SPDX-License-Identifier: BSD-3-Clause */
/* A list whose pages come from no server: how many there are, and whose time counts. */
#include <rmem/rmem.h>

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "librmem/session/call.h"
#include "librmem/session/session.h"
#include "unit/unit.h"

#define PAGE_MS 10
#define CALLBACK_MS 20
#define TIMEOUT_MS (3 * PAGE_MS)

static struct rmem session = { .timeout_ms = TIMEOUT_MS, .server = "a server" };
static uint64_t now_ns, after;
static struct wire_msg page; /* the next one: ids rise, and there are always more */

static uint64_t fake_clock(void)
{
	return now_ns;
}

int __wrap_call_run(struct call *call, const atomic_bool *);
int __wrap_call_run(struct call *call, const atomic_bool *)
{
	int result = -ETIMEDOUT;

	call->end_ns = call_end_ns(call);
	now_ns += PAGE_MS * NS_PER_MS;
	for (unsigned i = 0; i < page.entries.n_entries; i++)
		page.entries.entries[i].lease = after + 1 + i;
	after += page.entries.n_entries;
	if (now_ns <= call->end_ns)
		result = call->kind->answered(call, 0, &page);
	return call->kind->end(call, result);
}

static void setup(void)
{
	now_ns = 3600 * 1000 * NS_PER_MS;
	clock_set_source(fake_clock);
	page.entries.more = 1;
	after = 0;
}

static void teardown(void)
{
	clock_set_source(NULL);
}

/* Goes on somewhat longer than it may. */
static int count(const struct rmem_stat *, void *arg)
{
	now_ns += CALLBACK_MS * NS_PER_MS;
	return ++*(unsigned *)arg > 2 * TIMEOUT_MS / PAGE_MS;
}

START_TEST(time__is_of_all_pages_without_the_callback)
{
	unsigned n = 0;

	page.entries.n_entries = 1;
	ck_assert_int_eq(rmem_list(&session, NULL, count, &n), -ETIMEDOUT);
	ck_assert_uint_eq(n, TIMEOUT_MS / PAGE_MS);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "has sent 3 leases"));
}
END_TEST

static int count_all(const struct rmem_stat *, void *arg)
{
	return ++*(unsigned *)arg > WIRE_LISTED_MAX;
}

START_TEST(leases__have_a_limit)
{
	unsigned n = 0;

	session.timeout_ms = UINT32_MAX;
	page.entries.n_entries = WIRE_ENTRIES_MAX;
	ck_assert_int_eq(rmem_list(&session, NULL, count_all, &n), -EPROTO);
	ck_assert_uint_eq(n, WIRE_LISTED_MAX);
	ck_assert_ptr_nonnull(strstr(rmem_error(), "lists more than"));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("list", setup, teardown);

	tcase_add_test(tc, time__is_of_all_pages_without_the_callback);
	tcase_add_test(tc, leases__have_a_limit);
	return unit_main();
}
