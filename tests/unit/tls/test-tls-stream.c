/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshakes and bytes between two streams of one process, over a pair of sockets. */
#include "tls/prepare.h"
#include "tls/stream.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/socket.h>
#include <unistd.h>

#include <openssl/ssl.h>

#include "base/err.h"
#include "tls/alpn.h"
#include "tls/certificate.h"
#include "tls/records.h"
#include "unit/tls/certificates.h"
#include "unit/unit.h"

static char folder[] = "/tmp/rmem-tls-XXXXXX";
static struct stream server, client;
static struct tls_context *server_context, *client_context;
static const uint8_t key_a[32] = { 1, 2, 3 }, key_b[32] = { 4, 5, 6 };

/* A function of OpenSSL that fails without memory. */
static bool no_memory;

SSL_SESSION *SSL_SESSION_new(void)
{
	SSL_SESSION *(*real)(void) = dlsym(RTLD_NEXT, "SSL_SESSION_new");

	return no_memory ? NULL : real();
}

static const char *file(const char *name)
{
	static char paths[4][300];
	static unsigned n;
	char *path = paths[n++ % 4];

	(void)snprintf(path, sizeof(paths[0]), "%s/%s.pem", folder, name);
	return path;
}

static void setup(void)
{
	const struct test_certificate ca = { .subject = "test CA",
					     .names = NULL,
					     .days = 10 };

	(void)strcpy(folder + strlen(folder) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	certificate_write(folder, "ca", NULL, &ca);
	server.fd = client.fd = -1;
}

static void streams_close(void)
{
	stream_close(&server);
	stream_close(&client);
	tls_context_unref(server_context);
	tls_context_unref(client_context);
	server_context = client_context = NULL;
}

static void teardown(void)
{
	char command[64];

	streams_close();
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

/* ---- contexts ---- */

static struct tls_keys *keys_of(const char *tenant, const uint8_t key[32])
{
	struct tls_keys *keys;

	ck_assert_int_eq(tls_keys_of(tenant, key, 32, &keys), 0);
	return keys;
}

static void server_with_key(const char *tenant, const uint8_t key[32])
{
	const struct tls_params params = { .keys = keys_of(tenant, key) };

	ck_assert_int_eq(tls_context_server(&params, &server_context), 0);
}

static void client_with_key(const char *tenant, const uint8_t key[32])
{
	const struct tls_params params = { .keys = keys_of(tenant, key) };

	ck_assert_int_eq(tls_context_client(&params, "localhost", &client_context), 0);
}

static void server_with_certificate(const struct test_certificate *own, const char *ca)
{
	const struct tls_params params = { .certificate = file("server"),
					   .ca = file("ca") };

	certificate_write(folder, "server", ca, own);
	ck_assert_int_eq(tls_context_server(&params, &server_context), 0);
}

/* own NULL: the client has no certificate. */
static void client_with_certificate(const struct test_certificate *own, const char *ca,
				    const char *servername)
{
	const struct tls_params params = { .certificate = own ? file("client") : NULL,
					   .ca = file("ca") };

	if (own)
		certificate_write(folder, "client", ca, own);
	ck_assert_int_eq(tls_context_client(&params, servername, &client_context), 0);
}

/* ---- handshakes ---- */

static struct err_saved server_failed, client_failed;

static void sockets_open(void)
{
	int pair[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
				    0, pair),
			 0);
	ck_assert_int_eq(stream_tls(&server, pair[0], server_context), 0);
	ck_assert_int_eq(stream_tls(&client, pair[1], client_context), 0);
}

/* Until both have ended, or one has failed and the other has found out. */
static void handshake(void)
{
	uint8_t byte;

	client_failed.err = server_failed.err = -EAGAIN;
	for (unsigned i = 0; i < 20; i++) {
		if (client_failed.err == -EAGAIN)
			err_save(&client_failed, stream_handshake(&client));
		if (server_failed.err == -EAGAIN)
			err_save(&server_failed, stream_handshake(&server));
	}
	/* a client may be done before the server refuses it */
	if (server_failed.err && client_failed.err == 0)
		err_save(&client_failed, (int)stream_receive(&client, &byte, 1));
}

static void expect_done(void)
{
	sockets_open();
	handshake();
	ck_assert_msg(server_failed.err == 0, "%s", server_failed.text);
	ck_assert_msg(client_failed.err == 0, "%s", client_failed.text);
}

static void expect_failed(const char *server_text, const char *client_text)
{
	sockets_open();
	handshake();
	ck_assert_int_ne(server_failed.err, 0);
	ck_assert_int_ne(client_failed.err, 0);
	ck_assert_str_eq(server_failed.text, server_text);
	ck_assert_str_eq(client_failed.text, client_text);
	ck_assert(!server.handshaken);
}

/* ---- pre-shared keys ---- */

START_TEST(key__admits_its_tenant)
{
	char tenant[TLS_TENANT_MAX + 1];

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	ck_assert(stream_tenant(&server, tenant));
	ck_assert_str_eq(tenant, "a");
	ck_assert(!stream_certified(&server));
	ck_assert(stream_still_good(&server, server_context));
	ck_assert_str_eq(SSL_get_version(server.ssl), "TLSv1.3");
	/* not without Diffie-Hellman: a key that is stolen later opens no recording */
	ck_assert_int_ne(SSL_get_negotiated_group(server.ssl), 0);
}
END_TEST

START_TEST(key__that_is_wrong_is_refused)
{
	server_with_key("a", key_a);
	client_with_key("a", key_b);
	expect_failed("TLS: the client has another key",
		      "TLS: the other side does not accept this key");
	ck_assert(server.unknown);
}
END_TEST

/* The client cannot tell an unknown tenant from a wrong key. */
START_TEST(key__of_an_unknown_tenant_is_refused_alike)
{
	server_with_key("a", key_a);
	client_with_key("b", key_a);
	expect_failed("TLS: the client has another key",
		      "TLS: the other side does not accept this key");
	ck_assert(server.unknown);
}
END_TEST

/* A client that names a key that it does not have. */
START_TEST(key__is_needed_beside_its_identity)
{
	struct tls_params params = { .keys = keys_of("a", key_b) };
	struct tls_key *named =
		(struct tls_key *)(uintptr_t)tls_keys_first(params.keys, NULL);
	struct tls_keys *right = keys_of("a", key_a);

	(void)strcpy(named->identity, tls_keys_first(right, NULL)->identity);
	tls_keys_free(right);
	server_with_key("a", key_a);
	ck_assert_int_eq(tls_context_client(&params, "localhost", &client_context), 0);
	expect_failed("TLS: the client has another key",
		      "TLS: the other side does not accept this key");
	ck_assert(!server.unknown);
	ck_assert_int_eq(server_failed.err, -EACCES);
}
END_TEST

START_TEST(key__that_is_removed_does_not_hold)
{
	struct tls_context *later;
	const struct tls_params other_key = { .keys = keys_of("a", key_b) };

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	ck_assert_int_eq(tls_context_server(&other_key, &later), 0);
	ck_assert(!stream_still_good(&server, later));
	tls_context_unref(later);
}
END_TEST

/* A server that has no key of the client is none that the client trusts. */
START_TEST(key__is_asked_of_the_server_too)
{
	static const struct test_certificate own = { .subject = "localhost",
						     .names = "DNS:localhost",
						     .days = 5 };

	server_with_certificate(&own, "ca");
	client_with_key("a", key_a);
	sockets_open();
	handshake();
	ck_assert_int_eq(client_failed.err, -EACCES);
	ck_assert_msg(strstr(client_failed.text, "the certificate of the other side"),
		      "%s", client_failed.text);
	ck_assert(!server.handshaken);
}
END_TEST

/* ---- certificates ---- */

static const struct test_certificate host = { .subject = "host",
					      .names = "DNS:localhost,IP:127.0.0.1",
					      .days = 5 };

START_TEST(certificate__admits_by_its_names)
{
	static const struct test_certificate own = {
		.subject = "cache",
		.names = "URI:spiffe://example.org/cache/7,"
			 "DNS:c7.example.org",
		.days = 5
	};
	char tenant[TLS_TENANT_MAX + 1];

	server_with_certificate(&host, "ca");
	client_with_certificate(&own, "ca", _i ? "127.0.0.1" : "localhost");
	expect_done();
	ck_assert(stream_certified(&server));
	ck_assert(!stream_tenant(&server, tenant));
	ck_assert(stream_certified_as(&server, "spiffe://example.org/cache/7"));
	ck_assert(stream_certified_as(&server, "uri:spiffe://example.org/cache/*"));
	ck_assert(stream_certified_as(&server, "dns:x, dns:c7.example.org"));
	ck_assert(stream_certified_as(&server, "dns:C7.Example.org"));
	ck_assert(
		stream_certified_as(&server, "dns:x,subject:CN=cache,O=rmem\\, test"));
	ck_assert(!stream_certified_as(&server, "spiffe://example.org/cache"));
	ck_assert(!stream_certified_as(&server, "spiffe://example.org/cache/77"));
	ck_assert(!stream_certified_as(&server, "spiffe://example.org/Cache/7"));
	ck_assert(!stream_certified_as(&server, "dns:spiffe://example.org/cache/7"));
	ck_assert(!stream_certified_as(&server, "uri:c7.example.org"));
	ck_assert(!stream_certified_as(&server, "dns:.example.org"));
	ck_assert(!stream_certified_as(&server, "subject:CN=cache"));
	ck_assert(!stream_certified_as(&server, ""));
	ck_assert(stream_still_good(&server, server_context));
}
END_TEST

static const struct test_certificate expired = { .subject = "cache",
						 .names = NULL,
						 .days = -1 };
static const struct test_certificate client_own = { .subject = "cache",
						    .names = NULL,
						    .days = 5 };

START_TEST(certificate__of_the_client_must_be_good)
{
	static const struct test_certificate for_servers = { .subject = "cache",
							     .days = 5,
							     .usage = "serverAuth" };
	static const struct test_certificate for_anything = { .subject = "cache",
							      .days = 5,
							      .usage = "" };
	static const struct test_certificate other_ca = { .subject = "other CA",
							  .names = NULL,
							  .days = 5 };
	static const struct test_certificate twin_ca = { .subject = "test CA",
							 .names = NULL,
							 .days = 5 };

	server_with_certificate(&host, "ca");
	switch (_i) {
	case 0:
		client_with_certificate(NULL, NULL, "localhost");
		expect_failed("TLS: the client shows no certificate",
			      "TLS: the server asks for a certificate: give cert and "
			      "key");
		break;
	case 1:
		client_with_certificate(&expired, "ca", "localhost");
		expect_failed("TLS: the certificate of the other side: certificate has "
			      "expired",
			      "TLS: the other side finds that the certificate has "
			      "expired");
		break;
	case 2:
		certificate_write(folder, "other", NULL, &other_ca);
		client_with_certificate(&client_own, "other", "localhost");
		expect_failed("TLS: the certificate of the other side: none of ca has "
			      "signed it",
			      "TLS: the other side does not know who signed the "
			      "certificate");
		break;
	case 3:
		/* a CA of the same name, with another key */
		certificate_write(folder, "twin", NULL, &twin_ca);
		client_with_certificate(&client_own, "twin", "localhost");
		expect_failed("TLS: the certificate of the other side: certificate "
			      "signature failure",
			      "TLS: the other side does not accept this key");
		break;
	case 4:
	case 5:
		client_with_certificate(_i == 4 ? &for_servers : &for_anything, "ca",
					"localhost");
		expect_failed("TLS: the certificate of the other side: its extended "
			      "key usage has no clientAuth",
			      "TLS: the other side does not accept the certificate: "
			      "its extended key usage needs clientAuth, that of a "
			      "server serverAuth");
		break;
	default:
		/* by itself */
		client_with_certificate(&client_own, NULL, "localhost");
		expect_failed("TLS: the certificate of the other side: none of ca has "
			      "signed it",
			      "TLS: the other side does not know who signed the "
			      "certificate");
	}
	ck_assert_int_eq(server_failed.err, -EACCES);
	ck_assert(!stream_certified(&server));
}
END_TEST

/* Certificates of servers that no client accepts, and what the server says of them. */
static const struct {
	struct test_certificate certificate;
	const char *client_text;
	int err;
	const char *text;
} unaccepted[] = {
	{ { .subject = "host", .names = "DNS:localhost", .days = -1 },
	  "certificate has expired",
	  -EKEYEXPIRED,
	  "it has expired at 20" },
	{ { .subject = "host", .names = "DNS:localhost", .days = 5, .begin_days = 3 },
	  "certificate is not yet valid",
	  -EKEYEXPIRED,
	  "it is not valid before 20" },
	/* its name is in the subject alone */
	{ { .subject = "localhost", .days = 5 },
	  "is not in its subjectAltName",
	  -EINVAL,
	  "its subjectAltName has neither a host's name nor an address, so no client "
	  "accepts it: make another one, see Certificates in rmem-deployment(7)" },
	{ { .subject = "host", .names = "URI:spiffe://localhost", .days = 5 },
	  "is not in its subjectAltName",
	  -EINVAL,
	  "its subjectAltName has neither" },
	{ { .subject = "host",
	    .names = "DNS:localhost",
	    .days = 5,
	    .usage = "clientAuth" },
	  "extended key usage has no serverAuth",
	  -EINVAL,
	  "its extended key usage has no serverAuth, so no client accepts it: " },
	{ { .subject = "host", .names = "DNS:localhost", .days = 5, .usage = "" },
	  "extended key usage has no serverAuth",
	  -EINVAL,
	  "its extended key usage has no serverAuth" },
	{ { .subject = "host",
	    .names = "DNS:localhost",
	    .days = 5,
	    .key_usage = "keyCertSign" },
	  "the certificate of the other side",
	  -EINVAL,
	  "its key usage has no digitalSignature" },
};

static void expect_server_refused(const char *servername, const char *text)
{
	client_with_certificate(&client_own, "ca", servername);
	sockets_open();
	handshake();
	ck_assert_int_eq(client_failed.err, -EACCES);
	ck_assert_msg(strstr(client_failed.text, text), "%s", client_failed.text);
	ck_assert(!client.handshaken && !server.handshaken);
}

START_TEST(certificate__that_no_client_accepts_is_known_to_the_server)
{
	server_with_certificate(&unaccepted[_i].certificate, "ca");
	expect_server_refused("localhost", unaccepted[_i].client_text);
	ck_assert_int_eq(tls_context_check_certificate(server_context),
			 unaccepted[_i].err);
	ck_assert_msg(strstr(err_text(), unaccepted[_i].text), "%s", err_text());
}
END_TEST

START_TEST(certificate__of_the_server_must_be_good)
{
	static const struct test_certificate by_itself = {
		.subject = "host", .names = "DNS:localhost", .days = 5, .leaf = true
	};
	static const char *const texts[] = {
		"is not in its subjectAltName",
		"is not in its subjectAltName",
		"none of ca has signed it",
	};

	server_with_certificate(_i == 2 ? &by_itself : &host, _i == 2 ? NULL : "ca");
	ck_assert_int_eq(tls_context_check_certificate(server_context), 0);
	expect_server_refused(_i == 0   ? "elsewhere"
			      : _i == 1 ? "127.0.0.2"
					: "localhost",
			      texts[_i]);
}
END_TEST

START_TEST(certificate__of_another_ca_does_not_hold)
{
	static const struct test_certificate next_ca = { .subject = "next CA",
							 .names = NULL,
							 .days = 5 };
	struct tls_params next = { .certificate = NULL };
	struct tls_context *later;

	server_with_certificate(&host, "ca");
	client_with_certificate(&client_own, "ca", "localhost");
	expect_done();
	certificate_write(folder, "next", NULL, &next_ca);
	next.certificate = file("server");
	next.ca = file("next");
	ck_assert_int_eq(tls_context_server(&next, &later), 0);
	ck_assert(!stream_still_good(&server, later));
	tls_context_unref(later);
}
END_TEST

START_TEST(contexts__tell_what_differs)
{
	char print[TLS_FINGERPRINT_CHARS + 1], later_print[TLS_FINGERPRINT_CHARS + 1];
	struct tls_params next = { .certificate = NULL };
	struct tls_difference ca;
	struct tls_context *later;

	server_with_certificate(&host, "ca");
	tls_context_fingerprint(server_context, print);
	ca = tls_context_compare_ca(server_context, server_context);
	ck_assert_uint_eq(ca.before, 1);
	ck_assert_uint_eq(ca.after, 1);
	ck_assert_uint_eq(ca.added + ca.removed, 0);
	ca = tls_context_compare_ca(NULL, server_context);
	ck_assert_uint_eq(ca.before + ca.removed, 0);
	ck_assert_uint_eq(ca.added, 1);
	next.certificate = next.ca = file("server");
	ck_assert_int_eq(tls_context_server(&next, &later), 0);
	tls_context_fingerprint(later, later_print);
	ck_assert_str_eq(later_print, print);
	ca = tls_context_compare_ca(server_context, later);
	ck_assert_uint_eq(ca.added, 1);
	ck_assert_uint_eq(ca.removed, 1);
	tls_context_unref(later);
	certificate_write(folder, "server", "ca", &host);
	ck_assert_int_eq(tls_context_server(&next, &later), 0);
	tls_context_fingerprint(later, later_print);
	ck_assert_str_ne(later_print, print);
	ck_assert_uint_eq(strlen(print), TLS_FINGERPRINT_CHARS);
	tls_context_unref(later);
	tls_context_fingerprint(NULL, print);
	ck_assert_str_eq(print, "none");
}
END_TEST

START_TEST(patterns__are_checked)
{
	static const char *const good[] = { "uri:x",
					    "spiffe://a/b*, dns:y",
					    "dns:y,subject:CN=a,O=b",
					    "subject:*",
					    "dns:a,",
					    "" };
	static const char *const wrong[] = {
		"x", "dns:", "uri:a, x", "dns:a,,dns:b", "DNS:a", "spiffe:a", "*"
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		ck_assert_msg(certificate_patterns_check(good[i]) == 0, "%s", good[i]);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		ck_assert_msg(certificate_patterns_check(wrong[i]) == -EINVAL, "%s",
			      wrong[i]);
}
END_TEST

START_TEST(files__are_checked)
{
	struct tls_params params = { .certificate = file("ca"), .ca = file("none") };

	ck_assert_int_eq(tls_context_server(&params, &server_context), -ENOENT);
	ck_assert_msg(strstr(err_text(), "none.pem: No such file"), "%s", err_text());
	params.ca = NULL;
	params.key = "/dev/null";
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EINVAL);
	ck_assert_msg(strstr(err_text(), "it is not a regular file"), "%s", err_text());
	ck_assert_int_eq(chmod(params.certificate, 0604), 0);
	params.key = params.certificate;
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EACCES);
	ck_assert_msg(strstr(err_text(), "others must not read it"), "%s", err_text());
	/* who writes to it decides whom one trusts, even if it has no secret */
	certificate_write(folder, "open", NULL,
			  &(struct test_certificate){ .subject = "ca", .days = 10 });
	ck_assert_int_eq(chmod(params.certificate, 0600), 0);
	ck_assert_int_eq(chmod(file("open"), 0622), 0);
	params.key = NULL;
	params.ca = file("open");
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EACCES);
	ck_assert_msg(strstr(err_text(), "ca ") && strstr(err_text(), "chmod 644"),
		      "%s", err_text());
	params.ca = NULL;
	params.certificate = file("open");
	params.key = file("ca");
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EACCES);
	ck_assert_msg(strstr(err_text(), "certificate "), "%s", err_text());
	ck_assert_int_eq(chmod(params.certificate, 0600), 0);
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EINVAL);
	ck_assert_msg(strstr(err_text(), "ca.pem: it is not that of the certificate"),
		      "%s", err_text());
	params.key = NULL;
	params.certificate = file("absent");
	ck_assert_int_eq(tls_context_server(&params, &server_context), -ENOENT);
}
END_TEST

