/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's objects, operations and completions. */
#include "unit/fabric/verbs/verbs-client-stage.h"

#include <check.h>
#include <poll.h>

#include "base/err.h"

struct fabric_endpoint endpoint = {
	.kind = FABRIC_VERBS,
	.address = { .family = 4, .bytes = { 10, 1, 0, 1 }, .port = 7000 },
	.device = "theirs0",
};
struct fabric_client_params params = FABRIC_CLIENT_PARAMS_INIT;
struct fabric_domain *domain;
struct fabric_local_mr *region;
struct fabric_cq *cq;
struct fabric_channel *channel;
char memory[4096];

int open_domain(void)
{
	return CLIENT->domain_open(&endpoint, &params, WAIT_MS, &domain);
}

int connect_one(unsigned depth, struct fabric_channel **ret_channel)
{
	const struct fabric_channel_params channel_params = {
		.hello = { .session = 7, .channel = 3, .token = { 1, 2, 3 } },
		.depth = depth,
		.timeout_ms = WAIT_MS,
	};

	return wr_connect(CLIENT, cq, &channel_params, ret_channel);
}

void setup_cq(void)
{
	int err = open_domain();

	ck_assert_msg(!err, "domain_open: %s", err_text());
	ck_assert_int_eq(CLIENT->reg_mr(domain, memory, sizeof(memory), &region), 0);
	ck_assert_int_eq(CLIENT->cq_create(domain, 2 * DEPTH, &cq), 0);
}

void setup(void)
{
	int err;

	setup_cq();
	err = connect_one(DEPTH, &channel);
	ck_assert_msg(!err, "connect: %s", err_text());
}

void channel_close(void)
{
	CLIENT->channel_free(channel);
	channel = NULL;
}

void close_all(void)
{
	if (channel)
		channel_close();
	if (cq)
		CLIENT->cq_free(cq);
	if (region)
		CLIENT->dereg_mr(region);
	if (domain)
		CLIENT->domain_close(domain);
	cq = NULL;
	region = NULL;
	domain = NULL;
}

void teardown(void)
{
	close_all();
	ck_assert_uint_eq(fake_live(), 0);
}

struct wr wr_make(enum fabric_opcode opcode, uint64_t cookie, uint32_t bytes)
{
	return (struct wr){
		.opcode = opcode,
		.bytes = bytes,
		.addr = memory,
		.region = region,
		.remote_addr = 0x1000 + cookie,
		.rkey = 9,
		.cookie = cookie,
	};
}

int post(enum fabric_opcode opcode, unsigned first, unsigned n)
{
	struct wr wrs[2 * DEPTH];

	for (unsigned i = 0; i < n; i++)
		wrs[i] = wr_make(opcode, first + i, 100);
	return wr_post(CLIENT, channel, wrs, n);
}

void expect(unsigned first, unsigned n, int status)
{
	struct wc wc;

	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 1);
		ck_assert_uint_eq(wc.cookie, first + i);
		ck_assert_msg(wc.status == status, "%u: %d, expected %d", first + i,
			      wc.status, status);
		ck_assert(!wc.text == !status);
		ck_assert_ptr_eq(wc.channel, channel);
	}
}

void expect_nothing(void)
{
	struct wc wc;

	ck_assert_int_eq(wr_poll(CLIENT, cq, &wc, 1), 0);
}

void expect_only(unsigned first, unsigned n, int status)
{
	expect(first, n, status);
	expect_nothing();
}

bool readable(int fd, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, timeout_ms) == 1;
}
