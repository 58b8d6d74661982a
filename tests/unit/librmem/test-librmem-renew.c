/* SPDX-License-Identifier: BSD-3-Clause */
/* A session whose devices are removed and return, and whose endpoints change their address. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "librmem/queue/queue.h"
#include "unit/librmem/core-case.h"

static rmem_lease *lease;

static void open_rdma(unsigned flags, const char *options)
{
	serve_rdma();
	(void)snprintf(stage.uri + strlen(stage.uri),
		       sizeof(stage.uri) - strlen(stage.uri), "?fabric=rdma%s",
		       options);
	open_with(flags);
	lease = alloc(1000, NULL);
}

/* Remove this host's device that reaches the server's device `name`; its channels are dead. */
static void device_remove(const char *name)
{
	pthread_mutex_lock(&fake.lock);
	(void)strcpy(fake.removed, name);
	for (struct fabric_channel *at = fake.channels; at; at = at->next) {
		if (strcmp(at->cq->domain->endpoint.device, name) != 0)
			continue;
		at->peer_gone = true;
		(void)eventfd_write(at->alive_fd, 1);
	}
	pthread_mutex_unlock(&fake.lock);
}

static void endpoints_move(void)
{
	const struct fabric_address address = { .family = 4,
						.bytes = { 10, 0, 0, 9 },
						.port = 77 };

	for (unsigned i = 1; i < n_fake_endpoints; i++)
		fake_endpoints[i].address = address;
}

static void keys_remove(struct wire_msg *msg)
{
	if (msg->type == WIRE_TYPE_lease)
		msg->lease.n_keys = 0;
}

static void device_return(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.removed[0] = '\0';
	pthread_mutex_unlock(&fake.lock);
}

/* Write through the queue, from the buffer; NULL: from `buf`. */
static void write_ok(struct rmem_buffer *buffer)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE,
		.lease = lease,
		.addr = buffer ? rmem_buffer_addr(buffer) : stage.buf,
		.buffer = buffer,
		.bytes = 9,
	};
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_submit(stage.queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(stage.queue, &completion, 1, 1, -1), 1);
	ck_assert_int_eq(completion.status, 0);
}

/* Open a session and a queue with one channel, which works. */
static void open_rdma_queue(void)
{
	open_rdma(0, "&channels=1");
	queue_open(1);
	write_ok(NULL);
}

/* The latest channel to the server's device. */
static struct fabric_channel *channel_to(const char *name)
{
	struct fabric_channel *at;

	pthread_mutex_lock(&fake.lock);
	at = fake.channels;
	while (at && strcmp(at->cq->domain->endpoint.device, name) != 0)
		at = at->next;
	pthread_mutex_unlock(&fake.lock);
	return at;
}

/* Number of channels to the server's device. */
static unsigned channels_to(const char *name)
{
	unsigned n = 0;

	pthread_mutex_lock(&fake.lock);
	for (struct fabric_channel *at = fake.channels; at; at = at->next)
		n += !strcmp(at->cq->domain->endpoint.device, name);
	pthread_mutex_unlock(&fake.lock);
	return n;
}

static atomic_bool connector_holds, connector_held;

/* For fake.at_connect: hold the thread that connects. */
static int connector_hold(void)
{
	connector_held = connector_holds;
	while (connector_holds)
		sleep_1ms();
	return 0;
}

/* A domain that is to be opened again waits for the thread that connects; the thread that drives
 * the session sleeps meanwhile, but for heartbeats. */
START_TEST(removed_device__that_waits_for_a_connect_costs_no_turns)
{
	unsigned looks, pings;

	set_heartbeat(20, 4000);
	open_rdma(0, "&channels=2");
	queue_open(2);
	connector_holds = true;
	fake.at_connect = connector_hold;
	fake_peer_gone(channel_to("fake0"));
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && connector_held);
	device_remove("fake1");
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.closes == 1);
	looks = fake.looks;
	pings = proxy.seen[WIRE_TYPE_ping];
	proxy_await(WIRE_TYPE_ping, pings + 10);
	ck_assert_uint_lt(fake.looks - looks, 200);
	device_return();
	connector_holds = false;
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && channels_to("fake1") == 1);
}
END_TEST

START_TEST(device__of_two_is_removed_and_returns)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	rmem_buffer *early = NULL, *late = NULL;

	open_rdma(0, "&channels=2");
	params.bytes = 100;
	queue_open(2);
	ck_assert_int_eq(rmem_buffer_create(stage.client, &params, &early), 0);
	write_ok(early);
	device_remove("fake1");
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.closes == 1);
	ck_assert_uint_eq(fake.disassociations, 0);
	ck_assert_uint_eq(channels_to("fake1"), 0);

	/* the other device still works, and buffers are registered on it */
	write_ok(early);
	ck_assert_int_eq(rmem_buffer_create(stage.client, &params, &late), 0);
	write_ok(late);
	device_return();
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && channels_to("fake1") == 1);
	/* channels are used in turn: the buffers are registered on both devices */
	for (unsigned i = 0; i < 4; i++) {
		write_ok(early);
		write_ok(late);
		write_ok(NULL);
	}
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_int_eq(rmem_buffer_free(late), 0);
}
END_TEST

