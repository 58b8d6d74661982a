/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile server, which serves one client at a time with what it likes to answer. */
#ifndef TESTS_ATTACK_IMPOSTOR_H
#define TESTS_ATTACK_IMPOSTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/msg.h"

struct impostor;

/* How it answers on a connection. */
struct impostor_manner {
	/* Without TLS: what to send at once; then all that the client sends must be TLS. */
	const char *plain;
	size_t plain_bytes;
	bool endless; /* send that again and again */
	/* With TLS: the key of this tenant, or this certificate. */
	const char *key, *certificate;
	int version; /* 0: 1.3 */
	bool wrong_key;
	bool no_protocol;   /* it chooses none (ALPN) */
	bool keeps_nothing; /* the client needs little memory for it */
	/* Answer the hello by changing impostor->msg, a good welcome.  NULL: none is expected, as
	 * the client must not trust the server. */
	void (*welcome)(struct impostor *impostor);
	/* Answer the requests after it; NULL: not at all. */
	void (*answer)(struct impostor *impostor);
};

struct impostor {
	const struct impostor_manner *manner;
	struct ssl_st *ssl;
	uint16_t data_port;
	bool trusted;        /* it got bytes that are for good servers alone */
	struct wire_msg ask; /* the last request */
	struct wire_msg msg; /* the answer */
};

/* Admit all channels at this listening socket, in a thread; their requests are not answered. */
void impostor_admit(int listener);
/* Serve one connection, and close it. */
void impostor_serve(struct impostor *impostor, int fd);
/* False: the client has gone. */
bool impostor_send(struct impostor *impostor);
bool impostor_send_bytes(struct impostor *impostor, const void *bytes, size_t n);

#endif
