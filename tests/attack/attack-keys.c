/* SPDX-License-Identifier: BSD-3-Clause */
/* Keys of others, guessed keys, and keys that are dead. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "link.h"
#include "peer.h"

#define ACCESSES "tenants mallory accesses_refused"
#define BYTES 4096
#define GUESSES 65536u
/* Over RDMA each guess costs a connection. */
#define RDMA_GUESS_MS 8000
#define RDMA_GUESSES_MAX 200u

/* A peer with memory and a channel. */
struct owner {
	struct peer *peer;
	struct link *link;
	struct holding holding;
};

static struct owner owner_open(const char *tenant, const char *name)
{
	struct owner owner = { .peer = peer_open(tenant) };

	owner.link = link_connect(owner.peer);
	owner.holding = peer_allocate(owner.peer, BYTES, name);
	memset(owner.link->memory, 0x5a, BYTES);
	must(!link_run(owner.link, FABRIC_WRITE, owner.holding.key, BYTES),
	     "an own lease cannot be written");
	return owner;
}

/* Its memory is what it wrote. */
static void owner_check(struct owner *owner)
{
	memset(owner->link->memory, 0, BYTES);
	must(!link_run(owner->link, FABRIC_READ, owner->holding.key, BYTES),
	     "the victim cannot read its lease");
	for (unsigned i = 0; i < BYTES; i++)
		must(owner->link->memory[i] == 0x5a, "the victim's bytes were changed");
}

static void owner_close(struct owner *owner)
{
	link_close(owner->link);
	peer_bye(owner->peer);
}

/* Each operation with a key. */
static void key_try(struct link *link, const char *whose, struct fabric_key key)
{
	static const struct {
		enum fabric_opcode opcode;
		const char *text;
		uint64_t bytes;
	} operations[] = {
		{ FABRIC_READ, "read", BYTES },
		{ FABRIC_WRITE, "write", BYTES },
		{ FABRIC_CAS, "compare and swap", 8 },
		{ FABRIC_FETCH_ADD, "fetch and add", 8 },
		{ FABRIC_FILL, "fill", BYTES },
		{ FABRIC_CRC, "checksum", BYTES },
		{ FABRIC_NOTIFY, "notify", 0 },
	};

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		enum fabric_opcode opcode = operations[i].opcode;
		char what[80];

		(void)snprintf(what, sizeof(what), "%s: %s", whose, operations[i].text);
		if (opcode >= FABRIC_CAS && opcode <= FABRIC_FETCH_ADD &&
		    !link->can_atomics) {
			attempt_void(what, "the device has no atomics");
			continue;
		}
		attempt(what, ACCESSES, 1);
		attempt_result(link_run(link, opcode, key, operations[i].bytes),
			       "the fabric: access");
	}
}

static void read_try(struct link *link, const char *what, struct fabric_key key)
{
	attempt(what, ACCESSES, 1);
	attempt_result(link_run(link, FABRIC_READ, key, 64), "the fabric: access");
}

/* Over RDMA the device finds the key alike for each operation. */
static void dead_try(struct link *link, const char *what, struct fabric_key key)
{
	if (attack_options.fabric == FABRIC_TCP)
		key_try(link, what, key);
	else
		read_try(link, what, key);
}

static void others_try(struct owner *own, struct owner *victim)
{
	struct fabric_key mixed = { victim->holding.key.addr, own->holding.key.rkey };
	struct fabric_key key = victim->holding.key;

	key_try(own->link, "another tenant's key", key);
	read_try(own->link, "an own key with another tenant's address", mixed);
	attempt("copy from another tenant's lease into an own one", ACCESSES, 1);
	attempt_result(link_copy(own->link, own->holding.key, key, 64),
		       "the fabric: access");
	attempt("copy from an own lease into another tenant's", ACCESSES, 1);
	attempt_result(link_copy(own->link, key, own->holding.key, 64),
		       "the fabric: access");
	owner_check(victim);
}

static void guess_tcp(struct owner *own, const char *what, struct fabric_key key,
		      unsigned from)
{
	char by[64];
	unsigned refused;

	attempt(what, ACCESSES, GUESSES - from);
	refused = link_guess(own->link, key, from, GUESSES);
	(void)snprintf(by, sizeof(by), "the fabric: %u of %u accesses", refused,
		       GUESSES - from);
	if (refused == GUESSES - from)
		attempt_refused(by);
	else
		attempt_admitted("a guessed key");
}

