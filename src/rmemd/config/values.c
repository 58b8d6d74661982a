/* SPDX-License-Identifier: BSD-3-Clause */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/nearest.h"
#include "base/units.h"
#include "base/utf8.h"
#include "fabric/address.h"
#include "rmemd/config/keys.h"
#include "rmemd/config/config.h"
#include "tls/certificate.h"

/* The longest item of a list, as text and as it is stored. */
#define ITEM_BYTES sizeof(((struct config *)0)->devices[0])
_Static_assert(sizeof(((struct pool_params *)0)->devices) ==
			       CONFIG_LIST_MAX * ITEM_BYTES &&
		       sizeof(struct pool_names) ==
			       CONFIG_LIST_MAX * ITEM_BYTES + sizeof(unsigned) &&
		       sizeof(((struct rights *)0)->names) ==
			       CONFIG_LIST_MAX * ITEM_BYTES &&
		       sizeof(struct fabric_address) <= ITEM_BYTES,
	       "all lists have CONFIG_LIST_MAX items of up to ITEM_BYTES");

static int choice_parse(const struct config_choice *choices, const char *value,
			int *ret)
{
	char known[128] = "";
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, value);
	for (const struct config_choice *c = choices; c->name; c++) {
		size_t used = strlen(known);

		if (strcmp(value, c->name) == 0) {
			*ret = c->value;
			return 0;
		}
		nearest_offer(&nearest, c->name);
		(void)snprintf(known + used, sizeof(known) - used, "%s%s",
			       used ? ", " : "", c->name);
	}
	meant = nearest_get(&nearest);
	if (meant)
		return err_set(-EINVAL, "'%s' is not one of %s; did you mean '%s'?",
			       value, known, meant);
	return err_set(-EINVAL, "'%s' is not one of %s", value, known);
}

/* False: it is no size, or none that huge pages can have. */
static bool huge_parse(const char *value, enum pool_pages *ret)
{
	uint64_t bytes;

	if (units_parse_bytes(value, &bytes))
		return false;
	for (unsigned pages = POOL_PAGES_HUGE; pages < POOL_PAGES_END; pages++)
		if (bytes == UINT64_C(1) << pages) {
			*ret = (enum pool_pages)pages;
			return true;
		}
	return false;
}

static int pages_parse(const char *value, enum pool_pages *ret)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, value);
	for (unsigned pages = 0; pages < POOL_PAGES_HUGE; pages++) {
		const char *name = pool_pages_name((enum pool_pages)pages);

		if (name && strcmp(value, name) == 0) {
			*ret = (enum pool_pages)pages;
			return 0;
		}
		if (name)
			nearest_offer(&nearest, name);
	}
	if (huge_parse(value, ret))
		return 0;
	meant = nearest_get(&nearest);
	return err_set(-EINVAL,
		       "'%s' is neither auto, thp or base nor a size of huge pages, as "
		       "2M, 512M or 1G%s%s%s",
		       value, meant ? "; did you mean '" : "", meant ? meant : "",
		       meant ? "'?" : "");
}

static int count_parse(const struct config_key *key, const char *value, void *field)
{
	uint64_t number;
	int err = units_parse_u64(value, key->min, key->max, &number);

	if (err)
		return err;
	if (key->bytes == sizeof(uint16_t))
		*(uint16_t *)field = (uint16_t)number;
	else
		*(uint32_t *)field = (uint32_t)number;
	return 0;
}

static int scaled_parse(const struct config_key *key, const char *value, uint64_t *ret)
{
	uint64_t number;
	int err = key->type == CONFIG_TYPE_MS ? units_parse_ms(value, &number)
					      : units_parse_bytes(value, &number);

	if (err)
		return err;
	if (number < key->min || number > key->max) {
		if (key->type == CONFIG_TYPE_MS)
			return err_set(-ERANGE,
				       "%s is not from %" PRIu64 "ms to %" PRIu64 "ms",
				       value, key->min, key->max);
		return err_set(-ERANGE, "%s is not from %s to %s", value,
			       UNITS_BYTES(key->min), UNITS_BYTES(key->max));
	}
	*ret = number;
	return 0;
}

bool config_name_good(const char *name)
{
	while (isalnum((unsigned char)*name) || (*name && strchr("-_.", *name)))
		name++;
	return *name == '\0';
}

/* A key that was indented by mistake continues the list of the line before it: what has a blank is
 * not accepted. */
