/* SPDX-License-Identifier: BSD-3-Clause */
/* The ledger: small values under keys that outlast the process, in a mapped file, usually a memfd
 * that the service manager stores.
 *
 * Changes are staged, and those since the last commit take effect together: after which
 * instruction ever the process dies, the next one finds the state of the last commit.  The ledger
 * has secrets: it is locked in memory, and in no core dump.
 *
 * Threads: one at a time.  Functions return 0 or -errno with err_text(); never logs. */
#ifndef RMEMD_LEDGER_LEDGER_H
#define RMEMD_LEDGER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#define LEDGER_VERSION 1
#define LEDGER_HELD_SHARE 4
/* Limit of a value, bytes. */
#define LEDGER_VALUE_MAX 65536

struct ledger;

struct ledger_key {
	uint32_t kind; /* of value */
	uint64_t a, b;
};

/* Open the ledger of a file; an empty file becomes a new ledger.  Borrows fd, whose file must not
 * be used by other processes meanwhile.
 *   -EPROTONOSUPPORT  a newer build wrote it
 *   -EBADMSG          it is damaged, or no ledger
 *   -ENOMEM, -ENOSPC  no memory, or no room in its file system */
int ledger_open(int fd, struct ledger **ret_ledger);
/* Staged changes are dropped; the file stays.  NULL: nothing. */
void ledger_close(struct ledger *ledger);
/* Where its file is, for error texts; borrowed. */
void ledger_set_place(struct ledger *ledger, const char *place);
/* Hold room for `bytes` of sessions and replies, which what is lent does not take.  It is
 * 1/LEDGER_HELD_SHARE of the ledger, which has its memory twice.  -ENOMEM, -ENOSPC */
int ledger_hold(struct ledger *ledger, uint64_t bytes);

/* Stage a value for a key, which replaces its former one; the same value again takes no room.
 * -ENOMEM, -ENOSPC: what was reserved for the key, if it has no value, is given up */
int ledger_put(struct ledger *ledger, const struct ledger_key *key, const void *value,
	       size_t bytes);
/* Reserve for a key: if the next put is its own, with up to `bytes`, it cannot fail, and a later
 * one only for want of room, until the key is removed.  -ENOMEM, -ENOSPC */
int ledger_reserve(struct ledger *ledger, const struct ledger_key *key, size_t bytes);
/* Stage the removal of a value, or give up what is reserved for one.  Cannot fail, as each put
 * reserves room for it. */
void ledger_remove(struct ledger *ledger, const struct ledger_key *key);
/* Staged changes take effect. */
void ledger_commit(struct ledger *ledger);

typedef int ledger_visit(const struct ledger_key *key, const void *value, size_t bytes,
			 void *arg);
/* Call each() for every value of a kind, staged or committed, in no order, until it returns
 * non-zero, and return that.  The value is borrowed until each() returns; the ledger must not
 * change meanwhile. */
int ledger_each(const struct ledger *ledger, uint32_t kind, ledger_visit *each,
		void *arg);
/* As ledger_each(), in the order of keys, and each() may change the ledger: then the value is
 * borrowed until it does.  -ENOMEM */
int ledger_walk(struct ledger *ledger, uint32_t kind, ledger_visit *each, void *arg);

struct ledger_usage {
	uint64_t bytes; /* of the values */
	/* bytes above which a lease finds no room; UINT64_MAX: no limit is known */
	uint64_t max;
};

/* How full it is, if it grows as far as its file system has room. */
struct ledger_usage ledger_usage(const struct ledger *ledger);
/* The number of keys with a value, or that are reserved. */
size_t ledger_count(const struct ledger *ledger);

#endif
