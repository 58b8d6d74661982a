/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's end of an admitted data stream over TCP: requests in any pieces, responses that the
 * client reads late or never, memory that is deregistered meanwhile.  Only registered memory with
 * the right to write is changed, and never after its deregistration. */
#include <check.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/client.h"
#include "fabric/tcp/conn.h"
#include "fabric/tcp/socket.h"
#include "fuzz/target.h"

#define MRS 3
#define MR_BYTES 12288u
#define GUARD 64u
#define STEPS_MAX 256
#define ZEROS_MAX (1u << 20)
#define BUFFER_BYTES 8192 /* of the server's socket: less than a large response */

const unsigned fuzz_rounds = 20000;

/* The first byte of a step. */
enum step {
	STEP_REQUEST, /* a header with a valid key */
	STEP_BYTES,   /* the client sends any bytes */
	STEP_ZEROS,   /* it sends this number of zeros */
	STEP_READ,    /* it receives up to this number of bytes */
	STEP_DEREG,   /* memory is deregistered */
	STEP_END,     /* it sends nothing more */
	STEP_KILL,    /* the server ends the stream */
	STEP_OVERDUE, /* the session was not heard in time */
	STEPS,
};

static const unsigned mr_rights[MRS] = { FABRIC_RIGHT_READ | FABRIC_RIGHT_WRITE,
					 FABRIC_RIGHT_READ, FABRIC_RIGHT_WRITE };

/* A region between guards, and the bytes that must not change. */
static struct {
	char memory[GUARD + MR_BYTES + GUARD], before[GUARD + MR_BYTES + GUARD];
	struct fabric_mr *mr; /* NULL: deregistered */
	struct tcp_key_entry *entry;
} ranges[MRS];

static struct tcp_table table;
static struct tcp_traffic traffic;
static struct mailbox loop;
static struct tcp_conn *conn;
static struct tcp_buffers *spare;
static _Atomic uint64_t until_ns;
static int client;
static bool over;
static size_t header_have, payload_left; /* of the response that is being received */
static struct stream_response response;

/* A socket pair has no options of TCP. */
int __wrap_tcp_socket_tune(int fd);
int __wrap_tcp_socket_tune(int)
{
	return 0;
}

/* ---- the server ---- */

static struct fabric_session *session(void)
{
	/* only compared */
	return (struct fabric_session *)(void *)&table;
}

static void on_notifications(struct tcp_event *event)
{
	static const struct fabric_server_events ignored;
	struct fabric_mr *mr =
		container_of(event, struct fabric_mr, notifications_event);

	fabric_notifications_deliver(&mr->notifications, &ignored, NULL, NULL, NULL);
}

static void loop_run(void)
{
	struct list messages = LIST_INIT(messages);

	mailbox_receive_some(&loop, &messages, MRS);
	list_for_each_entry_safe(struct tcp_event, event, &messages, link) {
		list_remove(&event->link);
		event->handle(event);
	}
}

static void range_open(unsigned i)
{
	memset(ranges[i].memory, (int)('a' + i), sizeof(ranges[i].memory));
	memcpy(ranges[i].before, ranges[i].memory, sizeof(ranges[i].memory));
	ck_assert_int_eq(tcp_mr_new(session(), ranges[i].memory + GUARD, MR_BYTES,
				    mr_rights[i], NULL, 1, &ranges[i].mr),
			 0);
	ranges[i].mr->box = &loop;
	ranges[i].mr->notifications_event.handle = on_notifications;
	ranges[i].entry = &ranges[i].mr->entries[0];
	ck_assert_int_eq(tcp_table_add(&table, ranges[i].entry), 0);
}

/* The bytes that may have changed are accepted. */
static void range_check(unsigned i)
{
	if (ranges[i].mr && mr_rights[i] & FABRIC_RIGHT_WRITE)
		memcpy(ranges[i].before + GUARD, ranges[i].memory + GUARD, MR_BYTES);
	ck_assert_mem_eq(ranges[i].before, ranges[i].memory, sizeof(ranges[i].memory));
}

static void range_dereg(unsigned i)
{
	if (!ranges[i].mr)
		return;
	loop_run();
	range_check(i);
	tcp_table_remove(&table, ranges[i].entry);
	if (!over && !tcp_conn_release_mr(conn, ranges[i].mr))
		over = true;
	tcp_mr_free(ranges[i].mr);
	ranges[i].mr = NULL;
}

static void server_run(void)
{
	while (!over) {
		enum tcp_run result = tcp_conn_run(conn, &spare);

		over = result == TCP_RUN_OVER;
		if (result == TCP_RUN_WAITS)
			break;
	}
	for (unsigned i = 0; i < MRS; i++)
		range_check(i);
}