static int pattern_check(const char *text)
{
	const char *star = strchr(text, '*');

	if (!utf8_clean(text, strlen(text)))
		return err_set(-EINVAL, "'%s' cannot be a part of a lease's name",
			       text);
	if (text[strcspn(text, " \t")])
		return err_set(-EINVAL,
			       "'%s' has a blank: end the item with '*' before it",
			       text);
	if (star && star[1])
		return err_set(-EINVAL, "'%s' has a '*' that is not its end", text);
	return 0;
}

/* A link-local address may have its interface: what is wrong with it is not the form. */
static int host_parse(const char *text, struct fabric_address *ret)
{
	char host[FABRIC_ADDRESS_TEXT];
	struct fabric_address address;

	(void)snprintf(host, sizeof(host), "%.*s", (int)strcspn(text, "%"), text);
	if (fabric_address_parse(host, &address) ||
	    !fabric_address_is_link_local(&address))
		return fabric_address_parse(text, ret);
	*ret = address;
	return 0;
}

/* An address to listen at; `all`: how all are written.  A link-local one would need an interface,
 * which may come later. */
static int listened_check(const char *text, const struct fabric_address *address,
			  const char *all)
{
	if (fabric_address_is_link_local(address))
		return err_set(-EINVAL,
			       "%s is a link-local address, which is of one interface: "
			       "write %s, which stands for all addresses of all",
			       text, all);
	if (fabric_address_is_group(address))
		return err_set(-EINVAL,
			       "%s is an address of many hosts, to which nobody "
			       "connects: write one of this host",
			       text);
	return 0;
}

/* Like one of the examples. */
static int address_port_parse(const char *value, const char *examples,
			      struct fabric_address *ret)
{
	const char *colon = strrchr(value, ':');
	size_t len = colon ? (size_t)(colon - value) : 0;
	struct fabric_address address;
	char host[FABRIC_ADDRESS_TEXT];
	uint64_t port;
	bool brackets = len > 2 && value[0] == '[' && colon[-1] == ']';

	if (brackets)
		len -= 2;
	if (len == 0 || len >= sizeof(host) ||
	    (!brackets && strchr(value, ':') != colon))
		return err_set(-EINVAL, "'%s' is not ADDRESS:PORT, as %s", value,
			       examples);
	memcpy(host, value + brackets, len);
	host[len] = '\0';
	if (host_parse(host, &address))
		return -EINVAL;
	if (units_parse_u64(colon + 1, 1, UINT16_MAX, &port))
		return err_prefix(-EINVAL, "the port");
	if (brackets != (address.family == 6))
		return err_set(-EINVAL, "'%s': brackets are for IPv6 addresses", value);
	address.port = (uint16_t)port;
	*ret = address;
	return 0;
}

/* Where metrics are served. */
static int served_parse(const char *text, struct fabric_address *ret)
{
	struct fabric_address address = { .family = 0 };
	char all[FABRIC_ADDRESS_TEXT];
	int err = address_port_parse(text, "192.0.2.1:9746 or [2001:db8::1]:9746",
				     &address);

	(void)snprintf(all, sizeof(all), "[::]:%u", address.port);
	if (!err)
		err = listened_check(text, &address, all);
	if (!err)
		*ret = address;
	return err;
}

/* Why clients could not connect there, wherever they are; NULL: they could. */
static const char *advertised_fault(const struct fabric_address *address)
{
	if (fabric_address_is_any(address))
		return "which stands for all addresses";
	if (fabric_address_is_link_local(address))
		return "a link-local address, which is of one interface";
	if (fabric_address_is_group(address))
		return "an address of many hosts";
	return NULL;
}

/* Where clients shall connect to: "*" stands for the address that they have reached. */
static int advertised_parse(const char *text, char *dst)
{
	struct fabric_address address = { .family = 0 };
	const char *fault;
	char any[FABRIC_ADDRESS_TEXT + sizeof("0.0.0.0")];
	bool star = strncmp(text, "*:", 2) == 0;
	int err;

	(void)snprintf(any, sizeof(any), "0.0.0.0%s", text + 1);
	err = address_port_parse(star ? any : text,
				 "192.0.2.1:7462, [2001:db8::1]:7462 or *:7462",
				 &address);
	if (err)
		return err;
	fault = star ? NULL : advertised_fault(&address);
	if (fault)
		return err_set(-EINVAL,
			       "clients cannot connect to %s, %s: write *:%u for the "
			       "address that they have reached",
			       text, fault, address.port);
	if (star)
		address.family = 0;
	memcpy(dst, &address, sizeof(address));
	return 0;
}

