/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/doctor/ruleset.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 16 /* of chains that jump; the kernel's limit */
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17

enum answer { NO, YES, MAYBE };

/* What a rule or a chain does. */
enum verdict { GOES_ON, ACCEPTS, DROPS, RETURNS };

struct judge {
	const json_t *all;
	const struct ruleset_packet *packet;
	const char *family, *table; /* of the chain that is run */
	bool maybe_accepted;        /* a rule that may match accepts */
	struct ruleset_result *result;
};

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static bool in_table(const struct judge *judge, const json_t *object)
{
	return strcmp(text_of(object, "family"), judge->family) == 0 &&
	       strcmp(text_of(object, "table"), judge->table) == 0;
}

/* ---- values ---- */

static enum answer answer_of(bool yes)
{
	return yes ? YES : NO;
}

/* The number of a protocol or port; -1: it is none. */
static long number_of(const json_t *value)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value))
		return (long)json_integer_value(value);
	if (!text)
		return -1;
	if (strcmp(text, "tcp") == 0)
		return PROTOCOL_TCP;
	return strcmp(text, "udp") == 0 ? PROTOCOL_UDP : -1;
}

static enum answer set_has(const struct judge *judge, const json_t *set, long number);

/* A number, a range, a set in line, or the name of a set. */
static enum answer value_is(const struct judge *judge, const json_t *value, long number)
{
	const json_t *range = json_object_get(value, "range"),
		     *set = json_object_get(value, "set"),
		     *elem = json_object_get(value, "elem");
	const char *name = json_string_value(value);

	if (name && *name == '@')
		return set_has(judge, value, number);
	if (json_is_array(range))
		return answer_of(number >= number_of(json_array_get(range, 0)) &&
				 number <= number_of(json_array_get(range, 1)));
	if (set)
		return value_is(judge, set, number);
	/* an element with a counter or a time-out */
	if (elem)
		return value_is(judge, json_object_get(elem, "val"), number);
	if (json_is_array(value)) {
		enum answer found = NO;

		for (size_t i = 0; i < json_array_size(value) && found != YES; i++) {
			enum answer one =
				value_is(judge, json_array_get(value, i), number);

			found = one == NO ? found : one;
		}
		return found;
	}
	return number_of(value) < 0 ? MAYBE : answer_of(number_of(value) == number);
}

static enum answer set_has(const struct judge *judge, const json_t *set, long number)
{
	const char *name = json_string_value(set) + 1;

	for (size_t i = 0; i < json_array_size(judge->all); i++) {
		const json_t *named =
			json_object_get(json_array_get(judge->all, i), "set");

		if (named && in_table(judge, named) &&
		    strcmp(text_of(named, "name"), name) == 0) {
			const json_t *elements = json_object_get(named, "elem");

			return elements ? value_is(judge, elements, number) : NO;
		}
	}
	return MAYBE;
}

/* ---- matches ---- */

/* The number that the packet has there; -1: not known. */
static long packet_number(const struct judge *judge, const json_t *left,
			  enum answer *ret_answer)
{
	const json_t *payload = json_object_get(left, "payload"),
		     *meta = json_object_get(left, "meta");
	const char *protocol = text_of(payload, "protocol"),
		   *field = text_of(payload, "field"), *key = text_of(meta, "key");
	bool udp = judge->packet->udp;

	*ret_answer = MAYBE;
	if (strcmp(key, "l4proto") == 0 ||
	    (strcmp(protocol, "ip") == 0 && strcmp(field, "protocol") == 0) ||
	    (strcmp(protocol, "ip6") == 0 && strcmp(field, "nexthdr") == 0))
		return udp ? PROTOCOL_UDP : PROTOCOL_TCP;
	if (strcmp(field, "dport") == 0) {
		if (strcmp(protocol, "th") == 0 ||
		    strcmp(protocol, udp ? "udp" : "tcp") == 0)
			return judge->packet->port;
		*ret_answer = NO;
	}
	/* the fields of another protocol */
	if (strcmp(protocol, udp ? "tcp" : "udp") == 0 || strstr(protocol, "icmp"))
		*ret_answer = NO;
	return -1;
}

