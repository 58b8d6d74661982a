/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine of a session: connecting, the hello, heartbeats, and resuming after a loss.
 *
 * The lease clock runs from the sending of the last request that was answered.  Once fence_ms have
 * passed, nothing is posted any more and the connections are aborted, before the server, which
 * counts from the receipt, may lend the memory to others.  Then the session connects again with its
 * id and token, until fence_ms and grace_ms are over: by then the server has ended the session.
 * With RMEM_NO_RESUME it is lost at once. */
#include "librmem/session/session.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/moves.h"
#include "librmem/session/dial.h"
#include "librmem/session/resolve.h"
#include "wire/codec.h"

/* The time that one attempt to resume may take.  After each that was too short it is doubled: if
 * all clients of a busy server gave up too early, none would get in. */
#define ATTEMPT_MS 2000u
#define ATTEMPT_MAX_MS 16000u
/* Several addresses share the remaining time equally; each has at least this time. */
#define ADDRESS_MIN_MS 250u
/* A name is looked up again this often while its server is away, and attempts to resume wait this
 * long for the answer: the server may have moved. */
#define LOOKUP_EVERY_MS 1000u
#define LOOKUP_WAIT_MS 250u
/* Limit of unanswered heartbeats: the server needs heartbeats even if its answers are late. */
#define PINGS_MAX 16u

#define MOVE(from, step, to) { SESSION_##from, SESSION_STEP_##step, SESSION_##to },
static const struct move moves[] = { SESSION_MOVES(MOVE) };

/* Nothing is posted from this time on. */
static uint64_t fence_ns(const struct rmem *session)
{
	return session->alive_ns + session->welcome.fence_ms * NS_PER_MS;
}

/* What queues read without the lock follows. */
static void session_move(struct rmem *session, enum session_step step)
{
	uint64_t until_ns = 0;
	int status = -ECONNRESET;

	session->state = (enum session_state)MOVES_NEXT(moves, session->state, step);
	if (session->state == SESSION_LOST)
		status = -ESTALE;
	if (session->state == SESSION_UP) {
		status = 0;
		until_ns = fence_ns(session);
	}
	atomic_store_explicit(&session->status, status, memory_order_release);
	atomic_store_explicit(&session->until_ns, until_ns, memory_order_release);
}

/* ---- the server is reached ---- */

/* The fabric that the session's own queue will probably use. */
static enum wire_fabric fabric_likely(const struct rmem *session)
{
	bool likely;

	if (session->uri.fabric == RMEM_FABRIC_TCP)
		return WIRE_FABRIC_TCP;
	/* also if the URI names the fabric: the first call loads the devices' libraries, and no
	 * heartbeat can be sent meanwhile */
	likely = fabric_verbs_client.device_present();
	return likely || session->uri.fabric == RMEM_FABRIC_RDMA ? WIRE_FABRIC_VERBS
								 : WIRE_FABRIC_TCP;
}

static int hello_send(struct rmem *session, connection_done *done)
{
	struct wire_msg msg;
	struct wire_hello *hello = &msg.hello;

	wire_msg_init(&msg, WIRE_TYPE_hello);
	hello->magic = WIRE_MAGIC;
	hello->version_min = WIRE_VERSION_MIN;
	hello->version_max = WIRE_VERSION_MAX;
	hello->capabilities = WIRE_CAPABILITIES;
	memcpy(hello->tenant, session->uri.tenant, sizeof(session->uri.tenant));
	memcpy(hello->client, session->client, sizeof(session->client));
	if (session->welcomed) {
		hello->resume = session->welcome.session;
		memcpy(hello->token, session->welcome.token, sizeof(hello->token));
	} else {
		hello->channel = (uint8_t)fabric_likely(session);
	}
	session->hello_sent = true;
	return connection_call(session->connection, &msg, done, session, NULL);
}

/* Take over the socket that the dial has connected. */
static int connected(struct rmem *session, int fd)
{
	return connection_adopt(session->connection, fd, session->credentials.tls);
}

