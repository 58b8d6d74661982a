/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices that are removed and come back, and endpoints that move, as a session sees them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "unit/librmem/librmem-client.h"
#include "librmem/queue/queue.h"

static rmem_lease *lease;
static rmem_queue *queue;

static void queue_open(unsigned channels)
{
	struct rmem_queue_params params = RMEM_QUEUE_INIT;

	params.channels = channels;
	ck_assert_int_eq(rmem_queue_create(client, &params, &queue), 0);
}

static void open_rdma(unsigned flags, const char *options)
{
	serve_rdma();
	(void)snprintf(uri + strlen(uri), sizeof(uri) - strlen(uri), "?fabric=rdma%s",
		       options);
	open_with(flags);
	lease = alloc(1000, NULL);
}

/* The device that leads to the server's of this name goes; every channel notices. */
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

static void device_return(void)
{
	pthread_mutex_lock(&fake.lock);
	fake.removed[0] = '\0';
	pthread_mutex_unlock(&fake.lock);
}

static int queue_write(struct rmem_buffer *buffer)
{
	struct rmem_op op = {
		.opcode = RMEM_OP_WRITE,
		.lease = lease,
		.addr = buffer ? rmem_buffer_addr(buffer) : buf,
		.buffer = buffer,
		.bytes = 9,
	};
	struct rmem_completion completion;

	ck_assert_int_eq(rmem_submit(queue, &op, 1), 1);
	ck_assert_int_eq(rmem_wait(queue, &completion, 1, 1, -1), 1);
	return completion.status;
}

/* How many channels there are to the server's device. */
static unsigned channels_to(const char *name)
{
	unsigned n = 0;

	pthread_mutex_lock(&fake.lock);
	for (struct fabric_channel *at = fake.channels; at; at = at->next)
		n += !strcmp(at->cq->domain->endpoint.device, name);
	pthread_mutex_unlock(&fake.lock);
	return n;
}

START_TEST(device__of_several_goes_and_comes)
{
	struct rmem_buffer_params params = RMEM_BUFFER_INIT;
	rmem_buffer *early = NULL, *late = NULL;

	open_rdma(0, "&channels=2");
	params.bytes = 100;
	queue_open(2);
	ck_assert_int_eq(rmem_buffer_create(client, &params, &early), 0);
	ck_assert_int_eq(queue_write(early), 0);
	device_remove("fake1");
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && fake.closes == 1);
	ck_assert_uint_eq(fake.cuts, 0);
	ck_assert_uint_eq(channels_to("fake1"), 0);

	/* the other carries on, and memory is registered where it can be */
	ck_assert_int_eq(queue_write(early), 0);
	ck_assert_int_eq(rmem_buffer_create(client, &params, &late), 0);
	ck_assert_int_eq(queue_write(late), 0);
	device_return();
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && channels_to("fake1") == 1);
	/* both take their turns, so whatever is registered is there, too */
	for (unsigned i = 0; i < 4; i++) {
		ck_assert_int_eq(queue_write(early), 0);
		ck_assert_int_eq(queue_write(late), 0);
		ck_assert_int_eq(queue_write(NULL), 0);
	}
	ck_assert_uint_eq(info().resumes, 0);
	ck_assert_int_eq(rmem_buffer_free(late), 0);
	rmem_close(client);
}
END_TEST

