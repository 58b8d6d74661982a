/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers at which arithmetic goes wrong, in every field of every request.  What is served must be
 * what was asked for, in memory that nobody has and that reads as zeros; meanwhile another tenant's
 * bytes and the free memory stay as they are. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attack.h"
#include "base/clock.h"
#include "link.h"
#include "peer.h"
#include "unit/borders.h"

#define BYTES 4096
#define NAME "mallory-numbers"
#define FREE_BYTES "status memory free_bytes"
#define WAIT_MS 20000
/* A hello needs a connection of its own. */
#define HELLO_STEP 16

/* ---- the fields of the table of messages ---- */

#define FIELDS_MAX 32

struct field {
	const char *name;
	size_t offset, bytes; /* in struct wire_msg */
};

static struct field fields[FIELDS_MAX];
static unsigned n_fields;

static void field_add(const char *name, size_t offset, size_t bytes)
{
	must(n_fields < FIELDS_MAX, "too many fields");
	fields[n_fields++] = (struct field){ name, offset, bytes };
}

#define NUMBER(name)                                                  \
	field_add(#name, (size_t)((const char *)&body->name - start), \
		  sizeof(body->name));
#define TEXT(name, max)
#define LIST(name, item, max)
/* Those of a message that are numbers. */
#define FIND(type, number, since, text)                                                \
	static void find_##type(struct wire_msg *msg)                                  \
	{                                                                              \
		const struct wire_##type *body = &msg->type;                           \
		const char *start = (const char *)msg;                                 \
                                                                                       \
		(void)body;                                                            \
		(void)start;                                                           \
		WIRE_FIELDS_##type(NUMBER, NUMBER, NUMBER, NUMBER, NUMBER, TEXT, TEXT, \
				   LIST, )                                             \
	}
WIRE_REQUESTS(FIND)

#define ROW(type, number, since, text) { #type, WIRE_TYPE_##type, find_##type },
static const struct {
	const char *name;
	enum wire_type type;
	void (*find)(struct wire_msg *msg);
} requests[] = { WIRE_REQUESTS(ROW) };

/* ---- both tenants ---- */

static struct peer *own, *victim;
static struct link *own_link, *victim_link;
static struct holding lease, secret;
static uint64_t free_bytes, pool_bytes;
/* Of the own lease, which changes, the other tenant's, and the pools. */
static uint64_t lengths[4];
static const struct borders borders = { lengths, 4 };

static void secret_check(const char *what)
{
	memset(victim_link->memory, 0, BYTES);
	must(!link_run(victim_link, FABRIC_READ, secret.key, BYTES), what);
	for (unsigned i = 0; i < BYTES; i++)
		must(victim_link->memory[i] == 'r', "another tenant's byte changed");
}

static void number_await(const char *path, uint64_t number)
{
	uint64_t until_ms = clock_now_ms() + WAIT_MS;

	while (counter_get(path) != number) {
		must(clock_now_ms() < until_ms, path);
		peers_keep();
		(void)usleep(1000);
	}
}

/* What was freed is zeroed by and by. */
static void memory_check(void)
{
	number_await(FREE_BYTES, free_bytes);
}

static void zeros_check(uint64_t addr, uint64_t rkey, uint64_t bytes)
{
	memset(own_link->memory, 1, LINK_BYTES);
	must(!link_run(own_link, FABRIC_READ, (struct fabric_key){ addr, rkey }, bytes),
	     "what was granted cannot be read");
	for (uint64_t i = 0; i < bytes; i++)
		must(own_link->memory[i] == 0, "what was granted is not zero");
}

/* The lease of the answer has these bytes, and its first and last ones are zeros. */
static void granted_check(uint64_t bytes)
{
	const struct wire_lease *got = &own->answer.lease;
	unsigned endpoint = peer_endpoint(own);
	uint64_t sum = 0;

	must(got->bytes == bytes, "another length than was asked for");
	for (unsigned i = 0; i < got->n_segments; i++) {
		must(got->segments[i].bytes <= pool_bytes - sum,
		     "the segments are longer than the pools");
		sum += got->segments[i].bytes;
	}
	must(sum == bytes, "the segments are not the lease");
	for (unsigned i = 0; i < got->n_keys; i++) {
		const struct wire_key *key = &got->keys[i];
		uint64_t in = got->segments[key->segment].bytes;
		uint64_t some = in < LINK_BYTES ? in : LINK_BYTES;

		if (key->endpoint != endpoint)
			continue;
		zeros_check(key->addr, key->rkey, some);
		zeros_check(key->addr + (in - some), key->rkey, some);
	}
}

/* ---- requests ---- */

