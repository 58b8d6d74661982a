/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/errors.h"

#define CODE_CASE(name, number, own, shown, text) \
	case own:                                 \
		return WIRE_CODE_##name;
#define ERRNO_CASE(name, number, own, shown, text) \
	case WIRE_CODE_##name:                     \
		return -(shown);
#define GROUP_CASE(hundreds, shown, text) \
	case hundreds:                    \
		return -(shown);

enum wire_code wire_code_of(int err)
{
	switch (-err) {
	case 0:
		return WIRE_CODE_none;
		WIRE_CODES(CODE_CASE)
	/* the kernel has two for this */
	case ENETUNREACH:
		return WIRE_CODE_unreachable;
	default:
		return WIRE_CODE_failed;
	}
}

static int group_errno(uint32_t hundreds)
{
	switch (hundreds) {
		WIRE_CODE_GROUPS(GROUP_CASE)
	default:
		return -EIO;
	}
}

int wire_code_errno(uint32_t code)
{
	switch (code) {
		WIRE_CODES(ERRNO_CASE)
	default:
		return group_errno(code / 100);
	}
}