/* Parse an item to `dst`, which is zero. */
static int item_parse(const struct config_key *key, const char *text, char *dst)
{
	struct fabric_address address;
	int err;

	if (key->type == CONFIG_TYPE_ADDRESSES) {
		if (host_parse(text, &address) || listened_check(text, &address, "::"))
			return err_set(-EINVAL, "%s%s", err_text(),
				       *text == '[' ? "; write it without brackets"
						    : "");
		memcpy(dst, &address, sizeof(address));
		return 0;
	}
	if (key->type == CONFIG_TYPE_ADDRESS_PORTS)
		return advertised_parse(text, dst);
	if (key->type == CONFIG_TYPE_PATTERNS) {
		err = pattern_check(text);
		if (!err)
			(void)strcpy(dst, text);
		return err;
	}
	/* A key that was indented by mistake continues the list of the line before it: it must
	 * not be accepted as a name. */
	if (!config_name_good(text))
		return err_set(-EINVAL,
			       "'%s' has other characters than letters, digits, '-', "
			       "'_' and '.'",
			       text);
	(void)strcpy(dst, text);
	return 0;
}

static int item_append(const struct config_key *key, const char *item, size_t len,
		       char *items, unsigned *n)
{
	const size_t bytes = key->bytes / CONFIG_LIST_MAX;
	char text[ITEM_BYTES], *dst = items + *n * bytes;
	int err;

	if (len == 0)
		return err_set(-EINVAL, "an empty item in the list");
	if (*n >= key->max)
		return err_set(-ERANGE, "more than %" PRIu64 " items in the list",
			       key->max);
	if (len >= ITEM_BYTES)
		return err_set(-ERANGE, "'%.*s' is longer than %zu characters",
			       (int)len, item, ITEM_BYTES - 1);
	memcpy(text, item, len);
	text[len] = '\0';
	err = item_parse(key, text, dst);
	if (err)
		return err;
	/* of addresses with ports, advertise_check() says more */
	for (unsigned i = 0; i < *n && key->type != CONFIG_TYPE_ADDRESS_PORTS; i++)
		if (memcmp(items + i * bytes, dst, bytes) == 0)
			return err_set(-EINVAL, "'%s' is in the list twice", text);
	(*n)++;
	return 0;
}

/* Items are separated by commas, also behind the last; blanks around them are ignored. */
static int list_parse(const struct config_key *key, const char *value, char *object)
{
	char items[CONFIG_LIST_MAX * ITEM_BYTES] = { 0 };
	unsigned n = 0;
	const char *item = value;

	while (*value) {
		size_t len;
		int err;

		item += strspn(item, " \t");
		if (*item == '\0')
			break;
		len = strcspn(item, ",");
		value = item + len;
		while (len && isblank((unsigned char)item[len - 1]))
			len--;
		err = item_append(key, item, len, items, &n);
		if (err)
			return err;
		item = value + 1;
	}
	if (n < key->min)
		return err_set(-EINVAL, "the list is empty");
	memcpy(object + key->offset, items, key->bytes);
	memcpy(object + key->count_offset, &n, sizeof(n));
	return 0;
}

static int percent_parse(const struct config_key *key, const char *value, unsigned *ret)
{
	char digits[CONFIG_VALUE_MAX + 1];
	size_t len = strlen(value);
	uint64_t number;
	int err;

	if (value[len - 1] != '%' || len > sizeof(digits))
		return err_set(-EINVAL, "'%s' is neither auto nor per cent, as 50%%",
			       value);
	memcpy(digits, value, len - 1);
	digits[len - 1] = '\0';
	err = units_parse_u64(digits, key->min, key->max, &number);
	if (!err)
		*ret = (unsigned)number;
	return err;
}

/* A number, or a word for which config_value_parse() has looked. */
static int number_parse(const struct config_key *key, const char *value,
			const char *expected, int *ret)
{
	uint64_t number;
	int err = units_parse_u64(value, key->min, key->max, &number);

	if (err == -EINVAL)
		return err_set(err, "'%s' is neither %s", value, expected);
	if (!err)
		*ret = (int)number;
	return err;
}

static int rdma_option_parse(const struct config_key *key, const char *value, int *ret)
{
	if (strcmp(value, CONFIG_INHERIT_WORD) == 0 &&
	    strcmp(key->section, CONFIG_SECTION_DEVICE) == 0) {
		*ret = CONFIG_INHERIT;
		return 0;
	}
	return fabric_rdma_option_parse(key->name, value, ret);
}

static int path_parse(const struct config_key *key, const char *value, char *ret)
{
	/* a default that is a word: there is no path */
	if (key->standard[0] != '/' && strcmp(key->standard, value) == 0)
		value = "";
	else if (value[0] != '/')
		return err_set(-EINVAL, "'%s' is not an absolute path", value);
	if (strlen(value) >= key->bytes)
		return err_set(-ERANGE, "the path is longer than %zu characters",
			       key->bytes - 1);
	/* fields are compared as bytes: no byte of an older value may stay */
	memset(ret, 0, key->bytes);
	memcpy(ret, value, strlen(value));
	return 0;
}