START_TEST(device__that_is_the_only_one_is_waited_for)
{
	open_rdma(_i ? RMEM_NO_THREAD : 0, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	device_remove("fake0");
	if (_i) {
		while (fake.closes == 0)
			ck_assert_int_eq(rmem_process(client), 0);
	} else {
		/* no thread calls, and the domain is closed all the same */
		AWAIT(fake.closes == 1);
	}
	ck_assert_uint_eq(fake.cuts, 0);
	device_return();
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	rmem_close(client);
}
END_TEST

START_TEST(device__that_goes_while_the_session_is_closed)
{
	open_rdma(RMEM_NO_THREAD, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	device_remove("fake0");
	rmem_close(client);
	ck_assert_uint_eq(fake.closes, 1);
}
END_TEST

START_TEST(queue__whose_owner_does_nothing_holds_up_no_removal)
{
	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	device_remove("fake0");
	AWAIT(fake.cuts == 1);
	ck_assert_uint_eq(fake.closes, 0);
	device_return();
	/* once it does something it is in order again */
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_uint_eq(fake.closes, 1);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	rmem_close(client);
}
END_TEST

/* When the domain that is being left is looked at next; 0: none is. */
static uint64_t domain_leaving(void)
{
	const struct domain *domain = &client->domains.domains[0];
	uint64_t due_ns;

	pthread_mutex_lock(&client->lock);
	due_ns = domain->state == DOMAIN_LEAVING ? domain->due_ns : 0;
	pthread_mutex_unlock(&client->lock);
	return due_ns;
}

/* The endpoint had moved before that. */
START_TEST(queue__whose_owner_does_nothing_holds_up_no_later_removal)
{
	uint64_t first_ns;

	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	server_lock();
	for (unsigned i = 0; i < server.welcome.n_endpoints; i++) {
		server.welcome.endpoints[i].family = 4;
		server.welcome.endpoints[i].port = 77;
	}
	server_unlock();
	server_hang_up();
	AWAIT((first_ns = domain_leaving()) != 0);
	AWAIT(domain_leaving() > first_ns);
	ck_assert_uint_eq(fake.cuts, 0);
	device_remove("fake0");
	AWAIT(fake.cuts == 1);
	device_return();
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_uint_eq(fake_opened_port(), 77);
	rmem_close(client);
}
END_TEST

START_TEST(queue__made_while_a_device_is_away)
{
	open_rdma(0, "&channels=2");
	device_remove("fake1");
	AWAIT(fake.closes == 1);
	queue_open(2);
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_uint_eq(channels_to("fake1"), 0);
	device_return();
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && channels_to("fake1") == 1);
	rmem_close(client);
}
END_TEST

START_TEST(endpoint__that_moved_is_followed)
{
	fake.clings = _i;
	open_rdma(0, "&channels=1");
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	server_lock();
	server.where.family = 4;
	server.where.address[0] = 10;
	server.where.address[3] = 9;
	server.where.port = 77;
	server_unlock();
	fake_peer_gone(fake_latest());
	AWAIT(rmem_write(lease, 0, buf, 10) == 0 && fake_opened_port() == 77);
	ck_assert_uint_eq(fake.opened.address.bytes[3], 9);
	ck_assert_uint_eq(fake.closes, 1);
	rmem_close(client);
}
END_TEST

/* What the welcome said leads nowhere any more, and the server tells the rest. */
START_TEST(endpoint__that_moved_while_nobody_got_there)
{
	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	fake.connect_err = -EHOSTUNREACH;
	fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && fake.closes == 1);
	server_lock();
	server.where.family = 4;
	server.where.port = 77;
	server_unlock();
	fake.connect_err = fake.domain_err = 0;
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && fake_opened_port() == 77);
	ck_assert_int_eq(queue_write(NULL), 0);
	rmem_close(client);
}
END_TEST

static bool domain_left(void)
{
	bool left;

	pthread_mutex_lock(&client->lock);
	left = client->domains.domains[0].left;
	pthread_mutex_unlock(&client->lock);
	return left;
}

/* There was no way over it any more, and the kernel waits for whoever has it still. */
START_TEST(device__that_goes_after_its_way)
{
	fake.clings = true;
	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && domain_left());
	ck_assert_uint_eq(fake.closes, 0);
	device_remove("fake0");
	AWAIT(fake.closes == 1);
	device_return();
	fake.connect_err = fake.domain_err = 0;
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_uint_eq(fake.closes, 1);
	/* one that is left when the session ends goes with it */
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(queue, NULL, 0) == 0 && domain_left());
	rmem_close(client);
	ck_assert_uint_eq(fake.closes, 2);
}
END_TEST

