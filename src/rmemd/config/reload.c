/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of another configuration that takes effect while the daemon runs. */
#include <string.h>

#include "rmemd/config/config.h"
#include "rmemd/config/keys.h"

/* The value, and the length of a list. */
static void key_copy(const struct config_key *key, void *to, const void *from)
{
	memcpy((char *)to + key->offset, (const char *)from + key->offset, key->bytes);
	if (key->count_offset)
		memcpy((char *)to + key->count_offset,
		       (const char *)from + key->count_offset, sizeof(unsigned));
}

void config_reload(struct config *running, const struct config *fresh)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (config_keys[i].reload &&
		    !config_section_is_named(config_keys[i].section))
			key_copy(&config_keys[i], running, fresh);
	/* every change of a tenant takes effect */
	memcpy(running->tenants, fresh->tenants, sizeof(running->tenants));
	running->n_tenants = fresh->n_tenants;
	/* pools follow it as far as they can: resizes_configure() */
	memcpy(running->pools, fresh->pools, sizeof(running->pools));
	running->n_pools = fresh->n_pools;
}
