/* SPDX-License-Identifier: BSD-3-Clause */
/* The one table of configuration keys: parsing, defaults, checks, reload, the example
 * file and rmemd.conf(5) follow it.  Threads: constant. */
#ifndef RMEMD_CONFIG_KEYS_H
#define RMEMD_CONFIG_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The section of pools; it is followed by the pool's name and may be there many times.
 */
#define CONFIG_SECTION_POOL "pool"
/* The same, of tenants. */
#define CONFIG_SECTION_TENANT "tenant"
/* The same, of RDMA devices. */
#define CONFIG_SECTION_DEVICE "device"
/* What a option of a device has when it has the one of [rdma]; the word for it. */
#define CONFIG_INHERIT INT_MIN
#define CONFIG_INHERIT_WORD "inherit"

enum config_type {
	CONFIG_TYPE_BOOL,      /* yes, no */
	CONFIG_TYPE_CHOICE,    /* one of `choices`, stored as an int */
	CONFIG_TYPE_PORT,      /* uint16_t */
	CONFIG_TYPE_COUNT,     /* uint32_t */
	CONFIG_TYPE_MS,        /* uint64_t, written with a unit */
	CONFIG_TYPE_BYTES,     /* uint64_t, written with a unit */
	CONFIG_TYPE_SIZE,      /* the same, or "auto", stored as 0 */
	CONFIG_TYPE_PERCENT,   /* unsigned: "50%", or "auto", stored as 0 */
	CONFIG_TYPE_ADDRESSES, /* list of IP addresses */
	CONFIG_TYPE_NAMES,     /* list of names, may be empty */
	CONFIG_TYPE_PATH,      /* absolute; max is the size of the buffer */
	CONFIG_TYPE_NODE,      /* int: "any" or a NUMA node */
	CONFIG_TYPE_AUTO,      /* int: "auto", stored as -1, or a number */
	CONFIG_TYPE_ADDRESS, /* struct fabric_address: "auto", family 0, or an address */
	CONFIG_TYPE_KNOB, /* int: a member of struct fabric_rdma_options of the same name */
};

struct config_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct config_key {
	const char *section;
	const char *name;
	enum config_type type;
	uint64_t min, max; /* in units of the field, where the type has an order */
	const char *
		standard; /* the default, as it would be written; NULL: must be given */
	size_t offset;    /* in struct config; in the section's own structure for pools,
			* tenants and devices */
	size_t count_offset; /* of a list's length */
	const struct config_choice *choices;
	bool reload;      /* a change takes effect on SIGHUP */
	const char *text; /* one line for people */
};

#define CONFIG_KEYS_MAX 72

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* Where a key is in the table; SIZE_MAX: nowhere. */
size_t config_key_index(const char *section, const char *name);
/* Whether there may be many of a section, each with a name of its own. */
bool config_section_is_named(const char *section);
/* A section's name as the table holds it, or NULL. */
const char *config_section_find(const char *name);
/* -EINVAL, with text that offers the nearest there is. */
int config_section_unknown(const char *name);
int config_key_unknown(const char *section, const char *name);

/* Whether a pool, a tenant or a device can have that name: letters, digits, '-', '_' and '.'. */
bool config_name_good(const char *name);
/* Parse `value` into the key's field of `object` (a struct config, pool_params,
 * tenant_params or fabric_device_params).
 *   -EINVAL, -ERANGE  with text that does not name file, line or key */
int config_value_parse(const struct config_key *key, const char *value, void *object);
/* Set the field to its default; nothing for keys without one. */
void config_value_default(const struct config_key *key, void *object);

#endif
