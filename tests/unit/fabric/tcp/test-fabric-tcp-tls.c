/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams under TLS: client and server, with a proxy between them that sees all bytes.  The linker
 * calls the functions here instead of those of TLS and of the kernel (-Wl,--wrap). */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "unit/fabric/server-events.h"
#include "unit/fabric/tcp/fabric-tcp-host.h"
#include "tls/pipe.h"
#include "tls/records.h"
#include "unit/fabric/wr.h"
#include "unit/unit.h"

#define CHANNEL 5
#define SEEN_MAX (8u << 20) /* bytes that the proxy keeps */
#define DEPTH 16
#define RECORDS_MAX 64u
static const char secret[] = "this is in no packet";
static const struct fabric_client_ops *const client_ops = &fabric_tcp_client;

/* ---- handshakes that wait for the case ---- */

static atomic_bool hold_handshake, hold_secured;
static _Thread_local bool is_client;
static sem_t held, go;

int __real_tls_pipe_handshake(struct tls_pipe *pipe);
int __wrap_tls_pipe_handshake(struct tls_pipe *pipe);

static void handshake_wait(void)
{
	ck_assert_int_eq(sem_post(&held), 0);
	ck_assert_int_eq(sem_wait(&go), 0);
}

int __wrap_tls_pipe_handshake(struct tls_pipe *pipe)
{
	int err;

	if (atomic_exchange(&hold_handshake, false))
		handshake_wait();
	err = __real_tls_pipe_handshake(pipe);
	if (!err && !is_client && atomic_exchange(&hold_secured, false))
		handshake_wait();
	return err;
}

/* ---- a sandbox ---- */

static bool sandboxed;
static unsigned refused;

ssize_t __real_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n,
				const struct iovec *remote, unsigned long n_remote,
				unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n,
				const struct iovec *remote, unsigned long n_remote,
				unsigned long flags);
typeof(__real_process_vm_readv) __real_process_vm_writev, __wrap_process_vm_writev;

static ssize_t refuse(void)
{
	refused++;
	errno = EPERM;
	return -1;
}

ssize_t __wrap_process_vm_readv(pid_t pid, const struct iovec *local, unsigned long n,
				const struct iovec *remote, unsigned long n_remote,
				unsigned long flags)
{
	return sandboxed ? refuse()
			 : __real_process_vm_readv(pid, local, n, remote, n_remote,
						   flags);
}

ssize_t __wrap_process_vm_writev(pid_t pid, const struct iovec *local, unsigned long n,
				 const struct iovec *remote, unsigned long n_remote,
				 unsigned long flags)
{
	return sandboxed ? refuse()
			 : __real_process_vm_writev(pid, local, n, remote, n_remote,
						    flags);
}

/* ---- the proxy: one connection ---- */

static struct {
	int listener, near, far;
	uint16_t port;
	pthread_t thread;
	char *bytes; /* of both directions */
	size_t n_bytes;
	size_t spoil_at; /* change this byte of the server's; 0: none */
	size_t n_far;
} proxy;

static bool proxy_pass(int from, int to)
{
	static char buf[65536];
	ssize_t n = recv(from, buf, sizeof(buf), 0);

	if (n <= 0)
		return false;
	if (from == proxy.far) {
		if (proxy.spoil_at >= proxy.n_far &&
		    proxy.spoil_at < proxy.n_far + (size_t)n && proxy.spoil_at)
			buf[proxy.spoil_at - proxy.n_far] ^= 1;
		proxy.n_far += (size_t)n;
	}
	if (proxy.n_bytes + (size_t)n <= SEEN_MAX) {
		memcpy(proxy.bytes + proxy.n_bytes, buf, (size_t)n);
		proxy.n_bytes += (size_t)n;
	}
	return send(to, buf, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *proxy_run(void *arg)
{
	struct pollfd pfds[2];

	(void)arg;
	proxy.near = accept(proxy.listener, NULL, NULL);
	if (proxy.near < 0)
		return NULL;
	proxy.far = raw_connect_to(AF_INET, host.port);
	pfds[0] = (struct pollfd){ .fd = proxy.near, .events = POLLIN };
	pfds[1] = (struct pollfd){ .fd = proxy.far, .events = POLLIN };
	while (poll(pfds, 2, -1) > 0) {
		if ((pfds[0].revents && !proxy_pass(proxy.near, proxy.far)) ||
		    (pfds[1].revents && !proxy_pass(proxy.far, proxy.near)))
			break;
	}
	(void)shutdown(proxy.near, SHUT_RDWR);
	(void)shutdown(proxy.far, SHUT_RDWR);
	(void)close(proxy.near);
	(void)close(proxy.far);
	return NULL;
}

static void proxy_open(void)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(in);

	memset(&proxy, 0, sizeof(proxy));
	proxy.bytes = malloc(SEEN_MAX);
	ck_assert_ptr_nonnull(proxy.bytes);
	proxy.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(proxy.listener, (struct sockaddr *)&in, sizeof(in)), 0);
	ck_assert_int_eq(listen(proxy.listener, 1), 0);
	ck_assert_int_eq(getsockname(proxy.listener, (struct sockaddr *)&in, &len), 0);
	proxy.port = ntohs(in.sin_port);
	ck_assert_int_eq(pthread_create(&proxy.thread, NULL, proxy_run, NULL), 0);
}