/* Attached, or anew if it has ended. */
static void lease_have(void)
{
	peer_message(own, WIRE_TYPE_attach);
	own->msg.attach.lease = lease.lease;
	own->msg.attach.reach = (uint8_t)(1u << peer_endpoint(own));
	if (peer_ask(own) && peer_attach(own, "", NAME, 3, &lease))
		lease = peer_allocate(own, BYTES, NAME);
	lengths[0] = lease.lease;
}

/* A request that would be served, but for the field. */
static void request_fill(struct peer *peer, enum wire_type type, uint64_t align)
{
	struct wire_msg *msg = &peer->msg;
	uint8_t reach = (uint8_t)(1u << peer_endpoint(peer));

	peer_message(peer, type);
	switch (type) {
	case WIRE_TYPE_allocate:
		msg->allocate.bytes = BYTES;
		msg->allocate.align = align;
		msg->allocate.node = -1;
		msg->allocate.reach = reach;
		break;
	case WIRE_TYPE_attach:
		msg->attach.lease = lease.lease;
		msg->attach.reach = reach;
		break;
	case WIRE_TYPE_rename:
		(void)strcpy(msg->rename.name, NAME);
		msg->rename.lease = lease.lease;
		break;
	case WIRE_TYPE_share:
		(void)strcpy(msg->share.tenant, "narrow");
		msg->share.lease = lease.lease;
		break;
	case WIRE_TYPE_resize:
		msg->resize.lease = lease.lease;
		msg->resize.bytes = BYTES;
		msg->resize.reach = reach;
		break;
	case WIRE_TYPE_renew:
		msg->renew.lease = lease.lease;
		break;
	case WIRE_TYPE_fix_atomic_device:
		msg->fix_atomic_device.lease = lease.lease;
		break;
	default:
		break;
	}
}

/* Undo what was served, so that all is as before. */
static void request_undo(struct peer *peer, enum wire_type type)
{
	uint64_t granted = peer->answer.lease.lease;

	switch (type) {
	case WIRE_TYPE_allocate:
		must(!peer_free(peer, granted), "free");
		break;
	case WIRE_TYPE_resize:
		request_fill(peer, type, 0);
		must(!peer_ask(peer), "resize");
		break;
	case WIRE_TYPE_share:
		must(!peer_share(peer, lease.lease, "narrow", 0), "unshare");
		break;
	case WIRE_TYPE_renew:
		/* it may have ended by now */
		request_fill(peer, type, 0);
		(void)peer_ask(peer);
		lease_have();
		break;
	case WIRE_TYPE_open_channel:
		peer_message(peer, WIRE_TYPE_close_channel);
		peer->msg.close_channel.channel = peer->answer.channel.channel;
		must(!peer_ask(peer), "close a channel");
		break;
	case WIRE_TYPE_free:
	case WIRE_TYPE_detach:
	case WIRE_TYPE_attach:
		lease_have();
		break;
	default:
		break;
	}
}

/* The result of peer_ask(). */
static int ask_try(struct peer *peer, enum wire_type type)
{
	uint64_t bytes = type == WIRE_TYPE_allocate ? peer->msg.allocate.bytes
						    : peer->msg.resize.bytes;
	int err = peer_ask(peer);

	must(err != -ECONNRESET, "a number ends the session");
	if (err)
		return err;
	if (type == WIRE_TYPE_allocate || type == WIRE_TYPE_resize)
		granted_check(bytes);
	request_undo(peer, type);
	return 0;
}

static void number_set(struct wire_msg *msg, const struct field *field, uint64_t number)
{
	/* of a little-endian machine, as those are that the fabrics run on */
	memcpy((char *)msg + field->offset, &number, field->bytes);
}

static int number_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* The borders as a field of so many bytes has them, each once; to be freed. */
static uint64_t *numbers_of(size_t bytes, unsigned *ret_n)
{
	unsigned count = borders_count(&borders), n = 0;
	uint64_t *numbers = calloc(count, sizeof(*numbers));

	must(numbers, "memory");
	for (unsigned i = 0; i < count; i++) {
		uint64_t number = border_at(&borders, i);

		memcpy(&numbers[i], &number, bytes);
	}
	qsort(numbers, count, sizeof(*numbers), number_order);
	for (unsigned i = 0; i < count; i++)
		if (n == 0 || numbers[i] != numbers[n - 1])
			numbers[n++] = numbers[i];
	*ret_n = n;
	return numbers;
}

