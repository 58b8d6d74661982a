/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon of the session: started, stopped, reloaded, and asked over its admin socket. */
#ifndef TESTS_SWEEP_SERVER_H
#define TESTS_SWEEP_SERVER_H

#include <stdbool.h>
#include <stdint.h>

/* What the session was started with. */
struct server_options {
	const char *rmemd;     /* the program */
	const char *directory; /* private, on tmpfs */
	const char *fabric;    /* tcp or rdma */
	const char *address;   /* IPv4, where it listens */
	const char *auth;      /* none or psk */
	const char *preload;   /* LD_PRELOAD of the daemon; NULL: none */
	unsigned port;         /* the first of three */
};

/* End the program: the fault was not handled. */
_Noreturn void broken(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The file of the key that the clients use too. */
#define SERVER_KEYS "keys"
void server_init(const struct server_options *options);
/* Start the daemon.  -EIO: it has ended with a clear line, which *ret_text is. */
int server_start(const char **ret_text);
/* Stop the daemon, which must end without an error. */
void server_stop(void);
/* Reload a configuration with a pool of this size.  -EIO: it says that it has changed nothing. */
int server_reload(unsigned pool_mib, const char **ret_text);
/* Ask for a resource.  Returns the status of HTTP; -EIO: the connection was closed. */
int server_get(const char *path);
/* Wait for a line of the log that begins so. */
const char *server_await(const char *begin);

#endif