static bool list_names(const json_t *list, const char *name)
{
	const char *text = json_string_value(list);

	for (size_t i = 0; i < json_array_size(list); i++)
		if (list_names(json_array_get(list, i), name))
			return true;
	return text && strcmp(text, name) == 0;
}

static enum answer negated(enum answer answer, const char *op)
{
	if (answer == MAYBE || strcmp(op, "!=") != 0)
		return answer;
	return answer == YES ? NO : YES;
}

static enum answer match_is(const struct judge *judge, const json_t *match)
{
	const json_t *left = json_object_get(match, "left"),
		     *right = json_object_get(match, "right");
	const char *op = text_of(match, "op"),
		   *meta = text_of(json_object_get(left, "meta"), "key"),
		   *ct = text_of(json_object_get(left, "ct"), "key");
	enum answer answer;
	long number;

	/* the packet comes from another host, and begins a connection */
	if (strncmp(meta, "iif", 3) == 0 && list_names(right, "lo"))
		return negated(NO, op);
	if (strcmp(ct, "state") == 0)
		return negated(
			answer_of(list_names(right, "new") ||
				  list_names(json_object_get(right, "set"), "new")),
			op);
	/* that an earlier rule has changed its address */
	if (strcmp(ct, "status") == 0)
		return negated(NO, op);
	number = packet_number(judge, left, &answer);
	if (number < 0)
		return answer;
	if (strcmp(op, "==") != 0 && strcmp(op, "!=") != 0 && strcmp(op, "in") != 0)
		return MAYBE;
	return negated(value_is(judge, right, number), op);
}

/* ---- rules ---- */

static enum verdict chain_run(struct judge *judge, const char *name, unsigned depth,
			      enum answer entered);

/* The verdict of a statement; GOES_ON: it has none. */
static enum verdict statement_verdict(struct judge *judge, const json_t *statement,
				      unsigned depth, enum answer entered)
{
	const json_t *jump = json_object_get(statement, "jump"),
		     *to = json_object_get(statement, "goto");
	const char *target = text_of(json_object_get(statement, "xt"), "name");
	enum verdict verdict;

	if (json_object_get(statement, "accept") || strcmp(target, "ACCEPT") == 0)
		return ACCEPTS;
	if (json_object_get(statement, "drop") ||
	    json_object_get(statement, "reject") || strcmp(target, "REJECT") == 0 ||
	    strcmp(target, "DROP") == 0)
		return DROPS;
	if (json_object_get(statement, "return"))
		return RETURNS;
	if (!jump && !to)
		return GOES_ON;
	verdict = chain_run(judge, text_of(jump ? jump : to, "target"), depth + 1,
			    entered);
	if (verdict == RETURNS)
		verdict = GOES_ON;
	return to && verdict == GOES_ON ? RETURNS : verdict;
}

/* A table of verdicts by port: the statement of the packet; NULL: none, or it is not known. */
static const json_t *map_verdict(const struct judge *judge, const json_t *map,
				 enum answer *answer)
{
	const json_t *data = json_object_get(json_object_get(map, "data"), "set");
	enum answer known;
	long number = packet_number(judge, json_object_get(map, "key"), &known);

	if (number < 0 || !json_is_array(data)) {
		*answer = known == NO ? NO : MAYBE;
		return NULL;
	}
	for (size_t i = 0; i < json_array_size(data); i++) {
		const json_t *pair = json_array_get(data, i);

		if (value_is(judge, json_array_get(pair, 0), number) == YES)
			return json_array_get(pair, 1);
	}
	*answer = NO;
	return NULL;
}

static void why_set(struct judge *judge, const json_t *rule)
{
	(void)snprintf(judge->result->why, sizeof(judge->result->why),
		       "table %s %s, chain %s, the rule with handle %d", judge->family,
		       judge->table, text_of(rule, "chain"),
		       (int)json_integer_value(json_object_get(rule, "handle")));
}

