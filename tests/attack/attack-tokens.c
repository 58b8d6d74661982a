/* SPDX-License-Identifier: BSD-3-Clause */
/* What admits a data channel, or resumes a session: forged, replayed and stolen. */
#include <stdlib.h>

#include "attack.h"
#include "base/random.h"
#include "link.h"
#include "peer.h"

#define CHANNELS "status counters channels_refused"
#define ADDRESSES "status counters refused channel_address"
#define SESSIONS "status counters refused session"
#define TENANTS "status counters refused tenant"
#define SESSIONS_GUESSED 64u

/* Try each of these hellos once. */
static void hellos_try(struct link *link, const char *what,
		       const struct fabric_hello *hellos, unsigned n)
{
	attempt(what, CHANNELS, n);
	for (unsigned i = 0; i < n; i++) {
		if (link_admit(link, &hellos[i]) == 0) {
			attempt_admitted("a channel");
			link->ops->channel_free(link->channel);
			link->channel = NULL;
			return;
		}
	}
	attempt_refused("the server: channel not admitted");
}

static void hello_try(struct link *link, const char *what, struct fabric_hello hello)
{
	hellos_try(link, what, &hello, 1);
}

static void bits_try(struct link *link, const struct fabric_hello *good)
{
	/* a connection by rdma_cm takes long in a virtual machine */
	unsigned n_bits = 8 * sizeof(good->token);
	unsigned step = attack_options.fabric == FABRIC_TCP ? 1 : 43, n = 0;
	struct fabric_hello hellos[8 * sizeof(good->token)];

	for (unsigned bit = 0; bit < n_bits; bit += step) {
		hellos[n] = *good;
		hellos[n++].token[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	hellos_try(link, "a token with one bit changed, each bit", hellos, n);
}

static void sessions_guess(struct link *link, const struct peer *peer)
{
	unsigned n = attack_options.fabric == FABRIC_TCP ? SESSIONS_GUESSED : 2;
	struct fabric_hello hellos[SESSIONS_GUESSED];

	memset(hellos, 0, sizeof(hellos));
	for (unsigned i = 0; i < n; i++) {
		hellos[i].session = peer->session + i - n / 2;
		hellos[i].channel = 1;
	}
	hellos_try(link, "guessed session numbers without a token", hellos, n);
	for (unsigned i = 0; i < n; i++) {
		hellos[i] = peer_hello_of(peer, 1);
		hellos[i].session = peer->session + i + 1;
	}
	hellos_try(link, "guessed session numbers with an own token", hellos, n);
}

/* The hello of another session's channel, before its client uses it. */
static void stolen_try(struct link *link, struct peer *own, struct peer *victim)
{
	struct fabric_hello theirs = peer_grant(victim), mixed = peer_grant(own);
	struct fabric_hello token = mixed;
	struct link *good = link_open(victim);

	mixed.session = theirs.session;
	mixed.channel = theirs.channel;
	hello_try(link, "another session's channel with an own token", mixed);
	memcpy(token.token, theirs.token, sizeof(token.token));
	hello_try(link, "an own channel with another session's token", token);
	memcpy(theirs.token, victim->token, sizeof(theirs.token));
	hello_try(link, "the session's token instead of the channel's", theirs);
	theirs = peer_hello_of(victim, theirs.channel);
	must(!link_admit(good, &theirs), "the victim cannot use its channel any more");
	hello_try(link, "another session's token, used a second time", theirs);
	link_close(good);
}

static void ungranted_try(struct link *link, struct peer *own)
{
	struct fabric_hello hello = peer_grant(own);

	hello = peer_hello_of(own, hello.channel + 1);
	hello_try(link, "a good token of a channel that was not granted", hello);
	hello = peer_hello_of(own, 0);
	hello_try(link, "a good token of channel 0", hello);
	hello = peer_grant(own);
	peer_message(own, WIRE_TYPE_close_channel);
	own->msg.close_channel.channel = hello.channel;
	must(!peer_ask(own), "a channel cannot be closed");
	hello_try(link, "a token of a channel that was closed", hello);
}

/* The session comes from 127.0.0.2, and names no address of its channel. */
static void address_try(void)
{
	struct peer *own = peer_open_from("mallory", "127.0.0.2");
	struct link *link = link_open(own);
	struct fabric_hello hello = peer_grant(own);

	attempt("a good token from another address", ADDRESSES, 1);
	attempt_result(link_admit(link, &hello), "the server: channel not admitted");
	link_close(link);
	peer_bye(own);
}

/* ---- sessions ---- */

static void resume_try(const char *what, const char *counter, const char *tenant,
		       uint64_t session, const uint8_t *token)
{
	struct peer *peer;
	int err;

	attempt(what, counter, 1);
	peer = peer_connect(tenant);
	err = peer_hello(peer, tenant, session, token);
	attempt_result(err, "the server: hello refused");
	peer_close(peer);
}

static void sessions_try(void)
{
	struct peer *victim = peer_open("red"), *own = peer_open("mallory");
	uint8_t token[WIRE_TOKEN_BYTES], nothing[WIRE_TOKEN_BYTES] = { 0 };
	uint64_t session = victim->session;

	memcpy(token, victim->token, sizeof(token));
	resume_try("resumption by the session's number alone", SESSIONS, "red", session,
		   nothing);
	resume_try("resumption with another session's token", SESSIONS, "red", session,
		   own->token);
	token[15] ^= 1;
	resume_try("resumption with one bit of the token changed", SESSIONS, "red",
		   session, token);
	token[15] ^= 1;
	resume_try("resumption by another tenant with the stolen token", TENANTS,
		   "mallory", session, token);
	peer_ping(victim);
	peer_bye(victim);
	resume_try("resumption of a session that has ended", SESSIONS, "red", session,
		   token);
	peer_bye(own);
}

/* After a session was resumed the tokens of its old connection are of no use. */
static void rebound_try(void)
{
	struct peer *own = peer_open("mallory"), *again;
	struct fabric_hello old = peer_grant(own), fresh;
	struct link *link;

	again = peer_connect("mallory");
	must(!peer_hello(again, "mallory", own->session, own->token),
	     "an own session is not resumed");
	link = link_open(again);
	hello_try(link, "a token from before the session was resumed", old);
	fresh = peer_grant(again);
	memcpy(again->secret, own->secret, sizeof(own->secret));
	fresh = peer_hello_of(again, fresh.channel);
	hello_try(link, "a token from the secret of the old connection", fresh);
	link_close(link);
	peer_close(own);
	peer_bye(again);
}

static void ended_try(void)
{
	struct peer *own = peer_open("mallory"), *other = peer_open("mallory");
	struct fabric_hello hello = peer_grant(own), fenced = peer_grant(other);
	struct peer *live = peer_open("mallory");
	struct link *link = link_open(live);

	peer_bye(own);
	hello_try(link, "a token of a session that has ended", hello);
	peer_close(other);
	/* its end is noticed a moment later */
	for (unsigned i = 0; i < 3; i++)
		peer_ping(live);
	hello_try(link, "a token of a session that is fenced", fenced);
	link_close(link);
	peer_bye(live);
}

void attack_tokens(void)
{
	struct peer *own = peer_open("mallory"), *victim = peer_open("red");
	struct link *link = link_open(own);
	struct fabric_hello good = peer_grant(own), random = good;

	random_bytes(random.token, sizeof(random.token));
	hello_try(link, "a random token", random);
	memset(random.token, 0, sizeof(random.token));
	hello_try(link, "a token of zeros", random);
	bits_try(link, &good);
	stolen_try(link, own, victim);
	ungranted_try(link, own);
	sessions_guess(link, victim);
	address_try();
	must(!link_admit(link, &good), "an own channel is refused after all that");
	link_close(link);
	peer_bye(victim);
	peer_bye(own);
	ended_try();
	rebound_try();
	sessions_try();
}
