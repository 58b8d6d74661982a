/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/stream.h"

#include <errno.h>
#include <event2/buffer.h>
#include <stdlib.h>

#include "base/list.h"
#include "rmemd/admin/http.h"

/* Owned by its connection. */
struct stream {
	struct evhttp_request *request;
	const struct stream_source *source;
	void *ctx;
	struct slices *slices;
	struct slice_queue *queue;
	struct slice_work work; /* sends the next part */
	bool writing;           /* the last part is not written yet */
};

static void stream_free(struct stream *stream)
{
	stream->source->end(stream->ctx);
	free(stream);
}

static void on_stream_closed(void *ctx)
{
	struct stream *stream = ctx;

	slices_remove(&stream->work);
	/* when the client closes the connection, libevent leaves an unfinished answer to its
	 * owner */
	if (!evhttp_request_get_connection(stream->request))
		evhttp_request_free(stream->request);
	stream_free(stream);
}

/* The part is written: send the next one. */
static void on_part_written(struct evhttp_connection *, void *ctx)
{
	struct stream *stream = ctx;

	stream->writing = false;
	slices_add(stream->slices, stream->queue, &stream->work);
}

static bool stream_send_part(struct slice_work *work)
{
	struct stream *stream = container_of(work, struct stream, work);
	struct evhttp_request *request = stream->request;
	struct evhttp_connection *connection = evhttp_request_get_connection(request);
	struct evbuffer *body = evbuffer_new();
	int more = body ? stream->source->part(stream->ctx, body) : -ENOMEM;
	bool again = false;

	if (more < 0) {
		/* the client sees that the answer has no end; this frees the stream */
		evhttp_connection_free(connection);
	} else if (more != STREAM_ENDS && evbuffer_get_length(body) == 0) {
		again = more == STREAM_GOES_ON;
	} else if (more != STREAM_ENDS) {
		stream->writing = true;
		evhttp_send_reply_chunk_with_cb(request, body, on_part_written, stream);
	} else {
		(void)http_on_close(request, NULL, NULL);
		stream_free(stream);
		evhttp_send_reply_chunk(request, body);
		evhttp_send_reply_end(request);
	}
	if (body)
		evbuffer_free(body);
	return again;
}

struct stream *stream_start(struct evhttp_request *request,
			    const struct stream_source *source, void *ctx,
			    struct slices *slices, struct slice_queue *queue)
{
	bool head = evhttp_request_get_command(request) == EVHTTP_REQ_HEAD;
	struct stream *stream = malloc(sizeof(*stream));

	if (!stream || http_set_type(request, source->type) ||
	    (!head && http_on_close(request, on_stream_closed, stream))) {
		http_send_no_memory(request);
		source->end(ctx);
		free(stream);
		return NULL;
	}
	if (head) {
		evhttp_send_reply(request, HTTP_OK, "OK", NULL);
		source->end(ctx);
		free(stream);
		return NULL;
	}
	*stream = (struct stream){ .request = request,
				   .source = source,
				   .ctx = ctx,
				   .slices = slices,
				   .queue = queue };
	slice_work_init(&stream->work, stream_send_part);
	evhttp_send_reply_start(request, HTTP_OK, "OK");
	slices_add(slices, queue, &stream->work);
	return stream;
}

void stream_wake(struct stream *stream)
{
	if (!stream->writing)
		slices_add(stream->slices, stream->queue, &stream->work);
}
