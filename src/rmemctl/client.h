/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks the daemon over its admin socket.  Threads: none but main. */
#ifndef RMEMCTL_CLIENT_H
#define RMEMCTL_CLIENT_H

#include <stddef.h>

/* The body of GET `resource`; a string that the caller frees.
 *   -ECONNREFUSED  no daemon serves the socket
 *   -EACCES        this user may not
 *   -EPROTO        it answered something else than 200
 *   -ETIMEDOUT, -EMSGSIZE, -ENOMEM, -EIO ... ; all with cause and remedy in the text */
int client_get(const char *socket_path, const char *resource, char **ret_body);

#endif
