/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "fabric/fabric.h"

#define RETRIES_FOR_EVER 7
#define HEX_DIGITS "0123456789abcdefABCDEF"
#define PKEY_BITS 0x7fffu

static const struct option {
	const char *name;
	size_t offset;
	int min, max;
	bool has_auto;
} rdma_options[] = {
	{ "mtu", offsetof(struct fabric_rdma_options, mtu), 256, 4096, true },
	{ "traffic_class", offsetof(struct fabric_rdma_options, traffic_class), 0, 255,
	  true },
	{ "service_level", offsetof(struct fabric_rdma_options, service_level), 0, 15,
	  true },
	{ "ack_timeout", offsetof(struct fabric_rdma_options, ack_timeout), 1, 31,
	  true },
	{ "retry_count", offsetof(struct fabric_rdma_options, retry_count), 0, 6,
	  false },
	{ "rnr_retry_count", offsetof(struct fabric_rdma_options, rnr_retry_count), 0,
	  6, false },
	{ "rd_atomic", offsetof(struct fabric_rdma_options, rd_atomic), 1, 255, true },
	{ "relaxed_ordering", offsetof(struct fabric_rdma_options, relaxed_ordering), 0,
	  1, false },
	{ "connect", offsetof(struct fabric_rdma_options, connect), FABRIC_CONNECT_CM,
	  FABRIC_CONNECT_DIRECT, true },
	{ "gid_index", offsetof(struct fabric_rdma_options, gid_index), 0, 255, true },
	{ "pkey", offsetof(struct fabric_rdma_options, pkey), 1, 0xffff, true },
};

static const struct option *knob_find(const char *name)
{
	for (size_t i = 0; i < sizeof(rdma_options) / sizeof(rdma_options[0]); i++)
		if (!strcmp(rdma_options[i].name, name))
			return &rdma_options[i];
	return NULL;
}

static int switch_parse(const char *value, int *ret_value)
{
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return err_set(-EINVAL, "'%s' is neither yes nor no", value);
	*ret_value = value[0] == 'y';
	return 0;
}

static int connect_parse(const char *value, int *ret_value)
{
	if (!strcmp(value, "cm"))
		*ret_value = FABRIC_CONNECT_CM;
	else if (!strcmp(value, "direct"))
		*ret_value = FABRIC_CONNECT_DIRECT;
	else
		return err_set(-EINVAL, "'%s' is neither cm, direct nor auto", value);
	return 0;
}

/* People write them as the tools of the fabric do. */
static int pkey_parse(const char *value, int *ret_value)
{
	unsigned long number;
	char *end;

	if (value[0] != '0' || value[1] != 'x' || strspn(value + 2, HEX_DIGITS) == 0)
		return err_set(-EINVAL,
			       "'%s' is neither 0x and hexadecimal digits nor auto",
			       value);
	errno = 0;
	number = strtoul(value, &end, 16);
	/* nothing is left without the bit of full members */
	if (*end || errno || number > UINT16_MAX || !(number & PKEY_BITS))
		return err_set(-ERANGE,
			       "'%s' is not a P_Key: 0x1 to 0x7fff, or these and "
			       "0x8000",
			       value);
	*ret_value = (int)number;
	return 0;
}

static int number_check(const struct option *option, int number)
{
	if (option->offset == offsetof(struct fabric_rdma_options, mtu) &&
	    (number & (number - 1)))
		return err_set(-EINVAL, "%d is not 256, 512, 1024, 2048 or 4096",
			       number);
	return 0;
}

static int knob_parse(const struct option *option, const char *value, int *ret_value)
{
	uint64_t number;
	int err;

	if (option->has_auto && !strcmp(value, "auto")) {
		*ret_value = FABRIC_OPTION_AUTO;
		return 0;
	}
	if (option->offset == offsetof(struct fabric_rdma_options, relaxed_ordering))
		return switch_parse(value, ret_value);
	if (option->offset == offsetof(struct fabric_rdma_options, connect))
		return connect_parse(value, ret_value);
	if (option->offset == offsetof(struct fabric_rdma_options, pkey))
		return pkey_parse(value, ret_value);
	err = units_parse_u64(value, 0, INT32_MAX, &number);
	if (err)
		return option->has_auto
			       ? err_set(err, "'%s' is neither a number nor auto",
					 value)
			       : err;
	if (!option->has_auto && number == RETRIES_FOR_EVER)
		return err_set(-ERANGE,
			       "7 stands for trying for ever, and a peer that is dead "
			       "would never be missed: 6 is the most");
	err = units_parse_u64(value, (uint64_t)option->min, (uint64_t)option->max,
			      &number);
	if (!err)
		err = number_check(option, (int)number);
	if (!err)
		*ret_value = (int)number;
	return err;
}

int fabric_rdma_option_parse(const char *name, const char *value, int *ret_value)
{
	const struct option *option = knob_find(name);

	if (!option)
		return err_set(-ENOENT, "there is no '%s'", name);
	return knob_parse(option, value, ret_value);
}

int fabric_rdma_options_set(struct fabric_rdma_options *set, const char *name,
			    const char *value)
{
	const struct option *option = knob_find(name);

	if (!option)
		return err_set(-ENOENT, "there is no '%s'", name);
	return knob_parse(option, value, (int *)(void *)((char *)set + option->offset));
}

int fabric_address_parse(const char *text, struct fabric_address *ret_address)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	uint8_t bytes[16] = { 0 };
	uint8_t family = 4;

	if (inet_pton(AF_INET, text, bytes) != 1) {
		if (inet_pton(AF_INET6, text, bytes) != 1)
			return err_set(-EINVAL, "'%s' is not an IPv4 or IPv6 address",
				       text);
		family = 6;
	}
	/* the GID of an IPv4 address */
	if (family == 6 && !memcmp(bytes, mapped, sizeof(mapped))) {
		family = 4;
		memmove(bytes, bytes + sizeof(mapped), 4);
		memset(bytes + 4, 0, sizeof(bytes) - 4);
	}
	/* structures with this member are compared as bytes */
	memset(ret_address, 0, sizeof(*ret_address));
	ret_address->family = family;
	memcpy(ret_address->bytes, bytes, sizeof(bytes));
	return 0;
}
