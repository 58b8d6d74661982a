/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer that is too long for one turn of the loop: it is made and sent in parts, each in a slice.
 * The next part is made when the client has read the last one, so that a client that does not read
 * costs no memory.  Threads: [loop]. */
#ifndef RMEMD_ADMIN_STREAM_H
#define RMEMD_ADMIN_STREAM_H

#include <event2/http.h>

#include "rmemd/loop/slices.h"

struct evbuffer;

struct stream_source {
	const char *type; /* HTTP_TYPE_... */
	/* Add the next part to the body: 1: there are more; 0: it was the last one; or -errno, after which
	 * the client sees that the answer has no end.  A part may be empty. */
	int (*part)(void *ctx, struct evbuffer *body);
	/* The answer has ended, or the client has gone. */
	void (*end)(void *ctx);
};

/* Answer the request, of GET or HEAD, with status 200.  ctx is for the source, which is constant. */
void stream_start(struct evhttp_request *request, const struct stream_source *source,
		  void *ctx, struct slices *slices, struct slice_queue *queue);

#endif