/* Each refusal ends the queue pair, so a key costs a new one: as many as fit in the time. */
static void guess_rdma(struct owner *own, const char *what, struct fabric_key key)
{
	uint64_t until_ms = clock_now_ms() + RDMA_GUESS_MS * attack_options.rounds;
	uint64_t before = counter_get(ACCESSES), risen;
	unsigned n = 0;
	char by[64];

	attempt(what, ACCESSES, 1);
	while (clock_now_ms() < until_ms &&
	       n < RDMA_GUESSES_MAX * attack_options.rounds) {
		const struct fabric_key guess = { key.addr, key.rkey ^ (n + 1) };

		peers_keep();
		if (link_run(own->link, FABRIC_READ, guess, 8) == 0) {
			attempt_admitted("a guessed key");
			return;
		}
		n++;
	}
	until_ms = clock_now_ms() + ATTACK_WAIT_MS;
	while ((risen = counter_get(ACCESSES) - before) < n &&
	       clock_now_ms() < until_ms) {
		peers_keep();
		(void)usleep(10000);
	}
	must(risen >= n, "guesses are not counted");
	(void)snprintf(by, sizeof(by), "the device: each of %u keys", n);
	attempt_refused(by);
}

static void guesses_try(struct owner *own, struct owner *victim)
{
	if (attack_options.fabric == FABRIC_TCP) {
		guess_tcp(own, "the 2^16 neighbours of an own key", own->holding.key,
			  1);
		guess_tcp(own, "the 2^16 neighbours of another's key",
			  victim->holding.key, 0);
	} else {
		guess_rdma(own, "neighbours of an own key, as many as fit",
			   own->holding.key);
		guess_rdma(own, "neighbours of another's key, as many as fit",
			   victim->holding.key);
	}
	owner_check(victim);
}

/* ---- keys that were good ---- */

static void freed_try(struct owner *own)
{
	struct holding freed = peer_allocate(own->peer, BYTES, NULL), named;

	must(!link_run(own->link, FABRIC_WRITE, freed.key, 64), "an own lease");
	must(!peer_free(own->peer, freed.lease), "free");
	dead_try(own->link, "a key after free", freed.key);
	named = peer_allocate(own->peer, BYTES, "mallory-detached");
	peer_message(own->peer, WIRE_TYPE_detach);
	own->peer->msg.detach.lease = named.lease;
	must(!peer_ask(own->peer), "detach");
	read_try(own->link, "a key after detach", named.key);
	peer_message(own->peer, WIRE_TYPE_remove);
	(void)strcpy(own->peer->msg.remove.name, "mallory-detached");
	must(!peer_ask(own->peer), "remove");
	named = peer_allocate(own->peer, 2 * BYTES, "mallory-shrunk");
	peer_message(own->peer, WIRE_TYPE_resize);
	own->peer->msg.resize.lease = named.lease;
	own->peer->msg.resize.bytes = BYTES;
	own->peer->msg.resize.reach = (uint8_t)(1u << peer_endpoint(own->peer));
	must(!peer_ask(own->peer), "resize");
	named.key.addr += BYTES;
	read_try(own->link, "the part that a lease lost by shrinking", named.key);
	must(!peer_free(own->peer, named.lease), "free");
}

static void revoked_try(struct owner *own)
{
	struct holding lease = peer_allocate(own->peer, BYTES, "mallory-revoked");
	char resource[80];

	must(!link_run(own->link, FABRIC_WRITE, lease.key, 64), "an own lease");
	(void)snprintf(resource, sizeof(resource), "/v1/revoke?lease=%" PRIu64,
		       lease.lease);
	must(admin_request("POST", resource) == 200, "rmemctl revoke");
	dead_try(own->link, "a key after rmemctl revoke", lease.key);
}

