/* SPDX-License-Identifier: BSD-3-Clause */
/* The types of values: how each is parsed and written, a row for each in value_types[]. */
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

/* What a type of values is. */
struct value_type {
	/* What a value may be instead, and the byte that fills the field then.  "": the default, if
	 * that is a word; NULL: nothing */
	const char *word;
	int byte;
	int (*parse)(const struct config_key *key, const char *value, void *field);
	/* instead, of lists: an item to `dst`, which is zero */
	int (*item_parse)(const char *text, void *dst);
	/* a field, or an item of a list */
	void (*write)(const struct config_key *key, const void *field, char *buf,
		      size_t bytes);
};

/* ---- words and numbers ---- */

static int bool_parse(const struct config_key *, const char *value, void *field)
{
	return units_parse_switch(value, field);
}

static void bool_write(const struct config_key *, const void *field, char *buf,
		       size_t bytes)
{
	(void)snprintf(buf, bytes, "%s", *(const bool *)field ? "yes" : "no");
}

static int choice_parse(const struct config_key *key, const char *value, void *field)
{
	char known[128] = "";
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, value);
	for (const struct config_choice *c = key->choices; c->name; c++) {
		size_t used = strlen(known);

		if (strcmp(value, c->name) == 0) {
			memcpy(field, &c->value, sizeof(c->value));
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

static void choice_write(const struct config_key *key, const void *field, char *buf,
			 size_t bytes)
{
	const struct config_choice *choice = key->choices;
	int value;

	memcpy(&value, field, sizeof(value));
	while (choice->name && choice->value != value)
		choice++;
	(void)snprintf(buf, bytes, "%s", choice->name ? choice->name : "?");
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

static int pages_parse(const struct config_key *, const char *value, void *field)
{
	struct nearest nearest;
	const char *meant;

	nearest_init(&nearest, value);
	for (unsigned pages = 0; pages < POOL_PAGES_HUGE; pages++) {
		const char *name = pool_pages_name((enum pool_pages)pages);

		if (name && strcmp(value, name) == 0) {
			*(enum pool_pages *)field = (enum pool_pages)pages;
			return 0;
		}
		if (name)
			nearest_offer(&nearest, name);
	}
	if (huge_parse(value, field))
		return 0;
	meant = nearest_get(&nearest);
	return err_set(-EINVAL,
		       "'%s' is neither auto, thp or base nor a size of huge pages, as "
		       "2M, 512M or 1G%s%s%s",
		       value, meant ? "; did you mean '" : "", meant ? meant : "",
		       meant ? "'?" : "");
}

static void pages_write(const struct config_key *, const void *field, char *buf,
			size_t bytes)
{
	(void)snprintf(buf, bytes, "%s",
		       pool_pages_name(*(const enum pool_pages *)field));
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

static void count_write(const struct config_key *key, const void *field, char *buf,
			size_t bytes)
{
	(void)snprintf(buf, bytes, "%" PRIu32,
		       key->bytes == sizeof(uint16_t) ? *(const uint16_t *)field
						      : *(const uint32_t *)field);
}

static int scaled_parse(const struct config_key *key, const char *value, void *field)
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
	*(uint64_t *)field = number;
	return 0;
}

static void ms_write(const struct config_key *, const void *field, char *buf,
		     size_t bytes)
{
	(void)units_write_ms(*(const uint64_t *)field, buf, bytes);
}

static void bytes_write(const struct config_key *, const void *field, char *buf,
			size_t bytes)
{
	(void)units_write_bytes(*(const uint64_t *)field, buf, bytes);
}

static int percent_parse(const struct config_key *key, const char *value, void *field)
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
		*(unsigned *)field = (unsigned)number;
	return err;
}

static void percent_write(const struct config_key *, const void *field, char *buf,
			  size_t bytes)
{
	(void)snprintf(buf, bytes, "%u%%", *(const unsigned *)field);
}

static int number_parse(const struct config_key *key, const char *value, void *field)
{
	uint64_t number;
	int err = units_parse_u64(value, key->min, key->max, &number);

	if (err == -EINVAL)
		return err_set(err, "'%s' is neither %s", value,
			       key->type == CONFIG_TYPE_NODE ? "a NUMA node nor any"
							     : "a number nor auto");
	if (!err)
		*(int *)field = (int)number;
	return err;
}

static void number_write(const struct config_key *, const void *field, char *buf,
			 size_t bytes)
{
	(void)snprintf(buf, bytes, "%d", *(const int *)field);
}

static int rdma_option_parse(const struct config_key *key, const char *value,
			     void *field)
{
	if (strcmp(value, CONFIG_INHERIT_WORD) == 0 &&
	    strcmp(key->section, CONFIG_SECTION_DEVICE) == 0) {
		*(int *)field = CONFIG_INHERIT;
		return 0;
	}
	return fabric_rdma_option_parse(key->name, value, field);
}

static void rdma_option_write(const struct config_key *key, const void *field,
			      char *buf, size_t bytes)
{
	(void)fabric_rdma_option_format(key->name, *(const int *)field, buf, bytes);
}

/* ---- texts ---- */

/* Fields are compared as bytes: no byte of a former value may stay.  False: it is too long. */
static bool text_store(const struct config_key *key, const char *value, void *field)
{
	if (strlen(value) >= key->bytes)
		return false;
	memset(field, 0, key->bytes);
	memcpy(field, value, strlen(value));
	return true;
}

static void text_write(const struct config_key *, const void *field, char *buf,
		       size_t bytes)
{
	(void)snprintf(buf, bytes, "%s", (const char *)field);
}

static int path_parse(const struct config_key *key, const char *value, void *field)
{
	if (value[0] != '/')
		return err_set(-EINVAL, "'%s' is not an absolute path", value);
	if (!text_store(key, value, field))
		return err_set(-ERANGE, "the path is longer than %zu characters",
			       key->bytes - 1);
	return 0;
}

static int certificates_parse(const struct config_key *key, const char *value,
			      void *field)
{
	int err = certificate_patterns_check(value);

	if (!err && !text_store(key, value, field))
		err = err_set(-ERANGE, "the value is longer than %zu characters",
			      key->bytes - 1);
	return err;
}

bool config_name_good(const char *name)
{
	while (isalnum((unsigned char)*name) || (*name && strchr("-_.", *name)))
		name++;
	return *name == '\0';
}

/* A key that was indented by mistake continues the list of the line before it: it must not be
 * accepted as a name. */
static int name_check(const char *text)
{
	if (config_name_good(text))
		return 0;
	return err_set(
		-EINVAL,
		"'%s' has other characters than letters, digits, '-', '_' and '.'",
		text);
}

static int group_parse(const struct config_key *key, const char *value, void *field)
{
	int err = name_check(value);

	if (!err && !text_store(key, value, field))
		err = err_set(-ERANGE, "'%s' is longer than %zu characters", value,
			      key->bytes - 1);
	return err;
}

static int name_parse(const char *text, void *dst)
{
	int err = name_check(text);

	if (!err)
		(void)strcpy(dst, text);
	return err;
}

/* A key that was indented by mistake continues the list of the line before it: what has a blank is
 * not accepted. */
static int pattern_parse(const char *text, void *dst)
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
	(void)strcpy(dst, text);
	return 0;
}

/* ---- addresses ---- */

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
static int served_parse(const struct config_key *, const char *text, void *field)
{
	struct fabric_address address = { .family = 0 };
	char all[FABRIC_ADDRESS_TEXT];
	int err = address_port_parse(text, "192.0.2.1:9746 or [2001:db8::1]:9746",
				     &address);

	(void)snprintf(all, sizeof(all), "[::]:%u", address.port);
	if (!err)
		err = listened_check(text, &address, all);
	if (!err)
		memcpy(field, &address, sizeof(address));
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
static int advertised_parse(const char *text, void *dst)
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

static int listened_parse(const char *text, void *dst)
{
	struct fabric_address address;

	if (host_parse(text, &address) || listened_check(text, &address, "::"))
		return err_set(-EINVAL, "%s%s", err_text(),
			       *text == '[' ? "; write it without brackets" : "");
	memcpy(dst, &address, sizeof(address));
	return 0;
}

static int address_parse(const struct config_key *, const char *value, void *field)
{
	return fabric_address_parse(value, field);
}

static void address_write(const struct config_key *, const void *field, char *buf,
			  size_t)
{
	(void)fabric_address_host(field, buf);
}

static void address_port_write(const struct config_key *, const void *field, char *buf,
			       size_t)
{
	(void)fabric_address_text(field, buf);
}

/* ---- lists ---- */

static int item_append(const struct config_key *key,
		       int (*item_parse)(const char *text, void *dst), const char *item,
		       size_t len, char *items, unsigned *n)
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
	err = item_parse(text, dst);
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
static int list_parse(const struct config_key *key,
		      int (*item_parse)(const char *text, void *dst), const char *value,
		      char *object)
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
		err = item_append(key, item_parse, item, len, items, &n);
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

static void list_write(const struct config_key *key, const struct value_type *type,
		       const char *object, char buf[CONFIG_TEXT_BYTES])
{
	const size_t bytes = key->bytes / CONFIG_LIST_MAX;
	unsigned n;
	size_t used = 0;

	memcpy(&n, object + key->count_offset, sizeof(n));
	buf[0] = '\0';
	for (unsigned i = 0; i < n; i++) {
		if (i)
			used += (size_t)sprintf(buf + used, ", ");
		type->write(key, object + key->offset + i * bytes, buf + used,
			    CONFIG_TEXT_BYTES - used);
		used += strlen(buf + used);
	}
}

/* ---- all types ---- */

/* clang-format off */
static const struct value_type value_types[] = {
	[CONFIG_TYPE_BOOL] = { NULL, 0, bool_parse, NULL, bool_write },
	[CONFIG_TYPE_CHOICE] = { NULL, 0, choice_parse, NULL, choice_write },
	[CONFIG_TYPE_COUNT] = { NULL, 0, count_parse, NULL, count_write },
	[CONFIG_TYPE_MS] = { NULL, 0, scaled_parse, NULL, ms_write },
	[CONFIG_TYPE_BYTES] = { NULL, 0, scaled_parse, NULL, bytes_write },
	[CONFIG_TYPE_SIZE] = { "auto", 0, scaled_parse, NULL, bytes_write },
	[CONFIG_TYPE_PAGES] = { NULL, 0, pages_parse, NULL, pages_write },
	[CONFIG_TYPE_PERCENT] = { "auto", 0, percent_parse, NULL, percent_write },
	[CONFIG_TYPE_ADDRESSES] = { NULL, 0, NULL, listened_parse, address_write },
	[CONFIG_TYPE_ADDRESS_PORTS] = { NULL, 0, NULL, advertised_parse, address_port_write },
	[CONFIG_TYPE_NAMES] = { NULL, 0, NULL, name_parse, text_write },
	[CONFIG_TYPE_PATTERNS] = { NULL, 0, NULL, pattern_parse, text_write },
	[CONFIG_TYPE_PATH] = { "", 0, path_parse, NULL, text_write },
	[CONFIG_TYPE_GROUP] = { "", 0, group_parse, NULL, text_write },
	[CONFIG_TYPE_NODE] = { "any", 0xff, number_parse, NULL, number_write },
	[CONFIG_TYPE_AUTO] = { "auto", 0xff, number_parse, NULL, number_write },
	[CONFIG_TYPE_ADDRESS] = { "auto", 0, address_parse, NULL, address_write },
	[CONFIG_TYPE_ADDRESS_PORT] = { "none", 0, served_parse, NULL, address_port_write },
	[CONFIG_TYPE_RDMA_OPTION] = { NULL, 0, rdma_option_parse, NULL, rdma_option_write },
	[CONFIG_TYPE_CERTIFICATES] = { "none", 0, certificates_parse, NULL, text_write },
};
/* clang-format on */

_Static_assert(POOL_BYTES_AUTO == 0 && POOL_SHARE_AUTO == 0 && POOL_NODE_ANY == -1 &&
		       FABRIC_OPTION_AUTO == -1,
	       "words are stored as 0 or -1");

/* The word that a value may be instead, or NULL. */
static const char *word_of(const struct config_key *key)
{
	const char *word = value_types[key->type].word;

	if (!word || *word)
		return word;
	return *key->standard == '/' ? NULL : key->standard;
}

int config_value_parse(const struct config_key *key, const char *value, void *object)
{
	const struct value_type *type = &value_types[key->type];
	void *field = (char *)object + key->offset;
	const char *word = word_of(key);

	if (word && strcmp(value, word) == 0) {
		memset(field, type->byte, key->bytes);
		return 0;
	}
	if (*value == '\0' && (!key->count_offset || key->min > 0))
		return err_set(-EINVAL, "no value");
	if (type->item_parse)
		return list_parse(key, type->item_parse, value, object);
	return type->parse(key, value, field);
}

/* Whether the field is as its word leaves it. */
static bool is_word(const struct config_key *key, const unsigned char *field)
{
	for (size_t i = 0; i < key->bytes; i++)
		if (field[i] != value_types[key->type].byte)
			return false;
	return true;
}

const char *config_value_text(const struct config_key *key, const void *object,
			      char buf[CONFIG_TEXT_BYTES])
{
	const struct value_type *type = &value_types[key->type];
	const void *field = (const char *)object + key->offset;
	const char *word = word_of(key);

	if (word && is_word(key, field))
		(void)strcpy(buf, word);
	else if (type->item_parse)
		list_write(key, type, object, buf);
	else
		type->write(key, field, buf, CONFIG_TEXT_BYTES);
	return buf;
}

void config_value_default(const struct config_key *key, void *object)
{
	/* the table is constant: a unit test has shown that its defaults parse */
	if (config_value_parse(key, key->standard, object))
		abort();
}