/* An earlier text may be in use by the program, and is kept with the session. */
static int server_name(struct rmem *session, const struct addrinfo *at)
{
	struct server_text *name = calloc(1, sizeof(*name));

	if (!name)
		return err_set(-ENOMEM, "no memory for the name of a server");
	dial_address_text(at, name->text);
	name->before = session->servers;
	session->servers = name;
	session->server = name->text;
	return 0;
}

/* The server is at the address of the dial. */
static int peer_store(struct rmem *session)
{
	const struct addrinfo *at = dial_address(session->dial);

	if (session->servers &&
	    memcmp(&session->peer, at->ai_addr, at->ai_addrlen) == 0)
		return 0;
	session->peer = (struct sockaddr_storage){ .ss_family = 0 };
	memcpy(&session->peer, at->ai_addr, at->ai_addrlen);
	return server_name(session, at);
}

static void dial_end(struct rmem *session)
{
	dial_free(session->dial);
	session->dial = NULL;
}

static void lookup_drop(struct rmem *session)
{
	lookup_abandon(session->lookup);
	session->lookup = NULL;
}

void session_addresses_free(struct rmem *session)
{
	dial_end(session);
	lookup_drop(session);
	if (session->addresses)
		freeaddrinfo(session->addresses);
	while (session->servers) {
		struct server_text *name = session->servers;

		session->servers = name->before;
		free(name);
	}
}

/* The connection is of no use. */
static void server_drop(struct rmem *session)
{
	session->hello_sent = false;
	connection_drop(session->connection);
}

/* ---- the welcome ---- */

static int welcome_check(const struct wire_welcome *welcome)
{
	if (welcome->version < WIRE_VERSION_MIN || welcome->version > WIRE_VERSION_MAX)
		return err_set(-ENOTSUP,
			       "the server speaks version %u of the protocol, "
			       "this library %d",
			       welcome->version, WIRE_VERSION_MAX);
	if (welcome->session == 0 || welcome->heartbeat_ms == 0 ||
	    welcome->fence_ms <= welcome->heartbeat_ms ||
	    welcome->fence_ms > WIRE_FENCE_MS_MAX)
		return err_set(-EPROTO,
			       "the server's welcome has a heartbeat of %u ms and "
			       "a fence of %u ms",
			       welcome->heartbeat_ms, welcome->fence_ms);
	if (welcome->requests_max == 0 || welcome->stream_bytes_max == 0 ||
	    welcome->inband_bytes_max == 0 || welcome->inband_requests_max == 0)
		return err_set(-EPROTO, "the server's welcome has a limit of 0 for "
					"requests");
	return 0;
}

/* Queues have read the limits, and requests wait to be repeated. */
static int limits_check(const struct wire_welcome *known,
			const struct wire_welcome *welcome)
{
	if (welcome->requests_max < known->requests_max ||
	    welcome->stream_bytes_max < known->stream_bytes_max ||
	    welcome->inband_bytes_max < known->inband_bytes_max ||
	    welcome->inband_requests_max < known->inband_requests_max)
		return err_set(-ESTALE,
			       "the server's limits of requests are lower than "
			       "when the session began: open a new one");
	return 0;
}

/* Send the calls that wait for the welcome.  Its secret is the connection's, and ends with it. */
static void calls_begin(struct rmem *session)
{
	uint32_t max = session->welcome.requests_max;

	connection_ready(session->connection,
			 max < WIRE_REQUESTS_MAX ? max : WIRE_REQUESTS_MAX,
			 session->welcome.secret);
	explicit_bzero(session->welcome.secret, sizeof(session->welcome.secret));
}

static int welcome_first(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;

	if (!err)
		err = welcome_check(&reply->welcome);
	if (err)
		return err;
	session->welcome = reply->welcome;
	endpoint_map_follow(&session->endpoint_map, &session->welcome,
			    &session->welcome);
	session->welcomed = true;
	session->welcomed_ns = clock_now_ns();
	session->ping_ns =
		session->alive_ns + session->welcome.heartbeat_ms * NS_PER_MS;
	session_move(session, SESSION_STEP_OPEN);
	calls_begin(session);
	return 0;
}