static int certificates_parse(const struct config_key *key, const char *value,
			      char *ret)
{
	int err = certificate_patterns_check(value);

	if (!err && strlen(value) >= key->bytes)
		err = err_set(-ERANGE, "the value is longer than %zu characters",
			      key->bytes - 1);
	if (err)
		return err;
	memset(ret, 0, key->bytes);
	memcpy(ret, value, strlen(value));
	return 0;
}

static int group_parse(const struct config_key *key, const char *value, char *ret)
{
	if (strcmp(value, key->standard) == 0)
		value = "";
	if (!config_name_good(value))
		return err_set(-EINVAL,
			       "'%s' has other characters than letters, digits, '-', "
			       "'_' and '.'",
			       value);
	if (strlen(value) >= key->bytes)
		return err_set(-ERANGE, "'%s' is longer than %zu characters", value,
			       key->bytes - 1);
	memset(ret, 0, key->bytes);
	memcpy(ret, value, strlen(value));
	return 0;
}

/* The word that a value of a type may be instead, or NULL, and the byte that then fills the
 * field. */
static const char *special_word(enum config_type type, int *byte)
{
	switch (type) {
	case CONFIG_TYPE_SIZE:
	case CONFIG_TYPE_PERCENT:
	case CONFIG_TYPE_ADDRESS:
		*byte = 0;
		return "auto";
	case CONFIG_TYPE_AUTO:
		*byte = 0xff;
		return "auto";
	case CONFIG_TYPE_NODE:
		*byte = 0xff;
		return "any";
	case CONFIG_TYPE_ADDRESS_PORT:
	case CONFIG_TYPE_CERTIFICATES:
		*byte = 0;
		return "none";
	default:
		return NULL;
	}
}

_Static_assert(POOL_BYTES_AUTO == 0 && POOL_SHARE_AUTO == 0 && POOL_NODE_ANY == -1 &&
		       FABRIC_OPTION_AUTO == -1,
	       "words are stored as 0 or -1");

int config_value_parse(const struct config_key *key, const char *value, void *object)
{
	char *base = object;
	void *field = base + key->offset;
	int byte = 0;
	const char *word = special_word(key->type, &byte);

	if (word && strcmp(value, word) == 0) {
		memset(field, byte, key->bytes);
		return 0;
	}
	if (*value == '\0' && (!key->count_offset || key->min > 0))
		return err_set(-EINVAL, "no value");
	switch (key->type) {
	case CONFIG_TYPE_BOOL:
		return units_parse_switch(value, field);
	case CONFIG_TYPE_CHOICE:
		return choice_parse(key->choices, value, field);
	case CONFIG_TYPE_PAGES:
		return pages_parse(value, field);
	case CONFIG_TYPE_COUNT:
		return count_parse(key, value, field);
	case CONFIG_TYPE_MS:
	case CONFIG_TYPE_BYTES:
	case CONFIG_TYPE_SIZE:
		return scaled_parse(key, value, field);
	case CONFIG_TYPE_PERCENT:
		return percent_parse(key, value, field);
	case CONFIG_TYPE_ADDRESSES:
	case CONFIG_TYPE_ADDRESS_PORTS:
	case CONFIG_TYPE_NAMES:
	case CONFIG_TYPE_PATTERNS:
		return list_parse(key, value, base);
	case CONFIG_TYPE_PATH:
		return path_parse(key, value, field);
	case CONFIG_TYPE_GROUP:
		return group_parse(key, value, field);
	case CONFIG_TYPE_NODE:
		return number_parse(key, value, "a NUMA node nor any", field);
	case CONFIG_TYPE_AUTO:
		return number_parse(key, value, "a number nor auto", field);
	case CONFIG_TYPE_ADDRESS:
		return fabric_address_parse(value, field);
	case CONFIG_TYPE_ADDRESS_PORT:
		return served_parse(value, field);
	case CONFIG_TYPE_RDMA_OPTION:
		return rdma_option_parse(key, value, field);
	case CONFIG_TYPE_CERTIFICATES:
		return certificates_parse(key, value, field);
	}
	return err_set(-EINVAL, "a key of no known type");
}

void config_value_default(const struct config_key *key, void *object)
{
	/* the table is constant: a unit test has shown that its defaults parse */
	if (config_value_parse(key, key->standard, object))
		abort();
}
