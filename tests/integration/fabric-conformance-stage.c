/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-state.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/random.h"

struct stage_setting stage_setting;
struct stage stage;

/* ---- events of the server ---- */

static void stage_changed(void)
{
	(void)pthread_cond_broadcast(&stage.changed);
	(void)pthread_mutex_unlock(&stage.lock);
}

struct fabric_session *stage_session(const struct fabric_hello *hello)
{
	for (unsigned i = 0; i < PARTIES_MAX; i++) {
		struct party *party = stage.parties[i];

		if (party && party->id == hello->session &&
		    secret_equal(party->token, hello->token, FABRIC_TOKEN_BYTES))
			return party->session;
	}
	return NULL;
}

void stage_tls_key(const uint8_t token[FABRIC_TOKEN_BYTES], uint32_t channel,
		   uint8_t ret_key[FABRIC_TLS_KEY_BYTES])
{
	memset(ret_key, 0, FABRIC_TLS_KEY_BYTES);
	memcpy(ret_key, token, FABRIC_TOKEN_BYTES);
	memcpy(ret_key + FABRIC_TOKEN_BYTES, &channel, sizeof(channel));
}

static int on_admit(void *ctx, unsigned endpoint, struct fabric_hello *hello,
		    struct fabric_session **ret_session)
{
	struct fabric_session *session;

	(void)ctx;
	(void)endpoint;
	(void)pthread_mutex_lock(&stage.lock);
	session = stage_session(hello);
	(void)pthread_mutex_unlock(&stage.lock);
	if (!session)
		return err_set(-EACCES, "no session with this id and token");
	*ret_session = session;
	return 0;
}

static int on_channel_key(void *ctx, void *cookie, uint32_t channel,
			  uint8_t ret_key[FABRIC_TLS_KEY_BYTES])
{
	const struct party *party = cookie;

	(void)ctx;
	stage_tls_key(party->token, channel, ret_key);
	return 0;
}

static void on_channel_up(void *ctx, void *cookie, uint32_t channel)
{
	struct party *party = cookie;

	(void)ctx;
	(void)channel;
	(void)pthread_mutex_lock(&stage.lock);
	party->ups++;
	stage_changed();
}

static void on_channel_down(void *ctx, void *cookie, uint32_t channel, const char *why)
{
	struct party *party = cookie;

	(void)ctx;
	(void)why;
	(void)pthread_mutex_lock(&stage.lock);
	party->downs++;
	if (stage_setting.direct)
		party_abort_ended(party, channel);
	stage_changed();
}

static void on_channel_connected(void *ctx, void *cookie, uint32_t channel, int err,
				 const char *text, const struct fabric_qp_info *ours)
{
	(void)ctx;
	(void)text;
	(void)pthread_mutex_lock(&stage.lock);
	party_joined(cookie, channel, err, ours);
	stage_changed();
}

static void on_registered(void *ctx, void *cookie, int err, const char *text,
			  const struct fabric_key *key)
{
	struct remote *remote = cookie;

	(void)ctx;
	(void)text;
	(void)pthread_mutex_lock(&stage.lock);
	remote->registered = true;
	remote->err = err;
	if (!err)
		remote->key = *key;
	stage_changed();
}

static void on_deregistered(void *ctx, void *cookie)
{
	struct remote *remote = cookie;

	(void)ctx;
	(void)pthread_mutex_lock(&stage.lock);
	ck_assert_msg(!remote->deregistered, "deregistered twice");
	remote->deregistered = true;
	stage_changed();
}

static void on_session_closed(void *ctx, void *cookie)
{
	struct party *party = cookie;

	(void)ctx;
	(void)pthread_mutex_lock(&stage.lock);
	ck_assert_msg(!party->closed, "closed twice");
	party->closed = true;
	stage_changed();
}

static void on_endpoint_event(void *ctx, unsigned endpoint, const char *text)
{
	(void)ctx;
	fprintf(stderr, "endpoint %u: %s\n", endpoint, text);
}

static void on_notified(void *ctx, void *session_cookie, void *cookie, uint32_t value,
			uint32_t lost)
{
	struct remote *remote = cookie;

	(void)ctx;
	(void)pthread_mutex_lock(&stage.lock);
	ck_assert_ptr_eq(remote->party, session_cookie);
	ck_assert(remote->registered && !remote->deregistered);
	remote->notes++;
	remote->note = value;
	remote->lost += lost;
	remote->note_first = remote->addr[0];
	remote->note_last = remote->addr[remote->bytes - 1];
	stage_changed();
}

static const struct fabric_server_events stage_events = {
	.admit = on_admit,
	.channel_key = on_channel_key,
	.channel_up = on_channel_up,
	.channel_connected = on_channel_connected,
	.channel_down = on_channel_down,
	.mr_registered = on_registered,
	.mr_deregistered = on_deregistered,
	.session_closed = on_session_closed,
	.endpoint_event = on_endpoint_event,
	.notified = on_notified,
};

/* ---- the loop ---- */

static void loop_run_call(void)
{
	eventfd_t count;

	(void)eventfd_read(stage.wake_fd, &count);
	(void)pthread_mutex_lock(&stage.lock);
	if (stage.call) {
		void (*call)(void *arg) = stage.call;
		void *arg = stage.call_arg;

		(void)pthread_mutex_unlock(&stage.lock);
		call(arg);
		(void)pthread_mutex_lock(&stage.lock);
		stage.call = NULL;
	}
	stage_changed();
}

