/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/notifications.h"

void fabric_notifications_init(struct fabric_notifications *notifications)
{
	*notifications = (struct fabric_notifications){ .event_pending = false };
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&notifications->lock, NULL);
	notices_init(&notifications->queue);
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
	bool post;

	(void)pthread_mutex_lock(&notifications->lock);
	/* most memory regions never have any; without memory the last one is kept */
	if (!notifications->queue.ring && list_empty(&notifications->source.late))
		(void)notices_open(&notifications->queue, FABRIC_NOTIFICATIONS_MAX - 1);
	notices_put(&notifications->queue, &notice);
	post = !notifications->event_pending;
	notifications->event_pending = true;
	(void)pthread_mutex_unlock(&notifications->lock);
	return post;
}

void fabric_notifications_deliver(struct fabric_notifications *notifications,
				  const struct fabric_server_events *events, void *ctx,
				  void *session_cookie, void *mr_cookie)
{
	struct notice notices[FABRIC_NOTIFICATIONS_MAX];
	unsigned n;

	(void)pthread_mutex_lock(&notifications->lock);
	n = notices_read(&notifications->queue, notices, FABRIC_NOTIFICATIONS_MAX);
	notifications->event_pending = false;
	(void)pthread_mutex_unlock(&notifications->lock);
	for (unsigned i = 0; i < n && events->notified; i++)
		events->notified(ctx, session_cookie, mr_cookie, notices[i].value,
				 notices[i].lost);
}

bool fabric_notifications_pending(struct fabric_notifications *notifications)
{
	bool event_pending;

	(void)pthread_mutex_lock(&notifications->lock);
	event_pending = notifications->event_pending;
	(void)pthread_mutex_unlock(&notifications->lock);
	return event_pending;
}
