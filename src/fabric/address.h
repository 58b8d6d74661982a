/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a host or of one of its ports; as a socket address, as a GID and as text.
 * Threads: [any]. */
#ifndef FABRIC_ADDRESS_H
#define FABRIC_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

struct fabric_address {
	uint8_t family;    /* 4 or 6; 0: any address of both families */
	uint8_t bytes[16]; /* network order; an IPv4 address takes the first 4 */
	uint16_t port;     /* host order */
	/* client, link-local IPv6: index of the interface that leads to it; else 0 */
	uint32_t scope;
};

/* Longest "[address]:port" with its terminator. */
#define FABRIC_ADDRESS_TEXT 64

/* Family 4 or 6; returns the length of the socket address. */
socklen_t fabric_address_to_sockaddr(const struct fabric_address *address,
				     struct sockaddr_storage *ret_sockaddr);
/* Without the port; an IPv4 address that is mapped into IPv6 is one of IPv4.  False: not an IP
 * address. */
bool fabric_address_from_sockaddr(const struct sockaddr *sockaddr,
				  struct fabric_address *ret_address);

/* Whether it is the wildcard of its family. */
static inline bool fabric_address_is_any(const struct fabric_address *address)
{
	static const uint8_t zeros[sizeof(address->bytes)];

	return memcmp(address->bytes, zeros, sizeof(zeros)) == 0;
}

/* A GID has the form of an IPv6 address; an IPv4 address is mapped into IPv6. */
void fabric_address_to_gid(const struct fabric_address *address, uint8_t ret_gid[16]);
void fabric_address_from_gid(const uint8_t gid[16], struct fabric_address *ret_address);

bool fabric_address_is_loopback(const struct fabric_address *address);
/* fe80::/10 */
bool fabric_address_is_link_local(const struct fabric_address *address);
/* A multicast address, or the broadcast address of IPv4: of many hosts. */
bool fabric_address_is_group(const struct fabric_address *address);
/* The addresses are of one host; ports and scopes may differ. */
bool fabric_address_host_equal(const struct fabric_address *a,
			       const struct fabric_address *b);

/* Parse an IPv4 or IPv6 address, or a GID that contains one, without port.  -EINVAL. */
int fabric_address_parse(const char *text, struct fabric_address *ret_address);
/* "192.0.2.1", "2001:db8::1", "*" for family 0; returns buf. */
const char *fabric_address_host(const struct fabric_address *address,
				char buf[FABRIC_ADDRESS_TEXT]);
/* "192.0.2.1:7000", "[2001:db8::1]:7000", "*:7000" for family 0; returns buf. */
const char *fabric_address_text(const struct fabric_address *address,
				char buf[FABRIC_ADDRESS_TEXT]);

#endif
