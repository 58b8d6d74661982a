/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a sample. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rmemd/metrics/exposition.h"
#include "rmemd/metrics/table.h"
#include "unit/unit.h"

static struct sample sample;
static char text[4 << 20];
static unsigned n_parts;

static void setup(void)
{
	memset(&sample, 0, sizeof(sample));
	sample.groups[SAMPLE_SERVER] =
		(struct sample_group){ &sample.server, sizeof(sample.server), 1 };
	sample.groups[SAMPLE_POOL] =
		(struct sample_group){ sample.pools, sizeof(sample.pools[0]), 0 };
}

static void write_all(void)
{
	struct exposition at = { 0 };
	size_t used = 0, bytes;

	n_parts = 0;
	do {
		ck_assert_uint_le(used + EXPOSITION_BYTES, sizeof(text));
		bytes = exposition_write(&at, &sample, text + used);
		ck_assert_uint_le(bytes, EXPOSITION_BYTES);
		used += bytes;
		n_parts++;
	} while (bytes);
	text[used] = '\0';
}

static bool has_line(const char *line)
{
	char sought[256];

	(void)snprintf(sought, sizeof(sought), "\n%s\n", line);
	return strstr(text, sought) != NULL;
}

static unsigned count(const char *sought)
{
	unsigned n = 0;

	for (const char *at = text; (at = strstr(at, sought)); at++)
		n++;
	return n;
}

START_TEST(numbers__have_labels_and_base_units)
{
	sample.server.sessions_active = UINT64_C(18446744073709551614);
	sample.server.leases_waited_ms = 1050;
	sample.server.cpu_ns = 2000000003;
	(void)strcpy(sample.pools[0].labels, "pool=\"a\"");
	sample.pools[0].bytes = 4096;
	sample.pools[0].lent = SAMPLE_NONE;
	sample.groups[SAMPLE_POOL].n = 1;
	write_all();
	ck_assert(has_line("rmemd_sessions{state=\"active\"} 18446744073709551614"));
	ck_assert(has_line("rmemd_sessions{state=\"fenced\"} 0"));
	ck_assert(has_line("rmemd_memory_wait_seconds_total 1.050"));
	ck_assert(has_line("rmemd_cpu_seconds_total 2.000000003"));
	ck_assert(has_line("rmemd_pool_size_bytes{pool=\"a\"} 4096"));
	/* what is not known has no series */
	ck_assert_uint_eq(count("\nrmemd_pool_lent_bytes"), 0);
}
END_TEST

START_TEST(histogram__is_cumulative)
{
	struct durations *turns = &sample.server.turns;

	durations_add(turns, 1000);
	durations_add(turns, 1001);
	durations_add(turns, 1500000);
	durations_add(turns, UINT64_C(11000000000));
	write_all();
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"1e-06\"} 1"));
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"2e-06\"} 2"));
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"0.001\"} 2"));
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"0.002\"} 3"));
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"10\"} 3"));
	ck_assert(has_line("rmemd_loop_turn_seconds_bucket{le=\"+Inf\"} 4"));
	ck_assert(has_line("rmemd_loop_turn_seconds_sum 11.001502001"));
	ck_assert(has_line("rmemd_loop_turn_seconds_count 4"));
}
END_TEST

/* Every part is small, and no head is there twice. */
START_TEST(tenants__may_be_many)
{
	const unsigned n = SAMPLE_TENANTS_MAX + 1;
	struct sample_tenant *tenants = calloc(n, sizeof(*tenants));

	ck_assert_ptr_nonnull(tenants);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(tenants[i].labels, sizeof(tenants[i].labels),
			       "tenant=\"%0*u\"", i % TENANT_NAME_MAX + 1, i);
		tenants[i].leases = i;
	}
	sample.groups[SAMPLE_TENANT] =
		(struct sample_group){ tenants, sizeof(*tenants), n };
	write_all();
	ck_assert_uint_eq(count("\nrmemd_tenant_leases{"), n);
	ck_assert_uint_gt(n_parts, 10);
	for (size_t i = 0; i < metrics_n; i++) {
		char head[128];

		if (!metrics[i].help)
			continue;
		(void)snprintf(head, sizeof(head), "# TYPE %s ", metrics[i].name);
		ck_assert_msg(count(head) == 1, "%s", head);
	}
	free(tenants);
}
END_TEST

/* The rows of a metric stand together, and only the first one has the text. */
START_TEST(table__has_each_metric_once)
{
	for (size_t i = 0; i < metrics_n; i++) {
		bool first =
			i == 0 || strcmp(metrics[i].name, metrics[i - 1].name) != 0;

		ck_assert_msg(first == (metrics[i].help != NULL), "%s",
			      metrics[i].name);
		for (size_t k = 0; first && k < i; k++)
			ck_assert_str_ne(metrics[k].name, metrics[i].name);
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("exposition", setup, NULL);

	tcase_add_test(tc, numbers__have_labels_and_base_units);
	tcase_add_test(tc, histogram__is_cumulative);
	tcase_add_test(tc, tenants__may_be_many);
	tcase_add_test(tc, table__has_each_metric_once);
	return unit_main();
}