/* The password is not asked for: not at the terminal, and not of standard input. */
START_TEST(files__with_a_password_are_refused)
{
	struct tls_params params = { .certificate = file("ca"), .key = file("locked") };
	int pair[2];

	ck_assert_int_eq(pipe2(pair, O_CLOEXEC), 0);
	ck_assert_int_eq(write(pair[1], "password\n", 9), 9);
	ck_assert_int_eq(dup2(pair[0], STDIN_FILENO), STDIN_FILENO);
	/* without a terminal OpenSSL reads standard input */
	(void)setsid();
	key_encrypt(folder, "locked", "password");
	ck_assert_int_eq(tls_context_server(&params, &server_context), -EINVAL);
	ck_assert_msg(strstr(err_text(), "locked.pem"), "%s", err_text());
	ck_assert_int_eq(read(STDIN_FILENO, &(char){ 0 }, 1), 1);
	(void)close(pair[0]);
	(void)close(pair[1]);
}
END_TEST

/* ---- a key and a certificate ---- */

static char named[TLS_IDENTITY_MAX + 1];

/* A hash other than that of keys, so that the server does not look at the binder. */
static int on_name_key(SSL *ssl, const EVP_MD *, const unsigned char **ret_identity,
		       size_t *ret_len, SSL_SESSION **ret_session)
{
	static const unsigned char suite[] = { 0x13,
					       0x02 }; /* TLS_AES_256_GCM_SHA384 */
	SSL_SESSION *session = SSL_SESSION_new();

	ck_assert_int_eq(SSL_SESSION_set1_master_key(session, key_b, sizeof(key_b)), 1);
	ck_assert_int_eq(SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, suite)),
			 1);
	ck_assert_int_eq(SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION), 1);
	*ret_identity = (const unsigned char *)named;
	*ret_len = strlen(named);
	*ret_session = session;
	return 1;
}

