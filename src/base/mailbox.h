/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from any thread to one thread: an intrusive queue, and a descriptor that wakes the
 * receiver's loop.  The mailbox owns a message until it is taken. */
#ifndef BASE_MAILBOX_H
#define BASE_MAILBOX_H

#include <pthread.h>

#include "base/list.h"

struct mailbox {
	pthread_mutex_t lock;
	struct list messages;
	int fd; /* eventfd */
};

/* -EMFILE, -ENFILE, -ENOMEM with text. */
int mailbox_init(struct mailbox *box);
/* Does not free messages that were not taken. */
void mailbox_destroy(struct mailbox *box);

/* Send a message and wake the receiver.  [any] */
void mailbox_post(struct mailbox *box, struct list *message);
/* Move all messages to the end of `to` and rearm the descriptor.  [receiver] */
void mailbox_receive(struct mailbox *box, struct list *to);
/* Move up to n messages; the descriptor stays readable while others wait. */
void mailbox_receive_some(struct mailbox *box, struct list *to, unsigned n);
/* Polls readable while messages wait.  [any] */
int mailbox_fd(const struct mailbox *box);

#endif
