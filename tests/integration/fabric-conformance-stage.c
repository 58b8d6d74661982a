/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric-conformance-stage.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "base/list.h"
#include "base/random.h"

#define PARTIES_MAX 8
#define PAGE 4096

struct stage_setting stage_setting;

/* All under lock but `server`, which is the loop thread's while that runs. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	pthread_t loop;
	bool running;
	int wake_fd;
	void (*call)(void *arg);
	void *call_arg;
	struct fabric_server *server;
	unsigned endpoint;
	struct fabric_endpoint endpoint_copy;
	struct party *parties[PARTIES_MAX];
} stage;

/* ---- what the server reports ---- */

static void stage_changed(void)
{
	(void)pthread_cond_broadcast(&stage.changed);
	(void)pthread_mutex_unlock(&stage.lock);
}

static struct fabric_session *on_admit(void *ctx, unsigned endpoint,
				       const struct fabric_hello *hello)
{
	struct fabric_session *session = NULL;

	(void)ctx;
	(void)endpoint;
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX; i++) {
		struct party *party = stage.parties[i];

		if (party && party->id == hello->session &&
		    secret_equal(party->token, hello->token, FABRIC_TOKEN_BYTES))
			session = party->session;
	}
	(void)pthread_mutex_unlock(&stage.lock);
	return session;
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
	(void)channel;
	(void)why;
	(void)pthread_mutex_lock(&stage.lock);
	party->downs++;
	stage_changed();
}

static void on_exposed(void *ctx, void *cookie, int err, const char *text,
		       const struct fabric_key *key)
{
	struct lent *lent = cookie;

	(void)ctx;
	(void)text;
	(void)pthread_mutex_lock(&stage.lock);
	lent->exposed = true;
	lent->err = err;
	if (!err)
		lent->key = *key;
	stage_changed();
}

static void on_withdrawn(void *ctx, void *cookie)
{
	struct lent *lent = cookie;

	(void)ctx;
	(void)pthread_mutex_lock(&stage.lock);
	ck_assert_msg(!lent->withdrawn, "withdrawn twice");
	lent->withdrawn = true;
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

static void on_endpoint_news(void *ctx, unsigned endpoint, const char *text)
{
	(void)ctx;
	fprintf(stderr, "endpoint %u: %s\n", endpoint, text);
}

static const struct fabric_server_events stage_events = {
	.admit = on_admit,
	.channel_up = on_channel_up,
	.channel_down = on_channel_down,
	.exposed = on_exposed,
	.withdrawn = on_withdrawn,
	.session_closed = on_session_closed,
	.endpoint_news = on_endpoint_news,
};

/* ---- the loop ---- */

static void loop_take_call(void)
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
			loop_take_call();
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

/* Wait until *what reaches at_least. */
static void stage_await(const char *name, bool (*reached)(void *arg), void *arg)
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
	struct fabric_server_params params = { .listen = stage_setting.address,
					       .threads = 2,
					       .backlog = 16 };
	int err = SERVER->open(&params, &stage_events, NULL, &stage.server);

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

/* ---- parties ---- */

static void call_session_open(void *arg)
{
	struct party *party = arg;
	int err = SERVER->session_open(stage.server, stage.endpoint, party,
				       &party->session);

	ck_assert_msg(err == 0, "session_open: %d: %s", err, err_text());
}

static void call_session_close(void *arg)
{
	struct party *party = arg;
	struct fabric_session *session = party->session;

	/* nothing is admitted any more, as the daemon would have it */
	(void)pthread_mutex_lock(&stage.lock);
	party->session = NULL;
	(void)pthread_mutex_unlock(&stage.lock);
	SERVER->session_close(session);
}

struct party *party_new(void)
{
	struct party *party = calloc(1, sizeof(*party));
	struct fabric_endpoint endpoint = stage.endpoint_copy;
	int err;

	ck_assert_ptr_nonnull(party);
	party->id = random_u64();
	random_bytes(party->token, sizeof(party->token));
	if (endpoint.address.family == 0) {
		uint16_t port = endpoint.address.port;

		endpoint.address = stage_setting.address;
		endpoint.address.port = port;
	}
	stage_call(call_session_open, party);
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX; i++) {
		if (!stage.parties[i]) {
			stage.parties[i] = party;
			break;
		}
	}
	(void)pthread_mutex_unlock(&stage.lock);
	err = CLIENT->domain_open(&endpoint, STAGE_WAIT_MS, &party->domain);
	ck_assert_msg(err == 0, "domain_open: %d: %s", err, err_text());
	err = CLIENT->cq_create(party->domain, 8 * STAGE_DEPTH, &party->cq);
	ck_assert_msg(err == 0, "cq_create: %d: %s", err, err_text());
	return party;
}

void party_close_session(struct party *party)
{
	stage_call(call_session_close, party);
}

static bool party_is_closed(void *arg)
{
	return ((const struct party *)arg)->closed;
}

void party_await_closed(struct party *party)
{
	stage_await("session_closed", party_is_closed, party);
}