/* A client with a good certificate names the key of another tenant, and does not have it: the
 * handshake goes on without the key. */
START_TEST(key__that_is_only_named_admits_nobody)
{
	struct tls_params params = { .keys = keys_of("victim", key_a),
				     .certificate = file("server"),
				     .ca = file("ca") };
	char tenant[TLS_TENANT_MAX + 1];

	(void)strcpy(named, tls_keys_first(params.keys, NULL)->identity);
	certificate_write(folder, "server", "ca", &host);
	ck_assert_int_eq(tls_context_server(&params, &server_context), 0);
	client_with_certificate(&client_own, "ca", "localhost");
	sockets_open();
	SSL_set_psk_use_session_callback(client.ssl, on_name_key);
	ck_assert_int_eq(SSL_set_ciphersuites(client.ssl, "TLS_AES_256_GCM_SHA384"), 1);
	handshake();
	ck_assert_msg(server_failed.err == 0, "%s", server_failed.text);
	ck_assert(!stream_tenant(&server, tenant));
	ck_assert(stream_certified(&server));
	ck_assert(stream_still_good(&server, server_context));
}
END_TEST

/* ---- other protocols ---- */

static const unsigned char others[] = { 2, 'h', '2', 6, 'r', 'm', 'e', 'm', '/', '2' };

