/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer that is too long for one turn of the loop: it is made and sent in parts, each in a
 * slice.  The next part is made when the client has read the last one, so that a client that does
 * not read costs no memory.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_STREAM_H
#define RMEMD_ADMIN_STREAM_H

#include <event2/http.h>

#include "rmemd/loop/slices.h"

struct evbuffer;

struct stream;

enum stream_more {
	STREAM_ENDS, /* it was the last part */
	STREAM_GOES_ON,
	STREAM_WAITS, /* there is no next part before stream_wake() */
};

struct stream_source {
	const char *type; /* HTTP_TYPE_... */
	/* Add the next part to the body: enum stream_more; or -errno, after which the client sees
	 * that the answer has no end.  A part may be empty. */
	int (*part)(void *ctx, struct evbuffer *body);
	/* The answer has ended, or the client has gone. */
	void (*end)(void *ctx);
};

/* Answer the request, of GET or HEAD, with status 200.  ctx is for the source, which is constant.
 * The stream is valid until the source's end(); NULL: that was called already. */
struct stream *stream_start(struct evhttp_request *request,
			    const struct stream_source *source, void *ctx,
			    struct slices *slices, struct slice_queue *queue);
/* There may be a part for a stream that waits; no effect on others. */
void stream_wake(struct stream *stream);

#endif
