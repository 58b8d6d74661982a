/* SPDX-License-Identifier: BSD-3-Clause */
#include "librmem/session/uri.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"

#define SCHEME "rmem://"
#define SETTING_MAX 31u
/* More than there are options. */
#define OPTIONS_MAX 32u

static int invalid(const char *why)
{
	return err_set(-EINVAL, "%s", why);
}

static bool host_clean(const char *host, bool bracketed)
{
	for (const char *at = host; *at; at++)
		if ((unsigned char)*at <= 0x20 || *at == 0x7f || strchr("[]/@#", *at) ||
		    (*at == ':' && !bracketed))
			return false;
	return *host != '\0';
}

/* RFC 6874 writes the % before an interface as %25; an interface may be a number. */
static bool interface_is_escaped(const char *host)
{
	const char *escape = strstr(host, "%25");

	return escape && escape[3] && !isdigit((unsigned char)escape[3]);
}

/* HOST[:PORT] */
static int authority_parse(char *text, struct uri *uri)
{
	bool bracketed = text[0] == '[';
	char *host = text + bracketed, *end = strchr(text, bracketed ? ']' : ':');
	char separator;
	uint64_t port;

	if (bracketed && !end)
		return invalid("the bracket of the IPv6 address is not closed");
	if (!bracketed && end && strchr(end + 1, ':'))
		return invalid("an IPv6 address stands in brackets, "
			       "as in rmem://[::1]:7460");
	if (!end)
		end = text + strlen(text);
	separator = end[bracketed];
	*end = '\0';
	if (strlen(host) > URI_HOST_MAX)
		return invalid("the host is too long");
	if (!host_clean(host, bracketed))
		return invalid("there is no host, or it has characters no host has");
	if (interface_is_escaped(host))
		return invalid("the interface stands behind % alone, without 25, as in "
			       "rmem://[fe80::1%eth0]:7460");
	(void)strcpy(uri->host, host);
	if (separator == '\0')
		return 0;
	if (separator != ':')
		return invalid("only a port may follow the address");
	if (units_parse_u64(end + bracketed + 1, 1, UINT16_MAX, &port))
		return invalid("the port is not 1 to 65535");
	uri->port = (uint16_t)port;
	return 0;
}

static int fabric_parse(const char *value, struct uri *uri)
{
	if (!strcmp(value, "auto"))
		uri->fabric = RMEM_FABRIC_AUTO;
	else if (!strcmp(value, "tcp"))
		uri->fabric = RMEM_FABRIC_TCP;
	else if (!strcmp(value, "rdma"))
		uri->fabric = RMEM_FABRIC_RDMA;
	else
		return invalid("fabric is auto, rdma or tcp");
	return 0;
}

static int source_parse(char *value, struct uri *uri)
{
	struct fabric_address *source = &uri->devices.source;
	size_t len = strlen(value);

	*source = (struct fabric_address){ 0 };
	if (!strcmp(value, "auto"))
		return 0;
	if (len > 1 && value[0] == '[' && value[len - 1] == ']') {
		value[len - 1] = '\0';
		value++;
	}
	if (!fabric_address_parse(value, source))
		return 0;
	return invalid("source is not an IPv4 or IPv6 address, or auto");
}

static int tenant_parse(const char *value, struct uri *uri)
{
	for (const char *at = value; *at; at++)
		if (!isalnum((unsigned char)*at) && !strchr("-_.", *at))
			return invalid("a tenant's name is of letters, digits, "
				       "'-', '_' and '.'");
	if (*value == '\0')
		return invalid("tenant has no name");
	if (strlen(value) >= sizeof(uri->tenant))
		return invalid("the tenant's name is too long");
	(void)strcpy(uri->tenant, value);
	uri->tenant_given = true;
	return 0;
}

/* Options whose value is kept as it is.  False: this is none. */
static bool text_parse(const char *name, const char *value, struct uri *uri,
		       int *ret_err)
{
	const struct {
		const char *name;
		char *to;
	} texts[] = {
		{ "psk", uri->psk },
		{ "cert", uri->cert },
		{ "key", uri->key },
		{ "ca", uri->ca },
		{ "servername", uri->servername },
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(name, texts[i].name) != 0)
			continue;
		*ret_err = 0;
		if (*value == '\0' || strlen(value) > URI_PATH_MAX)
			*ret_err = err_set(-EINVAL, "%s has 1 to %d characters", name,
					   URI_PATH_MAX);
		else
			(void)strcpy(texts[i].to, value);
		return true;
	}
	return false;
}