/* Of control connections and of data channels; the second time the client offers others. */
START_TEST(protocol__is_asked_of_the_client)
{
	struct channel_secrets secrets = { .key = { 1 } };
	bool channels = _i > 1;

	if (channels) {
		ck_assert_int_eq(tls_context_channels(true, &server_context), 0);
		ck_assert_int_eq(tls_context_channels(false, &client_context), 0);
	} else {
		server_with_key("a", key_a);
		client_with_key("a", key_a);
	}
	sockets_open();
	server.channel = client.channel = channels ? &secrets : NULL;
	ck_assert_int_eq(
		SSL_set_alpn_protos(client.ssl, others, _i % 2 ? sizeof(others) : 0),
		0);
	handshake();
	ck_assert_int_eq(server_failed.err, -EPROTO);
	ck_assert_str_eq(server_failed.text,
			 "TLS: the client does not offer the protocol rmem/1 (ALPN)");
	ck_assert_int_eq(client_failed.err, -EPROTO);
	ck_assert_str_eq(client_failed.text,
			 "TLS: the server does not speak the protocol rmem/1 (ALPN)");
	ck_assert(!server.handshaken && !client.handshaken);
}
END_TEST

static int on_choose(SSL *, const unsigned char **ret_name, unsigned char *ret_bytes,
		     const unsigned char *, unsigned, void *)
{
	*ret_name = others + 1;
	*ret_bytes = others[0];
	return SSL_TLSEXT_ERR_OK;
}

