/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/librmem-server.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rmemd/control/request_types.h"
#include "unit/unit.h"
#include "wire/codec.h"

struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER,
			 .changed = PTHREAD_COND_INITIALIZER };

static pthread_t thread;
static int listener, stop_fd, conn = -1;
static uint64_t next_lease;
static uint32_t next_channel;
static uint8_t in[WIRE_FRAME_MAX], out[WIRE_FRAME_MAX];
static size_t have;
static struct wire_msg request, reply, delayed;
static struct wire_msg *held[SERVER_LEASES];
static unsigned n_held;
/* What was answered, by id: requests that change something are done once. */
static struct answer {
	unsigned request, reply; /* types */
	uint64_t lease;
	uint32_t code;
} answers[4096];

void server_lock(void)
{
	(void)pthread_mutex_lock(&server.lock);
}

void server_unlock(void)
{
	(void)pthread_mutex_unlock(&server.lock);
}

static void hang_up(void)
{
	if (conn >= 0)
		(void)close(conn);
	conn = -1;
	have = 0;
	while (n_held > 0)
		free(held[--n_held]);
}

void server_hang_up(void)
{
	server_lock();
	if (conn >= 0)
		(void)shutdown(conn, SHUT_RDWR);
	server_unlock();
}

static void answer(const struct wire_msg *msg)
{
	int n = wire_encode(msg, out, sizeof(out));

	ck_assert_int_gt(n, 0);
	if (conn >= 0)
		(void)send(conn, out, (size_t)n, MSG_NOSIGNAL);
}

void server_release(void)
{
	server_lock();
	server.hold_on = 0;
	for (unsigned i = 0; i < n_held; i++) {
		answer(held[i]);
		free(held[i]);
	}
	n_held = 0;
	server_unlock();
}

static void error(int code, const char *text)
{
	reply.type = WIRE_TYPE_error;
	reply.error.code = (uint32_t)code;
	(void)strcpy(reply.error.text, text);
}

static void ok(void)
{
	reply.type = WIRE_TYPE_ok;
}

void server_event(unsigned type, uint64_t lease, unsigned reason)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));

	msg->type = (enum wire_type)type;
	msg->revoked.lease = lease;
	msg->revoked.reason = (uint8_t)reason;
	if (type == WIRE_TYPE_channel_ended)
		msg->channel_ended.channel = (uint32_t)lease;
	if (type == WIRE_TYPE_closing)
		msg->closing.reason = (uint8_t)reason;
	server_lock();
	answer(msg);
	server_unlock();
	free(msg);
}

void server_want(uint64_t lease, uint64_t bytes, uint64_t wait_ms, bool revoke)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));

	msg->type = WIRE_TYPE_shrinking;
	msg->shrinking = (struct wire_shrinking){ lease, bytes, wait_ms, revoke };
	server_lock();
	answer(msg);
	server_unlock();
	free(msg);
}

void server_notify(uint64_t lease, uint32_t value, unsigned n, uint32_t lost)
{
	struct wire_msg *msg = calloc(1, sizeof(*msg));
	struct wire_notified *to = &msg->notified;

	msg->type = WIRE_TYPE_notified;
	server_lock();
	for (unsigned i = 0; i < n; i++) {
		to->notices[to->n_notices++] = (struct wire_notice){
			.lease = lease, .value = value + i, .lost = i ? 0 : lost
		};
		if (to->n_notices < WIRE_NOTICES_MAX && i + 1 < n)
			continue;
		answer(msg);
		to->n_notices = 0;
	}
	server_unlock();
	free(msg);
}

/* ---- requests ---- */

static struct server_lease *lease_by_id(uint64_t id)
{
	for (unsigned i = 0; i < SERVER_LEASES; i++)
		if (id && server.leases[i].id == id)
			return &server.leases[i];
	return NULL;
}

static struct server_lease *lease_by_name(const char *name)
{
	for (unsigned i = 0; i < SERVER_LEASES; i++)
		if (server.leases[i].id && *name &&
		    !strcmp(server.leases[i].name, name))
			return &server.leases[i];
	return NULL;
}

#define STRIPE 1000

