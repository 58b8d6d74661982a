/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/config/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/given_file.h"
#include "base/nearest.h"
#include "fabric/address.h"
#include "rmemd/config/keys.h"
#include "rmemd/pool/capacity.h"

#define LIST_TEXT_MAX 2048
#define NAMED_MAX 64 /* of pools, tenants or devices */
#define TCP_THREADS_AUTO 8

/* One file being read.  The first error ends it. */
struct parse {
	const char *path;
	FILE *file;
	unsigned line; /* number of the one read last, or being checked */
	int err;
	unsigned err_line;
	struct config config;
	/* the place in the file */
	const char *section; /* of config_keys[]; NULL before the first */
	void *object; /* of a named section; NULL: the keys are of the configuration */
	const struct config_key *last;
	bool continued;           /* the line begins with a blank */
	char list[LIST_TEXT_MAX]; /* the value of `last`, over its lines */
	/* line of each key seen, 0: not seen; of a named section: in the one being read */
	unsigned lines[CONFIG_KEYS_MAX];
	unsigned named_lines[CONFIG_KINDS][NAMED_MAX]; /* where each begins */
};

_Static_assert(CONFIG_POOLS_MAX <= NAMED_MAX && CONFIG_TENANTS_MAX <= NAMED_MAX &&
		       CONFIG_LIST_MAX <= NAMED_MAX,
	       "raise NAMED_MAX");

/* Keep the text set by the failing function as that of the file. */
static void parse_fail(struct parse *parse, int err)
{
	parse->err = err_prefix(err, "%s:%u", parse->path, parse->line);
	parse->err_line = parse->line;
}

/* ---- lookups in the table of keys ---- */

/* The index of a key in the table; SIZE_MAX: unknown. */
static size_t key_index(const char *section, const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, section) == 0 &&
		    strcmp(config_keys[i].name, name) == 0)
			return i;
	return SIZE_MAX;
}

bool config_section_is_named(const char *section)
{
	for (unsigned kind = 0; kind < CONFIG_KINDS; kind++)
		if (strcmp(config_named[kind].section, section) == 0)
			return true;
	return false;
}

/* The section's name in the table, or NULL. */
static const char *section_find(const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, name) == 0)
			return config_keys[i].section;
	return NULL;
}

/* -EINVAL, with text that offers the nearest name. */
static int section_unknown(const char *name)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, name);
	for (size_t i = 0; i < config_n_keys; i++)
		nearest_offer(&nearest, config_keys[i].section);
	meant = nearest_get(&nearest);
	if (!meant)
		return err_set(-EINVAL, "unknown section [%s]", name);
	if (config_section_is_named(meant))
		return err_set(-EINVAL, "unknown section [%s]; did you mean [%s NAME]?",
			       name, meant);
	return err_set(-EINVAL, "unknown section [%s]; did you mean [%s]?", name,
		       meant);
}

static int key_unknown(const char *section, const char *name)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, name);
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, section) == 0)
			nearest_offer(&nearest, config_keys[i].name);
	meant = nearest_get(&nearest);
	if (meant)
		return err_set(-EINVAL, "unknown key '%s' in [%s]; did you mean '%s'?",
			       name, section, meant);
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].name, name) == 0)
			return err_set(-EINVAL,
				       "unknown key '%s' in [%s]; it belongs in [%s]",
				       name, section, config_keys[i].section);
	return err_set(-EINVAL, "unknown key '%s' in [%s]", name, section);
}

/* ---- named sections ---- */

static void section_default(const char *section, void *object)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, section) == 0)
			config_value_default(&config_keys[i], object);
}

static char *named_at(struct config *config, enum config_kind kind, unsigned i)
{
	return (char *)config + config_named[kind].offset +
	       i * config_named[kind].bytes;
}

static unsigned *named_count(struct config *config, enum config_kind kind)
{
	return (unsigned *)(void *)((char *)config + config_named[kind].count_offset);
}

