/* SPDX-License-Identifier: BSD-3-Clause */
/* Network interfaces of the fake host. */
#include "unit/fabric/verbs/verbs-fake-state.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static const struct {
	const char *name, *address;
	unsigned flags;
} interfaces[] = {
	{ "lo", "127.0.0.1", IFF_UP | IFF_LOOPBACK },
	{ "eth0", "192.168.7.7", IFF_UP },
	{ "r0", "fe80::1", IFF_UP },
	{ "r0", "fd00::1", IFF_UP },
	{ "r0", "10.1.0.1", IFF_UP },
	{ "r1", "10.2.0.1", IFF_UP },
	{ "r2", "10.3.0.1", 0 },
};
#define INTERFACES (sizeof(interfaces) / sizeof(interfaces[0]))

int getifaddrs(struct ifaddrs **ret)
{
	static struct ifaddrs list[INTERFACES];
	static struct sockaddr_storage addrs[INTERFACES];
	static char names[INTERFACES][8];

	if (fake_fails("getifaddrs")) {
		errno = ENOMEM;
		return -1;
	}
	for (size_t i = 0; i < INTERFACES; i++) {
		struct sockaddr_in in = { .sin_family = AF_INET };
		struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };

		const char *address = interfaces[i].address;

		if (verbs_fake.address_changed && !strcmp(address, "10.1.0.1"))
			address = "10.1.0.9";
		if (inet_pton(AF_INET, address, &in.sin_addr) == 1)
			memcpy(&addrs[i], &in, sizeof(in));
		else if (inet_pton(AF_INET6, address, &in6.sin6_addr) == 1)
			memcpy(&addrs[i], &in6, sizeof(in6));
		(void)snprintf(names[i], sizeof(names[i]), "%s", interfaces[i].name);
		list[i] = (struct ifaddrs){
			.ifa_next = i + 1 < INTERFACES ? &list[i + 1] : NULL,
			.ifa_name = names[i],
			.ifa_flags = interfaces[i].flags,
			.ifa_addr = (struct sockaddr *)(void *)&addrs[i],
		};
	}
	*ret = list;
	fake_live_add(1);
	return 0;
}

void freeifaddrs(struct ifaddrs *ifa)
{
	(void)ifa;
	fake_live_add(-1);
}