static void proxy_close(void)
{
	/* wakes accept(), if nobody has connected */
	(void)shutdown(proxy.listener, SHUT_RDWR);
	(void)pthread_join(proxy.thread, NULL);
	(void)close(proxy.listener);
	free(proxy.bytes);
}

static bool proxy_saw(const void *bytes, size_t n)
{
	return memmem(proxy.bytes, proxy.n_bytes, bytes, n);
}

/* ---- the client ---- */

static struct {
	struct fabric_domain *domain;
	struct fabric_cq *cq;
	struct fabric_channel *channel;
	uint32_t flags; /* of the endpoint, as the client knows it */
	uint8_t key[FABRIC_TLS_KEY_BYTES];
	int err;
	char text[256];
	atomic_bool connected; /* connect() has returned */
} client;

static void *client_connect(void *arg)
{
	struct fabric_channel_params params = {
		.hello = { .session = 1, .channel = CHANNEL },
		.depth = DEPTH,
		.timeout_ms = WAIT_MS,
	};

	(void)arg;
	is_client = true;
	memcpy(params.hello.token, host.token, sizeof(host.token));
	memcpy(params.tls_key, client.key, sizeof(client.key));
	client.err = wr_connect(client_ops, client.cq, &params, &client.channel);
	(void)strncpy(client.text, err_text(), sizeof(client.text) - 1);
	atomic_store(&client.connected, true);
	return NULL;
}

/* Connect through the proxy, while the server works. */
static void connect_through(void)
{
	const struct fabric_endpoint endpoint = {
		.kind = FABRIC_TCP,
		.node = -1,
		.flags = client.flags,
		.address = { .family = 4,
			     .bytes = { 127, 0, 0, 1 },
			     .port = proxy.port },
	};
	struct pollfd pfd = { .fd = ops->fd(host.server), .events = POLLIN };
	uint64_t ever = host_stats().channels_ever;
	pthread_t thread;

	ck_assert_int_eq(
		client_ops->domain_open(&endpoint, NULL, WAIT_MS, &client.domain), 0);
	ck_assert_int_eq(client_ops->cq_create(client.domain, DEPTH, &client.cq), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, client_connect, NULL), 0);
	/* once the stream is admitted, no loop is needed */
	while (!atomic_load(&client.connected))
		if (poll(&pfd, 1, 5) > 0 && host_stats().channels_ever == ever)
			ops->process(host.server);
	(void)pthread_join(thread, NULL);
}

static void setup(void)
{
	memset(&seen, 0, sizeof(seen));
	sandboxed = false;
	refused = 0;
	host_open_tls();
	proxy_open();
	memset(&client, 0, sizeof(client));
	client.flags = ops->endpoint(host.server, 0)->flags;
	memcpy(client.key, host.tls_key, sizeof(client.key));
}

static void teardown(void)
{
	client_ops->channel_free(client.channel);
	client_ops->cq_free(client.cq);
	client_ops->domain_close(client.domain);
	proxy_close();
	host_close();
}

/* Do one operation; returns its status. */
static int operate(enum fabric_opcode opcode, void *addr, uint64_t offset,
		   uint32_t bytes)
{
	struct wr wr = { .opcode = opcode,
			 .bytes = bytes,
			 .addr = addr,
			 .remote_addr = seen.key.addr + offset,
			 .rkey = seen.key.rkey };
	struct pollfd pfd = { .fd = client_ops->cq_fd(client.cq), .events = POLLIN };
	struct wc wc;

	ck_assert_int_eq(wr_post(client_ops, client.channel, &wr, 1), 1);
	while (wr_poll(client_ops, client.cq, &wc, 1) == 0)
		ck_assert_int_eq(poll(&pfd, 1, WAIT_MS), 1);
	return wc.status;
}

