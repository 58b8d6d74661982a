/* SPDX-License-Identifier: BSD-3-Clause */
/* A control connection without a transport: a function gets what the daemon sends, and the test
 * says what waits.  Any client is the tenant that it says. */
#ifndef TESTS_UNIT_BARE_CONNECTION_H
#define TESTS_UNIT_BARE_CONNECTION_H

#include <stdbool.h>

#include "rmemd/control/connection.h"

struct bare_connection {
	struct connection connection;
	void (*received)(struct bare_connection *bare, const struct wire_msg *msg);
	bool busy;      /* messages wait for transmission */
	bool unread;    /* input waits to be handled */
	bool abandoned; /* the client has closed its end */
	bool ended;     /* the daemon has closed it */
};

void bare_connection_init(struct bare_connection *bare, struct control *control,
			  void (*received)(struct bare_connection *bare,
					   const struct wire_msg *msg));

#endif
