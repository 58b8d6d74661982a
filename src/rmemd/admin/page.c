/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/admin/page.h"

#include <event2/buffer.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "rmemd/admin/http.h"

static const char page[] = {
#include "rmemd/admin/page_text.h"
	0
};

#define SHA256_BYTES 32
#define BASE64_BYTES 48

/* The hash of the text between the tags, in Base64.  False: there is no memory. */
static bool part_hash(const char *begin_tag, const char *end_tag,
		      char hash[static BASE64_BYTES])
{
	const char *begin = strstr(page, begin_tag) + strlen(begin_tag);
	const char *end = strstr(begin, end_tag);
	unsigned char digest[SHA256_BYTES];

	if (!EVP_Digest(begin, (size_t)(end - begin), digest, NULL, EVP_sha256(), NULL))
		return false;
	(void)EVP_EncodeBlock((unsigned char *)hash, digest, sizeof(digest));
	return true;
}

static const char *policy(void)
{
	static char text[512];
	char style[BASE64_BYTES], script[BASE64_BYTES];

	if (!text[0] && part_hash("<style>", "</style>", style) &&
	    part_hash("<script>", "</script>", script))
		(void)snprintf(
			text, sizeof(text),
			"default-src 'none'; style-src 'sha256-%s'; "
			"script-src 'sha256-%s'; connect-src 'self'; img-src data:; "
			"base-uri 'none'; form-action 'none'; "
			"frame-ancestors 'none'",
			style, script);
	return text[0] ? text : NULL;
}

static bool headers_set(struct evhttp_request *request)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(request);
	const char *csp = policy();

	return csp && !evhttp_add_header(headers, "Content-Security-Policy", csp) &&
	       !evhttp_add_header(headers, "Referrer-Policy", "no-referrer") &&
	       !http_set_type(request, "text/html; charset=utf-8");
}

void page_send(struct evhttp_request *request)
{
	struct evbuffer *body = evbuffer_new();

	if (body && headers_set(request) &&
	    !evbuffer_add_reference(body, page, sizeof(page) - 1, NULL, NULL))
		evhttp_send_reply(request, HTTP_OK, "OK", body);
	else
		http_send_no_memory(request);
	if (body)
		evbuffer_free(body);
}