static void fill(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += sizeof(secret))
		memcpy(at + i, secret,
		       sizeof(secret) < bytes - i ? sizeof(secret) : bytes - i);
}

/* ---- cases ---- */

static const uint32_t lengths[] = { 20,    4096,   16384,
				    16385, 300000, FABRIC_STREAM_BYTES_MAX };

START_TEST(bytes__are_in_no_packet)
{
	uint32_t bytes = lengths[_i];
	char *out = malloc(bytes), *in = calloc(1, bytes);

	ck_assert(out && in);
	fill(out, bytes);
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
	ck_assert_int_eq(operate(FABRIC_WRITE, out, 0, bytes), 0);
	ck_assert_mem_eq(host.memory, out, bytes);
	ck_assert_int_eq(operate(FABRIC_READ, in, 0, bytes), 0);
	host_await(&seen.ups, 1);
	ck_assert_mem_eq(in, out, bytes);
	ck_assert(proxy_saw(host.token, sizeof(host.token)));
	ck_assert(!proxy_saw(secret, sizeof(secret) - 1));
	ck_assert_uint_gt(proxy.n_bytes, 2 * (size_t)bytes);
	free(out);
	free(in);
}
END_TEST

/* Memory of the program whose last page has no access, or whose first bytes have none. */
#define HOLED_BYTES 327680u

static const struct {
	enum fabric_opcode opcode;
	uint32_t bytes;
	uint32_t good; /* bytes before the first page that is bad */
	int bad;       /* its protection */
} holed[] = {
	{ FABRIC_WRITE, 8, 0, PROT_NONE },
	{ FABRIC_WRITE, 8, 4, PROT_NONE },
	{ FABRIC_WRITE, 4096, 0, PROT_NONE },
	{ FABRIC_WRITE, 300000, 0, PROT_NONE },
	{ FABRIC_WRITE, 300000, 299008, PROT_NONE },
	{ FABRIC_READ, 2049, 0, PROT_NONE },
	{ FABRIC_READ, 4096, 0, PROT_READ },
	{ FABRIC_READ, 4096, 4095, PROT_READ },
	{ FABRIC_READ, 300000, 0, PROT_NONE },
	{ FABRIC_READ, 300000, 16384, PROT_READ },
	{ FABRIC_READ, 300000, 299999, PROT_READ },
};