/* Whose device is gone, so that asking again would be of no use. */
START_TEST(keys__of_an_endpoint_are_asked_for_once_a_channel)
{
	unsigned before, asked, granted;

	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	server_lock();
	server.keyless = ~0u;
	server_unlock();
	fake.connect_err = fake.domain_err = -EHOSTUNREACH;
	before = server.seen[WIRE_TYPE_attach];
	server_event(WIRE_TYPE_changed, rmem_lease_id(lease), 0);
	granted = server.seen[WIRE_TYPE_open_channel];
	fake_peer_gone(fake_latest());
	AWAIT(rmem_poll(queue, NULL, 0) == 0 &&
	      server.seen[WIRE_TYPE_open_channel] > granted + 5);
	asked = server.seen[WIRE_TYPE_attach] - before;
	granted = server.seen[WIRE_TYPE_open_channel] - granted;
	ck_assert_uint_ge(asked, 1);
	ck_assert_uint_le(asked, 2 * granted);
	rmem_close(client);
}
END_TEST

/* Its first channels could only be connected to where the endpoint was. */
START_TEST(queue__made_just_after_an_endpoint_moved)
{
	open_rdma(_i ? RMEM_NO_THREAD : 0, "&channels=1");
	fake.connect_err = -ECONNREFUSED;
	server_lock();
	server.where.family = 4;
	server.where.port = 77;
	server_unlock();
	queue_open(2);
	fake.connect_err = 0;
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_uint_eq(fake_opened_port(), 77);
	rmem_close(client);
}
END_TEST

/* This host's own address may be another one by now. */
START_TEST(way__that_cannot_be_taken_any_more_is_looked_for_again)
{
	open_rdma(0, "&channels=1");
	queue_open(1);
	ck_assert_int_eq(queue_write(NULL), 0);
	fake.connect_err = _i ? -EHOSTUNREACH : -ETIMEDOUT;
	fake_peer_gone(fake_latest());
	if (!_i) {
		/* as long as a channel works, the others are only tried again */
		AWAIT(rmem_poll(queue, NULL, 0) == 0 &&
		      fake.tried[info().session_id % FAKE_SESSIONS] > 6);
		ck_assert_uint_eq(fake.closes, 0);
	} else {
		AWAIT(rmem_poll(queue, NULL, 0) == 0 && fake.closes == 1);
	}
	fake.connect_err = 0;
	ck_assert_int_eq(queue_write(NULL), 0);
	ck_assert_int_eq(rmem_write(lease, 0, buf, 10), 0);
	rmem_close(client);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("librmem-renew");
	TCase *tcase = tcase_create("renew");

	tcase_set_timeout(tcase, 60);
	tcase_add_checked_fixture(tcase, client_setup, client_teardown);
	tcase_add_test(tcase, device__of_several_goes_and_comes);
	tcase_add_loop_test(tcase, device__that_is_the_only_one_is_waited_for, 0, 2);
	tcase_add_test(tcase, device__that_goes_while_the_session_is_closed);
	tcase_add_test(tcase, queue__whose_owner_does_nothing_holds_up_no_removal);
	tcase_add_test(tcase,
		       queue__whose_owner_does_nothing_holds_up_no_later_removal);
	tcase_add_test(tcase, queue__made_while_a_device_is_away);
	tcase_add_loop_test(tcase, endpoint__that_moved_is_followed, 0, 2);
	tcase_add_test(tcase, endpoint__that_moved_while_nobody_got_there);
	tcase_add_test(tcase, device__that_goes_after_its_way);
	tcase_add_test(tcase, keys__of_an_endpoint_are_asked_for_once_a_channel);
	tcase_add_loop_test(tcase, queue__made_just_after_an_endpoint_moved, 0, 2);
	tcase_add_loop_test(
		tcase, way__that_cannot_be_taken_any_more_is_looked_for_again, 0, 2);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