/* Append an object with the defaults of its keys; there is room for it and its name. */
static char *named_add(struct config *config, enum config_kind kind, const char *name)
{
	char *object = named_at(config, kind, (*named_count(config, kind))++);

	memset(object, 0, config_named[kind].bytes);
	section_default(config_named[kind].section, object);
	(void)strcpy(object, name);
	return object;
}

static int name_check(struct parse *parse, enum config_kind kind, const char *name)
{
	const struct config_named *named = &config_named[kind];
	unsigned n = *named_count(&parse->config, kind);
	const char *what = named->section;

	if (!*name)
		return err_set(-EINVAL, "a %s's section is [%s NAME]", what, what);
	if (strlen(name) > named->name_max)
		return err_set(-EINVAL, "%s name '%s' is longer than %zu characters",
			       what, name, named->name_max);
	if (!config_name_good(name))
		return err_set(-EINVAL,
			       "%s name '%s' has other characters than letters, "
			       "digits, '-', '_' and '.'",
			       what, name);
	for (unsigned i = 0; i < n; i++)
		if (strcmp(named_at(&parse->config, kind, i), name) == 0)
			return err_set(-EINVAL, "%s '%s' is already in line %u", what,
				       name, parse->named_lines[kind][i]);
	if (n == named->max)
		return err_set(-EINVAL, "more than %u %ss", named->max, what);
	return 0;
}

static int named_begin(struct parse *parse, enum config_kind kind, const char *name)
{
	unsigned n = *named_count(&parse->config, kind);
	int err = name_check(parse, kind, name);

	if (err)
		return err;
	parse->named_lines[kind][n] = parse->line;
	parse->object = named_add(&parse->config, kind, name);
	/* the keys can be given anew */
	for (size_t i = 0; i < config_n_keys; i++)
		if (strcmp(config_keys[i].section, config_named[kind].section) == 0)
			parse->lines[i] = 0;
	return 0;
}

/* `name` is what stands between the brackets. */
static int section_begin(struct parse *parse, const char *name)
{
	const char *space = name + strcspn(name, " \t");
	const char *own = space + strspn(space, " \t");
	size_t bytes = (size_t)(space - name);

	parse->last = NULL;
	parse->object = NULL;
	parse->section = NULL;
	for (unsigned kind = 0; kind < CONFIG_KINDS; kind++) {
		const char *section = config_named[kind].section;

		if (bytes != strlen(section) || strncmp(name, section, bytes) != 0)
			continue;
		parse->section = section;
		return named_begin(parse, kind, own);
	}
	parse->section = section_find(name);
	return parse->section ? 0 : section_unknown(name);
}

/* Without a comment behind it, which inih leaves on lines that continue a list. */
static size_t value_length(const char *value)
{
	const char *comment = strstr(value, " ;");
	size_t len = comment ? (size_t)(comment - value) : strlen(value);

	while (len && isblank((unsigned char)value[len - 1]))
		len--;
	return len;
}

/* The most frequent reason why a value that looks good is refused. */
static bool has_comment(const char *value)
{
	for (const char *c = value; (c = strchr(c, '#')); c++)
		if (c > value && isblank((unsigned char)c[-1]))
			return true;
	return false;
}

static int value_refused(int err, const char *name, const char *value)
{
	err = err_prefix(err, "%s", name);
	if (!has_comment(value))
		return err;
	return err_set(err, "%s; a comment needs a line of its own", err_text());
}

