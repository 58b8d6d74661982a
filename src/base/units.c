/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/units.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/err.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit byte_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "k", UINT64_C(1) << 10 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "m", UINT64_C(1) << 20 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "g", UINT64_C(1) << 30 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "t", UINT64_C(1) << 40 },
	{ "TiB", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct unit time_units[] = {
	{ "ms", 1 },
	{ "s", 1000 },
	{ "min", UINT64_C(60) * 1000 },
	{ "h", UINT64_C(3600) * 1000 },
	{ "d", UINT64_C(86400) * 1000 },
	{ NULL, 0 },
};

/* Decimal digits; *ret_rest: what follows them.  strtoull() would accept signs and leading
 * spaces.  -EINVAL without text. */
static int digits_parse(const char *text, uint64_t *ret_value, const char **ret_rest)
{
	char *end;
	unsigned long long value;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return err_set(-ERANGE, "'%s' is too large", text);
	*ret_value = value;
	*ret_rest = end;
	return 0;
}

static int scaled_parse(const char *text, const struct unit *units, const char *grammar,
			uint64_t *ret_value)
{
	const char *rest;
	uint64_t value;
	int err = digits_parse(text, &value, &rest);

	if (err == -ERANGE)
		return err;
	if (!err)
		rest += strspn(rest, " ");
	for (; !err && units->name; units++) {
		if (strcmp(rest, units->name) != 0)
			continue;
		if (!checked_mul(value, units->factor, &value))
			return err_set(-ERANGE, "'%s' is too large", text);
		*ret_value = value;
		return 0;
	}
	return err_set(-EINVAL, "'%s' is not %s", text, grammar);
}

int units_parse_bytes(const char *text, uint64_t *ret_bytes)
{
	return scaled_parse(text, byte_units,
			    "a size: a whole number of bytes, or with K, M, G or T "
			    "(powers of 1024), such as 64K",
			    ret_bytes);
}

int units_parse_ms(const char *text, uint64_t *ret_ms)
{
	if (strcmp(text, "0") == 0) {
		*ret_ms = 0;
		return 0;
	}
	return scaled_parse(text, time_units,
			    "a time: a whole number with ms, s, min, h or d, such as "
			    "200ms",
			    ret_ms);
}

int units_parse_switch(const char *text, bool *ret_on)
{
	bool on = strcmp(text, "yes") == 0;

	if (!on && strcmp(text, "no") != 0)
		return err_set(-EINVAL, "'%s' is neither yes nor no", text);
	*ret_on = on;
	return 0;
}

int units_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	const char *rest;
	uint64_t value;
	int err = digits_parse(text, &value, &rest);

	if (err == -EINVAL || (!err && *rest))
		return err_set(-EINVAL, "'%s' is not a number", text);
	if (err)
		return err;
	if (value < min || value > max)
		return err_set(-ERANGE, "%s is not from %" PRIu64 " to %" PRIu64, text,
			       min, max);
	*ret_value = value;
	return 0;
}

const char *units_format_bytes(uint64_t bytes, char *buf, size_t buf_bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	size_t i = 0;
	double value = (double)bytes;

	while (value >= 1024 && i + 1 < sizeof(names) / sizeof(names[0])) {
		value /= 1024;
		i++;
	}
	/* whole values without a fraction, others with one digit */
	(void)snprintf(buf, buf_bytes,
		       value == (double)(uint64_t)value ? "%.0f %s" : "%.1f %s", value,
		       names[i]);
	return buf;
}

/* In the largest unit that divides the value. */
static const char *scaled_write(uint64_t value, const struct unit *units, char *buf,
				size_t buf_bytes)
{
	const struct unit *best = NULL;

	for (; value && units->name; units++)
		if (value % units->factor == 0 &&
		    (!best || units->factor > best->factor))
			best = units;
	(void)snprintf(buf, buf_bytes, "%" PRIu64 "%s",
		       best ? value / best->factor : value, best ? best->name : "");
	return buf;
}

const char *units_write_bytes(uint64_t bytes, char *buf, size_t buf_bytes)
{
	return scaled_write(bytes, byte_units, buf, buf_bytes);
}

const char *units_write_ms(uint64_t ms, char *buf, size_t buf_bytes)
{
	return scaled_write(ms, time_units, buf, buf_bytes);
}
