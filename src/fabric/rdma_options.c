/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/rdma_options.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define RETRIES_FOR_EVER 7
#define HEX_DIGITS "0123456789abcdefABCDEF"
#define PKEY_BITS 0x7fffu

/* An option of fabric_rdma_options.  parse: NULL: a number from min to max. */
struct option {
	const char *name;
	size_t offset;
	int min, max;
	bool has_auto;
	int (*parse)(const char *value, int *ret_value);
};

static int switch_parse(const char *value, int *ret_value)
{
	bool on;
	int err = units_parse_switch(value, &on);

	if (!err)
		*ret_value = on;
	return err;
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

/* Hexadecimal, as the tools of InfiniBand write P_Keys. */
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
	/* 0x8000 alone, the bit of full members, names no partition */
	if (*end || errno || number > UINT16_MAX || !(number & PKEY_BITS))
		return err_set(-ERANGE,
			       "'%s' is not a P_Key: 0x1 to 0x7fff, or these and "
			       "0x8000",
			       value);
	*ret_value = (int)number;
	return 0;
}

#define OPTION(member, ...)                                       \
	{ .name = #member,                                        \
	  .offset = offsetof(struct fabric_rdma_options, member), \
	  __VA_ARGS__ }
static const struct option options[] = {
	OPTION(mtu, 256, 4096, true, NULL),
	OPTION(traffic_class, 0, 255, true, NULL),
	OPTION(service_level, 0, 15, true, NULL),
	OPTION(ack_timeout, 1, 31, true, NULL),
	OPTION(retry_count, 0, 6, false, NULL),
	OPTION(rnr_retry_count, 0, 6, false, NULL),
	OPTION(rd_atomic, 1, 255, true, NULL),
	OPTION(relaxed_ordering, 0, 1, false, switch_parse),
	OPTION(connect, 0, 0, true, connect_parse),
	OPTION(gid_index, 0, 255, true, NULL),
	OPTION(pkey, 0, 0, true, pkey_parse),
};

static int number_parse(const struct option *option, const char *value, int *ret_value)
{
	bool is_mtu = option->offset == offsetof(struct fabric_rdma_options, mtu);
	uint64_t number;
	int err = units_parse_u64(value, 0, INT32_MAX, &number);

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
	if (err)
		return err;
	if (is_mtu && (number & (number - 1)))
		return err_set(-EINVAL, "%d is not 256, 512, 1024, 2048 or 4096",
			       (int)number);
	*ret_value = (int)number;
	return 0;
}

/* NULL: no option has this name; the text says so. */
static const struct option *option_find(const char *name)
{
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (!strcmp(options[i].name, name))
			return &options[i];
	(void)err_set(-ENOENT, "there is no '%s'", name);
	return NULL;
}

static int option_parse(const struct option *option, const char *value, int *ret_value)
{
	if (option->has_auto && !strcmp(value, "auto")) {
		*ret_value = FABRIC_OPTION_AUTO;
		return 0;
	}
	return option->parse ? option->parse(value, ret_value)
			     : number_parse(option, value, ret_value);
}

int fabric_rdma_option_parse(const char *name, const char *value, int *ret_value)
{
	const struct option *option = option_find(name);

	return option ? option_parse(option, value, ret_value) : -ENOENT;
}

int fabric_rdma_options_set(struct fabric_rdma_options *rdma_options, const char *name,
			    const char *value)
{
	const struct option *option = option_find(name);

	return option ? option_parse(
				option, value,
				(int *)(void *)((char *)rdma_options + option->offset))
		      : -ENOENT;
}

const char *fabric_rdma_option_format(const char *name, int value, char *buf,
				      size_t buf_bytes)
{
	const struct option *option = option_find(name);
	int (*parse)(const char *, int *) = option ? option->parse : NULL;

	if (option && option->has_auto && value == FABRIC_OPTION_AUTO)
		(void)snprintf(buf, buf_bytes, "auto");
	else if (parse == switch_parse)
		(void)snprintf(buf, buf_bytes, "%s", value ? "yes" : "no");
	else if (parse == connect_parse)
		(void)snprintf(buf, buf_bytes, "%s",
			       value == FABRIC_CONNECT_CM ? "cm" : "direct");
	else
		(void)snprintf(buf, buf_bytes, parse == pkey_parse ? "0x%x" : "%u",
			       (unsigned)value);
	return buf;
}