static int key_set(struct parse *parse, const char *name, const char *value)
{
	const struct config_key *key;
	void *object = parse->object ? parse->object : &parse->config;
	bool is_list;
	size_t i, used, len;
	int err;

	if (!parse->section)
		return err_set(-EINVAL, "key '%s' stands before the first [section]",
			       name);
	i = key_index(parse->section, name);
	if (i == SIZE_MAX)
		return key_unknown(parse->section, name);
	key = &config_keys[i];
	is_list = key->count_offset != 0;
	if (parse->continued && parse->last == key && !is_list)
		return err_set(
			-EINVAL,
			"the line begins with a blank, so it continues '%s' of line "
			"%u: remove the blank",
			name, parse->lines[i]);
	if (parse->lines[i] && !(parse->continued && parse->last == key))
		return err_set(-EINVAL, "'%s' is already in line %u", name,
			       parse->lines[i]);
	if (!parse->lines[i]) {
		parse->lines[i] = parse->line;
		parse->list[0] = '\0';
	}
	parse->last = key;
	used = strlen(parse->list);
	len = value_length(value);
	if (used + len + 2 > sizeof(parse->list))
		return err_set(-ERANGE, "'%s' is too long", name);
	/* a list goes on in the next line with or without a comma before it */
	if (used && parse->list[used - 1] != ',')
		parse->list[used++] = ',';
	memcpy(parse->list + used, value, len);
	parse->list[used + len] = '\0';
	err = config_value_parse(key, parse->list, object);
	return err ? value_refused(err, name, value) : 0;
}

static int on_key(void *ctx, const char *section, const char *name, const char *value)
{
	struct parse *parse = ctx;
	int err;

	(void)section; /* cut at 50 characters by inih; on_line() has all of it */
	if (parse->err)
		return 1;
	err = key_set(parse, name, value);
	if (err)
		parse_fail(parse, err);
	return 1;
}

/* Whether more follows than blanks and a comment. */
static bool has_text(const char *rest)
{
	const char *text = rest + strspn(rest, " \t\r\n");

	return *text && (*text != ';' || text == rest);
}

/* inih sees no more of a line than up to its first zero byte. */
static int line_whole(const struct parse *parse, const char *line, size_t bytes)
{
	if (strlen(line) < bytes)
		return err_set(-EINVAL, "the line has a zero byte: this is not a text "
					"in UTF-8");
	if (line[bytes - 1] != '\n' && !feof(parse->file))
		return err_set(-EINVAL, "the line is too long; go on in the next line, "
					"beginning with a blank");
	return 0;
}

/* Check a line before inih does, which reports neither line numbers nor sections without keys. */
static int line_check(struct parse *parse, const char *line)
{
	static const char bom[] = "\xef\xbb\xbf";
	char name[FABRIC_DEVICE_MAX + 32];
	size_t len;

	if (parse->line == 1 && strncmp(line, bom, strlen(bom)) == 0)
		line += strlen(bom);
	parse->continued = isblank((unsigned char)line[0]);
	/* behind the line of a section, inih would take it for a section too */
	if (parse->continued && !parse->last && line[strspn(line, " \t")] == '[')
		return err_set(-EINVAL, "a section's line begins with a blank: remove "
					"the blank");
	if (line[0] != '[')
		return 0;
	len = strcspn(++line, "]");
	if (line[len] != ']')
		return err_set(-EINVAL, "']' is missing");
	if (len >= sizeof(name))
		return err_set(-EINVAL, "the section's name is too long");
	/* inih drops it */
	if (has_text(line + len + 1))
		return err_set(-EINVAL, "text behind ']': a key, and a comment with "
					"#, need a line of their own");
	memcpy(name, line, len);
	name[len] = '\0';
	return section_begin(parse, name);
}

static char *on_line(char *buf, int bytes, void *stream)
{
	struct parse *parse = stream;
	const char *end;
	int err;

	/* fgets() does not say how much it has read: the last zero byte is its own */
	memset(buf, '\n', (size_t)bytes);
	if (parse->err || !fgets(buf, bytes, parse->file))
		return NULL;
	parse->line++;
	end = memrchr(buf, '\0', (size_t)bytes);
	err = line_whole(parse, buf, (size_t)(end - buf));
	if (!err)
		err = line_check(parse, buf);
	if (err) {
		parse_fail(parse, err);
		return NULL;
	}
	return buf;
}

/* The line to name in an error about two keys: that of the first, or of the other one. */
static unsigned key_line(const struct parse *parse, const char *section,
			 const char *name, const char *other_section, const char *other)
{
	unsigned line = parse->lines[key_index(section, name)];

	return line ? line : parse->lines[key_index(other_section, other)];
}

