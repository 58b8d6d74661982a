/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/uri.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define SCHEME "rmem://"
#define OPTION_BYTES 32
#define WHY_BYTES 160

static int invalid(const char *text, const char *why)
{
	return err_set(-EINVAL,
		       "\"%.80s\" is not rmem://HOST[:PORT]"
		       "[?fabric=auto|rdma|tcp&channels=N&tenant=NAME...]: %s",
		       text, why);
}

/* A number that ends where the part ends. */
static int number_parse(const char *text, size_t len, uint64_t max, uint64_t *ret_value)
{
	char buf[24];

	if (len == 0 || len >= sizeof(buf))
		return -EINVAL;
	memcpy(buf, text, len);
	buf[len] = '\0';
	return units_parse_u64(buf, 1, max, ret_value);
}

static bool host_clean(const char *host, size_t len, bool bracketed)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)host[i] <= 0x20 || host[i] == 0x7f ||
		    strchr("[]/@#", host[i]))
			return false;
		if (host[i] == ':' && !bracketed)
			return false;
	}
	return len > 0;
}

/* HOST[:PORT], `len` bytes long. */
static int authority_parse(const char *text, const char *at, size_t len,
			   struct uri *uri)
{
	bool bracketed = len > 0 && at[0] == '[';
	const char *host = bracketed ? at + 1 : at;
	const char *end = memchr(at, bracketed ? ']' : ':', len);
	const char *rest;
	uint64_t port;
	size_t host_len;

	if (bracketed && !end)
		return invalid(text, "the bracket of the IPv6 address is not closed");
	if (!bracketed && end && memchr(end + 1, ':', (size_t)(at + len - end - 1)))
		return invalid(text, "an IPv6 address stands in brackets, "
				     "as in rmem://[::1]:7460");
	if (!end)
		end = at + len;
	host_len = (size_t)(end - host);
	rest = bracketed ? end + 1 : end;
	if (host_len > URI_HOST_MAX)
		return invalid(text, "the host is too long");
	if (!host_clean(host, host_len, bracketed))
		return invalid(text,
			       "there is no host, or it has characters no host has");
	memcpy(uri->host, host, host_len);
	uri->host[host_len] = '\0';
	if (rest == at + len)
		return 0;
	if (*rest != ':')
		return invalid(text, "only a port may follow the address");
	rest++;
	if (number_parse(rest, (size_t)(at + len - rest), UINT16_MAX, &port))
		return invalid(text, "the port is not 1 to 65535");
	uri->port = (uint16_t)port;
	return 0;
}

static bool is(const char *at, size_t len, const char *word)
{
	return strlen(word) == len && memcmp(at, word, len) == 0;
}

static int fabric_parse(const char *text, const char *at, size_t len, struct uri *uri)
{
	if (is(at, len, "auto"))
		uri->fabric = RMEM_FABRIC_AUTO;
	else if (is(at, len, "tcp"))
		uri->fabric = RMEM_FABRIC_TCP;
	else if (is(at, len, "rdma"))
		uri->fabric = RMEM_FABRIC_RDMA;
	else
		return invalid(text, "fabric is auto, rdma or tcp");
	return 0;
}

/* Copy a part; false when it is longer than anything good. */
static bool part_copy(char *buf, size_t bytes, const char *at, size_t len)
{
	if (len >= bytes)
		return false;
	memcpy(buf, at, len);
	buf[len] = '\0';
	return true;
}

static int source_parse(const char *text, const char *at, size_t len, struct uri *uri)
{
	struct fabric_address *source = &uri->devices.source;
	bool bracketed = len > 1 && at[0] == '[' && at[len - 1] == ']';
	char buf[INET6_ADDRSTRLEN];

	*source = (struct fabric_address){ 0 };
	if (is(at, len, "auto"))
		return 0;
	if (part_copy(buf, sizeof(buf), at + bracketed, len - 2 * (size_t)bracketed) &&
	    !fabric_address_parse(buf, source))
		return 0;
	return invalid(text, "source is not an IPv4 or IPv6 address, or auto");
}

static int tenant_parse(const char *text, const char *at, size_t len, struct uri *uri)
{
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)at[i]) && !memchr("-_.", at[i], 3))
			return invalid(text, "a tenant's name is of letters, digits, "
					     "'-', '_' and '.'");
	if (len == 0)
		return invalid(text, "tenant has no name");
	if (!part_copy(uri->tenant, sizeof(uri->tenant), at, len))
		return invalid(text, "the tenant's name is too long");
	return 0;
}

/* How RDMA devices are used. */
static int knob_parse(const char *text, const char *key, size_t key_len,
		      const char *value, size_t value_len, struct uri *uri)
{
	char name[OPTION_BYTES], setting[OPTION_BYTES], why[WHY_BYTES];
	int err = -ENOENT;

	if (!part_copy(setting, sizeof(setting), value, value_len))
		return invalid(text, "the value of an option is too long");
	if (part_copy(name, sizeof(name), key, key_len))
		err = fabric_rdma_options_set(&uri->devices.rdma_options, name,
					      setting);
	if (err == -ENOENT)
		return invalid(text,
			       "the options are fabric, channels, tenant, source, mtu, "
			       "traffic_class, service_level, ack_timeout, "
			       "retry_count, rnr_retry_count, rd_atomic, "
			       "relaxed_ordering, connect, gid_index and pkey");
	if (!err)
		return 0;
	(void)snprintf(why, sizeof(why), "%s: %s", name, err_text());
	return invalid(text, why);
}

/* KEY=VALUE, `len` bytes long. */
static int option_parse(const char *text, const char *at, size_t len, struct uri *uri)
{
	const char *equals = memchr(at, '=', len);
	size_t key_len = equals ? (size_t)(equals - at) : len;
	const char *value = equals ? equals + 1 : at + len;
	size_t value_len = (size_t)(at + len - value);
	uint64_t channels;

	if (is(at, key_len, "fabric"))
		return fabric_parse(text, value, value_len, uri);
	if (is(at, key_len, "source"))
		return source_parse(text, value, value_len, uri);
	if (is(at, key_len, "tenant"))
		return tenant_parse(text, value, value_len, uri);
	if (!is(at, key_len, "channels"))
		return knob_parse(text, at, key_len, value, value_len, uri);
	if (number_parse(value, value_len, RMEM_CHANNELS_MAX, &channels))
		return invalid(text, "channels is not 1 to 64");
	uri->channels = (unsigned)channels;
	return 0;
}

int uri_parse(const char *text, struct uri *ret_uri)
{
	struct uri uri = { .port = RMEM_DEFAULT_PORT,
			   .channels = 1,
			   .tenant = "default",
			   .devices = FABRIC_CLIENT_PARAMS_INIT };
	const char *at, *end;
	size_t len;
	int err;

	if (!text)
		return err_set(-EINVAL, "no URI is given");
	if (strncmp(text, SCHEME, strlen(SCHEME)) != 0)
		return invalid(text, "it does not begin with " SCHEME);
	at = text + strlen(SCHEME);
	len = strcspn(at, "?");
	end = at + len;
	if (len > 0 && at[len - 1] == '/')
		len--;
	err = authority_parse(text, at, len, &uri);
	if (err)
		return err;
	while (*end) {
		at = end + 1;
		len = strcspn(at, "&");
		end = at + len;
		err = option_parse(text, at, len, &uri);
		if (err)
			return err;
	}
	*ret_uri = uri;
	return 0;
}
