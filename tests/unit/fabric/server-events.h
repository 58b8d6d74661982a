/* SPDX-License-Identifier: BSD-3-Clause */
/* A record of the events of a server under test; in-band requests for its memory. */
#ifndef TESTS_UNIT_FABRIC_SERVER_EVENTS_H
#define TESTS_UNIT_FABRIC_SERVER_EVENTS_H

#include "fabric/server.h"
#include "fabric/inband.h"

/* Numbers of events, and the values of the last one of each kind. */
struct seen {
	void *session_cookie; /* expected of all sessions */
	bool all_succeed;     /* reg_mr() must not fail, and no notification be lost */
	struct fabric_session *admitted; /* set by the case, for admit() */
	unsigned admits, ups, downs, registered, deregistered, closed;
	uint32_t channel;   /* of channel_up() or channel_down() */
	char why[256];      /* of channel_down() */
	unsigned connected; /* channel_connected(), with err, text and ours */
	struct fabric_qp_info ours;
	int err; /* of mr_registered(), with text or key */
	char text[256];
	struct fabric_key key;
	unsigned events, event_endpoint; /* endpoint_event() */
	char event_text[256];
	unsigned removed, removed_endpoint; /* device_removed() */
	unsigned refused;                   /* access_refused(), their sum */
	unsigned notified;
	uint32_t value, lost; /* of notified() */
	unsigned notified_ms; /* time that notified() takes */
};
extern struct seen seen;

/* They write the record; set admit() before use. */
extern struct fabric_server_events server_events;

/* An in-band request for memory of the mr registered last: FILL has the pattern 0x77,
 * COPY copies from its first byte. */
struct inband_request inband_make(uint32_t op, uint64_t offset, uint32_t bytes,
				  uint64_t cookie);
/* Whether all bytes have this value. */
bool bytes_equal(const char *from, size_t bytes, char value);

#endif