/* Whether a socket at one of them is in the way of one at the other, with the same port. */
static bool addresses_overlap(const struct fabric_address *a,
			      const struct fabric_address *b)
{
	return a->family == b->family &&
	       (fabric_address_is_any(a) || fabric_address_is_any(b) ||
		fabric_address_host_equal(a, b));
}

/* The first address of [server] listen, from number `i` on, that overlaps; NULL: none does. */
static const struct fabric_address *listen_find(const struct config *config, unsigned i,
						const struct fabric_address *address)
{
	for (; i < config->n_listen; i++)
		if (addresses_overlap(&config->listen[i], address))
			return &config->listen[i];
	return NULL;
}

static int listen_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	char host[FABRIC_ADDRESS_TEXT], other[FABRIC_ADDRESS_TEXT];

	parse->line = parse->lines[key_index("server", "listen")];
	for (unsigned i = 0; i < config->n_listen; i++) {
		const struct fabric_address *address =
			listen_find(config, i + 1, &config->listen[i]);

		if (address)
			return err_set(
				-EINVAL,
				"listen: %s and %s overlap: take one of them out",
				fabric_address_host(&config->listen[i], host),
				fabric_address_host(address, other));
	}
	return 0;
}

/* The item after number `i` that clients may take for it; 0: there is none. */
static unsigned advertised_again(const struct config *config, unsigned i)
{
	const struct fabric_address *at = config->tcp_advertise;

	for (unsigned k = i + 1; k < config->n_tcp_advertise; k++)
		if (config->listen[k].family == config->listen[i].family &&
		    at[k].port == at[i].port &&
		    (!at[k].family || !at[i].family ||
		     fabric_address_host_equal(&at[k], &at[i])))
			return k;
	return 0;
}

/* The item number `i` is for the address of that number. */
static int advertised_check(const struct config *config, unsigned i)
{
	const struct fabric_address *address = &config->tcp_advertise[i],
				    *listen = &config->listen[i];
	char text[FABRIC_ADDRESS_TEXT], other[FABRIC_ADDRESS_TEXT];
	unsigned again = advertised_again(config, i);

	(void)fabric_address_text(address, text);
	if (address->family && address->family != listen->family)
		return err_set(
			-EINVAL,
			"[tcp] advertise: %s is in the place of %s of [server] listen: "
			"write an address of IPv%u there, or *:%u for the address that "
			"clients have reached",
			text, fabric_address_host(listen, other), listen->family,
			address->port);
	if (again)
		return err_set(
			-EINVAL,
			"[tcp] advertise: item %u, %s, may be the same for clients as "
			"item %u, %s: give each a port or an address of its own",
			again + 1,
			fabric_address_text(&config->tcp_advertise[again], other),
			i + 1, text);
	return 0;
}

/* Clients of one endpoint must not reach another one. */
static int advertise_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	unsigned n = config->n_tcp_advertise;
	char listen[CONFIG_TEXT_BYTES];
	int err = 0;

	parse->line = key_line(parse, "tcp", "advertise", "server", "listen");
	if (n && n != config->n_listen)
		return err_set(
			-EINVAL,
			"[tcp] advertise has %u address%s: write %u, for %s of "
			"[server] listen%s",
			n, n == 1 ? "" : "es", config->n_listen,
			config_value_text(&config_keys[key_index("server", "listen")],
					  config, listen),
			config->n_listen == 1 ? "" : ", in that order");
	for (unsigned i = 0; !err && i < n; i++)
		err = advertised_check(config, i);
	return err;
}

static int ports_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	const struct {
		const char *section, *key;
		uint16_t port;
		bool used;
	} ports[] = { { "server", "port", config->port, true },
		      { "rdma", "port", config->verbs_port,
			config->verbs != CONFIG_NO },
		      { "tcp", "port", config->tcp_port, config->tcp },
		      { "metrics", "listen", config->metrics_listen.port,
			listen_find(config, 0, &config->metrics_listen) } };
	const size_t n = sizeof(ports) / sizeof(ports[0]);

	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n; j++) {
			if (!ports[i].used || !ports[j].used ||
			    ports[i].port != ports[j].port)
				continue;
			parse->line = key_line(parse, ports[j].section, ports[j].key,
					       ports[i].section, ports[i].key);
			return err_set(-EINVAL, "[%s] and [%s] have the same port %u",
				       ports[i].section, ports[j].section,
				       ports[i].port);
		}
	}
	return 0;
}

