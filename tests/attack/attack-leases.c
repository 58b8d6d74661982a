/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests about leases of others, and requests without the right to them. */
#include <errno.h>
#include <stdio.h>

#include "attack.h"
#include "link.h"
#include "peer.h"

#define STALE "status counters requests_refused stale"
#define MISSING "status counters requests_refused missing"
#define NAME "red-secret"

static void ask_try(struct peer *peer, const char *what, const char *counter)
{
	attempt(what, counter, 1);
	attempt_result(peer_ask(peer), "the server: request");
}

/* By its number, as a session that has not attached it. */
static void by_id_try(struct peer *own, uint64_t lease)
{
	struct wire_msg *msg = &own->msg;

	peer_message(own, WIRE_TYPE_free);
	msg->free.lease = lease;
	ask_try(own, "free another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_attach);
	msg->attach.lease = lease;
	ask_try(own, "attach another tenant's lease by number", STALE);
	peer_message(own, WIRE_TYPE_detach);
	msg->detach.lease = lease;
	ask_try(own, "detach another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_renew);
	msg->renew.lease = lease;
	msg->renew.ttl_ms = 1;
	ask_try(own, "shorten the time of another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_rename);
	msg->rename.lease = lease;
	(void)strcpy(msg->rename.name, "mallory-stolen");
	ask_try(own, "rename another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_resize);
	msg->resize.lease = lease;
	msg->resize.bytes = 1;
	ask_try(own, "shrink another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_share);
	msg->share.lease = lease;
	msg->share.rights = 3;
	(void)strcpy(msg->share.tenant, "mallory");
	ask_try(own, "share another tenant's lease with oneself", STALE);
	msg->share.rights = 0;
	ask_try(own, "end a share of another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_watch);
	msg->watch.lease = lease;
	ask_try(own, "wait for notifications of another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_unwatch);
	msg->unwatch.lease = lease;
	ask_try(own, "end the notifications of another tenant's lease", STALE);
	peer_message(own, WIRE_TYPE_fix_atomic_device);
	msg->fix_atomic_device.lease = lease;
	ask_try(own, "fix the device of another tenant's lease", STALE);
}

static void by_name_try(struct peer *own)
{
	static const char denied[] = "tenants mallory denied_shares";

	attempt("attach another tenant's lease by name", MISSING, 1);
	attempt_result(peer_attach(own, "", NAME, 1, NULL), "the server: request");
	attempt("attach it by name and tenant, without a share", denied, 1);
	attempt_result(peer_attach(own, "red", NAME, 1, NULL), "the server: request");
	peer_message(own, WIRE_TYPE_stat);
	(void)strcpy(own->msg.stat.name, NAME);
	ask_try(own, "describe another tenant's lease", MISSING);
	(void)strcpy(own->msg.stat.tenant, "red");
	ask_try(own, "describe it by name and tenant, without a share", denied);
	peer_message(own, WIRE_TYPE_remove);
	(void)strcpy(own->msg.remove.name, NAME);
	ask_try(own, "remove another tenant's lease by name", MISSING);
	peer_message(own, WIRE_TYPE_list);
	must(!peer_ask(own), "list");
	for (unsigned i = 0; i < own->answer.entries.n_entries; i++)
		must(strncmp(own->answer.entries.entries[i].name, "mallory", 7) == 0,
		     "the list has another tenant's lease");
}

/* What a share for reading does not allow. */
static void shared_try(struct peer *own, struct peer *victim, uint64_t lease)
{
	static const char denied[] = "tenants mallory denied_shares";
	static const char refused[] = "status counters requests_refused denied";
	struct wire_msg *msg = &own->msg;
	struct holding share;

	must(!peer_share(victim, lease, "mallory", WIRE_RIGHT_READ), "share");
	attempt("attach a lease shared for reading to write", denied, 1);
	attempt_result(peer_attach(own, "red", NAME, 3, NULL), "the server: request");
	must(!peer_attach(own, "red", NAME, WIRE_RIGHT_READ, &share), "attach");
	peer_message(own, WIRE_TYPE_free);
	msg->free.lease = lease;
	ask_try(own, "free a lease that is shared", refused);
	peer_message(own, WIRE_TYPE_resize);
	msg->resize.lease = lease;
	msg->resize.bytes = 1;
	ask_try(own, "shrink a lease that is shared", refused);
	peer_message(own, WIRE_TYPE_rename);
	msg->rename.lease = lease;
	(void)strcpy(msg->rename.name, "mallory-stolen");
	ask_try(own, "rename a lease that is shared", refused);
	attempt("share further a lease that is shared", refused, 1);
	attempt_result(peer_share(own, lease, "narrow", 1), "the server: request");
	must(!peer_share(victim, lease, "mallory", 0), "unshare");
	attempt("attach again after the share has ended", denied, 1);
	attempt_result(peer_attach(own, "red", NAME, 1, NULL), "the server: request");
}

static void rights_try(void)
{
	static const char access[] = "tenants reader denied_access";
	struct peer *reader = peer_open("reader"), *narrow = peer_open("narrow");

	peer_message(reader, WIRE_TYPE_allocate);
	reader->msg.allocate.bytes = 4096;
	reader->msg.allocate.node = -1;
	ask_try(reader, "allocate as a tenant that may only read", access);
	peer_message(narrow, WIRE_TYPE_allocate);
	narrow->msg.allocate.bytes = 4096;
	narrow->msg.allocate.node = -1;
	(void)strcpy(narrow->msg.allocate.name, "broad");
	ask_try(narrow, "allocate with a name outside of `names`",
		"tenants narrow denied_names");
	(void)strcpy(narrow->msg.allocate.name, "narrow/..");
	narrow->msg.allocate.bytes = 32 << 20;
	ask_try(narrow, "allocate more than the pools in `pools` have",
		"tenants narrow denied_pools");
	narrow->msg.allocate.bytes = 4096;
	must(!peer_ask(narrow), "allocate with an allowed name");
	peer_message(narrow, WIRE_TYPE_rename);
	narrow->msg.rename.lease = narrow->answer.lease.lease;
	(void)strcpy(narrow->msg.rename.name, NAME);
	ask_try(narrow, "rename to a name outside of `names`",
		"tenants narrow denied_names");
	must(!peer_free(narrow, narrow->msg.rename.lease), "free");
	peer_bye(narrow);
	peer_bye(reader);
}

static void own_kept_try(struct peer *victim, uint64_t lease)
{
	struct peer *reader = peer_open("reader");

	/* the share allows more than the tenant may have */
	must(!peer_share(victim, lease, "reader", 3), "share");
	attempt("attach to write as a tenant that may only read",
		"tenants reader denied_access", 1);
	attempt_result(peer_attach(reader, "red", NAME, 3, NULL),
		       "the server: request");
	peer_bye(reader);
}

void attack_leases(void)
{
	struct peer *own = peer_open("mallory"), *victim = peer_open("red");
	struct holding lease = peer_allocate(victim, 4096, NAME);

	own_kept_try(victim, lease.lease);
	by_id_try(own, lease.lease);
	by_name_try(own);
	shared_try(own, victim, lease.lease);
	rights_try();
	must(!peer_free(victim, lease.lease), "free");
	peer_bye(victim);
	peer_bye(own);
}
