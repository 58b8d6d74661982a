/* SPDX-License-Identifier: BSD-3-Clause */
/* The reasons to refuse a connection, a data channel or a request of a session, counted one by one.
 * Threads: [any]. */
#ifndef RMEMD_CONTROL_REFUSAL_H
#define RMEMD_CONTROL_REFUSAL_H

#include "wire/errors.h"

enum refusal {
	REFUSAL_SLOT,        /* newer ones needed its slot */
	REFUSAL_LATE,        /* no hello in time */
	REFUSAL_TLS,         /* no handshake of TLS 1.3, or a violation after it */
	REFUSAL_UNKNOWN_KEY, /* no pre-shared key has this identity */
	REFUSAL_WRONG_KEY,   /* the client does not have the key of its identity */
	REFUSAL_CERTIFICATE, /* none, or it is not good */
	REFUSAL_TENANT, /* the client is not that tenant, or there is no such tenant */
	REFUSAL_SESSION, /* the session to be resumed has ended, or is another client's */
	REFUSAL_QUOTA,   /* there are too many sessions */
	REFUSAL_PROTOCOL, /* no such frame, message or version */
	REFUSAL_UNREAD,   /* it does not read its answers */
	REFUSAL_REMOVED,  /* its key or certificate was removed meanwhile */
	REFUSAL_DRAINING, /* a new session, while the server is drained */
	/* data channels: */
	REFUSAL_CHANNEL_TOKEN, /* no session has this id and token */
	REFUSAL_CHANNEL_ADDRESS, /* it comes from an address that the session did not name */
	REFUSAL_CHANNEL_NUMBER, /* not granted, for another endpoint, or used already */
	REFUSAL_CHANNEL_LATE,   /* granted too long ago */
	REFUSAL_CHANNEL_TLS,    /* no handshake of TLS, where [tcp] tls asks for it */
	REFUSAL_CHANNEL_JOIN,   /* the client's queue pair cannot be connected */
	REFUSALS,
};
/* As in the status. */
const char *refusal_name(enum refusal refusal);

enum request_refusal {
	REQUEST_MISSING,  /* there is no lease of that name for this tenant */
	REQUEST_STALE,    /* there is no lease of that number for this session */
	REQUEST_DENIED,   /* the tenant has no right to it */
	REQUEST_QUOTA,    /* it would exceed a limit */
	REQUEST_FULL,     /* there is no memory for it */
	REQUEST_DRAINING, /* the server is being drained, and grants nothing */
	REQUEST_OTHER,
	REQUEST_REFUSALS,
};
/* Of the error that answers the request. */
enum request_refusal request_refusal_of(enum wire_code code);
/* As in the status. */
const char *request_refusal_name(enum request_refusal refusal);

#endif
