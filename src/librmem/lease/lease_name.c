/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a lease as far as the session knows it: another session may have changed it since the
 * server's last answer.  And names that the program gives. */
#include "librmem/lease/lease.h"

#include <rmem/rmem.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"

/* Bytes of a name that an error text shows. */
#define SHOWN_BYTES 64

/* Taken last, and only to change a name or to show it in the text of an error. */
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

void lease_names_reset(void)
{
	const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;

	names_lock = unlocked;
}

void lease_name_set(struct rmem_lease *lease, const char *name)
{
	char *copy, *old;

	/* only holders of the session's lock change it */
	if (strcmp(lease->name ? lease->name : "", name) == 0)
		return;
	copy = *name ? strdup(name) : NULL;
	(void)pthread_mutex_lock(&names_lock);
	old = lease->name;
	lease->name = copy;
	(void)pthread_mutex_unlock(&names_lock);
	free(old);
}

const char *lease_label(const struct rmem_lease *lease, char buf[LEASE_LABEL_BYTES])
{
	size_t n;

	(void)pthread_mutex_lock(&names_lock);
	if (lease->name) {
		n = utf8_cut(lease->name, SHOWN_BYTES);
		(void)snprintf(buf, LEASE_LABEL_BYTES, "lease %" PRIu64 " (\"%.*s\"%s)",
			       lease->id, (int)n, lease->name,
			       lease->name[n] ? "..." : "");
	} else {
		(void)snprintf(buf, LEASE_LABEL_BYTES, "lease %" PRIu64, lease->id);
	}
	(void)pthread_mutex_unlock(&names_lock);
	return buf;
}

size_t rmem_lease_name(const rmem_lease *lease, char *name, size_t bytes)
{
	const char *known;
	size_t n;

	(void)pthread_mutex_lock(&names_lock);
	known = lease->name ? lease->name : "";
	n = strlen(known);
	if (bytes > 0)
		(void)snprintf(name, bytes, "%s", known);
	(void)pthread_mutex_unlock(&names_lock);
	return n;
}

/* ---- names from the program ---- */

_Static_assert(RMEM_NAME_MAX == WIRE_NAME_MAX, "names of the API and of the wire");

int lease_name_parse(const char *name, bool given, char dst[WIRE_NAME_MAX + 1])
{
	size_t len = name ? strnlen(name, WIRE_NAME_MAX + 1) : 0;

	if (given && len == 0)
		return err_set(-EINVAL, "the name is empty");
	if (len > WIRE_NAME_MAX)
		return err_set(-EINVAL, "the name has more than %d bytes",
			       RMEM_NAME_MAX);
	if (!utf8_clean(name, len))
		return err_set(-EINVAL, "the name " UTF8_UNCLEAN);
	memcpy(dst, name, len + 1);
	return 0;
}

int lease_tenant_parse(const char *tenant, char dst[WIRE_LABEL_MAX + 1])
{
	size_t len = tenant ? strnlen(tenant, WIRE_LABEL_MAX + 1) : 0;

	if (!tenant)
		return 0;
	if (len == 0 || len > WIRE_LABEL_MAX || !utf8_clean(tenant, len))
		return err_set(-EINVAL, "tenant is not the name of one");
	memcpy(dst, tenant, len + 1);
	return 0;
}
