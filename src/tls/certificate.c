/* SPDX-License-Identifier: BSD-3-Clause */
#include "tls/certificate.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include <openssl/bio.h>
#include <openssl/x509v3.h>

#include "base/err.h"

/* A pattern, within the text of all. */
struct pattern {
	int kind; /* GEN_URI, GEN_DNS or GEN_DIRNAME: the subject */
	const char *name;
	size_t len;
	bool any_rest; /* a `*` was at the end */
};

static const struct {
	const char *prefix;
	int kind;
	bool kept; /* the prefix is a part of the name */
} kinds[] = {
	{ "uri:", GEN_URI, false },
	{ "spiffe://", GEN_URI, true },
	{ "dns:", GEN_DNS, false },
	{ "subject:", GEN_DIRNAME, false },
};

static const char *blanks_skip(const char *at)
{
	return at + strspn(at, " \t\n");
}

/* The next pattern at *at, which moves behind it.  1, 0 at the end, or -EINVAL. */
static int pattern_next(const char **at, struct pattern *ret)
{
	const char *text = blanks_skip(*at);
	size_t len = strcspn(text, ",");

	if (*text == '\0')
		return 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t prefix = strlen(kinds[i].prefix);

		if (strncmp(text, kinds[i].prefix, prefix) != 0)
			continue;
		if (kinds[i].kind == GEN_DIRNAME)
			len = strlen(text);
		*at = text[len] ? text + len + 1 : text + len;
		while (len > 0 && strchr(" \t\n", text[len - 1]))
			len--;
		*ret = (struct pattern){ kinds[i].kind, text, len, false };
		if (!kinds[i].kept) {
			ret->name += prefix;
			ret->len -= prefix;
		}
		if (ret->len > 0 && ret->name[ret->len - 1] == '*') {
			ret->any_rest = true;
			ret->len--;
		}
		return ret->len || ret->any_rest ? 1 : -EINVAL;
	}
	return -EINVAL;
}

int certificate_patterns_check(const char *patterns)
{
	const char *at = patterns;
	struct pattern pattern;
	int result;

	do {
		const char *begin = blanks_skip(at);

		result = pattern_next(&at, &pattern);
		if (result < 0)
			return err_set(-EINVAL,
				       "'%.60s' does not begin with uri:, spiffe://, "
				       "dns: or subject:, or has no name",
				       begin);
	} while (result > 0);
	return 0;
}

/* A name with a zero byte in it fits nothing. */
static bool name_matches(const struct pattern *pattern, const unsigned char *name,
			 size_t len)
{
	if (memchr(name, '\0', len))
		return false;
	if (pattern->any_rest ? len < pattern->len : len != pattern->len)
		return false;
	/* names of hosts alone have no case */
	if (pattern->kind == GEN_DNS)
		return strncasecmp((const char *)name, pattern->name, pattern->len) ==
		       0;
	return memcmp(name, pattern->name, pattern->len) == 0;
}

static bool subject_matches(X509 *certificate, const struct pattern *pattern)
{
	BIO *text = BIO_new(BIO_s_mem());
	unsigned char *name = NULL;
	bool matches = false;
	long len;

	if (text && X509_NAME_print_ex(text, X509_get_subject_name(certificate), 0,
				       XN_FLAG_RFC2253) >= 0) {
		len = BIO_get_mem_data(text, &name);
		matches = len > 0 && name_matches(pattern, name, (size_t)len);
	}
	BIO_free(text);
	return matches;
}

static bool alternative_matches(X509 *certificate, const struct pattern *pattern)
{
	GENERAL_NAMES *names =
		X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool matches = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && !matches; i++) {
		int kind;
		const ASN1_IA5STRING *name =
			GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &kind);

		if (kind == pattern->kind)
			matches = name_matches(pattern, ASN1_STRING_get0_data(name),
					       (size_t)ASN1_STRING_length(name));
	}
	GENERAL_NAMES_free(names);
	return matches;
}

bool certificate_matches(X509 *certificate, const char *patterns)
{
	struct pattern pattern;

	while (pattern_next(&patterns, &pattern) > 0)
		if (pattern.kind == GEN_DIRNAME
			    ? subject_matches(certificate, &pattern)
			    : alternative_matches(certificate, &pattern))
			return true;
	return false;
}

/* ---- of a server ---- */

/* Names that a client can ask for. */
static bool names_host(const X509 *certificate)
{
	GENERAL_NAMES *names =
		X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
	bool found = false;

	for (int i = 0; i < sk_GENERAL_NAME_num(names) && !found; i++) {
		int kind = sk_GENERAL_NAME_value(names, i)->type;

		found = kind == GEN_DNS || kind == GEN_IPADD;
	}
	GENERAL_NAMES_free(names);
	return found;
}

/* Why no client ever accepts it, or NULL. */
static const char *server_fault(X509 *certificate)
{
	if (!(X509_get_extension_flags(certificate) & EXFLAG_XKUSAGE) ||
	    !(X509_get_extended_key_usage(certificate) & XKU_SSL_SERVER))
		return "its extended key usage has no serverAuth";
	if (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) != 1)
		return "its key usage has no digitalSignature";
	if (!names_host(certificate))
		return "its subjectAltName has neither a host's name nor an address";
	return NULL;
}

static int date_fault(const char *what, const ASN1_TIME *date)
{
	char text[32] = "?";
	struct tm tm;

	if (ASN1_TIME_to_tm(date, &tm) == 1)
		(void)strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &tm);
	return err_set(-EKEYEXPIRED, "%s %s: clients do not accept it", what, text);
}

int certificate_serves(X509 *certificate)
{
	const ASN1_TIME *begin = X509_get0_notBefore(certificate),
			*end = X509_get0_notAfter(certificate);
	const char *fault = server_fault(certificate);

	if (fault)
		return err_set(-EINVAL,
			       "%s, so no client accepts it: make another one, see "
			       "Certificates in rmem-deployment(7)",
			       fault);
	if (X509_cmp_current_time(begin) > 0)
		return date_fault("it is not valid before", begin);
	return X509_cmp_current_time(end) < 0 ? date_fault("it has expired at", end)
					      : 0;
}