static void field_try(struct peer *peer, const char *name, enum wire_type type,
		      const struct field *field, uint64_t align)
{
	unsigned n, n_served = 0;
	uint64_t *numbers = numbers_of(field->bytes, &n);
	char what[80], by[80];

	(void)snprintf(what, sizeof(what), "borders in %s.%s", name, field->name);
	if (align)
		(void)snprintf(what, sizeof(what), "borders in %s.%s, at %" PRIu64 " K",
			       name, field->name, align / 1024);
	attempt(what, NULL, 0);
	for (unsigned i = 0; i < n; i++) {
		peers_keep();
		request_fill(peer, type, align);
		number_set(&peer->msg, field, numbers[i]);
		if (!ask_try(peer, type)) {
			n_served++;
			memory_check();
		}
		secret_check(what);
	}
	memory_check();
	(void)snprintf(by, sizeof(by), "%u of %u refused, others served as asked",
		       n - n_served, n);
	attempt_refused(by);
	free(numbers);
}

static void fields_find(unsigned i)
{
	n_fields = 0;
	requests[i].find(&own->msg);
}

static void request_try(struct peer *peer, unsigned i)
{
	/* below and above the pages of the pools */
	static const uint64_t aligns[] = { 8192, UINT64_C(2) << 20, UINT64_C(1) << 30 };
	enum wire_type type = requests[i].type;

	fields_find(i);
	for (unsigned k = 0; k < n_fields; k++)
		field_try(peer, requests[i].name, type, &fields[k], 0);
	/* the first field of allocate is the length */
	for (unsigned k = 0; type == WIRE_TYPE_allocate && k < 3; k++)
		field_try(peer, requests[i].name, type, &fields[0], aligns[k]);
}

/* The rest of a hello is good: what is served is a session. */
static void hello_try(const struct field *field)
{
	unsigned n, n_served = 0;
	uint64_t *numbers = numbers_of(field->bytes, &n);
	char what[80], by[80];

	(void)snprintf(what, sizeof(what), "borders in hello.%s", field->name);
	attempt(what, NULL, 0);
	for (unsigned i = 0; i < n; i += HELLO_STEP) {
		struct peer *peer = peer_connect("mallory");

		peers_keep();
		peer_message(peer, WIRE_TYPE_hello);
		peer->msg.hello.magic = WIRE_MAGIC;
		peer->msg.hello.version_min = WIRE_VERSION_MIN;
		peer->msg.hello.version_max = WIRE_VERSION_MAX;
		(void)strcpy(peer->msg.hello.tenant, "mallory");
		(void)strcpy(peer->msg.hello.client, "attacker");
		number_set(&peer->msg, field, numbers[i]);
		if (!peer_ask(peer)) {
			n_served++;
			peer_message(peer, WIRE_TYPE_bye);
			must(!peer_ask(peer), "bye");
		}
		peer_close(peer);
		secret_check(what);
	}
	memory_check();
	(void)snprintf(by, sizeof(by), "%u of %u refused, others are sessions",
		       (n + HELLO_STEP - 1) / HELLO_STEP - n_served,
		       (n + HELLO_STEP - 1) / HELLO_STEP);
	attempt_refused(by);
	free(numbers);
}

static void begin(void)
{
	own = peer_open("mallory");
	victim = peer_open("red");
	own_link = link_connect(own);
	victim_link = link_connect(victim);
	secret = peer_allocate(victim, BYTES, NULL);
	lease_have();
	memset(victim_link->memory, 'r', BYTES);
	must(!link_run(victim_link, FABRIC_WRITE, secret.key, BYTES), "a write");
	/* no lease of an earlier attempt ends from here on */
	number_await("status sessions fenced", 0);
	number_await("status memory scrubbing_bytes", 0);
	free_bytes = counter_get(FREE_BYTES);
	pool_bytes = counter_get("status memory bytes");
	lengths[1] = secret.lease;
	lengths[2] = pool_bytes;
	lengths[3] = free_bytes;
}

void attack_numbers(void)
{
	struct peer *other;

	begin();
	/* its channels may be closed */
	other = peer_open("mallory");
	for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		enum wire_type type = requests[i].type;
		bool channels = type == WIRE_TYPE_open_channel ||
				type == WIRE_TYPE_close_channel ||
				type == WIRE_TYPE_join_channel;

		if (type == WIRE_TYPE_hello)
			continue;
		request_try(channels ? other : own, i);
	}
	fields_find(0);
	for (unsigned k = 0; k < n_fields; k++)
		hello_try(&fields[k]);
	must(!peer_free(own, lease.lease), "free");
	must(!peer_free(victim, secret.lease), "free");
	peer_bye(other);
	link_close(own_link);
	link_close(victim_link);
	peer_bye(own);
	peer_bye(victim);
}