/* It chooses none, or one that the client does not offer, which OpenSSL may find itself. */
START_TEST(protocol__is_asked_of_the_server)
{
	server_with_key("a", key_a);
	client_with_key("a", key_a);
	sockets_open();
	SSL_CTX_set_alpn_select_cb(SSL_get_SSL_CTX(server.ssl), _i ? on_choose : NULL,
				   NULL);
	handshake();
	ck_assert_int_eq(client_failed.err, -EPROTO);
	if (_i == 0)
		ck_assert_str_eq(client_failed.text,
				 "TLS: the server does not choose the protocol rmem/1 "
				 "(ALPN)");
	ck_assert(!client.handshaken);
}
END_TEST

/* ---- other versions, and none ---- */

START_TEST(handshake__of_tls_1_2_is_refused)
{
	SSL_CTX *old = SSL_CTX_new(TLS_client_method());
	SSL *ssl = SSL_new(old);
	int err = -EAGAIN;

	server_with_certificate(&host, "ca");
	client_with_certificate(&client_own, "ca", "localhost");
	sockets_open();
	ck_assert_int_eq(SSL_set_alpn_protos(ssl, alpn_name, sizeof(alpn_name)), 0);
	ck_assert_int_eq(SSL_set_max_proto_version(ssl, TLS1_2_VERSION), 1);
	ck_assert_int_eq(SSL_set_fd(ssl, client.fd), 1);
	SSL_set_connect_state(ssl);
	for (unsigned i = 0; i < 10 && err == -EAGAIN; i++) {
		(void)SSL_do_handshake(ssl);
		err = stream_handshake(&server);
	}
	ck_assert_int_eq(err, -EPROTO);
	ck_assert_str_eq(err_text(), "TLS: the two sides have no version of TLS in "
				     "common; rmem needs 1.3");
	SSL_free(ssl);
	SSL_CTX_free(old);
}
END_TEST

