/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/filter.h"

#include <errno.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/glob.h"
#include "base/units.h"

#define QUOTED_MAX 64 /* bytes of the peer's text in an error */

static int text_set(const char *value, void *to)
{
	if (strlen(value) > FILTER_TEXT_MAX)
		return err_set(-EINVAL, "is longer than %d bytes", FILTER_TEXT_MAX);
	(void)strcpy(to, value);
	return 0;
}

static int number_set(const char *value, void *to)
{
	return units_parse_u64(value, 0, INT64_MAX, to);
}

static int id_set(const char *value, void *to)
{
	return units_parse_u64(value, 1, UINT64_MAX, to);
}

static int switch_set(const char *value, void *to)
{
	return units_parse_switch(value, to);
}

static int no_switch_set(const char *value, void *to)
{
	int err = units_parse_switch(value, to);
	bool *no = to;

	*no = !err && !*no;
	return err;
}

static const struct parameter {
	const char *name;
	unsigned bit;
	int (*set)(const char *value, void *to); /* -EINVAL, -ERANGE with text */
	size_t offset;
} parameters[] = {
	{ "tenant", FILTER_TENANT, text_set, offsetof(struct filter, tenant) },
	{ "name", FILTER_NAME, text_set, offsetof(struct filter, name) },
	{ "session", FILTER_SESSION, id_set, offsetof(struct filter, session) },
	{ "older_ms", FILTER_OLDER, number_set, offsetof(struct filter, older_ms) },
	{ "attached", FILTER_ATTACHED, no_switch_set,
	  offsetof(struct filter, no_attached) },
	{ "after", FILTER_AFTER, number_set, offsetof(struct filter, after) },
	{ "follow", FILTER_FOLLOW, switch_set, offsetof(struct filter, follow) },
};
#define N_PARAMETERS (sizeof(parameters) / sizeof(parameters[0]))

static int set_unknown_error(const char *name, unsigned allowed)
{
	char known[128] = "";
	size_t used = 0;

	for (size_t i = 0; i < N_PARAMETERS; i++)
		if (allowed & parameters[i].bit)
			used += (size_t)snprintf(known + used, sizeof(known) - used,
						 "%s%s", used ? ", " : "",
						 parameters[i].name);
	return err_set(-EINVAL, "unknown parameter '%.*s'; this resource has %s",
		       QUOTED_MAX, name, *known ? known : "none");
}

static int parameter_apply(const struct evkeyval *pair, unsigned allowed,
			   struct filter *filter)
{
	for (size_t i = 0; i < N_PARAMETERS; i++) {
		const struct parameter *parameter = &parameters[i];

		if (!(allowed & parameter->bit) ||
		    strcmp(parameter->name, pair->key) != 0)
			continue;
		if (parameter->set(pair->value, (char *)filter + parameter->offset))
			return err_set(-EINVAL, "%s: %s", parameter->name, err_text());
		return 0;
	}
	return set_unknown_error(pair->key, allowed);
}

int filter_parse(const char *query, unsigned allowed, struct filter *ret_filter)
{
	struct filter filter = { 0 };
	struct evkeyvalq pairs;
	int err = 0;

	if (query && *query) {
		if (evhttp_parse_query_str(query, &pairs))
			return err_set(-EINVAL,
				       "the query of the request is malformed");
		for (const struct evkeyval *pair = pairs.tqh_first; pair && !err;
		     pair = pair->next.tqe_next)
			err = parameter_apply(pair, allowed, &filter);
		evhttp_clear_headers(&pairs);
	}
	if (!err)
		*ret_filter = filter;
	return err;
}

bool filter_tenant(const struct filter *filter, const char *tenant)
{
	return !*filter->tenant || strcmp(filter->tenant, tenant) == 0;
}

bool filter_name(const struct filter *filter, const char *name)
{
	return !*filter->name || glob_match(filter->name, name);
}

bool filter_older(const struct filter *filter, uint64_t age_ms)
{
	return age_ms >= filter->older_ms;
}
