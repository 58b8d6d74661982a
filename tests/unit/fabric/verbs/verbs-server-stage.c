/* SPDX-License-Identifier: BSD-3-Clause */
/* The server, its events, sessions and channels. */
#include "unit/fabric/verbs/verbs-server-stage.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

#include "base/err.h"

#define WAIT_MS 10000

bool peer_verified;

static int on_admit(void *ctx, unsigned endpoint, struct fabric_hello *hello,
		    struct fabric_session **ret_session)
{
	(void)ctx;
	(void)endpoint;
	seen.admits++;
	hello->peer_verified = peer_verified;
	if (hello->session != 1 || !seen.admitted)
		return err_set(-EACCES, "not admitted by the test");
	*ret_session = seen.admitted;
	return 0;
}

struct fabric_server *server;
char memory[4096];

int server_try_open(struct fabric_server_params params)
{
	if (!params.listen.port)
		params.listen.port = PORT;
	params.backlog = 3;
	server_events.admit = on_admit;
	return SERVER->open(&params, &server_events, NULL, &server);
}

void server_open(void)
{
	int err = server_try_open((struct fabric_server_params){ 0 });

	ck_assert_msg(!err, "open: %s", err_text());
}

struct fabric_session *server_open_session(void)
{
	server_open();
	return session_new(0);
}

void server_close(void)
{
	if (server)
		SERVER->close(server);
	server = NULL;
	ck_assert_uint_eq(fake_live(), 0);
}

void await_readable(void)
{
	struct pollfd fd = { .fd = SERVER->fd(server), .events = POLLIN };

	ck_assert_int_eq(poll(&fd, 1, WAIT_MS), 1);
}

void process_next(void)
{
	await_readable();
	SERVER->process(server);
}

void settle(void)
{
	while (server && server_works(server))
		process_next();
}

unsigned live_qps(void)
{
	settle();
	return fake_live_qps();
}

void await(const unsigned *counter, unsigned value)
{
	while (*counter < value)
		process_next();
	ck_assert_uint_eq(*counter, value);
}

struct fabric_session *session_new(unsigned endpoint)
{
	struct fabric_session *session = NULL;
	int err = SERVER->session_open(server, endpoint, NULL, &session);

	ck_assert_msg(!err, "session_open: %s", err_text());
	return session;
}

void session_end(struct fabric_session *session)
{
	unsigned closed = seen.closed;

	SERVER->session_close(session);
	session_deregister(session);
	await(&seen.closed, closed + 1);
}

struct rdma_cm_id *request(uint64_t session, uint32_t channel)
{
	struct fabric_hello hello = { .session = session, .channel = channel };
	uint8_t buf[FABRIC_HELLO_BYTES];
	struct rdma_cm_id *id;

	fabric_hello_encode(&hello, buf);
	id = fake_request(0, buf, sizeof(buf));
	SERVER->process(server);
	settle();
	return id;
}

struct rdma_cm_id *channel_new(struct fabric_session *session, uint32_t channel)
{
	struct rdma_cm_id *id;
	unsigned ups = seen.ups;

	seen.admitted = session;
	id = request(1, channel);
	ck_assert_int_eq(fake_request_state(id), FAKE_ACCEPTED);
	fake_event(id, RDMA_CM_EVENT_ESTABLISHED);
	SERVER->process(server);
	ck_assert_uint_eq(seen.ups, ups + 1);
	return id;
}

struct fabric_mr *mr_request(struct fabric_session *session, size_t bytes,
			     unsigned rights)
{
	struct fabric_mr *mr = NULL;

	ck_assert_int_eq(
		SERVER->reg_mr(session, memory, bytes, rights, NULL, &mr, NULL), 0);
	return mr;
}

struct fabric_mr *mr_new(struct fabric_session *session)
{
	unsigned registered = seen.registered;
	struct fabric_mr *mr = mr_request(session, sizeof(memory),
					  FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE);

	await(&seen.registered, registered + 1);
	ck_assert_int_eq(seen.err, 0);
	return mr;
}

void expect_one_endpoint(const char *device)
{
	ck_assert_uint_eq(SERVER->n_endpoints(server), 1);
	ck_assert_str_eq(SERVER->endpoint(server, 0)->device, device);
}

void expect_awaited(unsigned endpoint, const char *device)
{
	const struct fabric_endpoint *public = SERVER->endpoint(server, endpoint);
	const struct fabric_device_attr *attr;
	struct fabric_session *session;
	struct fabric_port_attr port;

	ck_assert(public->awaited);
	ck_assert_str_eq(public->device, device);
	ck_assert_int_eq(SERVER->session_open(server, endpoint, NULL, &session),
			 -ENODEV);
	ck_assert_ptr_nonnull(strstr(err_text(), device));
	ck_assert_int_eq(SERVER->device(server, endpoint, &attr, &port), -ENODEV);
}

struct fabric_endpoint_stats stats(void)
{
	struct fabric_endpoint_stats now;

	SERVER->stats(server, 0, &now);
	return now;
}
