/* SPDX-License-Identifier: BSD-3-Clause */
/* A lease's name in a text for people: such a text goes over the wire whole only when it
 * is no longer than WIRE_NAME_MAX, and a name alone may be so long.  Threads: [any]. */
#ifndef RMEMD_LEASE_QUOTE_H
#define RMEMD_LEASE_QUOTE_H

#define QUOTE_BYTES 104

/* The name in quotes; of a long one the start and "...".  Returns buf. */
const char *quote_name(const char *name, char buf[QUOTE_BYTES]);

#endif
