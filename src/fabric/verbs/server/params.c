/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/server/params.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

/* A copy of n elements; NULL: no memory. */
static void *copy(const void *from, size_t n, size_t bytes)
{
	/* there may be none */
	void *to = calloc(n + 1, bytes);

	if (to && n > 0)
		memcpy(to, from, n * bytes);
	return to;
}

static void names_free(char **names)
{
	for (size_t i = 0; names && names[i]; i++)
		free(names[i]);
	free(names);
}

static char **names_copy(const char *const *names)
{
	size_t n = 0;
	char **to;

	while (names[n])
		n++;
	to = calloc(n + 1, sizeof(*to));
	for (size_t i = 0; to && i < n; i++) {
		to[i] = strdup(names[i]);
		if (!to[i]) {
			names_free(to);
			return NULL;
		}
	}
	return to;
}

int verbs_params_copy(const struct fabric_server_params *params,
		      struct fabric_server_params **ret_params)
{
	struct fabric_server_params *made = copy(params, 1, sizeof(*params));

	if (!made)
		return err_errno(-ENOMEM, "the RDMA server");
	made->also = copy(params->also, params->n_also, sizeof(*params->also));
	made->device_params = copy(params->device_params, params->n_device_params,
				   sizeof(*params->device_params));
	if (params->devices)
		made->devices = (const char *const *)names_copy(params->devices);
	if (!made->also || !made->device_params ||
	    (params->devices && !made->devices)) {
		verbs_params_free(made);
		return err_errno(-ENOMEM, "the RDMA server");
	}
	*ret_params = made;
	return 0;
}

void verbs_params_free(struct fabric_server_params *made)
{
	if (!made)
		return;
	free((void *)(uintptr_t)made->also);
	free((void *)(uintptr_t)made->device_params);
	names_free((char **)(uintptr_t)made->devices);
	free(made);
}