static void unshared_try(struct owner *own)
{
	struct owner victim = owner_open("red", "red-shared");
	struct holding share;

	must(!peer_share(victim.peer, victim.holding.lease, "mallory", WIRE_RIGHT_READ),
	     "share");
	must(!peer_attach(own->peer, "red", "red-shared", WIRE_RIGHT_READ, &share),
	     "attach a shared lease");
	must(!link_run(own->link, FABRIC_READ, share.key, 64), "read a shared lease");
	attempt("write to a lease that is shared for reading", ACCESSES, 1);
	attempt_result(link_run(own->link, FABRIC_WRITE, share.key, 64),
		       "the fabric: access");
	must(!peer_share(victim.peer, victim.holding.lease, "mallory", 0), "unshare");
	read_try(own->link, "a key after the share was revoked", share.key);
	owner_check(&victim);
	must(!peer_free(victim.peer, victim.holding.lease), "free");
	owner_close(&victim);
}

/* The session's end, with and without a bye: its channel is dead, and its keys are for nobody. */
static void session_end_try(struct owner *own)
{
	struct owner fenced = owner_open("mallory", NULL);
	struct owner ended = owner_open("mallory", NULL);

	attempt("the channel of a session whose connection is lost",
		"status counters sessions_fenced", 1);
	peer_close(fenced.peer);
	while (link_run_once(fenced.link, FABRIC_READ, fenced.holding.key, 64) == 0)
		(void)usleep(1000);
	attempt_refused("the fabric: channel ended");
	read_try(own->link, "a key of a session that is fenced", fenced.holding.key);
	link_close(fenced.link);
	peer_bye(ended.peer);
	must(link_run_once(ended.link, FABRIC_READ, ended.holding.key, 64) < 0,
	     "a channel serves after bye");
	read_try(own->link, "a key of a session that has ended", ended.holding.key);
	link_close(ended.link);
}

/* Keys from before a session was resumed. */
static void resumed_try(void)
{
	struct owner old = owner_open("mallory", NULL);
	struct peer *again = peer_connect("mallory");
	struct link *link;

	must(!peer_hello(again, "mallory", old.peer->session, old.peer->token),
	     "an own session is not resumed");
	must(link_run_once(old.link, FABRIC_READ, old.holding.key, 64) < 0,
	     "an old channel serves after the session was resumed");
	link = link_connect(again);
	read_try(link, "a key from before the session was resumed", old.holding.key);
	link_close(link);
	link_close(old.link);
	peer_close(old.peer);
	peer_bye(again);
}

void attack_keys(void)
{
	struct owner own = owner_open("mallory", NULL),
		     victim = owner_open("red", NULL);

	others_try(&own, &victim);
	guesses_try(&own, &victim);
	freed_try(&own);
	revoked_try(&own);
	unshared_try(&own);
	session_end_try(&own);
	owner_check(&victim);
	owner_close(&victim);
	owner_close(&own);
	resumed_try();
}

/* ---- over a restart of the daemon ---- */

static void restart_try(const char *signal_name)
{
	struct owner old = owner_open("mallory", "mallory-kept");
	struct fabric_hello hello = peer_grant(old.peer);
	struct holding dead = peer_allocate(old.peer, BYTES, NULL), kept;
	struct owner own;
	struct peer *again;
	char what[80];

	daemon_restart(signal_name);
	own = owner_open("mallory", NULL);
	(void)snprintf(what, sizeof(what), "a token from before %s", signal_name);
	link_close(old.link);
	old.link = link_open(own.peer);
	attempt(what, "status counters channels_refused", 1);
	attempt_result(link_admit(old.link, &hello),
		       "the server: channel not admitted");
	(void)snprintf(what, sizeof(what), "a key from before %s", signal_name);
	read_try(own.link, what, old.holding.key);
	(void)snprintf(what, sizeof(what), "a nameless lease's key from before %s",
		       signal_name);
	read_try(own.link, what, dead.key);
	must(!peer_attach(own.peer, "", "mallory-kept", 3, &kept), "a kept lease");
	(void)snprintf(what, sizeof(what), "a key from before %s, lease attached again",
		       signal_name);
	read_try(own.link, what, old.holding.key);
	attempt("resumption over a restart by the session's number",
		"status counters refused session", 1);
	again = peer_connect("mallory");
	memset(old.peer->token, 0, sizeof(old.peer->token));
	attempt_result(peer_hello(again, "mallory", old.peer->session, old.peer->token),
		       "the server: hello refused");
	peer_close(again);
	must(!peer_free(own.peer, kept.lease), "free");
	link_close(old.link);
	peer_close(old.peer);
	owner_close(&own);
}

void attack_restart(void)
{
	restart_try("SIGTERM");
	restart_try("SIGKILL");
}