static void server_open(void)
{
	int fds[2], bytes = BUFFER_BYTES;

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	ck_assert_int_eq(
		setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	client = fds[0];
	until_ns = UINT64_MAX;
	over = false;
	header_have = payload_left = 0;
	tcp_table_init(&table);
	ck_assert_int_eq(mailbox_init(&loop), 0);
	ck_assert_int_eq(tcp_conn_new(fds[1], session(), 1, &until_ns, &conn), 0);
	conn->table = &table;
	conn->traffic = &traffic;
	for (unsigned i = 0; i < MRS; i++)
		range_open(i);
}

static void server_close(void)
{
	tcp_conn_free(conn);
	over = true;
	for (unsigned i = 0; i < MRS; i++)
		range_dereg(i);
	mailbox_destroy(&loop);
	tcp_table_destroy(&table);
	(void)close(client);
}

/* ---- the client ---- */

static void client_send(const void *data, size_t bytes)
{
	const char *at = data;

	while (bytes > 0 && !over) {
		ssize_t n = send(client, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n <= 0)
			return; /* the rest is lost, as when the client ends */
		at += n;
		bytes -= (size_t)n;
		server_run();
	}
}

static void response_check(void)
{
	uint32_t status = le32toh(response.status), bytes = le32toh(response.bytes);

	ck_assert(status == FABRIC_DONE || status == FABRIC_FORBIDDEN ||
		  status == FABRIC_INVALID || status == FABRIC_OUTSIDE ||
		  status == FABRIC_STALE);
	ck_assert_uint_le(bytes, FABRIC_STREAM_BYTES_MAX);
	ck_assert(status == FABRIC_DONE || bytes == 0);
	header_have = 0;
	payload_left = bytes;
}

/* A payload comes from registered memory, or is a word. */
static void received(const char *at, size_t bytes)
{
	while (bytes > 0) {
		size_t part = payload_left > 0 ? payload_left
					       : sizeof(response) - header_have;

		if (part > bytes)
			part = bytes;
		if (payload_left > 0) {
			payload_left -= part;
		} else {
			memcpy((char *)&response + header_have, at, part);
			header_have += part;
			if (header_have == sizeof(response))
				response_check();
		}
		at += part;
		bytes -= part;
	}
}

static void client_read(size_t bytes)
{
	static char buf[65536];

	while (bytes > 0) {
		ssize_t n = recv(client, buf, bytes < sizeof(buf) ? bytes : sizeof(buf),
				 MSG_DONTWAIT);

		if (n <= 0)
			return;
		received(buf, (size_t)n);
		bytes -= (size_t)n;
		server_run();
	}
}

static void step_request(struct fuzz_input *input)
{
	unsigned op = (unsigned)fuzz_number(input, 2),
		 i = (unsigned)fuzz_number(input, 1);
	uint32_t offset = (uint32_t)fuzz_number(input, 4),
		 bytes = (uint32_t)fuzz_number(input, 4);
	struct stream_request request = { .op = htole16((uint16_t)op),
					  .bytes = htole32(bytes),
					  .cookie = fuzz_number(input, 1) };
	const struct fabric_mr *mr = ranges[i % MRS].mr;

	if (mr) {
		request.rkey = htole64(mr->key.rkey);
		request.addr =
			htole64((uint64_t)((int64_t)mr->key.addr + (int32_t)offset));
	}
	client_send(&request, sizeof(request));
}

static void step_bytes(struct fuzz_input *input)
{
	size_t n;
	const uint8_t *bytes = fuzz_bytes(input, fuzz_number(input, 1), &n);

	client_send(bytes, n);
}

static void step_zeros(struct fuzz_input *input)
{
	static const char zeros[4096];
	size_t bytes = fuzz_number(input, 4) % (ZEROS_MAX + 1);

	while (bytes > 0 && !over) {
		size_t part = bytes < sizeof(zeros) ? bytes : sizeof(zeros);

		client_send(zeros, part);
		bytes -= part;
	}
}

static void step_run(struct fuzz_input *input)
{
	switch ((enum step)(fuzz_number(input, 1) % STEPS)) {
	case STEP_REQUEST:
		step_request(input);
		break;
	case STEP_BYTES:
		step_bytes(input);
		break;
	case STEP_ZEROS:
		step_zeros(input);
		break;
	case STEP_READ:
		client_read(fuzz_number(input, 2));
		break;
	case STEP_DEREG:
		range_dereg((unsigned)fuzz_number(input, 1) % MRS);
		break;
	case STEP_END:
		(void)shutdown(client, SHUT_WR);
		break;
	case STEP_KILL:
		tcp_conn_kill(conn);
		break;
	case STEP_OVERDUE:
		until_ns = 0;
		break;
	case STEPS:
		break;
	}
	server_run();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };

	fuzz_random_reset();
	server_open();
	for (unsigned i = 0; i < STEPS_MAX && input.left > 0; i++)
		step_run(&input);
	client_read(SIZE_MAX);
	server_close();
	return 0;
}