static void segment_tell(struct server_lease *lease, uint64_t start, uint64_t bytes,
			 int node)
{
	struct wire_lease *to = &reply.lease;
	uint8_t number = (uint8_t)to->n_segments++;

	to->segments[number] = (struct wire_segment){ .bytes = bytes,
						      .node = node,
						      .endpoints = server.through };
	for (unsigned i = 0; i < server.welcome.n_endpoints; i++)
		if (!(server.keyless & 1u << i) && (server.through & 1u << i))
			to->keys[to->n_keys++] = (struct wire_key){
				.segment = number,
				.endpoint = (uint8_t)i,
				.addr = (uintptr_t)lease->memory + start,
				.rkey = server.rkey,
			};
}

static void lease_tell(struct server_lease *lease)
{
	struct wire_lease *to = &reply.lease;

	lease->attached = true;
	reply.type = WIRE_TYPE_lease;
	to->placement = lease->placement;
	to->node = lease->node;
	to->lease = lease->id;
	to->generation = 1;
	to->rights = (uint8_t)lease->rights;
	to->bytes = lease->bytes;
	(void)strcpy(to->name, lease->name);
	if (lease->bytes == 0)
		return;
	if (lease->placement == WIRE_PLACE_INTERLEAVE && lease->bytes > 2 * STRIPE) {
		segment_tell(lease, 0, STRIPE, SERVER_NODE);
		segment_tell(lease, STRIPE, STRIPE, SERVER_NODE - 1);
		segment_tell(lease, 2 * STRIPE, lease->bytes - 2 * STRIPE, SERVER_NODE);
	} else {
		segment_tell(lease, 0, lease->bytes, SERVER_NODE);
	}
}

/* Segments that came over the connection. */
static unsigned segments(void)
{
	struct tcp_info info = { 0 };
	socklen_t bytes = sizeof(info);

	ck_assert_int_eq(getsockopt(conn, IPPROTO_TCP, TCP_INFO, &info, &bytes), 0);
	return info.tcpi_segs_in;
}

static void do_hello(void)
{
	if (server.refuse) {
		error(server.refuse, "you may not");
	} else if (request.hello.resume &&
		   (server.forget || request.hello.resume != server.welcome.session)) {
		error(ESTALE, "the session is unknown");
	} else {
		reply.type = WIRE_TYPE_welcome;
		reply.welcome = server.welcome;
		reply.welcome.resumed = request.hello.resume != 0;
		server.resumed += request.hello.resume != 0;
		server.wanted = request.hello.channel;
		server.segments = segments();
		server.hello_qpn = request.hello.qpn;
		if (!request.hello.resume)
			memset(answers, 0, sizeof(answers));
		if (server.grants && request.hello.channel) {
			server.granted_channel = next_channel++;
			reply.welcome.channel = server.granted_channel;
			reply.welcome.endpoint = server.grant_endpoint;
			if (server.joins && server.hello_qpn)
				reply.welcome.qpn = server.hello_qpn + 1;
		}
		server.rkey++;
	}
}

static void do_allocate(void)
{
	struct server_lease *lease = NULL;

	for (unsigned i = 0; i < SERVER_LEASES && !lease; i++)
		if (server.leases[i].id == 0)
			lease = &server.leases[i];
	if (!lease || request.allocate.bytes > SERVER_LEASE_BYTES) {
		error(ENOSPC, "the pools are full");
		return;
	}
	memset(lease, 0, sizeof(*lease));
	lease->id = next_lease++;
	lease->bytes = request.allocate.bytes;
	lease->rights = WIRE_RIGHT_READ | WIRE_RIGHT_WRITE;
	(void)strcpy(lease->name, request.allocate.name);
	lease->placement = request.allocate.placement;
	lease->node = request.allocate.node;
	(void)strcpy(server.device, request.allocate.device);
	server.reach = request.allocate.reach;
	lease_tell(lease);
}

static void do_attach(void)
{
	struct server_lease *lease = request.attach.lease
					     ? lease_by_id(request.attach.lease)
					     : lease_by_name(request.attach.name);

	if (!lease || (request.attach.lease && !lease->attached)) {
		error(request.attach.lease ? ESTALE : ENOENT, "no such lease");
	} else if (!request.attach.lease && lease->attached) {
		error(EBUSY, "attached already");
	} else {
		server.reach = request.attach.reach;
		lease->rights = request.attach.rights;
		lease_tell(lease);
	}
}

