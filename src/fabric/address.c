/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"

static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

socklen_t fabric_address_to_sockaddr(const struct fabric_address *address,
				     struct sockaddr_storage *ret_sockaddr)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(address->port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(address->port),
				    .sin6_scope_id = address->scope };

	memset(ret_sockaddr, 0, sizeof(*ret_sockaddr));
	if (address->family == 6) {
		memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
		memcpy(ret_sockaddr, &in6, sizeof(in6));
		return sizeof(in6);
	}
	memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
	memcpy(ret_sockaddr, &in, sizeof(in));
	return sizeof(in);
}

bool fabric_address_from_sockaddr(const struct sockaddr *sockaddr,
				  struct fabric_address *ret_address)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (sockaddr->sa_family != AF_INET && sockaddr->sa_family != AF_INET6)
		return false;
	/* structures with this member are compared as bytes */
	memset(ret_address, 0, sizeof(*ret_address));
	if (sockaddr->sa_family == AF_INET6) {
		memcpy(&in6, sockaddr, sizeof(in6));
		fabric_address_from_gid(in6.sin6_addr.s6_addr, ret_address);
	} else {
		memcpy(&in, sockaddr, sizeof(in));
		ret_address->family = 4;
		memcpy(ret_address->bytes, &in.sin_addr, sizeof(in.sin_addr));
	}
	return true;
}

void fabric_address_to_gid(const struct fabric_address *address, uint8_t ret_gid[16])
{
	if (address->family == 4) {
		memcpy(ret_gid, mapped, sizeof(mapped));
		memcpy(ret_gid + sizeof(mapped), address->bytes, 4);
	} else {
		memcpy(ret_gid, address->bytes, 16);
	}
}

void fabric_address_from_gid(const uint8_t gid[16], struct fabric_address *ret_address)
{
	memset(ret_address, 0, sizeof(*ret_address));
	if (!memcmp(gid, mapped, sizeof(mapped))) {
		ret_address->family = 4;
		memcpy(ret_address->bytes, gid + sizeof(mapped), 4);
	} else {
		ret_address->family = 6;
		memcpy(ret_address->bytes, gid, 16);
	}
}

bool fabric_address_is_loopback(const struct fabric_address *address)
{
	static const uint8_t loopback[16] = { [15] = 1 };

	if (address->family == 4)
		return address->bytes[0] == IN_LOOPBACKNET;
	return address->family == 6 && !memcmp(address->bytes, loopback, 16);
}

bool fabric_address_is_link_local(const struct fabric_address *address)
{
	return address->family == 6 && address->bytes[0] == 0xfe &&
	       (address->bytes[1] & 0xc0) == 0x80;
}

bool fabric_address_is_group(const struct fabric_address *address)
{
	static const uint8_t broadcast[4] = { 255, 255, 255, 255 };

	if (address->family == 4)
		return (address->bytes[0] & 0xf0) == 0xe0 ||
		       !memcmp(address->bytes, broadcast, sizeof(broadcast));
	return address->family == 6 && address->bytes[0] == 0xff;
}

bool fabric_address_host_equal(const struct fabric_address *a,
			       const struct fabric_address *b)
{
	return a->family == b->family && !memcmp(a->bytes, b->bytes, sizeof(a->bytes));
}

const char *fabric_address_host(const struct fabric_address *address,
				char buf[FABRIC_ADDRESS_TEXT])
{
	(void)strcpy(buf, "*");
	/* the buffer suffices and the family is known, so this cannot fail */
	if (address->family)
		(void)inet_ntop(address->family == 6 ? AF_INET6 : AF_INET,
				address->bytes, buf, FABRIC_ADDRESS_TEXT);
	return buf;
}

const char *fabric_address_text(const struct fabric_address *address,
				char buf[FABRIC_ADDRESS_TEXT])
{
	char host[FABRIC_ADDRESS_TEXT];

	(void)snprintf(buf, FABRIC_ADDRESS_TEXT,
		       address->family == 6 ? "[%s]:%u" : "%s:%u",
		       fabric_address_host(address, host), address->port);
	return buf;
}

int fabric_address_parse(const char *text, struct fabric_address *ret_address)
{
	struct fabric_address address = { .family = 4 };
	uint8_t gid[16];

	if (inet_pton(AF_INET, text, address.bytes) == 1)
		fabric_address_to_gid(&address, gid);
	else if (inet_pton(AF_INET6, text, gid) != 1)
		return err_set(-EINVAL, "'%s' is not an IPv4 or IPv6 address", text);
	fabric_address_from_gid(gid, ret_address);
	return 0;
}