/* The operation fails, and nothing else. */
START_TEST(memory__that_is_not_there_fails_the_operation)
{
	unsigned i = (unsigned)_i / 2;
	uint32_t pages = (holed[i].good + 4095) / 4096 * 4096;
	char *map = mmap(NULL, 2 * HOLED_BYTES, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_eq(mprotect(map + pages, 2 * HOLED_BYTES - pages, holed[i].bad),
			 0);
	sandboxed = _i % 2;
	connect_through();
	ck_assert_int_eq(operate(holed[i].opcode, map + pages - holed[i].good, 0,
				 holed[i].bytes),
			 -EFAULT);
	ck_assert_uint_eq(refused > 0, sandboxed);
	(void)munmap(map, 2 * HOLED_BYTES);
}
END_TEST

/* Of several operations in one record, the others are flushed. */
START_TEST(memory__that_is_not_there_fails_the_right_operation)
{
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct wr wrs[3];
	struct wc wcs[3];
	unsigned got = 0;

	ck_assert_ptr_ne(none, MAP_FAILED);
	connect_through();
	for (unsigned i = 0; i < 3; i++)
		wrs[i] = (struct wr){ .opcode = FABRIC_WRITE,
				      .bytes = 8,
				      .addr = i == 1 ? none : (char *)host.token,
				      .remote_addr = seen.key.addr,
				      .rkey = seen.key.rkey,
				      .cookie = i };
	ck_assert_int_eq(wr_post(client_ops, client.channel, wrs, 3), 3);
	while (got < 3)
		got += (unsigned)wr_poll(client_ops, client.cq, wcs + got, 3 - got);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(i == 1 ? wcs[i].status == -EFAULT : wcs[i].status != -EFAULT);
	(void)munmap(none, 4096);
}
END_TEST

/* A large answer that comes where a small one was expected is not copied blindly. */
START_TEST(memory__of_a_read_behind_a_refused_one_is_tried)
{
	char *none = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char small[1000];
	struct wr wrs[2] = {
		{ .opcode = FABRIC_READ, .bytes = sizeof(small), .addr = small },
		{ .opcode = FABRIC_READ, .bytes = 4096, .addr = none, .cookie = 1 },
	};
	struct wc wcs[2];
	unsigned got = 0;

	ck_assert_ptr_ne(none, MAP_FAILED);
	connect_through();
	for (unsigned i = 0; i < 2; i++) {
		wrs[i].remote_addr = seen.key.addr;
		/* of no region */
		wrs[i].rkey = i == 0 ? ~seen.key.rkey : seen.key.rkey;
	}
	ck_assert_int_eq(wr_post(client_ops, client.channel, wrs, 2), 2);
	while (got < 2)
		got += (unsigned)wr_poll(client_ops, client.cq, wcs + got, 2 - got);
	ck_assert_int_eq(wcs[0].status, -EACCES);
	ck_assert_int_eq(wcs[1].status, -EFAULT);
	(void)munmap(none, 4096);
}
END_TEST

/* Bytes come back where the kernel's calls are refused, too. */
START_TEST(memory__is_read_and_tried_in_a_sandbox)
{
	char out[40000], in[sizeof(out)];

	fill(out, sizeof(out));
	sandboxed = true;
	connect_through();
	ck_assert_int_eq(operate(FABRIC_WRITE, out, 0, sizeof(out)), 0);
	ck_assert_int_eq(operate(FABRIC_READ, in, 0, sizeof(in)), 0);
	ck_assert_mem_eq(in, out, sizeof(in));
	ck_assert_uint_gt(refused, 1);
}
END_TEST

/* After half of the records, sent or received; the rest is for what is outstanding. */
START_TEST(key__that_wears_out_is_reported_once)
{
	static char block[TLS_RECORD_BYTES];
	enum fabric_opcode opcode = _i % 2 ? FABRIC_READ : FABRIC_WRITE;
	uint32_t bytes = _i / 2 ? 8 : sizeof(block);
	unsigned before = 0;

	tls_records_max = RECORDS_MAX;
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
	for (unsigned i = 0; i < RECORDS_MAX; i++) {
		ck_assert_int_eq(operate(opcode, block, 0, bytes), 0);
		before += atomic_load(&wr_worn) == 0;
	}
	/* and the channel works on */
	ck_assert_uint_eq(atomic_load(&wr_worn), 1);
	/* each transfer is one record or a few */
	ck_assert_uint_lt(before, RECORDS_MAX / 2);
	ck_assert_uint_ge(before, RECORDS_MAX / 8);
}
END_TEST

START_TEST(key__that_is_wrong_is_refused)
{
	client.key[31] ^= 1;
	connect_through();
	ck_assert_int_eq(client.err, -EACCES);
	ck_assert_ptr_nonnull(strstr(client.text, "TLS: the other side does not"));
	host_await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "TLS: the client has another key");
	ck_assert_uint_eq(seen.ups, 0);
	ck_assert_uint_eq(host_stats().channels, 0);
}
END_TEST

static int no_key(void *, void *, uint32_t, uint8_t *)
{
	return err_set(-EIO, "no key today");
}

START_TEST(key__that_the_server_cannot_make_is_what_ends_the_stream)
{
	server_events.channel_key = no_key;
	connect_through();
	ck_assert_int_ne(client.err, 0);
	host_await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "no key today");
}
END_TEST

/* Whatever the client believes: a server under TLS takes no bytes without it. */
START_TEST(client__without_tls_is_refused)
{
	uint64_t word = 0;

	client.flags &= ~FABRIC_ENDPOINT_TLS;
	connect_through();
	ck_assert_int_eq(client.err, 0);
	ck_assert_int_ne(operate(FABRIC_WRITE, &word, 0, sizeof(word)), 0);
	host_await(&seen.downs, 1);
	ck_assert_str_eq(seen.why, "TLS: the other side does not speak TLS");
	ck_assert_uint_eq(seen.ups, 0);
	ck_assert_int_eq(host.memory[0], 0x33);
}
END_TEST

/* A client that was told of TLS sends nothing without it. */
START_TEST(server__without_tls_is_refused)
{
	teardown();
	memset(&seen, 0, sizeof(seen));
	host_open();
	proxy_open();
	memset(&client, 0, sizeof(client));
	client.flags = ops->endpoint(host.server, 0)->flags | FABRIC_ENDPOINT_TLS;
	connect_through();
	ck_assert_int_ne(client.err, 0);
	ck_assert_ptr_null(client.channel);
}
END_TEST

