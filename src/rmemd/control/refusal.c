/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/refusal.h"

const char *refusal_name(enum refusal refusal)
{
	static const char *const names[] = {
		[REFUSAL_SLOT] = "slot",
		[REFUSAL_LATE] = "late",
		[REFUSAL_TLS] = "tls",
		[REFUSAL_UNKNOWN_KEY] = "unknown_key",
		[REFUSAL_WRONG_KEY] = "wrong_key",
		[REFUSAL_CERTIFICATE] = "certificate",
		[REFUSAL_TENANT] = "tenant",
		[REFUSAL_SESSION] = "session",
		[REFUSAL_QUOTA] = "quota",
		[REFUSAL_PROTOCOL] = "protocol",
		[REFUSAL_UNREAD] = "unread",
		[REFUSAL_REMOVED] = "removed",
		[REFUSAL_DRAINING] = "draining",
		[REFUSAL_CHANNEL_TOKEN] = "channel_token",
		[REFUSAL_CHANNEL_ADDRESS] = "channel_address",
		[REFUSAL_CHANNEL_NUMBER] = "channel_number",
		[REFUSAL_CHANNEL_LATE] = "channel_late",
		[REFUSAL_CHANNEL_TLS] = "channel_tls",
		[REFUSAL_CHANNEL_JOIN] = "channel_join",
	};
	_Static_assert(sizeof(names) / sizeof(names[0]) == REFUSALS,
		       "a name for each reason");

	return names[refusal];
}

enum request_refusal request_refusal_of(enum wire_code code)
{
	switch (code) {
	case WIRE_CODE_missing:
		return REQUEST_MISSING;
	case WIRE_CODE_stale:
		return REQUEST_STALE;
	case WIRE_CODE_forbidden:
		return REQUEST_DENIED;
	case WIRE_CODE_quota:
		return REQUEST_QUOTA;
	case WIRE_CODE_no_room:
	case WIRE_CODE_no_memory:
		return REQUEST_FULL;
	case WIRE_CODE_draining:
		return REQUEST_DRAINING;
	default:
		return REQUEST_OTHER;
	}
}

const char *request_refusal_name(enum request_refusal refusal)
{
	static const char *const names[] = {
		[REQUEST_MISSING] = "missing", [REQUEST_STALE] = "stale",
		[REQUEST_DENIED] = "denied",   [REQUEST_QUOTA] = "quota",
		[REQUEST_FULL] = "full",       [REQUEST_DRAINING] = "draining",
		[REQUEST_OTHER] = "other",
	};
	_Static_assert(sizeof(names) / sizeof(names[0]) == REQUEST_REFUSALS,
		       "a name for each reason");

	return names[refusal];
}
