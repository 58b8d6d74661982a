/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of a lease as far as the session knows it, for rmem_lease_name() and the texts of errors.  Another session may
 * have changed it since the server's last answer. */
#ifndef LIBRMEM_LEASE_LEASE_NAME_H
#define LIBRMEM_LEASE_LEASE_NAME_H

struct rmem_lease;

#define LEASE_LABEL_BYTES 128

/* Remember the name; "": none.  Without memory the lease is shown by its number alone.  Under the
 * session's lock. */
void lease_name_set(struct rmem_lease *lease, const char *name);

/* `lease 5 ("name")`, or `lease 5`; a long name is cut.  Returns buf.  [any] */
const char *lease_label(const struct rmem_lease *lease, char buf[LEASE_LABEL_BYTES]);

#endif
