/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/common/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"

void verbs_address_to_sockaddr(const struct fabric_address *address,
			       struct sockaddr_storage *ret_sockaddr)
{
	struct sockaddr_in in = { .sin_family = AF_INET,
				  .sin_port = htons(address->port) };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
				    .sin6_port = htons(address->port) };

	memset(ret_sockaddr, 0, sizeof(*ret_sockaddr));
	if (address->family == 6) {
		memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
		memcpy(ret_sockaddr, &in6, sizeof(in6));
	} else {
		memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
		memcpy(ret_sockaddr, &in, sizeof(in));
	}
}

const char *verbs_address_text(const struct fabric_address *address,
			       char buf[VERBS_ADDRESS_TEXT])
{
	char host[INET6_ADDRSTRLEN] = "*";

	if (address->family)
		(void)inet_ntop(address->family == 6 ? AF_INET6 : AF_INET,
				address->bytes, host, sizeof(host));
	(void)snprintf(buf, VERBS_ADDRESS_TEXT,
		       address->family == 6 ? "[%s]:%u" : "%s:%u", host, address->port);
	return buf;
}

/* Whether peers can use the interface's address; then as a fabric_address. */
static bool interface_address(const struct ifaddrs *ifa,
			      struct fabric_address *ret_address)
{
	struct fabric_address address = { 0 };
	struct sockaddr_in6 in6;
	struct sockaddr_in in;

	if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) ||
	    (ifa->ifa_flags & IFF_LOOPBACK))
		return false;
	if (ifa->ifa_addr->sa_family == AF_INET) {
		memcpy(&in, ifa->ifa_addr, sizeof(in));
		address.family = 4;
		memcpy(address.bytes, &in.sin_addr, sizeof(in.sin_addr));
	} else if (ifa->ifa_addr->sa_family == AF_INET6) {
		memcpy(&in6, ifa->ifa_addr, sizeof(in6));
		/* would need the peer's own scope to be dialled */
		if (IN6_IS_ADDR_LINKLOCAL(&in6.sin6_addr))
			return false;
		address.family = 6;
		memcpy(address.bytes, &in6.sin6_addr, sizeof(in6.sin6_addr));
	} else {
		return false;
	}
	*ret_address = address;
	return true;
}

static bool address_covers(const struct fabric_address *listen,
			   const struct fabric_address *address)
{
	static const uint8_t any[sizeof(listen->bytes)];
	size_t bytes = listen->family == 6 ? 16 : 4;

	if (!listen->family)
		return true;
	return listen->family == address->family &&
	       (!memcmp(listen->bytes, any, bytes) ||
		!memcmp(listen->bytes, address->bytes, bytes));
}

static bool address_wanted(const struct fabric_server_params *params,
			   const struct fabric_address *address)
{
	if (address_covers(&params->listen, address))
		return true;
	for (unsigned i = 0; i < params->n_also; i++)
		if (address_covers(&params->also[i], address))
			return true;
	return false;
}

int verbs_address_list(const struct fabric_server_params *params,
		       struct fabric_address **ret_addresses, size_t *ret_n)
{
	static const uint8_t families[] = { 4, 6 };
	struct fabric_address *addresses, address;
	struct ifaddrs *head;
	size_t n = 0;

	if (getifaddrs(&head))
		return err_errno(-errno, "getifaddrs");
	for (struct ifaddrs *ifa = head; ifa; ifa = ifa->ifa_next)
		n++;
	addresses = calloc(n + 1, sizeof(*addresses));
	if (!addresses) {
		freeifaddrs(head);
		return err_errno(-ENOMEM, "this host's addresses");
	}
	n = 0;
	for (size_t f = 0; f < sizeof(families); f++)
		for (struct ifaddrs *ifa = head; ifa; ifa = ifa->ifa_next) {
			if (!interface_address(ifa, &address) ||
			    address.family != families[f] ||
			    !address_wanted(params, &address))
				continue;
			address.port = params->listen.port;
			addresses[n++] = address;
		}
	freeifaddrs(head);
	*ret_addresses = addresses;
	*ret_n = n;
	return 0;
}
