/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of the commands that show lists: which items, and in which order.  The daemon leaves out
 * the items that are not asked for.  Threads: [main]. */
#ifndef RMEMCTL_LIST_H
#define RMEMCTL_LIST_H

#include <jansson.h>
#include <stdbool.h>

#include "rmemctl/client.h"
#include "rmemctl/options.h"
#include "rmemctl/table.h"

/* --sort */
extern const struct option_row list_sort_options[];
/* --tenant, --name, --session and --older, and the above */
extern const struct option_row list_options[];

/* Of the daemon's query, with its end. */
#define LIST_PARAMETERS 6
void list_parameters(struct client_parameter ret_parameters[LIST_PARAMETERS]);

/* Whether --sort was given. */
bool list_is_sorted(void);
/* Find the column of --sort, if it was given, by its title or as in the JSON.  -EINVAL: there is
 * none */
int list_sort_check(const struct column *columns);
/* Sort the items as --sort asks for, after list_sort_check().  No effect without it.  -ENOMEM */
int list_sort(json_t *array);

/* The key of the column with this title or key, or NULL, with text. */
const char *list_key(const struct column *columns, const char *text);
/* Sort the items by a member; those that are equal keep their order.  -ENOMEM */
int list_sort_by(json_t *array, const char *key, bool down);

#endif