static void entry_tell(const struct server_lease *lease)
{
	struct wire_entry *entry = &reply.entries.entries[reply.entries.n_entries++];

	entry->lease = lease->id;
	entry->bytes = lease->bytes;
	(void)strcpy(entry->name, lease->name);
}

/* Two to a page. */
static void do_list(void)
{
	uint64_t after = server.list_twice ? 0 : request.list.after;

	reply.type = WIRE_TYPE_entries;
	for (unsigned i = 0; i < SERVER_LEASES; i++) {
		const struct server_lease *lease = &server.leases[i];

		if (!lease->id || lease->id <= after || !lease->name[0] ||
		    strncmp(lease->name, request.list.prefix,
			    strlen(request.list.prefix)))
			continue;
		if (reply.entries.n_entries == 2) {
			reply.entries.more = 1;
			break;
		}
		entry_tell(lease);
	}
}

static void do_lease(struct server_lease *lease)
{
	if (!lease) {
		error(ENOENT, "no such lease");
		return;
	}
	ok();
	switch (request.type) {
	case WIRE_TYPE_free:
	case WIRE_TYPE_remove:
		lease->id = 0;
		break;
	case WIRE_TYPE_detach:
		lease->attached = false;
		if (!lease->name[0])
			lease->id = 0;
		break;
	case WIRE_TYPE_rename:
		(void)strcpy(lease->name, request.rename.name);
		break;
	case WIRE_TYPE_resize:
		lease->bytes = request.resize.bytes;
		server.reach = request.resize.reach;
		lease_tell(lease);
		break;
	case WIRE_TYPE_stat:
		reply.type = WIRE_TYPE_entries;
		entry_tell(lease);
		break;
	default:
		break;
	}
}

static void answer_keep(void)
{
	ck_assert_uint_lt(request.id, sizeof(answers) / sizeof(answers[0]));
	server.done++;
	answers[request.id] = (struct answer){
		.request = request.type,
		.reply = reply.type,
		.lease = reply.type == WIRE_TYPE_lease ? reply.lease.lease : 0,
		.code = reply.type == WIRE_TYPE_error ? reply.error.code : 0,
	};
}

/* False: it was not answered before. */
static bool answer_again(void)
{
	const struct answer *answer = &answers[request.id];

	ck_assert_uint_lt(request.id, sizeof(answers) / sizeof(answers[0]));
	if (!answer->request)
		return false;
	ck_assert_uint_eq(answer->request, request.type);
	server.repeated++;
	memset(&reply, 0, sizeof(reply));
	reply.id = request.id;
	reply.type = (enum wire_type)answer->reply;
	if (answer->lease)
		lease_tell(lease_by_id(answer->lease));
	if (answer->code)
		error((int)answer->code, "it failed before");
	return true;
}

static void dispatch(void)
{
	memset(&reply, 0, sizeof(reply));
	reply.id = request.id;
	if (server.fail_on == request.type && server.fail_skip-- == 0) {
		server.fail_on = 0;
		error(server.fail_errno, "it failed");
		return;
	}
	switch (request.type) {
	case WIRE_TYPE_hello:
		do_hello();
		break;
	case WIRE_TYPE_open_channel:
		if (server.deny & 1u << request.open_channel.endpoint) {
			error(EDQUOT, "no more channels there");
			break;
		}
		reply.type = WIRE_TYPE_channel;
		reply.channel = server.where;
		reply.channel.channel = next_channel++;
		break;
	case WIRE_TYPE_join_channel:
		reply.type = WIRE_TYPE_joined;
		reply.joined.qpn = request.join_channel.qpn + 1;
		server.joined_channel = request.join_channel.channel;
		break;
	case WIRE_TYPE_close_channel:
		server.closed_channel = request.close_channel.channel;
		ok();
		break;
	case WIRE_TYPE_allocate:
		do_allocate();
		break;
	case WIRE_TYPE_attach:
		do_attach();
		break;
	case WIRE_TYPE_list:
		do_list();
		break;
	case WIRE_TYPE_stat:
		do_lease(lease_by_name(request.stat.name));
		break;
	case WIRE_TYPE_remove:
		do_lease(lease_by_name(request.remove.name));
		break;
	case WIRE_TYPE_fix_home:
		server.atomic_device_endpoint = request.fix_home.endpoint;
		reply.type = WIRE_TYPE_home;
		reply.home = server.atomic_device;
		break;
	case WIRE_TYPE_free:
	case WIRE_TYPE_detach:
	case WIRE_TYPE_renew:
	case WIRE_TYPE_rename:
	case WIRE_TYPE_resize:
		/* the lease's id is the first field of them all */
		do_lease(lease_by_id(request.free.lease));
		break;
	default:
		ok();
		break;
	}
}

