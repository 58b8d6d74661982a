/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/followers.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/list.h"
#include "rmemd/admin/http.h"
#include "rmemd/admin/stream.h"
#include "rmemd/admin/view.h"
#include "rmemd/loop/events.h"
#include "rmemd/system/recent.h"

/* Events that a part looks at, and those that it sends. */
#define SEEN_MAX 256
#define SENT_MAX 64

struct followers {
	struct slices *slices;
	struct slice_queue *queue;
	struct event *beat;
	struct list all;
	unsigned n;
};

struct follower {
	struct followers *followers;
	struct list link;
	struct stream *stream;
	struct filter filter;
	uint64_t after;  /* the number of the last event that it has seen */
	uint64_t missed; /* events since the last line */
	bool beat;       /* an empty line is due, unless there are others */
};

static int text_write(const char *text, size_t bytes, void *ctx)
{
	return evbuffer_add(ctx, text, bytes);
}

static int event_send(struct follower *follower, const struct recent_event *event,
		      struct evbuffer *body)
{
	json_t *json = view_event(event, follower->missed);
	int err = 0;

	if (!json || json_dump_callback(json, text_write, body, JSON_COMPACT) ||
	    evbuffer_add(body, "\n", 1))
		err = -ENOMEM;
	json_decref(json);
	follower->missed = 0;
	return err;
}

static int events_send(struct follower *follower, struct evbuffer *body)
{
	const struct recent_event *event;
	unsigned sent = 0;
	int err = 0;

	for (unsigned i = 0; i < SEEN_MAX && sent < SENT_MAX && !err &&
			     (event = recent_after(follower->after));
	     i++) {
		follower->missed += event->number - follower->after - 1;
		follower->after = event->number;
		if (!view_event_matches(event, &follower->filter))
			continue;
		err = event_send(follower, event, body);
		sent++;
	}
	return err;
}

static int follower_part(void *ctx, struct evbuffer *body)
{
	struct follower *follower = ctx;
	int err = events_send(follower, body);

	if (!err && follower->beat && evbuffer_get_length(body) == 0 &&
	    evbuffer_add(body, "\n", 1))
		err = -ENOMEM;
	follower->beat = false;
	if (err)
		return err;
	return recent_after(follower->after) ? STREAM_GOES_ON : STREAM_WAITS;
}

static void on_event(void *ctx)
{
	struct followers *followers = ctx;

	list_for_each_entry(struct follower, follower, &followers->all, link)
		stream_wake(follower->stream);
}

static void on_beat(evutil_socket_t, short, void *ctx)
{
	struct followers *followers = ctx;

	list_for_each_entry(struct follower, follower, &followers->all, link)
		follower->beat = true;
	on_event(followers);
}

static void follower_end(void *ctx)
{
	struct follower *follower = ctx;
	struct followers *followers = follower->followers;

	list_remove(&follower->link);
	if (--followers->n == 0) {
		recent_watch(NULL, NULL);
		(void)event_del(followers->beat);
	}
	free(follower);
}

static const struct stream_source events_source = {
	.type = HTTP_TYPE_JSON_LINES,
	.part = follower_part,
	.end = follower_end,
};

int followers_add(struct followers *followers, struct evhttp_request *request,
		  const struct filter *filter)
{
	static const struct timeval beat = { .tv_sec = FOLLOWERS_BEAT_S };
	struct follower *follower;
	struct stream *stream;

	if (followers->n == FOLLOWERS_MAX)
		return err_set(-EBUSY, "%d clients follow the events already: end one",
			       FOLLOWERS_MAX);
	follower = calloc(1, sizeof(*follower));
	if (!follower || (followers->n == 0 && event_add(followers->beat, &beat))) {
		free(follower);
		return err_set(-ENOMEM, "no memory to follow events");
	}
	follower->followers = followers;
	follower->filter = *filter;
	follower->after = recent_resume(filter->after);
	list_init(&follower->link);
	followers->n++;
	stream = stream_start(request, &events_source, follower, followers->slices,
			      followers->queue);
	if (!stream)
		return 0;
	follower->stream = stream;
	list_append(&followers->all, &follower->link);
	recent_watch(on_event, followers);
	return 0;
}

int followers_open(struct event_base *base, struct slices *slices,
		   struct slice_queue *queue, struct followers **ret_followers)
{
	struct followers *followers = calloc(1, sizeof(*followers));

	if (!followers)
		return err_set(-ENOMEM, "no memory for those that follow events");
	followers->slices = slices;
	followers->queue = queue;
	list_init(&followers->all);
	followers->beat = event_make(base, -1, EV_PERSIST, on_beat, followers);
	if (!followers->beat) {
		free(followers);
		return err_set(-ENOMEM, "no memory for those that follow events");
	}
	*ret_followers = followers;
	return 0;
}

void followers_close(struct followers *followers)
{
	if (!followers)
		return;
	event_drop(&followers->beat);
	free(followers);
}