/* ---- valid inputs ---- */

static struct fuzz_output *out;

static void put_request(unsigned op, unsigned range, uint32_t offset, uint32_t bytes)
{
	fuzz_put(out, STEP_REQUEST, 1);
	fuzz_put(out, op, 2);
	fuzz_put(out, range, 1);
	fuzz_put(out, offset, 4);
	fuzz_put(out, bytes, 4);
	fuzz_put(out, 7, 1);
}

static void put_step(enum step step, uint64_t number, unsigned bytes)
{
	fuzz_put(out, step, 1);
	fuzz_put(out, number, bytes);
}

static void seed_moves(void)
{
	put_request(STREAM_READ, 0, 8, 8);
	put_request(STREAM_READ, 1, 1, 100);
	put_request(STREAM_READ, 2, 0, 100);
	put_request(STREAM_WRITE, 0, 16, 8);
	put_step(STEP_ZEROS, 8, 4);
	put_request(STREAM_WRITE, 2, 1, 5000);
	put_step(STEP_ZEROS, 5000, 4);
	put_request(STREAM_WRITE, 1, 1, 50);
	put_step(STEP_ZEROS, 50, 4);
	put_request(STREAM_CAS, 0, 0, 16);
	put_step(STEP_ZEROS, 16, 4);
	put_request(STREAM_FETCH_ADD, 0, 8, 16);
	put_step(STEP_ZEROS, 16, 4);
	put_step(STEP_READ, 60000, 2);
	fuzz_put(out, STEP_END, 1);
}

static void seed_inband(void)
{
	for (unsigned op = FABRIC_PING; op < FABRIC_PING + 5; op++) {
		struct inband_request made = inband_request_make(
			op, 8, &(struct fabric_inband_request){ .value = 1 });

		put_request(le16toh(made.op), 0, 8, le32toh(made.bytes));
		put_step(STEP_BYTES, sizeof(made.operands), 1);
		fuzz_put_bytes(out, &made.operands, sizeof(made.operands));
	}
	put_step(STEP_READ, 60000, 2);
}

static void seed_ends(void)
{
	for (unsigned i = 0; i < 40; i++)
		put_request(STREAM_READ, 1, 0, MR_BYTES);
	put_step(STEP_DEREG, 0, 1);
	put_step(STEP_READ, 20000, 2);
	put_request(STREAM_WRITE, 2, 0, 1000);
	put_step(STEP_ZEROS, 500, 4);
	put_step(STEP_DEREG, 2, 1);
	put_step(STEP_ZEROS, 500, 4);
	put_step(STEP_DEREG, 1, 1);
	fuzz_put(out, STEP_KILL, 1);
}

/* One byte outside each end of a region. */
static void seed_edges(void)
{
	static const struct {
		uint32_t offset, bytes;
	} edges[] = {
		{ 0, MR_BYTES },   { 0, MR_BYTES + 1 }, { MR_BYTES - 1, 2 },
		{ MR_BYTES, 1 },   { UINT32_MAX, 1 },   { UINT32_MAX, 2 },
		{ 8, UINT32_MAX }, { MR_BYTES - 4, 8 },
	};

	for (unsigned i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) {
		put_request(STREAM_READ, 0, edges[i].offset, edges[i].bytes);
		put_step(STEP_READ, 20000, 2);
		put_request(STREAM_WRITE, 0, edges[i].offset, edges[i].bytes);
		put_step(STEP_ZEROS, edges[i].bytes, 4);
	}
	put_request(STREAM_FETCH_ADD, 0, MR_BYTES - 4, 16);
	put_step(STEP_ZEROS, 16, 4);
}

static void seed_overdue(void)
{
	put_request(STREAM_READ, 0, 0, 8);
	fuzz_put(out, STEP_OVERDUE, 1);
	put_request(99, 0, 0, 0);
}

size_t fuzz_seed(uint8_t *input, size_t max, unsigned which)
{
	static void (*const seeds[])(void) = { seed_moves, seed_inband, seed_ends,
					       seed_edges, seed_overdue };
	struct fuzz_output output = { input, 0, max };

	if (which >= sizeof(seeds) / sizeof(seeds[0]))
		return 0;
	out = &output;
	seeds[which]();
	return output.used;
}
