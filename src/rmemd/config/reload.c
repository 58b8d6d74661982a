/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of another configuration that takes effect while the daemon runs. */
#include <stdio.h>
#include <string.h>

#include "rmemd/config/keys.h"
#include "rmemd/config/config.h"

static bool devices_equal(const struct config *a, const struct config *b)
{
	/* both were zero before they were filled */
	return a->n_device_params == b->n_device_params &&
	       memcmp(a->device_params, b->device_params, sizeof(a->device_params)) ==
		       0;
}

/* The value, and the length of a list. */
static void key_copy(const struct config_key *key, void *to, const void *from)
{
	memcpy((char *)to + key->offset, (const char *)from + key->offset, key->bytes);
	if (key->count_offset)
		memcpy((char *)to + key->count_offset,
		       (const char *)from + key->count_offset, sizeof(unsigned));
}

void config_name_add(char *buf, size_t buf_bytes, const char *section, const char *key)
{
	size_t used = strlen(buf);

	(void)snprintf(buf + used, buf_bytes - used, "%s[%s]%s%s", used ? ", " : "",
		       section, *key ? " " : "", key);
}

const char *config_reload(struct config *running, const struct config *fresh, char *buf,
			  size_t buf_bytes)
{
	buf[0] = '\0';
	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];
		char *old = (char *)running + key->offset;
		const char *new = (const char *)fresh + key->offset;

		if (config_section_is_named(key->section) ||
		    memcmp(old, new, key->bytes) == 0)
			continue;
		if (key->reload)
			key_copy(key, running, fresh);
		else
			config_name_add(buf, buf_bytes, key->section, key->name);
	}
	/* every change of a tenant takes effect */
	memcpy(running->tenants, fresh->tenants, sizeof(running->tenants));
	running->n_tenants = fresh->n_tenants;
	if (!devices_equal(running, fresh))
		config_name_add(buf, buf_bytes, CONFIG_SECTION_DEVICE, "");
	/* pools follow it as far as they can: resizes_configure() */
	memcpy(running->pools, fresh->pools, sizeof(running->pools));
	running->n_pools = fresh->n_pools;
	return buf;
}