/* Take over a later welcome; the endpoints keep their numbers. */
static void welcome_follow(struct rmem *session, const struct wire_welcome *welcome)
{
	struct wire_welcome *known = &session->welcome, next = *welcome;

	endpoint_map_follow(&session->endpoint_map, known, welcome);
	next.n_endpoints = known->n_endpoints;
	memcpy(next.endpoints, known->endpoints, sizeof(next.endpoints));
	*known = next;
}

/* The errors of the server after which it may succeed a little later: WIRE_CODE_GROUPS 1 and 5. */
static bool is_temporary(int err)
{
	return err == -EBUSY || err == -ENOMEM || err == -ENOSPC || err == -ESHUTDOWN ||
	       err == -EDQUOT;
}

/* Whether the refusal of the server at the dial's address is that of the session's own: another
 * address of its name may be another server's. */
static bool is_own_server(const struct rmem *session)
{
	const struct addrinfo *at = dial_address(session->dial);

	return memcmp(&session->peer, at->ai_addr, at->ai_addrlen) == 0 ||
	       !session->addresses->ai_next;
}

static int welcome_resumed(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;

	/* this attempt was given up */
	if (!session->hello_sent)
		return 0;
	if (err) {
		session->closing = !is_temporary(err) && is_own_server(session);
		return err;
	}
	err = welcome_check(&reply->welcome);
	if (!err && (!reply->welcome.resumed ||
		     reply->welcome.session != session->welcome.session))
		err = err_set(-ESTALE, "the server does not know the session any more");
	if (!err)
		err = limits_check(&session->welcome, &reply->welcome);
	if (!err)
		err = peer_store(session);
	if (err) {
		session->closing = is_own_server(session);
		return err;
	}
	dial_end(session);
	welcome_follow(session, &reply->welcome);
	session->welcomed_ns = clock_now_ns();
	session_move(session, SESSION_STEP_WELCOME);
	/* the process that stopped has a successor, or the network failed; it is told again */
	session->draining = false;
	session->ping_ns =
		session->alive_ns + session->welcome.heartbeat_ms * NS_PER_MS;
	calls_begin(session);
	SESSION_NOTIFY(session, state, session);
	return 0;
}

/* Every lease has its rkeys, or has ended, and the lease clock runs: the session has resumed. */
static void session_up(struct rmem *session, uint64_t now_ns)
{
	assert(!session->dial && session->rekeys == 0);
	session->up_ns = now_ns;
	lookup_drop(session);
	session->resumes++;
	session_move(session, SESSION_STEP_KEYED);
	SESSION_NOTIFY(session, state, session);
}

/* ---- events of the server ---- */

static void answered(void *ctx, uint64_t sent_ns)
{
	struct rmem *session = ctx;

	if (sent_ns <= session->alive_ns)
		return;
	session->alive_ns = sent_ns;
	if (session->state == SESSION_UP)
		atomic_store_explicit(&session->until_ns, fence_ns(session),
				      memory_order_release);
}

static int closing(struct rmem *session, unsigned reason)
{
	session->closing = true;
	return err_set(-ESTALE, "%s",
		       reason == WIRE_REASON_SHUTDOWN ? "the server stops"
		       : reason == WIRE_REASON_REVOKED
			       ? "the server's administrator ended the session"
			       : "the server ended the session");
}

static int event(void *ctx, const struct wire_msg *msg)
{
	struct rmem *session = ctx;

	if (msg->type == WIRE_TYPE_closing)
		return closing(session, msg->closing.reason);
	/* the lease clock was too slow for the server: resume */
	if (msg->type == WIRE_TYPE_fenced)
		return err_set(-ECONNRESET, "the server has fenced the session");
	if (msg->type == WIRE_TYPE_draining)
		session->draining = true;
	else if (msg->type == WIRE_TYPE_serving)
		session->draining = false;
	else
		SESSION_NOTIFY(session, event, session, msg);
	return 0;
}

const struct connection_events session_connection_events = {
	.answered = answered,
	.event = event,
};

/* ---- losing the server ---- */

static void lookup_again(struct rmem *session, uint64_t now_ns)
{
	if (session->lookup || now_ns < session->lookup_ns ||
	    resolve_is_address(session->uri.host))
		return;
	session->lookup_ns = now_ns + LOOKUP_EVERY_MS * NS_PER_MS;
	/* without it the addresses stay those that are known */
	(void)lookup_begin(session->uri.host, session->uri.port, &session->wake,
			   &session->lookup);
}

