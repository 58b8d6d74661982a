/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a lease as far as the session knows it.  Another session may have changed it since
 * the server's last answer. */
#include "librmem/lease/lease.h"

#include <rmem/rmem.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