/* The program has closed its descriptor of the dma-buf. */
START_TEST(device__that_returns_registers_dmabufs)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();
	rmem_buffer *buffer = NULL;
	unsigned char *memory;

	open_rdma_queue();
	memory = proxy_memory(rmem_lease_id(lease));
	params.bytes = 4096;
	params.dmabuf_fd = memfd_create("dmabuf", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(params.dmabuf_fd, 4096), 0);
	ck_assert_int_eq(rmem_buffer_create(stage.client, &params, &buffer), 0);
	(void)close(params.dmabuf_fd);
	device_remove("fake0");
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.closes == 1);
	device_return();
	memset(rmem_buffer_addr(buffer), 0x71, 9);
	write_ok(buffer);
	ck_assert_uint_eq(fake.dmabufs, 2);
	ck_assert_uint_eq(memory[8], 0x71);
	ck_assert_int_eq(rmem_buffer_free(buffer), 0);
}
END_TEST

START_TEST(only_device__is_waited_for)
{
	open_rdma(_i ? RMEM_NO_THREAD : 0, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	device_remove("fake0");
	if (_i) {
		while (fake.closes == 0)
			ck_assert_int_eq(rmem_process(stage.client), 0);
	} else {
		/* the service thread closes the domain */
		AWAIT(fake.closes == 1);
	}
	ck_assert_uint_eq(fake.disassociations, 0);
	device_return();
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
}
END_TEST

START_TEST(device__removed_while_the_session_closes)
{
	open_rdma(RMEM_NO_THREAD, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	device_remove("fake0");
	client_close();
	ck_assert_uint_eq(fake.closes, 1);
}
END_TEST

static bool domain_opens(void)
{
	bool opens;

	pthread_mutex_lock(&stage.client->lock);
	opens = stage.client->domains->domains[0].state == DOMAIN_OPENING;
	pthread_mutex_unlock(&stage.client->lock);
	return opens;
}

/* Opening it may take 4 s. */
START_TEST(device__that_does_not_return_delays_no_close)
{
	open_rdma(0, "&channels=1");
	device_remove("fake0");
	AWAIT(fake.closes == 1);
	fake.slow_ms = UINT_MAX;
	pthread_mutex_lock(&stage.client->lock);
	stage.client->domains->domains[0].failures = 3;
	pthread_mutex_unlock(&stage.client->lock);
	AWAIT(domain_opens());
	client_close();
	ck_assert_uint_eq(fake.cancels, 1);
}
END_TEST

START_TEST(idle_queue__delays_no_removal)
{
	open_rdma_queue();
	device_remove("fake0");
	AWAIT(fake.disassociations == 1);
	ck_assert_uint_eq(fake.closes, 0);
	device_return();
	/* its next operation works again */
	write_ok(NULL);
	ck_assert_uint_eq(fake.closes, 1);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
}
END_TEST

/* When the state of a domain that is being left is checked next; 0: no domain is. */
static uint64_t leaving_due_ns(void)
{
	const struct domain *domain = &stage.client->domains->domains[0];
	uint64_t due_ns;

	pthread_mutex_lock(&stage.client->lock);
	due_ns = domain->state == DOMAIN_LEAVING ? domain->due_ns : 0;
	pthread_mutex_unlock(&stage.client->lock);
	return due_ns;
}

/* The address of the endpoint has changed before. */
START_TEST(idle_queue__delays_no_removal_after_a_new_address)
{
	uint64_t first_ns;

	open_rdma_queue();
	endpoints_move();
	proxy_cut();
	AWAIT((first_ns = leaving_due_ns()) != 0);
	AWAIT(leaving_due_ns() > first_ns);
	ck_assert_uint_eq(fake.disassociations, 0);
	device_remove("fake0");
	AWAIT(fake.disassociations == 1);
	device_return();
	write_ok(NULL);
	ck_assert_uint_eq(fake_opened_port(), 77);
}
END_TEST

START_TEST(queue__created_while_a_device_is_away)
{
	open_rdma(0, "&channels=2");
	device_remove("fake1");
	AWAIT(fake.closes == 1);
	queue_open(2);
	write_ok(NULL);
	ck_assert_uint_eq(channels_to("fake1"), 0);
	device_return();
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && channels_to("fake1") == 1);
}
END_TEST

START_TEST(endpoint__with_a_new_address_is_reached)
{
	fake.holds_device = _i;
	open_rdma(0, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
	endpoints_move();
	fake_peer_gone(fake_latest());
	AWAIT(rmem_write(lease, 0, stage.buf, 10) == 0 && fake_opened_port() == 77);
	ck_assert_uint_eq(fake.opened.address.bytes[3], 9);
	ck_assert_uint_eq(fake.closes, 1);
}
END_TEST

/* The addresses of the welcome cannot be reached; the server sends the new ones. */
START_TEST(unreachable_endpoint__with_a_new_address_is_reached)
{
	open_rdma_queue();
	fake.connect_err = -EHOSTUNREACH;
	fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.closes == 1);
	endpoints_move();
	fake.connect_err = fake.domain_err = 0;
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake_opened_port() == 77);
	write_ok(NULL);
}
END_TEST

