/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/notifications.h"

void fabric_notifications_init(struct fabric_notifications *notifications)
{
	*notifications = (struct fabric_notifications){ .told = false };
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&notifications->lock, NULL);
	list_init(&notifications->queue.late);
	notice_source_init(&notifications->source);
}

void fabric_notifications_destroy(struct fabric_notifications *notifications)
{
	notices_close(&notifications->queue);
	(void)pthread_mutex_destroy(&notifications->lock);
}

bool fabric_notifications_add(struct fabric_notifications *notifications,
			      uint32_t value)
{
	const struct notice notice = { .source = &notifications->source,
				       .value = value };
	bool tell;

	(void)pthread_mutex_lock(&notifications->lock);
	/* most memory regions never have any; without memory the last one is kept */
	if (!notifications->queue.ring && list_empty(&notifications->source.late))
		(void)notices_open(&notifications->queue, FABRIC_NOTIFICATIONS_MAX - 1);
	notices_put(&notifications->queue, &notice);
	tell = !notifications->told;
	notifications->told = true;
	(void)pthread_mutex_unlock(&notifications->lock);
	return tell;
}

void fabric_notifications_take(struct fabric_notifications *notifications,
			       struct fabric_notifications_taken *ret_taken)
{
	(void)pthread_mutex_lock(&notifications->lock);
	ret_taken->n = notices_take(&notifications->queue, ret_taken->notices,
				    FABRIC_NOTIFICATIONS_MAX);
	notifications->told = false;
	(void)pthread_mutex_unlock(&notifications->lock);
}

bool fabric_notifications_told(struct fabric_notifications *notifications)
{
	bool told;

	(void)pthread_mutex_lock(&notifications->lock);
	told = notifications->told;
	(void)pthread_mutex_unlock(&notifications->lock);
	return told;
}

void fabric_notifications_report(const struct fabric_notifications_taken *taken,
				 const struct fabric_server_events *events, void *ctx,
				 void *session_cookie, void *mr_cookie)
{
	for (unsigned i = 0; i < taken->n && events->notified; i++)
		events->notified(ctx, session_cookie, mr_cookie,
				 taken->notices[i].value, taken->notices[i].lost);
}
