/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the admin socket share: a daemon that is nothing but what it shows, and a
 * client. */
#ifndef TESTS_UNIT_ADMIN_STAGE_H
#define TESTS_UNIT_ADMIN_STAGE_H

#include <event2/event.h>
#include <jansson.h>
#include <stddef.h>

#include "rmemd/admin/admin.h"
#include "rmemd/lease/tenant.h"
#include "rmemd/pool/pools.h"
#include "unit/unit.h"

/* What the daemon shows. */
extern struct pools *pools; /* one, "a", of 1 MiB */
extern struct tenants tenants;
extern unsigned n_sessions; /* the first is active, the others are fenced */

extern char directory[sizeof("/tmp/rmem-admin-XXXXXX")];
extern char path[64]; /* of the socket, below the directory */
extern struct event_base *base;
extern struct admin *admin;
extern struct admin_sources sources;

/* Checked fixtures. */
void base_make(void);
void base_unmake(void);
void open_admin(void);

/* A descriptor, or -errno. */
int dial(void);
/* Send a request and run the loop until the answer is complete; its status. */
int ask(const char *method, const char *resource, char *ret_answer, size_t bytes);
extern char answer[1 << 20];
/* Of the answer; the caller's. */
json_t *body(void);
/* Of a resource that there is. */
json_t *get(const char *resource);

#endif
