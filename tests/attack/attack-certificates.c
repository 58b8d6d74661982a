/* SPDX-License-Identifier: BSD-3-Clause */
/* Certificates that a server must not accept. */
#include <stdio.h>

#include "attack.h"
#include "hello.h"
#include "unit/tls/certificates.h"

#define CERTIFICATE "status counters refused certificate"
#define TENANT "status counters refused tenant"
#define RED "URI:spiffe://example.org/red/1"

static const struct {
	const char *name, *ca;
	struct test_certificate params;
} files[] = {
	{ "ca", NULL, { .subject = "ca", .days = 10 } },
	{ "other", NULL, { .subject = "ca", .days = 10 } },
	{ "red",
	  "ca",
	  { .subject = "red", .names = RED, .days = 10, .usage = "clientAuth" } },
	{ "mallory",
	  "ca",
	  { .subject = "mallory",
	    .names = "URI:spiffe://example.org/mallory/1",
	    .days = 10 } },
	{ "nobody",
	  "ca",
	  { .subject = "red",
	    .names = "URI:spiffe://example.org/redder/1",
	    .days = 10 } },
	{ "self", NULL, { .subject = "red", .names = RED, .days = 10, .leaf = true } },
	{ "stranger", "other", { .subject = "red", .names = RED, .days = 10 } },
	{ "expired", "ca", { .subject = "red", .names = RED, .days = -1 } },
	{ "future",
	  "ca",
	  { .subject = "red", .names = RED, .days = 10, .begin_days = 5 } },
	{ "usage",
	  "ca",
	  { .subject = "red", .names = RED, .days = 10, .usage = "serverAuth" } },
	{ "any", "ca", { .subject = "red", .names = RED, .days = 10, .usage = "" } },
	/* signed by a certificate that may not sign */
	{ "deputy", "mallory", { .subject = "red", .names = RED, .days = 10 } },
	/* of servers */
	{ "server",
	  "ca",
	  { .subject = "server",
	    .names = "IP:127.0.0.1,DNS:rmem.example",
	    .days = 10,
	    .usage = "serverAuth" } },
	{ "server-any",
	  "ca",
	  { .subject = "server", .names = "IP:127.0.0.1", .days = 10, .usage = "" } },
	{ "server-subject", "ca", { .subject = "localhost", .days = 10 } },
	{ "server-name",
	  "ca",
	  { .subject = "127.0.0.1", .names = "DNS:else.example", .days = 10 } },
	{ "server-self",
	  NULL,
	  { .subject = "server", .names = "IP:127.0.0.1", .days = 10, .leaf = true } },
	{ "server-stranger",
	  "other",
	  { .subject = "server", .names = "IP:127.0.0.1", .days = 10 } },
	{ "server-expired",
	  "ca",
	  { .subject = "server", .names = "IP:127.0.0.1", .days = -1 } },
	{ "server-future",
	  "ca",
	  { .subject = "server",
	    .names = "IP:127.0.0.1",
	    .days = 10,
	    .begin_days = 5 } },
	{ "server-usage",
	  "ca",
	  { .subject = "server",
	    .names = "IP:127.0.0.1",
	    .days = 10,
	    .usage = "clientAuth" } },
};

void attack_files(void)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		certificate_write(attack_options.folder, files[i].name, files[i].ca,
				  &files[i].params);
}

static void certificate_try(const char *what, const char *counter,
			    const struct hello_offer *offer)
{
	attempt(what, counter, 1);
	attempt_result(hello_say(offer, NULL), "the server: connection");
}

void attack_certificates(void)
{
	static const struct {
		const char *what, *name, *counter;
	} wrong[] = {
		{ "no certificate", NULL, CERTIFICATE },
		{ "a certificate that signs itself", "self", CERTIFICATE },
		{ "a certificate of another CA of that name", "stranger", CERTIFICATE },
		{ "a certificate that has expired", "expired", CERTIFICATE },
		{ "a certificate that is not valid yet", "future", CERTIFICATE },
		{ "a certificate for servers alone", "usage", CERTIFICATE },
		{ "a certificate of no stated use", "any", CERTIFICATE },
		{ "a certificate signed by a client's", "deputy", CERTIFICATE },
		{ "another tenant's certificate", "mallory", TENANT },
		{ "a certificate of no tenant", "nobody", TENANT },
		{ "the server's own kind of certificate", "server", CERTIFICATE },
	};
	struct hello_offer offer = { .tenant = "red" };

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		offer.certificate = wrong[i].name;
		certificate_try(wrong[i].what, wrong[i].counter, &offer);
	}
	offer.certificate = "red";
	offer.tenant = "blue";
	certificate_try("a good certificate, and a tenant without patterns", TENANT,
			&offer);
	offer.tenant = "red";
	offer.version = TLS1_2_VERSION;
	certificate_try("a good certificate over TLS 1.2",
			"status counters refused tls", &offer);
	offer.version = 0;
	offer.suites = "TLS_AES_128_CCM_8_SHA256";
	certificate_try("a good certificate with the weakest cipher",
			"status counters refused tls", &offer);
	offer.suites = NULL;
	must(!hello_say(&offer, NULL), "a good certificate is refused");
}