/* Take over what was looked up, while nothing uses the addresses. */
static void lookup_take(struct rmem *session)
{
	struct addrinfo *list;

	if (!session->lookup || !lookup_is_done(session->lookup))
		return;
	if (!lookup_end(session->lookup, &list)) {
		freeaddrinfo(session->addresses);
		session->addresses = list;
	}
	session->lookup = NULL;
}

static void session_lose(struct rmem *session, enum session_step step, const char *why)
{
	session_move(session, step);
	dial_end(session);
	lookup_drop(session);
	session->hello_sent = false;
	connection_end(session->connection, -ESTALE, why);
	SESSION_NOTIFY(session, state, session);
}

/* Attempts begin anew if the session has held, for the fence time, which the server chooses, and
 * the longest wait.  A server that is too busy for all of its clients would lose them again and
 * again. */
static void attempts_forget(struct rmem *session)
{
	uint64_t held_ms = session->welcome.fence_ms > SESSION_BACKOFF_MAX_MS
				   ? session->welcome.fence_ms
				   : SESSION_BACKOFF_MAX_MS;

	if (session->alive_ns < session->up_ns + held_ms * NS_PER_MS)
		return;
	backoff_reset(&session->backoff);
	session->attempt_ms = 0;
}

void session_robbed(struct rmem *session)
{
	session->robbed = true;
	session->fenced_ns = 0;
	session_lose(session, SESSION_STEP_ROB,
		     "the session is lost: the program has closed a descriptor "
		     "of it, as closefrom(3) would");
}

/* There is nothing to resume, or it is not wanted; the error's text says why. */
static void session_refuse(struct rmem *session)
{
	char text[SESSION_TEXT_BYTES];

	(void)snprintf(text, sizeof(text), "the session is lost: %.200s", err_text());
	session_lose(session, SESSION_STEP_REFUSE, text);
}

static void session_down(struct rmem *session)
{
	uint64_t now = clock_now_ns();

	/* the server counts from the receipt of the last heartbeat, which was sent before now */
	if (session->closing)
		session->fenced_ns = 0;
	else if (session->state == SESSION_UP)
		session->fenced_ns = now + session->welcome.fence_ms * NS_PER_MS;
	if (session->closing || session->no_resume) {
		session_refuse(session);
		return;
	}
	if (session->state == SESSION_UP)
		attempts_forget(session);
	(void)snprintf(session->cause, sizeof(session->cause), "%s", err_text());
	session_move(session, SESSION_STEP_FAIL);
	session->retry_ns = now + backoff_next(&session->backoff) * NS_PER_MS;
	session->pings = 0;
	dial_end(session);
	server_drop(session);
	lookup_again(session, now);
	SESSION_NOTIFY(session, state, session);
}

void session_distrust(struct rmem *session, enum wire_type unanswered)
{
	(void)err_set(-ETIMEDOUT, "the server does not answer %s",
		      wire_type_name(unanswered));
	session_down(session);
}

/* ---- due work ---- */

static int ping_done(void *ctx, int err, const struct wire_msg *reply)
{
	struct rmem *session = ctx;

	(void)err;
	(void)reply;
	if (session->pings > 0)
		session->pings--;
	return 0;
}

static void ping(struct rmem *session, uint64_t now_ns)
{
	struct wire_msg request;

	session->ping_ns = now_ns + session->welcome.heartbeat_ms * NS_PER_MS;
	/* a thread in a call that receives may hang in a signal handler */
	if (session->pings > 0)
		connection_take_back(session->connection);
	if (session->pings >= PINGS_MAX)
		return;
	wire_msg_init(&request, WIRE_TYPE_ping);
	if (!connection_call(session->connection, &request, ping_done, session, NULL))
		session->pings++;
}

/* Whether the lease clock has time for a heartbeat: in a crowd a welcome may come so late that a
 * heartbeat has to be answered first. */
