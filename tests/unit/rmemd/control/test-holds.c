/* SPDX-License-Identifier: BSD-3-Clause */
/* What a session holds: the table of rmem-protocol(7), row by row, against the server. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/rmemd/control-stage.h"
#include "unit/unit.h"

#define NAME "held"

static struct client owner, one;
static uint64_t lease;

/* ---- how a session comes to hold the lease, and to hold it no longer ---- */

static void hold(void)
{
	lease = client_allocate(&one, FAKE_PAGE, NAME);
	(void)client_ask(&owner, to_attach(NAME), WIRE_TYPE_lease);
}

static void hold_attached(void)
{
	lease = client_allocate(&owner, FAKE_PAGE, NAME);
	(void)client_ask(&one, to_attach(NAME), WIRE_TYPE_lease);
}

static void hold_resumed(void)
{
	struct client lost;

	hold_attached();
	lost = one;
	client_lose(&one);
	client_resume(&one, &lost);
}

static void never_held(void)
{
	lease = client_allocate(&owner, FAKE_PAGE, NAME);
}

static void detached(void)
{
	hold();
	client_ok(&one, lease_message(WIRE_TYPE_detach, lease));
}

static void lease_ended(void)
{
	hold_attached();
	client_ok(&owner, lease_message(WIRE_TYPE_free, lease));
	(void)client_event(&one, one.events, WIRE_TYPE_revoked);
	/* another one of that name */
	(void)client_allocate(&owner, FAKE_PAGE, NAME);
}

static void (*const holds[])(void) = { hold, hold_attached, hold_resumed };
static void (*const holds_not[])(void) = { never_held, detached, lease_ended };

/* ---- the requests ---- */

static struct wire_msg *attach_by_name(void)
{
	return to_attach(NAME);
}

static struct wire_msg *attach_by_id(void)
{
	return lease_message(WIRE_TYPE_attach, lease);
}

static struct wire_msg *detach(void)
{
	return lease_message(WIRE_TYPE_detach, lease);
}

static struct wire_msg *detach_undo(void)
{
	struct wire_msg *msg = detach();

	msg->detach.flags = WIRE_DETACH_UNDO;
	return msg;
}

static struct wire_msg *free_it(void)
{
	return lease_message(WIRE_TYPE_free, lease);
}

static struct wire_msg *renew(void)
{
	return lease_message(WIRE_TYPE_renew, lease);
}

static struct wire_msg *rename_it(void)
{
	return to_rename(lease, "other");
}

static struct wire_msg *resize(void)
{
	return to_resize(lease, 2 * FAKE_PAGE);
}

static struct wire_msg *fix_atomic_device(void)
{
	return lease_message(WIRE_TYPE_fix_atomic_device, lease);
}

static struct wire_msg *watch(void)
{
	return lease_message(WIRE_TYPE_watch, lease);
}

static struct wire_msg *unwatch(void)
{
	return lease_message(WIRE_TYPE_unwatch, lease);
}

static struct wire_msg *share(void)
{
	struct wire_msg *msg = lease_message(WIRE_TYPE_share, lease);

	msg->share.rights = WIRE_RIGHT_READ;
	(void)strcpy(msg->share.tenant, "other");
	return msg;
}

/* ---- the table ---- */

enum becomes { SAME, HELD, NOT_HELD };

struct rule {
	const char *row; /* as in the page */
	struct wire_msg *(*request[8])(void);
	/* the error, or 0, and what the session holds then */
	int if_held, if_not;
	enum becomes held_becomes, not_becomes;
};

static const struct rule rules[] = {
	{ ".It Cm attach No by name Ta Sy attached Ta held from now on",
	  { attach_by_name },
	  -EALREADY,
	  0,
	  SAME,
	  HELD },
	{ ".It Cm attach No by id Ta its rkeys Ta Sy stale",
	  { attach_by_id },
	  0,
	  -ESTALE,
	  SAME,
	  SAME },
	{ ".It Cm detach , free Ta not held from now on Ta Sy stale",
	  { detach, detach_undo, free_it },
	  0,
	  -ESTALE,
	  NOT_HELD,
	  SAME },
	{ ".It all others by id Ta done Ta Sy stale",
	  { renew, rename_it, resize, fix_atomic_device, watch, unwatch, share },
	  0,
	  -ESTALE,
	  SAME,
	  SAME },
};

