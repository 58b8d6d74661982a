/* SPDX-License-Identifier: BSD-3-Clause */
/* Bytes outside of a lease, and accesses without the right to them. */
#include <errno.h>
#include <stdio.h>

#include "attack.h"
#include "base/modular.h"
#include "link.h"
#include "peer.h"

#define ACCESSES "tenants mallory accesses_refused"
#define BYTES 4096

static void access_try(struct link *link, const char *what, enum fabric_opcode opcode,
		       struct fabric_key key, uint64_t bytes)
{
	if ((opcode == FABRIC_CAS || opcode == FABRIC_FETCH_ADD) &&
	    !link->can_atomics) {
		attempt_void(what, "the device has no atomics");
		return;
	}
	/* seen on siw: the connection ends, and no event says why */
	if (link->iwarp && opcode == FABRIC_WRITE && key.addr > UINT64_MAX - BYTES) {
		attempt_void(what, "the device refuses it without an event");
		return;
	}
	attempt(what, ACCESSES, 1);
	attempt_result(link_run(link, opcode, key, bytes), "the fabric: access");
}

static void both_try(struct link *link, const char *where, struct fabric_key key,
		     uint64_t bytes)
{
	char what[80];

	(void)snprintf(what, sizeof(what), "read %s", where);
	access_try(link, what, FABRIC_READ, key, bytes);
	(void)snprintf(what, sizeof(what), "write %s", where);
	access_try(link, what, FABRIC_WRITE, key, bytes);
}

MODULAR static struct fabric_key moved(struct fabric_key key, uint64_t by)
{
	key.addr += by;
	return key;
}

static void outside_try(struct link *link, struct fabric_key key)
{
	both_try(link, "one byte before the lease", moved(key, UINT64_MAX), 1);
	both_try(link, "across the beginning of the lease", moved(key, UINT64_MAX), 2);
	both_try(link, "one byte past the lease", moved(key, BYTES), 1);
	both_try(link, "across the end of the lease", moved(key, BYTES - 1), 2);
	both_try(link, "one byte more than the lease", key, BYTES + 1);
	both_try(link, "at the last address",
		 (struct fabric_key){ UINT64_MAX, key.rkey }, 1);
	both_try(link, "where address and length overflow",
		 (struct fabric_key){ UINT64_MAX - 3, key.rkey }, 8);
	both_try(link, "at address 0", (struct fabric_key){ 0, key.rkey }, 8);
	access_try(link, "compare and swap past the lease", FABRIC_CAS,
		   moved(key, BYTES), 8);
	access_try(link, "fetch and add before the lease", FABRIC_FETCH_ADD,
		   moved(key, UINT64_MAX - 7), 8);
	access_try(link, "fill across the end of the lease", FABRIC_FILL,
		   moved(key, BYTES - 8), 16);
	access_try(link, "checksum across the end of the lease", FABRIC_CRC,
		   moved(key, BYTES - 8), 16);
	access_try(link, "notify past the lease", FABRIC_NOTIFY, moved(key, BYTES + 1),
		   0);
	attempt("copy from past the lease", ACCESSES, 1);
	attempt_result(link_copy(link, key, moved(key, BYTES - 8), 16),
		       "the fabric: access");
}

static void read_only_try(struct link *link, struct peer *own, const char *name)
{
	struct holding lease;

	must(!peer_attach(own, "", name, WIRE_RIGHT_READ, &lease), "attach");
	must(!link_run(link, FABRIC_READ, lease.key, BYTES), "a read");
	access_try(link, "write to a lease attached for reading", FABRIC_WRITE,
		   lease.key, 1);
	access_try(link, "compare and swap there", FABRIC_CAS, lease.key, 8);
	access_try(link, "fetch and add there", FABRIC_FETCH_ADD, lease.key, 8);
	access_try(link, "fill there", FABRIC_FILL, lease.key, 8);
	attempt("copy to there", ACCESSES, 1);
	attempt_result(link_copy(link, lease.key, moved(lease.key, 8), 8),
		       "the fabric: access");
}

void attack_bounds(void)
{
	struct peer *own = peer_open("mallory"), *reader = peer_open("mallory");
	struct link *link = link_connect(own), *other = link_connect(reader);
	struct holding before = peer_allocate(own, BYTES, NULL);
	struct holding lease = peer_allocate(own, BYTES, "mallory-bounds");
	struct holding behind = peer_allocate(own, BYTES, NULL);

	must(!link_run(link, FABRIC_WRITE, lease.key, BYTES), "an own lease");
	outside_try(link, lease.key);
	read_only_try(other, reader, "mallory-bounds");
	must(!peer_free(own, before.lease) && !peer_free(own, behind.lease) &&
		     !peer_free(own, lease.lease),
	     "free");
	link_close(other);
	peer_bye(reader);
	link_close(link);
	peer_bye(own);
}