struct news {
	const struct party *party;
	unsigned ups, downs;
};

static bool party_has_news(void *arg)
{
	const struct news *wanted = arg;

	return wanted->party->ups >= wanted->ups &&
	       wanted->party->downs >= wanted->downs;
}

void party_await_ups(struct party *party, unsigned ups)
{
	struct news wanted = { .party = party, .ups = ups };

	stage_await("channel_up", party_has_news, &wanted);
}

void party_await_downs(struct party *party, unsigned downs)
{
	struct news wanted = { .party = party, .downs = downs };

	stage_await("channel_down", party_has_news, &wanted);
}

void party_free(struct party *party)
{
	CLIENT->cq_free(party->cq);
	CLIENT->domain_close(party->domain);
	if (stage.server) {
		if (party->session)
			party_close_session(party);
		party_await_closed(party);
	}
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX; i++)
		if (stage.parties[i] == party)
			stage.parties[i] = NULL;
	(void)pthread_mutex_unlock(&stage.lock);
	free(party);
}

struct fabric_hello party_hello(struct party *party)
{
	struct fabric_hello hello = { .session = party->id,
				      .channel = ++party->next_channel };

	memcpy(hello.token, party->token, sizeof(hello.token));
	return hello;
}

static int party_dial(struct party *party, const struct fabric_channel_params *params,
		      struct fabric_channel **ret_channel)
{
	int err = CLIENT->connect(party->cq, params, ret_channel);
	unsigned i = 0;

	if (err)
		return err;
	(void)pthread_mutex_lock(&stage.lock);
	while (i < PARTY_CHANNELS_MAX && party->channels[i])
		i++;
	ck_assert_uint_lt(i, PARTY_CHANNELS_MAX);
	party->channels[i] = *ret_channel;
	(void)pthread_mutex_unlock(&stage.lock);
	return 0;
}

void channel_free(struct fabric_channel *channel)
{
	(void)pthread_mutex_lock(&stage.lock);
	for (unsigned i = 0; i < PARTIES_MAX * PARTY_CHANNELS_MAX; i++) {
		struct party *party = stage.parties[i / PARTY_CHANNELS_MAX];

		if (party && party->channels[i % PARTY_CHANNELS_MAX] == channel)
			party->channels[i % PARTY_CHANNELS_MAX] = NULL;
	}
	(void)pthread_mutex_unlock(&stage.lock);
	CLIENT->channel_free(channel);
}

int party_try_connect(struct party *party, const struct fabric_hello *hello,
		      struct fabric_channel **ret_channel)
{
	struct fabric_channel_params params = { .hello = *hello,
						.depth = STAGE_DEPTH,
						.timeout_ms = STAGE_WAIT_MS };

	return party_dial(party, &params, ret_channel);
}

struct fabric_channel *party_connect(struct party *party, unsigned depth)
{
	struct fabric_channel_params params = { .hello = party_hello(party),
						.depth = depth,
						.timeout_ms = STAGE_WAIT_MS };
	struct fabric_channel *channel = NULL;
	int err = party_dial(party, &params, &channel);

	ck_assert_msg(err == 0, "connect: %d: %s", err, err_text());
	return channel;
}

/* ---- memory ---- */

struct expose_call {
	struct lent *lent;
	unsigned rights;
};

static void call_expose(void *arg)
{
	struct expose_call *call = arg;
	struct lent *lent = call->lent;
	int err = SERVER->expose(lent->party->session, lent->addr, lent->bytes,
				 call->rights, lent, &lent->exposure);

	ck_assert_msg(err == 0, "expose: %d: %s", err, err_text());
}

static void call_withdraw(void *arg)
{
	struct lent *lent = arg;
	struct fabric_exposure *exposure = lent->exposure;

	lent->exposure = NULL;
	SERVER->withdraw(exposure);
}

static bool lent_is_exposed(void *arg)
{
	return ((const struct lent *)arg)->exposed;
}

static bool lent_is_withdrawn(void *arg)
{
	return ((const struct lent *)arg)->withdrawn;
}

struct lent *lent_new(struct party *party, size_t bytes, unsigned rights)
{
	struct lent *lent = calloc(1, sizeof(*lent));
	struct expose_call call = { lent, rights };
	size_t around = (bytes + PAGE - 1) / PAGE * PAGE;