#define N_RULES (sizeof(rules) / sizeof(rules[0]))

/* Read the next row of the page's table; false: there are no more. */
static bool row_read(FILE *page, char *line, size_t size)
{
	if (!fgets(line, (int)size, page))
		return false;
	line[strcspn(line, "\n")] = '\0';
	return strcmp(line, ".El") != 0;
}

START_TEST(page__has_these_rules)
{
	char path[4096], line[1024];
	const char *top = getenv("top_srcdir");
	unsigned n = 0;
	FILE *page;

	(void)snprintf(path, sizeof(path), "%s/man/rmem-protocol.7", top ? top : ".");
	page = fopen(path, "re");
	ck_assert_msg(page != NULL, "%s: %s", path, strerror(errno));
	do
		ck_assert_msg(row_read(page, line, sizeof(line)) || !feof(page),
			      "%s has no such table", path);
	while (strcmp(line, ".It Em request Ta Em held Ta Em not held") != 0);
	for (; row_read(page, line, sizeof(line)); n++) {
		ck_assert_uint_lt(n, N_RULES);
		ck_assert_str_eq(line, rules[n].row);
	}
	ck_assert_uint_eq(n, N_RULES);
	ck_assert_int_eq(fclose(page), 0);
}
END_TEST

/* The types that begin with a lease. */
#define FIELD_NAME(name, ...) #name " "
#define FIELDS(name, number, ...)                                            \
	{ number,                                                            \
	  WIRE_FIELDS_##name(FIELD_NAME, FIELD_NAME, FIELD_NAME, FIELD_NAME, \
			     FIELD_NAME, FIELD_NAME, FIELD_NAME, FIELD_NAME, ) "" },

START_TEST(rules__are_of_all_requests)
{
	static const struct {
		unsigned type;
		const char *fields;
	} types[] = { WIRE_REQUESTS(FIELDS) };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		bool has_rule = false;

		for (size_t k = 0; k < N_RULES; k++)
			for (unsigned r = 0; rules[k].request[r]; r++)
				has_rule |=
					rules[k].request[r]()->type == types[i].type;
		ck_assert_msg(has_rule == (strncmp(types[i].fields, "lease ", 6) == 0),
			      "%s", wire_type_name(types[i].type));
	}
}
END_TEST

static void expect(struct wire_msg *msg, int err)
{
	if (err) {
		client_fail(&one, msg, err);
		return;
	}
	client_send(&one, msg);
	fake_fabric_settle();
	ck_assert_uint_eq(one.answer.id, one.last_id);
	ck_assert_msg(one.answer.type != WIRE_TYPE_error, "%s", one.answer.error.text);
}

static void check(bool held)
{
	expect(attach_by_id(), held ? 0 : -ESTALE);
}

/* Follow a rule in one state of the session, reached in some way. */
static void follow(const struct rule *rule, struct wire_msg *(*request)(void),
		   bool held, unsigned way)
{
	enum becomes becomes = held ? rule->held_becomes : rule->not_becomes;

	control_setup();
	stage_endpoint_info[0].flags = FABRIC_ENDPOINT_ATOMICS;
	client_open_connected(&owner);
	client_open_connected(&one);
	(held ? holds : holds_not)[way]();
	check(held);
	expect(request(), held ? rule->if_held : rule->if_not);
	if (request == attach_by_name && !held)
		lease = one.answer.lease.lease;
	check(becomes == SAME ? held : becomes == HELD);
	client_lose(&owner);
	client_lose(&one);
	fake_fabric_settle();
	control_teardown();
}

START_TEST(server__follows_the_rules)
{
	const struct rule *rule = &rules[_i];

	for (unsigned r = 0; rule->request[r]; r++)
		for (unsigned way = 0; way < 3; way++) {
			follow(rule, rule->request[r], true, way);
			follow(rule, rule->request[r], false, way);
		}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("holds", NULL, NULL);

	tcase_add_test(tc, page__has_these_rules);
	tcase_add_test(tc, rules__are_of_all_requests);
	tcase_add_loop_test(tc, server__follows_the_rules, 0, (int)N_RULES);
	return unit_main();
}
