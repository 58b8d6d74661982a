/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/loop/events.h"

#include <stdlib.h>

#include "rmemd/loop/turn.h"

struct callback {
	event_callback_fn call;
	void *arg;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	/* the callee may drop the event */
	const struct callback callback = *(const struct callback *)arg;

	turn_work();
	callback.call(fd, what, callback.arg);
}

struct event *event_make(struct event_base *base, evutil_socket_t fd, short what,
			 event_callback_fn call, void *arg)
{
	struct callback *callback = malloc(sizeof(*callback));
	struct event *event;

	if (!callback)
		return NULL;
	*callback = (struct callback){ .call = call, .arg = arg };
	event = event_new(base, fd, what, on_event, callback);
	if (!event)
		free(callback);
	return event;
}

void event_drop(struct event **event)
{
	void *callback;

	if (!*event)
		return;
	callback = event_get_callback_arg(*event);
	event_free(*event);
	free(callback);
	*event = NULL;
}