	ck_assert_ptr_nonnull(lent);
	lent->party = party;
	lent->bytes = bytes;
	lent->map_bytes = 3 * around;
	lent->map = mmap(NULL, lent->map_bytes, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(lent->map, MAP_FAILED);
	lent->addr = lent->map + around;
	stage_fill(lent->map, lent->map_bytes, (uint64_t)(uintptr_t)lent->map);
	stage_call(call_expose, &call);
	stage_await("exposed", lent_is_exposed, lent);
	ck_assert_int_eq(lent->err, 0);
	return lent;
}

void lent_withdraw_start(struct lent *lent)
{
	stage_call(call_withdraw, lent);
}

void lent_await_withdrawn(struct lent *lent)
{
	stage_await("withdrawn", lent_is_withdrawn, lent);
}

void lent_free(struct lent *lent)
{
	if (stage.server) {
		if (!lent->withdrawn && lent->exposure && lent->party->session)
			lent_withdraw_start(lent);
		lent_await_withdrawn(lent);
	}
	(void)munmap(lent->map, lent->map_bytes);
	free(lent);
}

char *lent_snapshot(const struct lent *lent)
{
	char *copy = malloc(lent->map_bytes);

	ck_assert_ptr_nonnull(copy);
	memcpy(copy, lent->map, lent->map_bytes);
	return copy;
}

bool lent_unchanged(const struct lent *lent, const char *snapshot)
{
	return memcmp(lent->map, snapshot, lent->map_bytes) == 0;
}

struct local *local_new(struct party *party, size_t bytes)
{
	struct local *local = calloc(1, sizeof(*local));
	int err;

	ck_assert_ptr_nonnull(local);
	local->bytes = bytes;
	local->addr = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(local->addr, MAP_FAILED);
	err = CLIENT->region_create(party->domain, local->addr, bytes, &local->region);
	ck_assert_msg(err == 0, "region_create: %d: %s", err, err_text());
	return local;
}

void local_free(struct local *local)
{
	CLIENT->region_free(local->region);
	(void)munmap(local->addr, local->bytes);
	free(local);
}

/* ---- operations ---- */

struct fabric_wr op_make(enum fabric_opcode opcode, const struct local *local,
			 size_t from, const struct lent *lent, int64_t offset,
			 uint32_t bytes)
{
	return (struct fabric_wr){
		.opcode = opcode,
		.bytes = bytes,
		.addr = local->addr + from,
		.region = CLIENT->needs_region ? local->region : NULL,
		.remote_addr = lent->key.addr + (uint64_t)offset,
		.rkey = lent->key.rkey,
	};
}

void op_post(struct fabric_channel *channel, const struct fabric_wr *wrs, unsigned n)
{
	unsigned done = 0;

	while (done < n) {
		int taken = CLIENT->post(channel, wrs + done, n - done);

		ck_assert_msg(taken > 0, "post: %d: %s", taken, err_text());
		done += (unsigned)taken;
	}
}

/* Until a completion may be there; a channel whose peer has ended it is told so. */
static void party_sleep(const struct party *party)
{
	struct pollfd pfds[1 + PARTY_CHANNELS_MAX] = {
		{ .fd = CLIENT->cq_fd(party->cq), .events = POLLIN },
	};

	for (unsigned i = 0; i < PARTY_CHANNELS_MAX; i++)
		pfds[1 + i] = (struct pollfd){
			.fd = party->channels[i] ? CLIENT->alive_fd(party->channels[i])
						 : -1,
			.events = POLLIN,
		};
	ck_assert_msg(poll(pfds, 1 + PARTY_CHANNELS_MAX, STAGE_WAIT_MS) > 0,
		      "no completion came");
	for (unsigned i = 0; i < PARTY_CHANNELS_MAX; i++)
		if (pfds[1 + i].revents)
			(void)CLIENT->alive(party->channels[i]);
}

struct fabric_wc op_await(struct party *party)
{
	struct fabric_wc wc;

	for (;;) {
		int got = CLIENT->poll(party->cq, &wc, 1);

		if (got == 0) {
			ck_assert_int_eq(CLIENT->cq_arm(party->cq), 0);
			got = CLIENT->poll(party->cq, &wc, 1);
		}
		ck_assert_int_ge(got, 0);
		if (got == 1)
			return wc;
		party_sleep(party);
	}
}

int op_run(struct party *party, struct fabric_channel *channel, struct fabric_wr wr)
{
	struct fabric_wc wc;

	wr.cookie = random_u64();
	op_post(channel, &wr, 1);
	wc = op_await(party);
	ck_assert_uint_eq(wc.cookie, wr.cookie);
	ck_assert_ptr_eq(wc.channel, channel);
	ck_assert(wc.status == 0 || wc.text != NULL);
	return wc.status;
}

struct fabric_channel *
op_run_refused(struct party *party, struct fabric_channel *channel, struct fabric_wr wr)
{
	int status = op_run(party, channel, wr);

	/* iWARP only breaks the connection */
	if (stage_confirms())
		ck_assert_int_ne(status, 0);
	else
		ck_assert_int_eq(status, -EACCES);
	if (SERVER->kind == FABRIC_TCP)
		return channel;
	channel_free(channel);
	return party_connect(party, STAGE_DEPTH);
}

/* ---- randomness ---- */

uint64_t stage_random(uint64_t *seed)
{
	/* splitmix64's step: any seed will do, zero as well */
	uint64_t z = (*seed += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
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

uint64_t stage_seed(void)
{
	const char *given = getenv("RMEM_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : random_u64();

	fprintf(stderr, "# RMEM_SEED=%#llx\n", (unsigned long long)seed);
	return seed;
}
