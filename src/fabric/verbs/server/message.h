/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fabric's threads hand to the loop through the server's mailbox. */
#ifndef FABRIC_VERBS_SERVER_MESSAGE_H
#define FABRIC_VERBS_SERVER_MESSAGE_H

#include "base/list.h"

struct verbs_message {
	struct list link;
	/* [loop] The message is the receiver's again and may be freed. */
	void (*deliver)(struct verbs_message *message);
};

#endif
