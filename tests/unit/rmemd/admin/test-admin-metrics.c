/* SPDX-License-Identifier: BSD-3-Clause */
/* The metrics over the admin socket, of many sessions and tenants. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rmemd/metrics/sample.h"
#include "unit/rmemd/admin/admin-stage.h"

#define TENANTS (SAMPLE_TENANTS_MAX + 10)

static void setup(void)
{
	admin_setup();
	tenants_init(&tenants);
	open_admin();
}

static void teardown(void)
{
	admin_teardown();
	tenants_destroy(&tenants);
}

static bool has_line(const char *line)
{
	char sought[256];

	(void)snprintf(sought, sizeof(sought), "\n%s\n", line);
	return strstr(reply, sought) != NULL;
}

static unsigned count(const char *sought)
{
	unsigned n = 0;

	for (const char *at = reply; (at = strstr(at, sought)); at++)
		n++;
	return n;
}

static void make_tenants(unsigned n)
{
	struct tenant_params *params = calloc(n, sizeof(*params));

	ck_assert_ptr_nonnull(params);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(params[i].name, sizeof(params[i].name), "t%u", i);
		params[i].limits.leases_max = 10;
	}
	ck_assert_int_eq(tenants_set(&tenants, params, n), 0);
	free(params);
}

START_TEST(metrics__are_text)
{
	ck_assert_int_eq(request("GET", "/metrics"), 200);
	ck_assert_ptr_nonnull(strstr(
		reply, "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
	ck_assert(has_line("rmemd_pool_size_bytes{pool=\"a\"} 1048576"));
	ck_assert(has_line("rmemd_requests_total 42"));
	ck_assert(has_line("rmemd_device_channels{device=\"rxe0\",fabric=\"rdma\","
			   "address=\"::1\"} 1"));
	ck_assert_int_eq(request("HEAD", "/metrics"), 200);
	ck_assert_ptr_null(strstr(reply, "rmemd_"));
	ck_assert_int_eq(request("POST", "/metrics"), 405);
}
END_TEST

/* Some in each slice, so that others have their turn. */
START_TEST(sessions__are_counted_in_slices)
{
	n_sessions = 2000;
	most_sessions = 0;
	ck_assert_int_eq(request("GET", "/metrics"), 200);
	ck_assert(has_line("rmemd_sessions{state=\"active\"} 1"));
	ck_assert(has_line("rmemd_sessions{state=\"fenced\"} 1999"));
	ck_assert(has_line("rmemd_channels 4000"));
	ck_assert(has_line("rmemd_keys 10000"));
	ck_assert_uint_le(most_sessions, 200);
	n_sessions = 2;
}
END_TEST

START_TEST(tenants__beyond_the_limit_are_one)
{
	make_tenants(TENANTS);
	list_for_each_entry(struct tenant, tenant, &tenants.all, link)
		tenant->n_leases = 3;
	ck_assert_int_eq(request("GET", "/metrics"), 200);
	ck_assert_uint_eq(count("\nrmemd_tenant_leases{"), SAMPLE_TENANTS_MAX + 1);
	ck_assert(has_line("rmemd_tenant_leases{tenant=\"t999\"} 3"));
	ck_assert_uint_eq(count("tenant=\"t1000\""), 0);
	ck_assert(has_line("rmemd_tenant_leases{tenant=\"(others)\"} 30"));
	/* what has no limit has no series of it */
	ck_assert(has_line("rmemd_tenant_leases_limit{tenant=\"t999\"} 10"));
	ck_assert_uint_eq(count("\nrmemd_tenant_leases_limit{"), SAMPLE_TENANTS_MAX);
	ck_assert_uint_eq(count("\nrmemd_tenant_sessions_limit{"), 0);
	list_for_each_entry(struct tenant, unused, &tenants.all, link)
		unused->n_leases = 0;
}
END_TEST

/* A client that goes at any time leaves no reference, and a tenant that goes is no longer looked
 * at. */
START_TEST(tenants__may_go_while_they_are_counted)
{
	const char *text = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
	int fd;

	ck_assert_ptr_ne(signal(SIGPIPE, SIG_IGN), SIG_ERR);
	for (unsigned turns = 1; turns < 40; turns++) {
		make_tenants(TENANTS);
		fd = connect_client();
		ck_assert_int_ge(fd, 0);
		ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
		for (unsigned i = 0; i < turns; i++)
			ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
		make_tenants(1);
		for (unsigned i = 0; turns % 2 && i < 40; i++)
			ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
		ck_assert_int_eq(close(fd), 0);
		for (unsigned i = 0; i < 10; i++)
			ck_assert_int_ge(event_base_loop(base, EVLOOP_NONBLOCK), 0);
		ck_assert_ptr_eq(tenants.all.next, tenants.all.prev);
		ck_assert_uint_eq(tenants_find(&tenants, "t0")->refs, 1);
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("admin-metrics", setup, teardown);

	tcase_add_test(tc, metrics__are_text);
	tcase_add_test(tc, sessions__are_counted_in_slices);
	tcase_add_test(tc, tenants__beyond_the_limit_are_one);
	tcase_add_test(tc, tenants__may_go_while_they_are_counted);
	return unit_main();
}