static bool domain_is_left(void)
{
	bool left;

	pthread_mutex_lock(&stage.client->lock);
	left = stage.client->domains->domains[0].left;
	pthread_mutex_unlock(&stage.client->lock);
	return left;
}

/* It had no route any more, and the kernel waits until the left domain is closed, too. */
START_TEST(device__removed_after_its_route)
{
	fake.holds_device = true;
	open_rdma_queue();
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && domain_is_left());
	ck_assert_uint_eq(fake.closes, 0);
	device_remove("fake0");
	AWAIT(fake.closes == 1);
	device_return();
	fake.connect_err = fake.domain_err = 0;
	write_ok(NULL);
	ck_assert_uint_eq(fake.closes, 1);
	/* a left domain is closed with the session */
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && domain_is_left());
	client_close();
	ck_assert_uint_eq(fake.closes, 2);
}
END_TEST

/* The device is away: more requests would not help. */
START_TEST(rkeys__are_requested_once_per_channel)
{
	unsigned before, asked, granted;

	open_rdma_queue();
	proxy.edit = keys_remove;
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	before = proxy.seen[WIRE_TYPE_attach];
	proxy_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	granted = proxy.seen[WIRE_TYPE_open_channel];
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 &&
	      proxy.seen[WIRE_TYPE_open_channel] > granted + 5);
	asked = proxy.seen[WIRE_TYPE_attach] - before;
	granted = proxy.seen[WIRE_TYPE_open_channel] - granted;
	ck_assert_uint_ge(asked, 1);
	ck_assert_uint_le(asked, 2 * granted);
}
END_TEST

/* The first connects use the old address. */
START_TEST(queue__created_just_after_a_new_address)
{
	open_rdma(_i ? RMEM_NO_THREAD : 0, "&channels=1");
	fake.connect_err = -ECONNREFUSED;
	endpoints_move();
	queue_open(2);
	fake.connect_err = 0;
	write_ok(NULL);
	ck_assert_uint_eq(fake_opened_port(), 77);
}
END_TEST

/* This host's own address may have changed. */
START_TEST(unreachable_route__is_looked_up_again)
{
	open_rdma_queue();
	fake.connect_err = _i ? -EHOSTUNREACH : -ETIMEDOUT;
	fake_peer_gone(fake_latest());
	if (!_i) {
		/* while another channel of the domain works, a time-out is only retried */
		AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 &&
		      fake.tried[info().session_id % FAKE_SESSIONS] > 6);
		ck_assert_uint_eq(fake.closes, 0);
	} else {
		AWAIT(rmem_poll(stage.queue, NULL, 0) == 0 && fake.closes == 1);
	}
	fake.connect_err = 0;
	write_ok(NULL);
	ck_assert_int_eq(rmem_write(lease, 0, stage.buf, 10), 0);
}
END_TEST

int main(void)
{
	TCase *tc = core_case("device-recovery");

	tcase_add_test(tc, device__of_two_is_removed_and_returns);
	tcase_add_test(tc, device__that_returns_registers_dmabufs);
	tcase_add_test(tc, removed_device__that_waits_for_a_connect_costs_no_turns);
	tcase_add_loop_test(tc, only_device__is_waited_for, 0, 2);
	tcase_add_test(tc, device__removed_while_the_session_closes);
	tcase_add_test(tc, device__that_does_not_return_delays_no_close);
	tcase_add_test(tc, idle_queue__delays_no_removal);
	tcase_add_test(tc, idle_queue__delays_no_removal_after_a_new_address);
	tcase_add_test(tc, queue__created_while_a_device_is_away);
	tcase_add_loop_test(tc, endpoint__with_a_new_address_is_reached, 0, 2);
	tcase_add_test(tc, unreachable_endpoint__with_a_new_address_is_reached);
	tcase_add_test(tc, device__removed_after_its_route);
	tcase_add_test(tc, rkeys__are_requested_once_per_channel);
	tcase_add_loop_test(tc, queue__created_just_after_a_new_address, 0, 2);
	tcase_add_loop_test(tc, unreachable_route__is_looked_up_again, 0, 2);
	return unit_main();
}