/* Do it, unless it was done. */
static void dispatch_once(void)
{
	if (!(request_flags(&request) & REQUEST_REMEMBERED)) {
		dispatch();
	} else if (!answer_again()) {
		dispatch();
		answer_keep();
	}
}

static void handle(void)
{
	server.seen[request.type]++;
	(void)pthread_cond_broadcast(&server.changed);
	if (server.drop_on == request.type) {
		server.drop_on = 0;
		dispatch_once();
		hang_up();
		return;
	}
	if (server.mute)
		return;
	dispatch_once();
	if (server.delay_on == request.type) {
		server.delay_on = 0;
		delayed = reply;
		return;
	}
	if (server.hold_on == request.type) {
		ck_assert_uint_lt(n_held, SERVER_LEASES);
		held[n_held] = malloc(sizeof(reply));
		*held[n_held++] = reply;
		return;
	}
	answer(&reply);
	if (delayed.type) {
		answer(&delayed);
		delayed.type = 0;
	}
}

/* ---- the thread ---- */

static void frames_take(void)
{
	while (conn >= 0) {
		int bytes = wire_frame_bytes(in, have);

		ck_assert_int_ge(bytes, 0);
		if (bytes == 0 || (size_t)bytes > have)
			return;
		ck_assert_int_eq(wire_decode(in, (size_t)bytes, &request), 0);
		have -= (size_t)bytes;
		memmove(in, in + bytes, have);
		handle();
	}
}

static void conn_read(void)
{
	ssize_t n = recv(conn, in + have, sizeof(in) - have, MSG_DONTWAIT);

	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			hang_up();
		return;
	}
	have += (size_t)n;
	frames_take();
}

static void *server_run(void *arg)
{
	(void)arg;
	for (;;) {
		struct pollfd fds[3] = { { .fd = stop_fd, .events = POLLIN },
					 { .fd = listener, .events = POLLIN },
					 { .fd = conn, .events = POLLIN } };

		(void)poll(fds, 3, -1);
		if (fds[0].revents)
			return NULL;
		server_lock();
		if (fds[1].revents) {
			hang_up();
			conn = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
			server.connections++;
			(void)pthread_cond_broadcast(&server.changed);
		} else if (fds[2].revents && conn >= 0) {
			conn_read();
		}
		server_unlock();
	}
}

/* At that port; 0: any. */
static void server_serve(int port)
{
	struct sockaddr_in in4 = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(in4);
	int on = 1;

	in4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	in4.sin_port = htons((uint16_t)port);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(
		setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&in4, sizeof(in4)), 0);
	ck_assert_int_eq(listen(listener, 8), 0);
	ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&in4, &bytes), 0);
	server.port = ntohs(in4.sin_port);
	stop_fd = eventfd(0, EFD_CLOEXEC);
	ck_assert_int_eq(pthread_create(&thread, NULL, server_run, NULL), 0);
}

void server_start(void)
{
	next_lease = 1;
	next_channel = 1;
	server.rkey = 100;
	server.through = UINT8_MAX;
	server.welcome = (struct wire_welcome){
		.version = 1,
		.session = 9,
		.token = { 1, 2, 3 },
		.heartbeat_ms = 20,
		.fence_ms = 3000,
		.grace_ms = 5000,
		.n_endpoints = 1,
	};
	server.welcome.endpoints[0].fabric = WIRE_FABRIC_TCP;
	server_serve(0);
}

void server_restart(void)
{
	server_serve(server.port);
}

void server_stop(void)
{
	(void)eventfd_write(stop_fd, 1);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	hang_up();
	(void)close(listener);
	(void)close(stop_fd);
}

void server_await_count(const _Atomic unsigned *counter, unsigned count)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	server_lock();
	while (*counter < count)
		ck_assert_msg(pthread_cond_timedwait(&server.changed, &server.lock,
						     &until) == 0,
			      "%u, not %u", *counter, count);
	server_unlock();
}

void server_await(unsigned type, unsigned count)
{
	server_await_count(&server.seen[type], count);
}