static void *loop_main(void *arg)
{
	(void)arg;
	while (stage.running) {
		struct pollfd pfds[2] = { { .fd = stage.wake_fd, .events = POLLIN },
					  { .fd = -1, .events = POLLIN } };

		if (stage.server)
			pfds[1].fd = SERVER->fd(stage.server);
		(void)poll(pfds, 2, -1);
		if (pfds[1].revents)
			SERVER->process(stage.server);
		if (pfds[0].revents)
			loop_run_call();
	}
	return NULL;
}

void stage_call(void (*fn)(void *arg), void *arg)
{
	(void)pthread_mutex_lock(&stage.lock);
	while (stage.call)
		(void)pthread_cond_wait(&stage.changed, &stage.lock);
	stage.call = fn;
	stage.call_arg = arg;
	(void)eventfd_write(stage.wake_fd, 1);
	while (stage.call == fn && stage.call_arg == arg)
		(void)pthread_cond_wait(&stage.changed, &stage.lock);
	(void)pthread_mutex_unlock(&stage.lock);
}

void stage_await(const char *name, bool (*reached)(void *arg), void *arg)
{
	struct timespec end;

	(void)clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += STAGE_WAIT_MS / 1000;
	(void)pthread_mutex_lock(&stage.lock);
	while (!reached(arg))
		ck_assert_msg(
			pthread_cond_timedwait(&stage.changed, &stage.lock, &end) == 0,
			"%s did not happen", name);
	(void)pthread_mutex_unlock(&stage.lock);
}

static bool address_is(const struct fabric_address *a, const struct fabric_address *b)
{
	return a->family == b->family &&
	       memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static void call_open(void *arg)
{
	struct fabric_device_params direct = { .port = FABRIC_OPTION_AUTO,
					       .rdma_options =
						       FABRIC_RDMA_OPTIONS_INIT };
	struct fabric_server_params params = { .listen = stage_setting.address,
					       .device_params = &direct,
					       .n_device_params = stage_setting.direct,
					       .tls = stage_setting.tls,
					       .threads = 2,
					       .backlog = 16 };
	int err;

	direct.rdma_options.connect = FABRIC_CONNECT_DIRECT;
	err = SERVER->open(&params, &stage_events, NULL, &stage.server);

	(void)arg;
	ck_assert_msg(err == 0, "open: %d: %s", err, err_text());
	for (unsigned i = 0; i < SERVER->n_endpoints(stage.server); i++)
		if (address_is(&SERVER->endpoint(stage.server, i)->address,
			       &stage_setting.address))
			stage.endpoint = i;
	stage.endpoint_copy = *SERVER->endpoint(stage.server, stage.endpoint);
}

static void call_close(void *arg)
{
	(void)arg;
	SERVER->close(stage.server);
	stage.server = NULL;
	/* the control connections end with the server */
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; stage_setting.direct && i < PARTIES_MAX; i++)
		if (stage.parties[i])
			party_abort_ended(stage.parties[i], 0);
	(void)pthread_mutex_unlock(&stage.lock);
}

static void call_stop(void *arg)
{
	(void)arg;
	stage.running = false;
}

void stage_open(void)
{
	(void)pthread_mutex_init(&stage.lock, NULL);
	(void)pthread_cond_init(&stage.changed, NULL);
	stage.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ck_assert_int_ge(stage.wake_fd, 0);
	stage.running = true;
	ck_assert_int_eq(pthread_create(&stage.loop, NULL, loop_main, NULL), 0);
	stage_call(call_open, NULL);
}

void stage_server_close(void)
{
	stage_call(call_close, NULL);
}

void stage_close(void)
{
	if (stage.server)
		stage_server_close();
	stage_call(call_stop, NULL);
	(void)pthread_join(stage.loop, NULL);
	(void)close(stage.wake_fd);
	(void)pthread_cond_destroy(&stage.changed);
	(void)pthread_mutex_destroy(&stage.lock);
}

const struct fabric_endpoint *stage_endpoint(void)
{
	return &stage.endpoint_copy;
}

bool stage_confirms(void)
{
	return (stage.endpoint_copy.flags & FABRIC_ENDPOINT_CONFIRM) != 0;
}

static void call_stats(void *arg)
{
	SERVER->stats(stage.server, stage.endpoint, arg);
}

struct fabric_endpoint_stats stage_stats(void)
{
	struct fabric_endpoint_stats stats;

	stage_call(call_stats, &stats);
	return stats;
}

/* ---- randomness ---- */

uint64_t stage_random(uint64_t *seed)
{
	return random_next(seed);
}

void stage_fill(void *dst, size_t bytes, uint64_t seed)
{
	char *p = dst;

	for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
		uint64_t word = stage_random(&seed);
		size_t part = bytes - i < sizeof(word) ? bytes - i : sizeof(word);

		memcpy(p + i, &word, part);
	}
}

bool stage_all(const char *addr, size_t bytes, char value)
{
	return bytes == 0 ||
	       (addr[0] == value && memcmp(addr, addr + 1, bytes - 1) == 0);
}

unsigned stage_rounds(unsigned n)
{
	const char *percent = getenv("RMEM_PERCENT");
	unsigned long rounds = percent ? n * strtoul(percent, NULL, 10) / 100 : n;

	return rounds > 0 ? (unsigned)rounds : 1;
}

uint64_t stage_seed(void)
{
	const char *given = getenv("RMEM_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : random_u64();

	fprintf(stderr, "# RMEM_SEED=%#llx\n", (unsigned long long)seed);
	return seed;
}
