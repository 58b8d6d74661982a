/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem://HOST[:PORT][?fabric=auto|rdma|tcp&channels=N&tenant=NAME&...]; each option at
 * most once; the other options name files of keys and certificates, or say how RDMA devices are
 * used.  Threads: [any]. */
#ifndef LIBRMEM_SESSION_URI_H
#define LIBRMEM_SESSION_URI_H

#include <rmem/rmem.h>

#include "fabric/client.h"
#include "wire/msg.h"

#define URI_HOST_MAX 255
#define URI_PATH_MAX 255

struct uri {
	char host[URI_HOST_MAX + 1]; /* without the brackets of an IPv6 address */
	uint16_t port;
	enum rmem_fabric fabric;
	unsigned channels;
	struct fabric_client_params devices;
	char tenant[WIRE_LABEL_MAX + 1];
	bool tenant_given;
	/* credentials; "": not given */
	char psk[URI_PATH_MAX + 1]; /* paths of files */
	char cert[URI_PATH_MAX + 1];
	char key[URI_PATH_MAX + 1];
	char ca[URI_PATH_MAX + 1];
	char servername[URI_PATH_MAX + 1]; /* in the server's certificate */
};

/* -EINVAL  the text says what is wrong and where */
int uri_parse(const char *text, struct uri *ret_uri);

#endif