START_TEST(handshake__with_plain_text_is_refused)
{
	int err;

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	sockets_open();
	ck_assert_int_eq(send(client.fd, "GET / HTTP/1.0\r\n\r\n", 18, 0), 18);
	err = stream_handshake(&server);
	ck_assert_int_eq(err, -EPROTO);
	ck_assert_str_eq(err_text(), "TLS: the other side does not speak TLS");
}
END_TEST

START_TEST(handshake__ends_with_its_socket)
{
	server_with_key("a", key_a);
	client_with_key("a", key_a);
	sockets_open();
	ck_assert_int_eq(stream_handshake(&server), -EAGAIN);
	ck_assert(!server.wants_out);
	ck_assert_int_eq(shutdown(client.fd, SHUT_WR), 0);
	ck_assert_int_eq(stream_handshake(&server), -ECONNRESET);
	ck_assert_str_eq(err_text(), "the other side closed the connection");
}
END_TEST

/* ---- bytes ---- */

/* More than the sockets take, so that both directions have to wait: under TLS, without it, and with
 * keys that wear out soon. */
START_TEST(bytes__arrive_in_order)
{
	enum { N = 1 << 20 };
	uint8_t *out = malloc(N), *in = malloc(N);
	size_t sent = 0, got = 0;

	for (size_t i = 0; i < N; i++)
		out[i] = (uint8_t)(i * 7 + i / 256);
	if (_i == 2)
		tls_records_max = 2;
	if (_i == 1) {
		int pair[2];

		ck_assert_int_eq(
			socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
		stream_plain(&server, pair[0]);
		stream_plain(&client, pair[1]);
	} else {
		server_with_key("a", key_a);
		client_with_key("a", key_a);
		expect_done();
	}
	while (got < N) {
		ssize_t n =
			sent < N ? stream_send(&client, out + sent, N - sent) : -EAGAIN;

		if (n > 0)
			sent += (size_t)n;
		else
			ck_assert_int_eq(n, -EAGAIN);
		n = stream_receive(&server, in + got, N - got < 1000 ? N - got : 1000);
		if (n > 0)
			got += (size_t)n;
		else
			ck_assert_int_eq(n, -EAGAIN);
	}
	ck_assert_mem_eq(in, out, N);
	/* its own changes of keys are none that an attacker makes */
	ck_assert_uint_eq(server.key_updates, 0);
	if (_i == 2)
		ck_assert_uint_le(client.records, 2);
	ck_assert(!stream_pending(&server));
	stream_end(&client);
	ck_assert_int_eq(stream_receive(&server, in, 1), 0);
	free(out);
	free(in);
}
END_TEST

/* poll(2) does not tell of bytes that TLS has in memory. */
START_TEST(pending__tells_of_bytes_in_memory)
{
	char buf[10];

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	ck_assert_int_eq(stream_send(&client, "0123456789", 10), 10);
	ck_assert(!stream_pending(&server));
	ck_assert_int_eq(stream_receive(&server, buf, 4), 4);
	ck_assert(stream_pending(&server));
	ck_assert_int_eq(stream_receive(&server, buf, 6), 6);
	ck_assert(!stream_pending(&server));
	ck_assert_int_eq(stream_receive(&server, buf, 6), -EAGAIN);
}
END_TEST

/* A byte that has arrived, behind a change of keys perhaps. */
static void receive_byte(struct stream *stream)
{
	ssize_t n = stream_receive(stream, &(char){ 0 }, 1);

	if (n == -EAGAIN)
		n = stream_receive(stream, &(char){ 0 }, 1);
	ck_assert_int_eq(n, 1);
}

/* Whether it has its private half of the key exchange. */
static bool exchanges(const struct stream *stream)
{
	uint8_t half[64];
	size_t bytes = sizeof(half);
	EVP_PKEY *key;
	bool has;

	ck_assert_int_eq(SSL_get_tmp_key(stream->ssl, &key), 1);
	has = EVP_PKEY_get_raw_private_key(key, half, &bytes) == 1;
	EVP_PKEY_free(key);
	return has;
}

/* A connection may last for months: its key is not in memory that is swapped and dumped. */
START_TEST(key__is_forgotten_after_the_handshake)
{
	uint8_t master[64];

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	for (unsigned i = 0; i < 2; i++) {
		size_t bytes = SSL_SESSION_get_master_key(
			SSL_get_session(i ? server.ssl : client.ssl), master,
			sizeof(master));

		ck_assert_uint_ge(bytes, sizeof(key_a));
		ck_assert_mem_ne(master, key_a, sizeof(key_a));
		/* nor is what would open what others have recorded, of which the secure heap would
		 * be full */
		ck_assert(!exchanges(i ? &server : &client));
	}
	/* nothing needs it again */
	ck_assert_int_eq(stream_send(&client, "x", 1), 1);
	receive_byte(&server);
	ck_assert_int_eq(SSL_key_update(server.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	ck_assert_int_eq(stream_send(&server, "y", 1), 1);
	receive_byte(&client);
	ck_assert_int_eq(stream_send(&client, "z", 1), 1);
	receive_byte(&server);
}
END_TEST

/* Whoever changes a byte on the way is found out. */
START_TEST(bytes__that_are_changed_are_refused)
{
	char record[200];
	ssize_t n;
	int fd;

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	ck_assert_int_eq(stream_send(&client, "0123456789", 10), 10);
	n = recv(server.fd, record, sizeof(record), 0);
	ck_assert_int_gt(n, 10);
	record[n - 3] ^= 1;
	fd = client.fd;
	ck_assert_int_eq(send(fd, record, (size_t)n, 0), n);
	ck_assert_int_eq(stream_receive(&server, record, sizeof(record)), -EPROTO);
}
END_TEST

/* Each change costs the other side as much as many frames. */
START_TEST(keys__are_not_changed_without_an_end)
{
	uint8_t byte;

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	for (unsigned i = 0; i < STREAM_KEY_UPDATES_MAX; i++) {
		ck_assert_int_eq(
			SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		ck_assert_int_eq(SSL_do_handshake(client.ssl), 1);
		ck_assert_int_eq(stream_receive(&server, &byte, 1), -EAGAIN);
	}
	ck_assert_int_eq(stream_send(&client, "a", 1), 1);
	ck_assert_int_eq(stream_receive(&server, &byte, 1), 1);
	ck_assert_int_eq(SSL_key_update(client.ssl, SSL_KEY_UPDATE_REQUESTED), 1);
	ck_assert_int_eq(SSL_do_handshake(client.ssl), 1);
	ck_assert_int_eq(stream_receive(&server, &byte, 1), -EPROTO);
	ck_assert_str_eq(err_text(),
			 "TLS: the other side has changed its keys 65 times");
}
END_TEST

/* A connection that lasts has more, far from one another. */
START_TEST(keys__are_changed_as_often_as_they_wear_out)
{
	uint8_t bytes[STREAM_KEY_RECEIVES_MIN];

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	for (unsigned i = 0; i < 2 * STREAM_KEY_UPDATES_MAX; i++) {
		ck_assert_int_eq(stream_send(&client, bytes, sizeof(bytes)),
				 sizeof(bytes));
		for (unsigned k = 0; k < sizeof(bytes); k++)
			ck_assert_int_eq(stream_receive(&server, bytes, 1), 1);
		ck_assert_int_eq(
			SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		ck_assert_int_eq(SSL_do_handshake(client.ssl), 1);
		ck_assert_int_eq(stream_receive(&server, bytes, 1), -EAGAIN);
		ck_assert(stream_goes_on(&server));
		ck_assert_int_eq(stream_receive(&server, bytes, 1), -EAGAIN);
		ck_assert(!stream_goes_on(&server));
	}
}
END_TEST

/* A client can send changes of keys as fast as they are read: others must get their turn
 * between. */
START_TEST(receive__does_not_go_on_with_changes_of_keys)
{
	int before = 0, left = 0;
	char byte;

	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	for (unsigned i = 0; i < STREAM_KEY_UPDATES_MAX; i++) {
		ck_assert_int_eq(
			SSL_key_update(client.ssl, SSL_KEY_UPDATE_NOT_REQUESTED), 1);
		ck_assert_int_eq(SSL_do_handshake(client.ssl), 1);
	}
	ck_assert_int_eq(stream_send(&client, "x", 1), 1);
	ck_assert_int_eq(ioctl(server.fd, FIONREAD, &before), 0);
	ck_assert_int_eq(stream_receive(&server, &byte, 1), -EAGAIN);
	ck_assert_int_eq(ioctl(server.fd, FIONREAD, &left), 0);
	ck_assert_int_gt(left, before - 100);
	for (unsigned i = 1; i < STREAM_KEY_UPDATES_MAX; i++)
		ck_assert_int_eq(stream_receive(&server, &byte, 1), -EAGAIN);
	ck_assert_int_eq(stream_receive(&server, &byte, 1), 1);
}
END_TEST

START_TEST(send__to_a_closed_socket_raises_no_signal)
{
	server_with_key("a", key_a);
	client_with_key("a", key_a);
	expect_done();
	stream_close(&server);
	ck_assert_int_eq(stream_send(&client, "x", 1), -EPIPE);
}
END_TEST

START_TEST(prepare__has_a_handshake_with_itself)
{
	ck_assert_int_eq(tls_prepare(), 0);
}
END_TEST

/* ---- without memory ---- */

START_TEST(client__without_memory_for_its_key_fails)
{
	server_with_key("a", key_a);
	client_with_key("a", key_a);
	sockets_open();
	no_memory = true;
	ck_assert_int_eq(stream_handshake(&client), -ENOMEM);
	ck_assert_ptr_nonnull(strstr(err_text(), "no memory for the pre-shared key"));
	no_memory = false;
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("tls-stream", setup, teardown);

	tcase_add_test(tc, key__admits_its_tenant);
	tcase_add_test(tc, key__that_is_wrong_is_refused);
	tcase_add_test(tc, key__of_an_unknown_tenant_is_refused_alike);
	tcase_add_test(tc, key__is_needed_beside_its_identity);
	tcase_add_test(tc, key__that_is_removed_does_not_hold);
	tcase_add_test(tc, key__is_asked_of_the_server_too);
	tcase_add_test(tc, key__is_forgotten_after_the_handshake);
	tcase_add_loop_test(tc, certificate__admits_by_its_names, 0, 2);
	tcase_add_loop_test(tc, certificate__of_the_client_must_be_good, 0, 7);
	tcase_add_loop_test(tc,
			    certificate__that_no_client_accepts_is_known_to_the_server,
			    0, sizeof(unaccepted) / sizeof(unaccepted[0]));
	tcase_add_loop_test(tc, certificate__of_the_server_must_be_good, 0, 3);
	tcase_add_test(tc, certificate__of_another_ca_does_not_hold);
	tcase_add_test(tc, contexts__tell_what_differs);
	tcase_add_test(tc, patterns__are_checked);
	tcase_add_test(tc, files__are_checked);
	tcase_add_test(tc, files__with_a_password_are_refused);
	tcase_add_test(tc, key__that_is_only_named_admits_nobody);
	tcase_add_loop_test(tc, protocol__is_asked_of_the_client, 0, 4);
	tcase_add_loop_test(tc, protocol__is_asked_of_the_server, 0, 2);
	tcase_add_test(tc, handshake__of_tls_1_2_is_refused);
	tcase_add_test(tc, handshake__with_plain_text_is_refused);
	tcase_add_test(tc, handshake__ends_with_its_socket);
	tcase_add_loop_test(tc, bytes__arrive_in_order, 0, 3);
	tcase_add_test(tc, pending__tells_of_bytes_in_memory);
	tcase_add_test(tc, bytes__that_are_changed_are_refused);
	tcase_add_test(tc, keys__are_not_changed_without_an_end);
	tcase_add_test(tc, keys__are_changed_as_often_as_they_wear_out);
	tcase_add_test(tc, receive__does_not_go_on_with_changes_of_keys);
	tcase_add_test(tc, send__to_a_closed_socket_raises_no_signal);
	tcase_add_test(tc, prepare__has_a_handshake_with_itself);
	tcase_add_test(tc, client__without_memory_for_its_key_fails);
	return unit_main();
}
