/* SPDX-License-Identifier: BSD-3-Clause */
/* A fake daemon whose views are constant, and a client of its admin socket: shared by the tests of
 * the admin socket. */
#ifndef TESTS_UNIT_ADMIN_STAGE_H
#define TESTS_UNIT_ADMIN_STAGE_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "rmemd/admin/admin.h"
#include "rmemd/lease/tenant.h"
#include "rmemd/pool/pools.h"
#include "unit/unit.h"

/* What the daemon shows. */
extern struct pools *pools; /* one, "a", of 1 MiB */
extern struct tenants tenants;
extern unsigned n_sessions;    /* the first is active, the others are fenced */
extern unsigned n_ephemeral;   /* leases */
extern unsigned n_holders;     /* sessions of the named lease */
extern bool named_ended;       /* the named lease has */
extern unsigned most_sessions; /* of one call of sessions_each() */
extern unsigned n_pages;       /* of leases that were made */

/* The leases that can be revoked, beside UINT64_MAX, which has no name: "data & 7" of the tenant
 * red, and one "both" of each tenant. */
#define LEASE_OF_RED 31
#define LEASE_OF_BLUE 32
/* What the daemon did.  The second reload fails. */
extern unsigned n_reloads;
extern uint64_t last_revoked;
extern uint64_t last_kicked; /* the session UINT64_MAX alone can be */

extern char directory[sizeof("/tmp/rmem-admin-XXXXXX")];
extern char path[64]; /* of the socket, below the directory */
extern struct event_base *base;
extern struct admin *admin;
extern struct admin_sources sources;

/* Whether the RDMA device is served or awaited; before, RDMA is missing. */
void device_served(bool served);

/* Checked fixtures; the socket is not open after admin_setup(). */
void admin_setup(void);
void admin_teardown(void);
void open_admin(void);
void close_admin(void);

/* A UNIX socket that is bound to the path. */
int bind_socket(void);
/* A client's descriptor, or -errno. */
int connect_client(void);
/* Send a request and run the loop until the reply is complete; returns its status. */
int request(const char *method, const char *resource);
/* The same with a header, "NAME: VALUE\r\n". */
int request_with(const char *method, const char *resource, const char *header);
extern char reply[1 << 20];
/* The body of the reply.  It is freed by the next call, or the teardown. */
json_t *body(void);
/* Request an existing resource; returns the body of the reply. */
json_t *get(const char *resource);

#endif
