/* SPDX-License-Identifier: BSD-3-Clause */
/* The values of keys as text, as values.c parses them. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "fabric/address.h"
#include "rmemd/config/config.h"
#include "rmemd/config/keys.h"

/* The word for a value that all others of the type cannot have, or NULL. */
static const char *word_of(const struct config_key *key, const void *field)
{
	int number = 0;

	switch (key->type) {
	case CONFIG_TYPE_SIZE:
		return *(const uint64_t *)field == POOL_BYTES_AUTO ? "auto" : NULL;
	case CONFIG_TYPE_PERCENT:
		return *(const unsigned *)field == POOL_SHARE_AUTO ? "auto" : NULL;
	case CONFIG_TYPE_ADDRESS:
	case CONFIG_TYPE_ADDRESS_PORT:
		if (((const struct fabric_address *)field)->family)
			return NULL;
		return key->type == CONFIG_TYPE_ADDRESS ? "auto" : "none";
	case CONFIG_TYPE_AUTO:
	case CONFIG_TYPE_NODE:
		memcpy(&number, field, sizeof(number));
		if (number >= 0)
			return NULL;
		return key->type == CONFIG_TYPE_AUTO ? "auto" : "any";
	case CONFIG_TYPE_CERTIFICATES:
	case CONFIG_TYPE_PATH:
	case CONFIG_TYPE_GROUP:
		return *(const char *)field ? NULL : key->standard;
	default:
		return NULL;
	}
}

static const char *choice_of(const struct config_key *key, const void *field)
{
	const struct config_choice *choice = key->choices;
	int value;

	memcpy(&value, field, sizeof(value));
	while (choice->name && choice->value != value)
		choice++;
	return choice->name ? choice->name : "?";
}

static void list_text(const struct config_key *key, const char *object,
		      char buf[CONFIG_TEXT_BYTES])
{
	const size_t bytes = key->bytes / CONFIG_LIST_MAX;
	char host[FABRIC_ADDRESS_TEXT];
	unsigned n;
	size_t used = 0;

	memcpy(&n, object + key->count_offset, sizeof(n));
	buf[0] = '\0';
	for (unsigned i = 0; i < n && used < CONFIG_TEXT_BYTES; i++) {
		const char *item = object + key->offset + i * bytes;
		struct fabric_address address;

		memcpy(&address, item, sizeof(address));
		if (key->type == CONFIG_TYPE_ADDRESSES)
			item = fabric_address_host(&address, host);
		else if (key->type == CONFIG_TYPE_ADDRESS_PORTS)
			item = fabric_address_text(&address, host);
		used += (size_t)snprintf(buf + used, CONFIG_TEXT_BYTES - used, "%s%s",
					 i ? ", " : "", item);
	}
}

static uint64_t count_of(const struct config_key *key, const void *field)
{
	return key->bytes == sizeof(uint16_t) ? *(const uint16_t *)field
					      : *(const uint32_t *)field;
}

/* Of a type whose values are numbers, with a unit or without. */
static void number_text(const struct config_key *key, const void *field,
			char buf[CONFIG_TEXT_BYTES])
{
	switch (key->type) {
	case CONFIG_TYPE_MS:
		(void)units_write_ms(*(const uint64_t *)field, buf, CONFIG_TEXT_BYTES);
		break;
	case CONFIG_TYPE_BYTES:
	case CONFIG_TYPE_SIZE:
		(void)units_write_bytes(*(const uint64_t *)field, buf,
					CONFIG_TEXT_BYTES);
		break;
	case CONFIG_TYPE_PERCENT:
		(void)snprintf(buf, CONFIG_TEXT_BYTES, "%u%%",
			       *(const unsigned *)field);
		break;
	case CONFIG_TYPE_COUNT:
		(void)snprintf(buf, CONFIG_TEXT_BYTES, "%" PRIu64,
			       count_of(key, field));
		break;
	default:
		(void)snprintf(buf, CONFIG_TEXT_BYTES, "%d", *(const int *)field);
		break;
	}
}

/* Of a type whose values are no words. */
static void plain_text(const struct config_key *key, const char *object,
		       char buf[CONFIG_TEXT_BYTES])
{
	const void *field = object + key->offset;

	switch (key->type) {
	case CONFIG_TYPE_BOOL:
		(void)strcpy(buf, *(const bool *)field ? "yes" : "no");
		break;
	case CONFIG_TYPE_CHOICE:
		(void)strcpy(buf, choice_of(key, field));
		break;
	case CONFIG_TYPE_PAGES:
		(void)strcpy(buf, pool_pages_name(*(const enum pool_pages *)field));
		break;
	case CONFIG_TYPE_COUNT:
	case CONFIG_TYPE_MS:
	case CONFIG_TYPE_BYTES:
	case CONFIG_TYPE_SIZE:
	case CONFIG_TYPE_PERCENT:
	case CONFIG_TYPE_NODE:
	case CONFIG_TYPE_AUTO:
		number_text(key, field, buf);
		break;
	case CONFIG_TYPE_ADDRESSES:
	case CONFIG_TYPE_ADDRESS_PORTS:
	case CONFIG_TYPE_NAMES:
	case CONFIG_TYPE_PATTERNS:
		list_text(key, object, buf);
		break;
	case CONFIG_TYPE_PATH:
	case CONFIG_TYPE_GROUP:
	case CONFIG_TYPE_CERTIFICATES:
		(void)snprintf(buf, CONFIG_TEXT_BYTES, "%s", (const char *)field);
		break;
	case CONFIG_TYPE_ADDRESS:
		(void)fabric_address_host(field, buf);
		break;
	case CONFIG_TYPE_ADDRESS_PORT:
		(void)fabric_address_text(field, buf);
		break;
	case CONFIG_TYPE_RDMA_OPTION:
		(void)fabric_rdma_option_format(key->name, *(const int *)field, buf,
						CONFIG_TEXT_BYTES);
		break;
	}
}

const char *config_value_text(const struct config_key *key, const void *object,
			      char buf[CONFIG_TEXT_BYTES])
{
	const char *word = word_of(key, (const char *)object + key->offset);

	if (word)
		(void)strcpy(buf, word);
	else
		plain_text(key, object, buf);
	return buf;
}