/* Limits that allow no lease, or a limit that can never be reached. */
static const char *limits_fault(const struct tenant_limits *limits)
{
	if (limits->lease_max && limits->lease_min > limits->lease_max)
		return "lease_min is more than lease_max";
	if (limits->bytes_max && limits->lease_min > limits->bytes_max)
		return "lease_min is more than bytes";
	if (limits->bytes_max && limits->lease_max > limits->bytes_max)
		return "lease_max is more than bytes";
	return NULL;
}

/* A pool that the tenant may use and that there is not, or NULL. */
static const char *pool_missing(const struct config *config,
				const struct pool_names *pools)
{
	for (unsigned i = 0; i < pools->n; i++) {
		unsigned k = 0;

		while (k < config->n_pools &&
		       strcmp(config->pools[k].name, pools->at[i]) != 0)
			k++;
		if (k == config->n_pools)
			return pools->at[i];
	}
	return NULL;
}

static int tenants_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	unsigned reserved = 0;

	for (unsigned i = 0; i < config->n_tenants; i++) {
		const char *fault = limits_fault(&config->tenants[i].limits);
		const char *missing =
			pool_missing(config, &config->tenants[i].rights.pools);

		reserved += config->tenants[i].limits.reserve;
		if (!fault && reserved > 100)
			fault = "the reserves of tenants are more than 100% together";
		parse->line = parse->named_lines[CONFIG_TENANT][i];
		if (fault)
			return err_set(-EINVAL, "tenant '%s': %s",
				       config->tenants[i].name, fault);
		if (missing)
			return err_set(-EINVAL,
				       "tenant '%s': pools: there is no [pool %s]",
				       config->tenants[i].name, missing);
	}
	return 0;
}

static int device_check(const struct config *config, const char *name)
{
	for (unsigned i = 0; i < config->n_devices; i++)
		if (strcmp(config->devices[i], name) == 0)
			return 0;
	return config->n_devices
		       ? err_set(-EINVAL, "device '%s' is not in [rdma] devices", name)
		       : 0;
}

static int devices_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	int err;

	for (unsigned i = 0; i < config->n_device_params; i++) {
		parse->line = parse->named_lines[CONFIG_DEVICE][i];
		err = device_check(config, config->device_params[i].name);
		if (err)
			return err;
	}
	for (unsigned i = 0; i < config->n_pools; i++) {
		const struct pool_params *pool = &config->pools[i];

		parse->line = parse->named_lines[CONFIG_POOL][i];
		for (unsigned j = 0; j < pool->n_devices; j++) {
			err = device_check(config, pool->devices[j]);
			if (err)
				return err_prefix(err, "pool '%s'", pool->name);
		}
	}
	return 0;
}

/* With rdma_cm these two are determined by the interface of the address. */
static bool options_for_direct(const struct fabric_rdma_options *options)
{
	return options->connect != FABRIC_CONNECT_DIRECT &&
	       (options->gid_index != FABRIC_OPTION_AUTO ||
		options->pkey != FABRIC_OPTION_AUTO);
}

/* Whether any device uses the options of [rdma]. */
static bool rdma_options_used(const struct config *config)
{
	unsigned named = 0;

	for (unsigned i = 0; i < config->n_devices; i++)
		for (unsigned j = 0; j < config->n_device_params; j++)
			named += strcmp(config->devices[i],
					config->device_params[j].name) == 0;
	return config->n_devices == 0 || named < config->n_devices;
}