static bool clock_runs(const struct rmem *session, uint64_t now_ns)
{
	return session->alive_ns + session->welcome.heartbeat_ms * NS_PER_MS >=
		       session->welcomed_ns &&
	       now_ns < fence_ns(session);
}

/* When a server that is silent is given up.  Nothing is posted before the session has resumed, and
 * the server counts from its welcome, not from the hello. */
static uint64_t silence_ns(const struct rmem *session)
{
	uint64_t welcome_ns =
		session->welcomed_ns + session->welcome.fence_ms * NS_PER_MS;

	return session->state == SESSION_REKEY && welcome_ns > fence_ns(session)
		       ? welcome_ns
		       : fence_ns(session);
}

/* When the server has certainly ended the session. */
static uint64_t end_ns(const struct rmem *session)
{
	return fence_ns(session) + session->welcome.grace_ms * NS_PER_MS;
}

/* The grace time is over. */
static void session_expire(struct rmem *session)
{
	char text[SESSION_TEXT_BYTES];

	(void)snprintf(
		text, sizeof(text),
		"the session is lost: its grace time was over before it could be "
		"resumed: %.150s",
		session->cause);
	session_lose(session, SESSION_STEP_EXPIRE, text);
}

/* When the next attempt begins. */
static uint64_t attempt_ns(const struct rmem *session)
{
	uint64_t answer_ns;

	if (!session->lookup)
		return session->retry_ns;
	answer_ns = session->lookup_ns - (LOOKUP_EVERY_MS - LOOKUP_WAIT_MS) * NS_PER_MS;
	return answer_ns > session->retry_ns ? answer_ns : session->retry_ns;
}

static void session_retry(struct rmem *session, uint64_t now_ns)
{
	session_move(session, SESSION_STEP_RETRY);
	if (session->attempt_ms == 0)
		session->attempt_ms = ATTEMPT_MS;
	session->retry_ns = now_ns + session->attempt_ms * NS_PER_MS;
	credentials_renew(&session->credentials, &session->uri);
	if (dial_create(session->wake.epfd, session->addresses,
			(const struct sockaddr *)&session->peer, &session->dial))
		session_down(session);
}

/* Go on connecting, and send the hello. */
static void attempt_work(struct rmem *session, uint64_t now_ns)
{
	int fd, err = dial_work(session->dial, now_ns, &fd);

	if (err == -EAGAIN)
		return;
	if (!err)
		err = connected(session, fd);
	if (!err)
		err = hello_send(session, welcome_resumed);
	if (err)
		session_down(session);
}

/* The connection has failed: another address may be that of the server. */
static void connection_failed(struct rmem *session, int err)
{
	if (err == -EBADF) {
		session_robbed(session);
		return;
	}
	if (session->state != SESSION_HELLO || session->closing || is_temporary(err) ||
	    dial_left(session->dial) == 1) {
		session_down(session);
		return;
	}
	dial_reject(session->dial, err);
	server_drop(session);
}

static void timers_work(struct rmem *session, uint64_t now_ns)
{
	switch (session->state) {
	case SESSION_UP:
	case SESSION_REKEY:
		if (now_ns >= silence_ns(session)) {
			(void)err_set(-ETIMEDOUT, "no sign of life from the server");
			session_down(session);
		} else if (now_ns >= session->ping_ns) {
			ping(session, now_ns);
		}
		break;
	case SESSION_HELLO:
		if (now_ns < session->retry_ns)
			break;
		(void)err_set(-ETIMEDOUT, "no answer within %u ms",
			      session->attempt_ms);
		if (session->attempt_ms < ATTEMPT_MAX_MS)
			session->attempt_ms *= 2;
		session_down(session);
		break;
	case SESSION_WAIT:
		if (now_ns >= end_ns(session))
			session_expire(session);
		else if (now_ns >= attempt_ns(session))
			session_retry(session, now_ns);
		break;
	case SESSION_LOST:
		break;
	}
}

