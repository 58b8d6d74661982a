/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshakes of TLS that a server with pre-shared keys must not accept. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "hello.h"
#include "peer.h"

#define TLS "status counters refused tls"
#define CERTIFICATE "status counters refused certificate"
#define WRONG_KEY "status counters refused wrong_key"
#define UNKNOWN_KEY "status counters refused unknown_key"
#define BY "the server: connection"

static void offer_try(const char *what, const char *counter,
		      const struct hello_offer *offer)
{
	attempt(what, counter, 1);
	attempt_result(hello_say(offer, NULL), BY);
}

/* ---- no TLS at all ---- */

/* The server must close the connection. */
static void bytes_try(const char *what, const void *bytes, size_t n)
{
	int fd = socket_open(attack_options.address, attack_options.control_port, NULL);

	must(fd >= 0, "connecting");
	attempt(what, TLS, 1);
	must(send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "sending");
	if (socket_await_end(fd, ATTACK_WAIT_MS))
		attempt_refused(BY);
	else
		attempt_admitted("the connection stays");
	(void)close(fd);
}

static void plain_try(void)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: rmemd\r\n\r\n";
	static const uint8_t record[] = { 22, 3, 3, 0xff, 0xff, 1, 0, 0, 1 };
	static const uint8_t alert[] = { 21, 3, 3, 0, 2, 1, 0 };
	static const uint8_t data[] = { 23, 3, 3, 0, 4, 'r', 'm', 'e', 'm' };
	uint8_t frame[1024], nothing[512] = { 0 };

	bytes_try("a hello without TLS", frame,
		  hello_frame("mallory", frame, sizeof(frame)));
	bytes_try("a request of HTTP", http, sizeof(http) - 1);
	bytes_try("zeros", nothing, sizeof(nothing));
	bytes_try("a record of TLS that is too long", record, sizeof(record));
	bytes_try("an alert before the handshake", alert, sizeof(alert));
	bytes_try("data before the handshake", data, sizeof(data));
}

/* ---- less than TLS 1.3 ---- */

static void downgrades_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");

	offer.version = TLS1_2_VERSION;
	offer_try("TLS 1.2 with a good key", TLS, &offer);
	offer.version = TLS1_1_VERSION;
	offer_try("TLS 1.1 with a good key", TLS, &offer);
	offer.version = TLS1_VERSION;
	offer_try("TLS 1.0 with a good key", TLS, &offer);
	offer.version = 0;
	offer.suites = "TLS_AES_128_CCM_8_SHA256";
	offer_try("the weakest cipher of TLS 1.3 alone", TLS, &offer);
	offer.suites = "TLS_AES_256_GCM_SHA384";
	offer_try("a cipher that does not go with the key", TLS, &offer);
}

/* ---- other protocols ---- */

static void protocols_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");

	offer.protocol = "";
	offer_try("a good key without a protocol", TLS, &offer);
	offer.protocol = "\2h2\10http/1.1";
	offer_try("a good key for HTTP", TLS, &offer);
	offer.protocol = "\6rmem/2\5rmem/\10rmem/1.0";
	offer_try("a good key for protocols with similar names", TLS, &offer);
}

/* ---- keys ---- */

static void keys_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");
	char long_identity[300];

	offer.key[0] ^= 1;
	offer_try("an own identity with one bit of the key changed", WRONG_KEY, &offer);
	offer.key_bytes = 16;
	offer_try("an own identity with a part of the key", WRONG_KEY, &offer);
	offer = hello_offer_of("mallory", "red");
	offer_try("another tenant's identity with an own key", WRONG_KEY, &offer);
	offer.identity = "red";
	offer_try("another tenant's name as identity with an own key", UNKNOWN_KEY,
		  &offer);
	offer.identity = "rmem1 red 0000000000000000";
	offer_try("another tenant with an unknown key", UNKNOWN_KEY, &offer);
	offer.identity = "rmem1 nobody 0123456789abcdef";
	offer_try("an unknown tenant", UNKNOWN_KEY, &offer);
	offer = hello_offer_of("mallory", "mallory");
	offer.identity_bytes = strlen(offer.identity) + 1;
	offer_try("a good identity with a zero behind it", UNKNOWN_KEY, &offer);
	memset(long_identity, 'a', sizeof(long_identity));
	offer.identity = long_identity;
	offer.identity_bytes = 256;
	offer_try("an identity that is too long", UNKNOWN_KEY, &offer);
	offer.identity = NULL;
	offer_try("no key and no certificate", CERTIFICATE, &offer);
	offer = hello_offer_of("mallory", "mallory");
	offer.tenant = "red";
	offer_try("an own key, and the hello of another tenant",
		  "status counters refused tenant", &offer);
	offer.tenant = "nobody";
	offer_try("an own key, and the hello of no tenant",
		  "status counters refused tenant", &offer);
}