static int direct_check(struct parse *parse)
{
	static const char text[] = "gid_index and pkey are for connect = direct; with "
				   "rdma_cm they are those of the address's interface";
	const struct config *config = &parse->config;

	for (unsigned i = 0; i < config->n_device_params; i++) {
		parse->line = parse->named_lines[CONFIG_DEVICE][i];
		if (options_for_direct(&config->device_params[i].rdma_options))
			return err_set(-EINVAL, "device '%s': %s",
				       config->device_params[i].name, text);
	}
	parse->line = key_line(parse, "rdma", "gid_index", "rdma", "pkey");
	if (options_for_direct(&config->rdma_options) && rdma_options_used(config))
		return err_set(-EINVAL, "%s", text);
	return 0;
}

/* The options that a device inherits are those of [rdma], which may stand behind it. */
static void devices_inherit(struct config *config)
{
	const int *common = (const int *)&config->rdma_options;

	for (unsigned i = 0; i < config->n_device_params; i++) {
		int *own = (int *)&config->device_params[i].rdma_options;

		for (size_t k = 0; k < sizeof(config->rdma_options) / sizeof(int); k++)
			if (own[k] == CONFIG_INHERIT)
				own[k] = common[k];
	}
}

static int pools_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	size_t i;
	int err;

	for (i = 0; i < config->n_pools; i++) {
		parse->line = parse->named_lines[CONFIG_POOL][i];
		if (config->pools[i].share != POOL_SHARE_AUTO &&
		    config->pools[i].bytes != POOL_BYTES_AUTO)
			return err_set(-EINVAL, "pool '%s': share is for size = auto",
				       config->pools[i].name);
	}
	err = capacity_check_shares(config->pools, config->n_pools, &i);
	if (err)
		parse->line = parse->named_lines[CONFIG_POOL][i];
	return err;
}

/* Files that this kind of authentication does not use. */
static int auth_unused_check(struct parse *parse, bool psk, bool certificate)
{
	const struct config *config = &parse->config;
	const struct {
		const char *key, *path;
		bool used;
	} files[] = { { "psk", config->psk, psk },
		      { "certificate", config->certificate, certificate },
		      { "key", config->key, certificate },
		      { "ca", config->ca, certificate } };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		if (files[i].used || !*files[i].path)
			continue;
		parse->line = parse->lines[key_index("server", files[i].key)];
		return err_set(-EINVAL, "%s is for auth = %s or both", files[i].key,
			       i == 0 ? "psk" : "certificate");
	}
	return 0;
}

static int auth_config_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	enum config_auth auth = config->auth;
	bool psk = auth == CONFIG_AUTH_PSK || auth == CONFIG_AUTH_BOTH;
	bool certificate = auth == CONFIG_AUTH_CERTIFICATE || auth == CONFIG_AUTH_BOTH;

	parse->line = key_line(parse, "server", "auth", "server", "psk");
	if (psk && !*config->psk)
		return err_set(-EINVAL, "auth asks for psk, the file with the keys of "
					"the tenants: rmemctl keygen writes it");
	if (certificate && (!*config->certificate || !*config->ca))
		return err_set(
			-EINVAL,
			"auth asks for certificate, that of this server, and for "
			"ca, which signs those of the clients");
	return auth_unused_check(parse, psk, certificate);
}

/* Checks of several keys together, of which each sets the line that it is about. */
static int config_check(struct parse *parse)
{
	const struct config *config = &parse->config;
	char host[FABRIC_ADDRESS_TEXT];
	int err;

	parse->line = key_line(parse, "session", "fence", "session", "heartbeat");
	if (config->fence_ms < 2 * config->heartbeat_ms)
		return err_set(-EINVAL,
			       "fence (%" PRIu64 "ms) must be at least twice the "
			       "heartbeat (%" PRIu64 "ms)",
			       config->fence_ms, config->heartbeat_ms);
	err = auth_config_check(parse);
	if (err)
		return err;
	parse->line = key_line(parse, "server", "listen", "server", "insecure");
	for (unsigned i = 0; i < config->n_listen; i++)
		if (config->auth == CONFIG_AUTH_NONE && !config->insecure &&
		    !fabric_address_is_loopback(&config->listen[i]))
			return err_set(-EINVAL,
				       "listen: %s is not loopback and auth = none "
				       "accepts any client: say auth = psk or "
				       "certificate, or add insecure = yes if every "
				       "host that reaches it is trusted",
				       fabric_address_host(&config->listen[i], host));
	parse->line = key_line(parse, "tcp", "enabled", "rdma", "enabled");
	if (!config->tcp && config->verbs == CONFIG_NO)
		return err_set(-EINVAL, "neither [rdma] nor [tcp] is enabled: nothing "
					"would carry data");
	parse->line = key_line(parse, "tcp", "tls", "server", "auth");
	if (config->tcp_tls && config->auth == CONFIG_AUTH_NONE)
		return err_set(-EINVAL,
			       "[tcp] tls = yes needs keys that only [server] auth = "
			       "psk or certificate gives");
	err = listen_check(parse);
	if (!err)
		err = advertise_check(parse);
	if (!err)
		err = tenants_check(parse);
	if (!err)
		err = devices_check(parse);
	if (!err)
		err = direct_check(parse);
	if (!err)
		err = pools_check(parse);
	return err ? err : ports_check(parse);
}

