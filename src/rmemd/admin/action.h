/* SPDX-License-Identifier: BSD-3-Clause */
/* What changes the daemon at the request of an administrator: the resources for POST, with the
 * parameters of their queries.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_ACTION_H
#define RMEMD_ADMIN_ACTION_H

#include <jansson.h>

struct admin_sources;
struct evkeyvalq;

#define ACTION_PARAMETERS_MAX 3

struct action {
	const char *path;
	/* The names that a query may have; NULL ends them. */
	const char *parameters[ACTION_PARAMETERS_MAX + 1];
	/* Act.  *ret_answer becomes the caller's, NULL if there is no memory for it.
	 *   -EINVAL  a parameter is missing or malformed
	 *   -ENOENT  there is no such object
	 *   others   it cannot be done now; all with text */
	int (*act)(const struct admin_sources *from, const struct evkeyvalq *parameters,
		   json_t **ret_answer);
};

/* The action of a path, or NULL. */
const struct action *action_find(const char *path);

/* Parse a query; evhttp_clear_headers(ret_parameters) is the caller's, after an error too.
 *   -EINVAL  malformed, or with a parameter that the action does not have */
int action_parse(const struct action *action, const char *query,
		 struct evkeyvalq *ret_parameters);

#define ACTION_BYTES 512
/* For the log: who, the action and its parameters, without characters that a log must not have. */
void action_describe(const struct action *action, const struct evkeyvalq *parameters,
		     const char *who, char buf[ACTION_BYTES]);

#endif