/* `entered`: whether the packet certainly reaches the rule. */
static enum verdict rule_run(struct judge *judge, const json_t *rule, unsigned depth,
			     enum answer entered)
{
	const json_t *statements = json_object_get(rule, "expr");
	enum answer matches = entered;

	for (size_t i = 0; i < json_array_size(statements); i++) {
		const json_t *statement = json_array_get(statements, i),
			     *map = json_object_get(statement, "vmap");
		const json_t *match = json_object_get(statement, "match");
		const char *xt = text_of(json_object_get(statement, "xt"), "type");
		enum answer one = YES;
		enum verdict verdict;

		if (match)
			one = match_is(judge, match);
		else if (strcmp(xt, "match") == 0 ||
			 json_object_get(statement, "limit"))
			one = MAYBE;
		else if (map)
			statement = map_verdict(judge, map, &one);
		if (one == NO)
			return GOES_ON;
		if (one == MAYBE)
			matches = MAYBE;
		if (!statement || match)
			continue;
		verdict = statement_verdict(judge, statement, depth, matches);
		if (verdict == GOES_ON)
			continue;
		if (matches == YES) {
			if (verdict == DROPS && !judge->result->why[0])
				why_set(judge, rule);
			return verdict;
		}
		judge->maybe_accepted |= verdict == ACCEPTS;
		return GOES_ON;
	}
	return GOES_ON;
}

static enum verdict chain_run(struct judge *judge, const char *name, unsigned depth,
			      enum answer entered)
{
	enum verdict verdict = GOES_ON;

	for (size_t i = 0;
	     depth < DEPTH_MAX && i < json_array_size(judge->all) && verdict == GOES_ON;
	     i++) {
		const json_t *rule =
			json_object_get(json_array_get(judge->all, i), "rule");

		if (rule && in_table(judge, rule) &&
		    strcmp(text_of(rule, "chain"), name) == 0)
			verdict = rule_run(judge, rule, depth, entered);
	}
	return verdict;
}

/* ---- chains that packets for this host pass ---- */

static bool is_passed(const json_t *chain)
{
	const char *hook = text_of(chain, "hook"), *family = text_of(chain, "family");

	return strcmp(text_of(chain, "type"), "filter") == 0 &&
	       (strcmp(hook, "input") == 0 || strcmp(hook, "prerouting") == 0) &&
	       (strcmp(family, "ip") == 0 || strcmp(family, "inet") == 0);
}

static void chain_judge(struct judge *judge, const json_t *chain)
{
	struct ruleset_result *result = judge->result;
	const char *name = text_of(chain, "name");
	enum verdict verdict;

	judge->family = text_of(chain, "family");
	judge->table = text_of(chain, "table");
	verdict = chain_run(judge, name, 0, YES);
	if (verdict == GOES_ON || verdict == RETURNS)
		verdict =
			strcmp(text_of(chain, "policy"), "drop") == 0 ? DROPS : ACCEPTS;
	if (verdict == ACCEPTS)
		return;
	result->fate = judge->maybe_accepted ? RULESET_PARTLY : RULESET_DROPPED;
	(void)snprintf(result->hook, sizeof(result->hook), "%s %s %s", judge->family,
		       judge->table, name);
	if (!result->why[0])
		(void)snprintf(result->why, sizeof(result->why),
			       "table %s %s, chain %s, policy drop", judge->family,
			       judge->table, name);
}

struct ruleset_result ruleset_judge(const json_t *ruleset,
				    const struct ruleset_packet *packet)
{
	const json_t *all = json_object_get(ruleset, "nftables");
	struct ruleset_result worst = { .fate = RULESET_ACCEPTED };

	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *chain = json_object_get(json_array_get(all, i), "chain");
		struct ruleset_result result = { .fate = RULESET_ACCEPTED };
		struct judge judge = { .all = all,
				       .packet = packet,
				       .result = &result };

		if (!chain || !is_passed(chain))
			continue;
		chain_judge(&judge, chain);
		if (result.fate > worst.fate)
			worst = result;
	}
	return worst;
}