/* A byte that is changed on its way ends the channel, and reaches nobody. */
START_TEST(bytes__that_are_changed_are_refused)
{
	uint32_t bytes = 100000;
	char *in = calloc(1, bytes);

	ck_assert_ptr_nonnull(in);
	connect_through();
	ck_assert_int_eq(client.err, 0);
	proxy.spoil_at = proxy.n_far + 10000;
	ck_assert_int_ne(operate(FABRIC_READ, in, 0, bytes), 0);
	ck_assert_int_eq(in[9990], 0);
	free(in);
}
END_TEST

#define UNDERWAY 4 /* handshakes of a session */

/* Admitted, and silent then. */
static int raw_admitted(void)
{
	uint8_t buf[FABRIC_HELLO_BYTES];
	int fd = raw_connect();

	raw_hello(buf);
	raw_send(fd, buf, sizeof(buf));
	ck_assert_uint_eq(raw_status(fd), WIRE_CODE_none);
	return fd;
}

/* Send a hello, and wait until the stream is admitted. */
static int raw_waiting(uint32_t channel)
{
	struct fabric_hello hello = { .session = 1, .channel = channel };
	uint64_t channels = host_stats().channels;
	uint8_t buf[FABRIC_HELLO_BYTES];
	int fd = raw_connect();

	memcpy(hello.token, host.token, sizeof(hello.token));
	fabric_hello_encode(&hello, buf);
	raw_send(fd, buf, sizeof(buf));
	while (host_stats().channels == channels)
		host_process_next();
	return fd;
}

static bool raw_is_answered(int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };

	return poll(&pfd, 1, 0) > 0;
}

/* Clients that stop in their handshakes keep those of other sessions not waiting. */
START_TEST(handshake__that_stops_holds_no_other_session)
{
	uint8_t begun[] = { 22, 3, 1, 2, 0, 1 };
	struct fabric_session *other;
	int fds[UNDERWAY];

	for (unsigned i = 0; i < UNDERWAY; i++) {
		fds[i] = raw_admitted();
		raw_send(fds[i], begun, i % 2 ? sizeof(begun) : 0);
	}
	ck_assert_int_eq(ops->session_open(host.server, 0, &host, &other), 0);
	host.session = other;
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
	for (unsigned i = 0; i < UNDERWAY; i++)
		raw_close(fds[i], false);
	host_await(&seen.downs, UNDERWAY);
	ck_assert_uint_eq(host_stats().channels, 1);
}
END_TEST

/* Again with one data thread. */
static void restart_one(void)
{
	ck_assert_int_eq(sem_init(&held, 0, 0) | sem_init(&go, 0, 0), 0);
	teardown();
	memset(&seen, 0, sizeof(seen));
	host_open_tls_one();
	proxy_open();
	memset(&client, 0, sizeof(client));
	client.flags = ops->endpoint(host.server, 0)->flags;
	memcpy(client.key, host.tls_key, sizeof(client.key));
}

/* While a handshake computes, data flow. */
START_TEST(handshake__holds_no_data)
{
	char out[5000], in[sizeof(out)];
	int fd;

	restart_one();
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
	host_await(&seen.ups, 1);
	atomic_store(&hold_handshake, true);
	fd = raw_admitted();
	ck_assert_int_eq(sem_wait(&held), 0);
	fill(out, sizeof(out));
	ck_assert_int_eq(operate(FABRIC_WRITE, out, 0, sizeof(out)), 0);
	ck_assert_int_eq(operate(FABRIC_READ, in, 0, sizeof(in)), 0);
	ck_assert_mem_eq(in, out, sizeof(out));
	ck_assert_int_eq(sem_post(&go), 0);
	raw_close_await(fd, 1);
}
END_TEST

/* A session has few handshakes under way; the others begin when one of these has ended. */
START_TEST(handshakes__of_a_session_wait_for_others)
{
	int fds[UNDERWAY], waiting[2];

	for (unsigned i = 0; i < UNDERWAY; i++)
		fds[i] = raw_admitted();
	waiting[0] = raw_waiting(CHANNEL);
	waiting[1] = raw_waiting(CHANNEL + 1);
	ck_assert(!raw_is_answered(waiting[0]) && !raw_is_answered(waiting[1]));
	raw_close_await(fds[0], 1);
	ck_assert_uint_eq(raw_status(waiting[0]), WIRE_CODE_none);
	/* one that waits ends while the others go on */
	ck_assert(!raw_is_answered(waiting[1]));
	ck_assert_int_eq(ops->channel_close(host.session, CHANNEL + 1), 0);
	while (host_stats().channels > UNDERWAY)
		host_process_next();
	raw_expect_end(waiting[1]);
	for (unsigned i = 1; i < UNDERWAY; i++)
		raw_close(fds[i], false);
	raw_close(waiting[0], false);
	raw_close(waiting[1], false);
	host_await(&seen.downs, UNDERWAY + 1);
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
}
END_TEST

