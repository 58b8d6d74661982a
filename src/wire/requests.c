/* SPDX-License-Identifier: BSD-3-Clause */
#include "wire/requests.h"

#define NO_ERROR(name)
#define REPLY_CASE(request, reply, errors) \
	case WIRE_TYPE_##request:          \
		return WIRE_TYPE_##reply;

enum wire_type wire_reply_type(enum wire_type request)
{
	switch (request) {
		WIRE_ANSWERS(REPLY_CASE, NO_ERROR)
	default:
		return WIRE_TYPE_error;
	}
}