/* ---- before and after the handshake ---- */

static void resumption_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");
	SSL_SESSION *session;
	SSL *ssl;

	offer.early_bytes = 1024;
	offer_try("a hello as early data", TLS, &offer);
	offer.early_bytes = 0;
	must(!hello_say(&offer, &ssl), "a good key is refused");
	session = SSL_get1_session(ssl);
	must(!SSL_SESSION_has_ticket(session), "the server hands out a ticket");
	hello_end(ssl);
	offer.identity = NULL;
	offer.session = session;
	offer_try("resumption of TLS without the key", CERTIFICATE, &offer);
	SSL_SESSION_free(session);
}

/* Violations of TLS in a session. */
static void violation_try(const char *what, const void *bytes, size_t n)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");
	SSL *ssl;

	must(!hello_say(&offer, &ssl), "a good key is refused");
	attempt(what, TLS, 1);
	must(send(SSL_get_fd(ssl), bytes, n, MSG_NOSIGNAL) == (ssize_t)n, "sending");
	if (socket_await_end(SSL_get_fd(ssl), ATTACK_WAIT_MS))
		attempt_refused(BY);
	else
		attempt_admitted("the connection stays");
	hello_end(ssl);
}

static void violations_try(void)
{
	static const uint8_t data[] = { 23, 3,  3,  0,  24, 1,  2,  3,  4,  5,
					6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
					16, 17, 18, 19, 20, 21, 22, 23, 24 };
	static const uint8_t hello[] = { 22, 3, 3, 0, 4, 1, 0, 0, 0 };
	static const uint8_t record[] = { 23, 3, 3, 0xff, 0xff };

	violation_try("a forged record in a session", data, sizeof(data));
	violation_try("a handshake without encryption in a session", hello,
		      sizeof(hello));
	violation_try("a record that is too long in a session", record, sizeof(record));
}

/* False: the connection has ended. */
static bool key_update(SSL *ssl)
{
	uint8_t byte;
	int result;

	if (SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) != 1)
		return false;
	while ((result = SSL_do_handshake(ssl)) != 1) {
		if (SSL_get_error(ssl, result) != SSL_ERROR_WANT_WRITE)
			return false;
		/* take its answers, so that it takes the rest */
		(void)SSL_read(ssl, &byte, 1);
	}
	result = SSL_read(ssl, &byte, 1);
	return result < 0 && SSL_get_error(ssl, result) == SSL_ERROR_WANT_READ;
}

/* The keys of a connection are changed again and again, and the server must answer each change. */
static void key_updates_try(void)
{
	struct hello_offer offer = hello_offer_of("mallory", "mallory");
	unsigned n = 20000 * attack_options.rounds;
	SSL *ssl;

	must(!hello_say(&offer, &ssl), "a good key is refused");
	must(!fcntl(SSL_get_fd(ssl), F_SETFL, O_NONBLOCK), "fcntl");
	attempt("a flood of key updates", TLS, 1);
	while (n > 0 && key_update(ssl))
		n--;
	attempt_result(n > 0 ? -ECONNRESET : 0, BY);
	hello_end(ssl);
}

void attack_tls(void)
{
	struct hello_offer good = hello_offer_of("mallory", "mallory");

	plain_try();
	downgrades_try();
	protocols_try();
	keys_try();
	resumption_try();
	violations_try();
	key_updates_try();
	must(!hello_say(&good, NULL), "a good key is refused after all that");
}