/* How RDMA devices are used. */
static int rdma_option_parse(const char *name, const char *value, struct uri *uri)
{
	int err;

	if (strlen(value) > SETTING_MAX)
		return err_set(-EINVAL, "the value of %.40s is too long", name);
	err = fabric_rdma_options_set(&uri->devices.rdma_options, name, value);
	if (err == -ENOENT)
		return err_set(-EINVAL,
			       "there is no option '%.40s'; the options are fabric, "
			       "channels, tenant, psk, cert, key, ca, servername, "
			       "source, and those of RDMA devices in rmem_open(3)",
			       name);
	return err ? err_prefix(-EINVAL, "%s", name) : 0;
}

static int option_parse(const char *key, char *value, struct uri *uri)
{
	uint64_t channels;
	int err;

	if (text_parse(key, value, uri, &err))
		return err;
	if (!strcmp(key, "fabric"))
		return fabric_parse(value, uri);
	if (!strcmp(key, "source"))
		return source_parse(value, uri);
	if (!strcmp(key, "tenant"))
		return tenant_parse(value, uri);
	if (strcmp(key, "channels") != 0)
		return rdma_option_parse(key, value, uri);
	if (units_parse_u64(value, 1, RMEM_CHANNELS_MAX, &channels))
		return invalid("channels is not 1 to 64");
	uri->channels = (unsigned)channels;
	return 0;
}

/* KEY=VALUE, separated by "&".  Each key is known and there once, so `keys` has room. */
static int options_parse(char *options, struct uri *uri)
{
	const char *keys[OPTIONS_MAX];
	unsigned n_keys = 0;
	char *value;

	while ((value = strsep(&options, "&"))) {
		const char *key = strsep(&value, "=");
		int err;

		if (*key == '\0')
			return invalid("an option has no name");
		if (!value)
			return err_set(-EINVAL, "the option '%.40s' has no value", key);
		for (unsigned i = 0; i < n_keys; i++)
			if (!strcmp(keys[i], key))
				return err_set(-EINVAL, "the option %s is there twice",
					       key);
		err = option_parse(key, value, uri);
		if (err)
			return err;
		keys[n_keys++] = key;
	}
	return 0;
}

/* A slash may end the host, but no path follows it. */
static int path_strip(char *authority)
{
	char *slash = strchr(authority, '/');

	if (slash && slash[1])
		return err_set(-EINVAL,
			       "it has the path \"%.40s\", and a server has none",
			       slash);
	if (slash)
		*slash = '\0';
	return 0;
}

/* Parse the part after the scheme; changes the text. */
static int parts_parse(char *options, struct uri *uri)
{
	char *authority = strsep(&options, "?");
	int err = path_strip(authority);

	if (!err)
		err = authority_parse(authority, uri);
	return err ? err : options_parse(options, uri);
}

int uri_parse(const char *text, struct uri *ret_uri)
{
	struct uri uri = { .port = RMEM_DEFAULT_PORT,
			   .channels = 1,
			   .tenant = "default",
			   .devices = FABRIC_CLIENT_PARAMS_INIT };
	char *copy;
	int err;

	if (!text)
		text = secure_getenv("RMEM_SERVER");
	if (!text || !*text)
		return err_set(-EINVAL,
			       "no server is given, and RMEM_SERVER is not set");
	copy = strdup(text);
	if (!copy)
		return err_set(-ENOMEM, "no memory for a URI");
	if (!strncmp(copy, SCHEME, strlen(SCHEME)))
		err = parts_parse(copy + strlen(SCHEME), &uri);
	else if (strstr(copy, "://"))
		err = invalid("its scheme is not " SCHEME);
	else
		err = parts_parse(copy, &uri);
	free(copy);
	if (err)
		return err_set(-EINVAL,
			       "\"%.80s\" is not [rmem://]HOST[:PORT]"
			       "[?fabric=auto|rdma|tcp&channels=N&tenant=NAME...]: %s",
			       text, err_text());
	*ret_uri = uri;
	return 0;
}