/* A session that ends takes those that wait with it. */
START_TEST(handshakes__end_with_their_session)
{
	int fds[UNDERWAY + 1];

	for (unsigned i = 0; i < UNDERWAY; i++)
		fds[i] = raw_admitted();
	fds[UNDERWAY] = raw_waiting(CHANNEL);
	host_deregister(host.mr);
	ops->session_close(host.session);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(host_stats().channels, 0);
	/* its handshake has not begun */
	raw_expect_end(fds[UNDERWAY]);
	for (unsigned i = 0; i <= UNDERWAY; i++)
		raw_close(fds[i], false);
}
END_TEST

/* Streams of a session that was not heard in time end, also those that wait: their handshakes,
 * which would ask for the keys of their channels, do not begin. */
START_TEST(handshakes__of_overdue_streams_do_not_begin)
{
	uint64_t now_ns = clock_now_ns();
	int fds[UNDERWAY], waiting;

	for (unsigned i = 0; i < UNDERWAY; i++)
		fds[i] = raw_admitted();
	waiting = raw_waiting(CHANNEL + 1);
	ops->session_extend(host.session, now_ns);
	ops->session_extend(host.session, now_ns + WAIT_MS * NS_PER_MS);
	host_await(&seen.downs, UNDERWAY + 1);
	raw_expect_end(waiting);
	for (unsigned i = 0; i < UNDERWAY; i++)
		raw_close(fds[i], false);
	raw_close(waiting, false);
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
}
END_TEST

/* The session is closed between the end of the handshake and the data thread's first look. */
START_TEST(handshake__that_is_done_ends_with_its_session)
{
	struct pollfd pfd;

	restart_one();
	atomic_store(&hold_secured, true);
	connect_through();
	ck_assert_msg(client.err == 0, "%s", client.text);
	ck_assert_int_eq(sem_wait(&held), 0);
	host_deregister(host.mr);
	ops->session_close(host.session);
	/* the data thread has ended those that it has */
	pfd = (struct pollfd){ .fd = ops->fd(host.server), .events = POLLIN };
	ck_assert_int_eq(poll(&pfd, 1, WAIT_MS), 1);
	ck_assert_int_eq(sem_post(&go), 0);
	host_await(&seen.closed, 1);
	ck_assert_uint_eq(seen.ups, 0);
	ck_assert_uint_eq(host_stats().channels, 0);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("tls", setup, teardown);

	tcase_set_timeout(tcase, 60);
	tcase_add_loop_test(tcase, bytes__are_in_no_packet, 0, COUNT(lengths));
	tcase_add_loop_test(tcase, memory__that_is_not_there_fails_the_operation, 0,
			    2 * COUNT(holed));
	tcase_add_test(tcase, memory__that_is_not_there_fails_the_right_operation);
	tcase_add_test(tcase, memory__of_a_read_behind_a_refused_one_is_tried);
	tcase_add_test(tcase, memory__is_read_and_tried_in_a_sandbox);
	tcase_add_loop_test(tcase, key__that_wears_out_is_reported_once, 0, 4);
	tcase_add_test(tcase, key__that_is_wrong_is_refused);
	tcase_add_test(tcase, key__that_the_server_cannot_make_is_what_ends_the_stream);
	tcase_add_test(tcase, client__without_tls_is_refused);
	tcase_add_test(tcase, server__without_tls_is_refused);
	tcase_add_test(tcase, bytes__that_are_changed_are_refused);
	tcase_add_test(tcase, handshake__that_stops_holds_no_other_session);
	tcase_add_test(tcase, handshake__holds_no_data);
	tcase_add_test(tcase, handshakes__of_a_session_wait_for_others);
	tcase_add_test(tcase, handshakes__end_with_their_session);
	tcase_add_test(tcase, handshakes__of_overdue_streams_do_not_begin);
	tcase_add_test(tcase, handshake__that_is_done_ends_with_its_session);
	return unit_main();
}
