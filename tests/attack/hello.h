/* SPDX-License-Identifier: BSD-3-Clause */
/* A client of TLS that offers what it likes, and then says the hello of the control protocol. */
#ifndef TESTS_ATTACK_HELLO_H
#define TESTS_ATTACK_HELLO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <openssl/ssl.h>

struct hello_offer {
	const char *tenant;    /* of the hello */
	int version;           /* the only one offered; 0: 1.3 */
	const char *suites;    /* of TLS 1.3; NULL: the default */
	const char *groups;    /* of the key exchange; NULL: the default */
	const char *protocol;  /* with its length before it; NULL: rmem/1, "": none */
	const char *identity;  /* of a pre-shared key; NULL: none */
	size_t identity_bytes; /* 0: its length */
	uint8_t key[64];
	size_t key_bytes;
	uint32_t early_bytes;    /* claims that it may send early data */
	bool psk_alone;          /* without a key exchange, if the server lets it */
	const char *certificate; /* NAME.pem in the folder, with its key; NULL: none */
	SSL_SESSION *session;    /* to be resumed */
};

/* The offer with the first key of a file in the folder, which is the identity of `as`. */
struct hello_offer hello_offer_of(const char *key_tenant, const char *as);
/* Connect, shake hands and say hello.
 *   0            a welcome: *ret_ssl is open, unless it is NULL
 *   -ECONNRESET  refused at any step */
int hello_say(const struct hello_offer *offer, SSL **ret_ssl);
void hello_end(SSL *ssl);
/* The client's first message of such a handshake, which may be sent again and again; its bytes. */
size_t hello_first(const struct hello_offer *offer, uint8_t *to, size_t max);
/* The hello as a frame; its length. */
size_t hello_frame(const char *tenant, uint8_t *frame, size_t frame_bytes);
/* Receive n bytes; false: the connection has ended before. */
bool hello_pull(SSL *ssl, uint8_t *at, size_t n);
/* Receive one frame; its type, or -ECONNRESET. */
int hello_receive(SSL *ssl);

#endif