int config_log_target_parse(const char *text, void *value)
{
	static struct config parsed;
	int err = config_value_parse(&config_keys[key_index("log", "target")], text,
				     &parsed);

	if (!err)
		*(enum config_log_target *)value = parsed.log_target;
	return err;
}

int config_log_level_parse(const char *text, int *ret_level)
{
	static struct config parsed;
	int err = config_value_parse(&config_keys[key_index("log", "level")], text,
				     &parsed);

	if (!err)
		*ret_level = parsed.log_level;
	return err;
}

const char *config_log_level_name(int level)
{
	const struct config_choice *choice =
		config_keys[key_index("log", "level")].choices;

	while (choice->name && choice->value != level)
		choice++;
	return choice->name;
}

static void add_defaults(struct config *config)
{
	if (config->n_pools == 0)
		(void)named_add(config, CONFIG_POOL, "default");
	if (config->n_tenants == 0)
		(void)named_add(config, CONFIG_TENANT, "default");
}

void config_default(struct config *config)
{
	/* with the padding, so that equal configurations compare equal as bytes */
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < config_n_keys; i++)
		if (!config_section_is_named(config_keys[i].section))
			config_value_default(&config_keys[i], config);
	add_defaults(config);
}

unsigned config_tcp_threads(const struct config *config)
{
	cpu_set_t cpus;
	int n = config->tcp_threads;

	if (n < 0) {
		/* fails where the kernel has more than 1,024 cores */
		n = sched_getaffinity(0, sizeof(cpus), &cpus) ? TCP_THREADS_AUTO
							      : CPU_COUNT(&cpus);
		if (n > TCP_THREADS_AUTO)
			n = TCP_THREADS_AUTO;
	}
	return (unsigned)n;
}

int config_load(const char *path, struct config *ret_config)
{
	struct parse *parse = calloc(1, sizeof(*parse));
	int err, line;

	if (!parse)
		return err_errno(-ENOMEM, "%s", path);
	parse->path = path;
	err = given_file_open(NULL, path, GIVEN_FILE_PLAIN, &parse->file);
	if (err)
		goto err_free;
	config_default(&parse->config);
	parse->config.n_pools = 0;
	parse->config.n_tenants = 0;
	line = ini_parse_stream(on_line, parse, on_key, parse);
	if (!parse->err && ferror(parse->file))
		parse->err = err_set(-EIO, "%s: cannot be read", path);
	else if (line > 0 && (!parse->err || (unsigned)line < parse->err_line))
		parse->err =
			err_set(-EINVAL, "%s:%d: neither [section] nor key = value",
				path, line);
	else if (line < 0)
		parse->err = err_errno(-ENOMEM, "%s", path);
	add_defaults(&parse->config);
	devices_inherit(&parse->config);
	if (!parse->err && config_check(parse))
		parse_fail(parse, -EINVAL);
	err = parse->err;
	if (!err)
		memcpy(ret_config, &parse->config, sizeof(*ret_config));
	(void)fclose(parse->file);
err_free:
	free(parse);
	return err;
}
