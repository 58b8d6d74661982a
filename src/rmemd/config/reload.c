/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of another configuration that takes effect while the daemon runs. */
#include <stdio.h>
#include <string.h>

#include "rmemd/config/keys.h"
#include "rmemd/config/config.h"

/* Take over its size, and the way to a smaller one.  False: something else has changed. */
static bool pool_apply(struct pool_params *running, const struct pool_params *fresh)
{
	running->shrink = fresh->shrink;
	running->shrink_wait_ms = fresh->shrink_wait_ms;
	if (running->node != fresh->node || running->pages != fresh->pages ||
	    !pool_params_same_devices(running, fresh))
		return false;
	/* a share was divided when the pools were opened */
	if (fresh->bytes == POOL_BYTES_AUTO)
		return running->bytes == POOL_BYTES_AUTO &&
		       running->share == fresh->share;
	running->bytes = fresh->bytes;
	running->share = fresh->share;
	return true;
}

static const struct pool_params *pool_find(const struct config *config,
					   const char *name)
{
	for (unsigned i = 0; i < config->n_pools; i++)
		if (strcmp(config->pools[i].name, name) == 0)
			return &config->pools[i];
	return NULL;
}

/* False: something has changed that needs a restart. */
static bool pools_apply(struct config *running, const struct config *fresh)
{
	bool all = running->n_pools == fresh->n_pools;

	for (unsigned i = 0; i < running->n_pools; i++) {
		const struct pool_params *now =
			pool_find(fresh, running->pools[i].name);

		if (!now || !pool_apply(&running->pools[i], now))
			all = false;
	}
	return all;
}

static bool devices_equal(const struct config *a, const struct config *b)
{
	/* both were zero before they were filled */
	return a->n_device_params == b->n_device_params &&
	       memcmp(a->device_params, b->device_params, sizeof(a->device_params)) ==
		       0;
}

/* Append "[section] key" to the list of what needs a restart; key "": the section. */
static void name_add(char *buf, size_t buf_bytes, const char *section, const char *key)
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
			memcpy(old, new, key->bytes);
		else
			name_add(buf, buf_bytes, key->section, key->name);
	}
	/* every change of a tenant takes effect */
	memcpy(running->tenants, fresh->tenants, sizeof(running->tenants));
	running->n_tenants = fresh->n_tenants;
	if (!devices_equal(running, fresh))
		name_add(buf, buf_bytes, CONFIG_SECTION_DEVICE, "");
	if (!pools_apply(running, fresh))
		name_add(buf, buf_bytes, CONFIG_SECTION_POOL, "");
	return buf;
}