void session_state_work(struct rmem *session, uint64_t now_ns)
{
	int err;

	if (session->state == SESSION_LOST)
		return;
	if (session->state == SESSION_WAIT)
		lookup_take(session);
	if (session->state == SESSION_HELLO && !session->hello_sent)
		attempt_work(session, now_ns);
	if (session->state != SESSION_WAIT) {
		err = connection_io(session->connection);
		if (err)
			connection_failed(session, err);
	}
	if (session->state == SESSION_REKEY && session->rekeys == 0 &&
	    clock_runs(session, now_ns))
		session_up(session, now_ns);
	timers_work(session, now_ns);
	assert(!session->dial || session->state == SESSION_HELLO);
}

uint64_t session_state_due(const struct rmem *session)
{
	uint64_t due;

	switch (session->state) {
	case SESSION_UP:
	case SESSION_REKEY:
		due = silence_ns(session);
		return session->ping_ns < due ? session->ping_ns : due;
	case SESSION_HELLO:
		due = session->hello_sent ? UINT64_MAX : dial_due(session->dial);
		return due < session->retry_ns ? due : session->retry_ns;
	case SESSION_WAIT:
		due = attempt_ns(session);
		return due < end_ns(session) ? due : end_ns(session);
	default:
		return UINT64_MAX;
	}
}

/* ---- opening ---- */

/* Tell that TLS has begun, once: *told. */
static void secured_tell(const struct rmem *session, bool *told)
{
	if (!*told && connection_is_secure(session->connection)) {
		session_stepped(session, RMEM_STEP_SECURED);
		*told = true;
	}
}

static int first_hello(struct rmem *session)
{
	int err = hello_send(session, welcome_first);
	uint64_t now_ns = clock_now_ns();
	bool secured = false;

	while (!err && !(session->welcomed && clock_runs(session, now_ns))) {
		struct pollfd pollfd = { .fd = session->wake.epfd, .events = POLLIN };
		unsigned ms = session_left_ms(session->retry_ns);

		if (session->welcomed && now_ns >= session->ping_ns)
			ping(session, now_ns);
		/* looking its name up, and the addresses before, may have taken a part */
		if (now_ns >= session->retry_ns)
			return err_set(-ETIMEDOUT, "no answer within %u ms",
				       session_timeout_ms(session));
		if (poll(&pollfd, 1, ms < INT_MAX ? (int)ms : INT_MAX) < 0 &&
		    errno != EINTR)
			return err_errno(-errno, "poll");
		err = connection_io(session->connection);
		now_ns = clock_now_ns();
		secured_tell(session, &secured);
	}
	if (!err)
		session_stepped(session, RMEM_STEP_WELCOMED);
	return err;
}

/* The deadline for the hello of one of n addresses: a server that is silent must not use the time
 * of those after it. */
static uint64_t address_deadline(unsigned n, uint64_t deadline)
{
	uint64_t now = clock_now_ns(), share_ns;

	if (now >= deadline)
		return deadline;
	share_ns = (deadline - now) / n;
	if (share_ns < ADDRESS_MIN_MS * NS_PER_MS)
		share_ns = ADDRESS_MIN_MS * NS_PER_MS;
	return share_ns < deadline - now ? now + share_ns : deadline;
}

/* Connect to the next address. */
static int reach(struct rmem *session, uint64_t deadline)
{
	int fd, err = dial_wait(session->dial, deadline, &fd);

	if (err)
		return err;
	err = connected(session, fd);
	if (!err)
		err = peer_store(session);
	session->retry_ns = address_deadline(dial_left(session->dial), deadline);
	session_stepped(session, RMEM_STEP_CONNECTED);
	return err;
}

int session_connect(struct rmem *session)
{
	uint64_t deadline = session_end_ns(session);
	int err = resolve_host(session->uri.host, session->uri.port, deadline,
			       &session->addresses);

	if (err)
		return err;
	session_stepped(session, RMEM_STEP_RESOLVED);
	err = dial_create(session->wake.epfd, session->addresses, NULL, &session->dial);
	while (!err && !(err = reach(session, deadline))) {
		err = first_hello(session);
		if (!err)
			break;
		session->dropped |= err == -ECONNRESET || err == -EPIPE;
		/* a server that has answered is final */
		if (session->alive_ns != 0) {
			err = err_prefix(err, "%s", session->server);
			break;
		}
		dial_reject(session->dial, err);
		server_drop(session);
		err = 0;
	}
	dial_end(session);
	return err;
}
