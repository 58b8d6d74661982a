/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of all configuration keys, which parsing, defaults, reload, the example file and
 * rmemd.conf(5) follow.  Threads: constant. */
#ifndef RMEMD_CONFIG_KEYS_H
#define RMEMD_CONFIG_KEYS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rmemd/config/config.h"

/* Sections that may be there many times, each for an object with a name: [pool NAME] ... */
#define CONFIG_SECTION_POOL "pool"
#define CONFIG_SECTION_TENANT "tenant"
#define CONFIG_SECTION_DEVICE "device"
enum config_kind { CONFIG_POOL, CONFIG_TENANT, CONFIG_DEVICE, CONFIG_KINDS };

struct config_named {
	const char *section;
	size_t offset;       /* of the array of objects, in struct config */
	size_t count_offset; /* of their number, an unsigned */
	size_t bytes;        /* of an object, which begins with its name */
	size_t name_max;
	unsigned max;
};

extern const struct config_named config_named[CONFIG_KINDS];

/* The value of an option of a device that is as in [rdma], and the word for it. */
#define CONFIG_INHERIT INT_MIN
#define CONFIG_INHERIT_WORD "inherit"

enum config_type {
	CONFIG_TYPE_BOOL,      /* yes, no */
	CONFIG_TYPE_CHOICE,    /* one of `choices`, stored as an int */
	CONFIG_TYPE_COUNT,     /* uint16_t or uint32_t */
	CONFIG_TYPE_MS,        /* uint64_t, written with a unit */
	CONFIG_TYPE_BYTES,     /* uint64_t, written with a unit */
	CONFIG_TYPE_SIZE,      /* the same, or "auto", stored as 0 */
	CONFIG_TYPE_PAGES,     /* enum pool_pages */
	CONFIG_TYPE_PERCENT,   /* unsigned: "50%", or "auto", stored as 0 */
	CONFIG_TYPE_ADDRESSES, /* list of IP addresses */
	/* list of addresses with ports, may be empty; "*", family 0: any address */
	CONFIG_TYPE_ADDRESS_PORTS,
	CONFIG_TYPE_NAMES,    /* list of names, may be empty */
	CONFIG_TYPE_PATTERNS, /* list of lease names, may end in '*', may be empty */
	CONFIG_TYPE_PATH,     /* absolute; or its default, a word, stored as "" */
	CONFIG_TYPE_GROUP,    /* of users; the default, a word, is stored as "" */
	CONFIG_TYPE_NODE,     /* int: "any" or a NUMA node */
	CONFIG_TYPE_AUTO,     /* int: "auto", stored as -1, or a number */
	CONFIG_TYPE_ADDRESS, /* struct fabric_address: "auto", family 0, or an address */
	CONFIG_TYPE_ADDRESS_PORT, /* struct fabric_address: "none", family 0, or with a port */
	CONFIG_TYPE_RDMA_OPTION, /* the member of struct fabric_rdma_options of that name */
	CONFIG_TYPE_CERTIFICATES, /* "none", or patterns of stream_certified_as() */
};

struct config_choice {
	const char *name; /* NULL ends the list */
	int value;
};

struct config_key {
	const char *section;
	const char *name;
	enum config_type type;
	uint64_t min, max;    /* in units of the field, where the type has an order */
	const char *standard; /* the default, as it is written */
	size_t offset;       /* in struct config, or in the object of a named section */
	size_t bytes;        /* of the field */
	size_t count_offset; /* of a list's length */
	const struct config_choice *choices;
	bool reload; /* a change takes effect on SIGHUP */
};

#define CONFIG_KEYS_MAX 80

extern const struct config_key config_keys[];
extern const size_t config_n_keys;

/* Whether there may be many of a section, each with a name of its own. */
bool config_section_is_named(const char *section);

/* Whether a pool, a tenant or a device can have that name: letters, digits, '-', '_' and '.'. */
bool config_name_good(const char *name);
/* Parse `value` into the key's field of `object` (a struct config, pool_params,
 * tenant_params or fabric_device_params).
 *   -EINVAL, -ERANGE  with text that does not name file, line or key */
int config_value_parse(const struct config_key *key, const char *value, void *object);
/* The longest value of a key as text: a list. */
#define CONFIG_TEXT_BYTES (CONFIG_LIST_MAX * 66)
/* Its present value in `object`, as it is written; returns buf. */
const char *config_value_text(const struct config_key *key, const void *object,
			      char buf[CONFIG_TEXT_BYTES]);
/* Set the field to its default. */
void config_value_default(const struct config_key *key, void *object);

#endif
