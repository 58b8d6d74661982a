/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/err.h"

int mailbox_init(struct mailbox *box)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (fd < 0)
		return err_errno(-errno, "eventfd");
	box->fd = fd;
	list_init(&box->messages);
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&box->lock, NULL);
	return 0;
}

void mailbox_destroy(struct mailbox *box)
{
	(void)close(box->fd);
	(void)pthread_mutex_destroy(&box->lock);
}

void mailbox_post(struct mailbox *box, struct list *message)
{
	bool was_empty;

	(void)pthread_mutex_lock(&box->lock);
	was_empty = list_empty(&box->messages);
	list_append(&box->messages, message);
	/* under the lock, else the receiver could clear the wake-up of a later message; the
	 * counter is 0 or 1 and cannot overflow */
	if (was_empty)
		(void)eventfd_write(box->fd, 1);
	(void)pthread_mutex_unlock(&box->lock);
}

void mailbox_receive(struct mailbox *box, struct list *to)
{
	eventfd_t count;

	/* in constant time, as the sender waits for the lock */
	(void)pthread_mutex_lock(&box->lock);
	if (!list_empty(&box->messages))
		(void)eventfd_read(box->fd, &count);
	list_splice(to, &box->messages);
	(void)pthread_mutex_unlock(&box->lock);
}

void mailbox_receive_some(struct mailbox *box, struct list *to, unsigned n)
{
	eventfd_t count;

	(void)pthread_mutex_lock(&box->lock);
	if (list_empty(&box->messages))
		n = 0;
	for (; n > 0; n--) {
		struct list *message = box->messages.next;

		list_remove(message);
		list_append(to, message);
		if (list_empty(&box->messages)) {
			(void)eventfd_read(box->fd, &count);
			break;
		}
	}
	(void)pthread_mutex_unlock(&box->lock);
}

int mailbox_fd(const struct mailbox *box)
{
	return box->fd;
}
