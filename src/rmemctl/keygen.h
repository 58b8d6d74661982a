/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl keygen: a new pre-shared key, for the clients of a tenant and for the server.
 * Threads: [main]. */
#ifndef RMEMCTL_KEYGEN_H
#define RMEMCTL_KEYGEN_H

/* Write FOLDER/TENANT.psk, for the clients, and append the key to FOLDER/rmemd.psk, for the server;
 * print what to do with them.
 *   -EINVAL  the tenant cannot have this name
 *   -EEXIST  there is a TENANT.psk: a second key of a tenant needs another folder
 *   -ENOENT, -EACCES ... */
int keygen(const char *tenant, const char *folder);

#endif
