/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/control/request_types.h"

unsigned request_flags(const struct wire_msg *msg)
{
#define ROW(name, flags) [WIRE_TYPE_##name] = (flags),
	static const unsigned char rows[] = { REQUEST_TYPES(ROW, ROW) };
#undef ROW

	/* keys end with the connection: those of a lease that is attached are asked for anew */
	if (msg->type >= sizeof(rows) ||
	    (msg->type == WIRE_TYPE_attach && msg->attach.lease))
		return 0;
	return rows[msg->type];
}
