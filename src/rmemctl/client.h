/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the admin socket of the daemon.  Threads: [main]. */
#ifndef RMEMCTL_CLIENT_H
#define RMEMCTL_CLIENT_H

/* Of the query of a resource, with any text as value. */
struct client_parameter {
	const char *key;   /* NULL ends the parameters */
	const char *value; /* NULL: without this one */
};

/* The body of GET `resource`; a string that the caller frees.  parameters NULL: none.
 *   -ECONNREFUSED  no daemon serves the socket
 *   -EACCES        this user may not connect, or not do this
 *   -EPROTO        the HTTP status is not 200
 *   -ETIMEDOUT, -EMSGSIZE, -ENOMEM, -EIO ... ; the text has cause and remedy */
int client_get(const char *socket_path, const char *resource,
	       const struct client_parameter *parameters, char **ret_body);
/* As above, by POST: the daemon acts. */
int client_post(const char *socket_path, const char *resource,
		const struct client_parameter *parameters, char **ret_body);

/* Call on_line() for each line of the answer of GET `resource`, as it comes, without its end; a
 * result that is not 0 ends the connection, and is returned.  Returns when the daemon closes the
 * connection.
 *   -EIO        the daemon has closed the connection
 *   -ETIMEDOUT  nothing came for some time, not even an empty line
 *   as above */
int client_follow(const char *socket_path, const char *resource,
		  const struct client_parameter *parameters,
		  int (*on_line)(const char *line, void *ctx), void *ctx);

#endif
