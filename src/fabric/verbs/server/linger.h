/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels whose queue pair went to ERROR and whose peer has not yet been disconnected.
 * The peer is to learn first, from the completion on the wire, which of its requests was
 * refused; a disconnect that overtakes it would only tell that something was.  A peer that
 * does not disconnect by itself is disconnected a little later.  Threads: [loop]. */
#ifndef FABRIC_VERBS_SERVER_LINGER_H
#define FABRIC_VERBS_SERVER_LINGER_H

#include <stdbool.h>

#include "base/list.h"

struct verbs_channel;

struct verbs_linger {
	struct list channels; /* the first is due first */
	int fd;               /* timerfd: polls readable when it is */
	bool armed;           /* it is set */
};

/* -EMFILE, -ENFILE, -ENOMEM with text. */
int verbs_linger_init(struct verbs_linger *linger);
void verbs_linger_destroy(struct verbs_linger *linger);

/* Let the channel fail in a while; it leaves by itself when it is freed before. */
void verbs_linger_add(struct verbs_linger *linger, struct verbs_channel *channel);
/* Call `fail` for those that are due. */
void verbs_linger_process(struct verbs_linger *linger,
			  void (*fail)(struct verbs_channel *channel, const char *why));

#endif
