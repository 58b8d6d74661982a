/* SPDX-License-Identifier: BSD-3-Clause */
/* What must outlast the process: small values under keys, in a mapped file, as a rule a memfd
 * that the service manager keeps.
 *
 * Changes are staged, and those since the last commit take effect together: whenever the
 * process dies, between whichever two instructions, the next one finds what was committed
 * last, no more and no less.  It holds secrets: it is locked, and in no core dump.
 *
 * Threads: one at a time.  Functions return 0 or -errno with err_text(); never logs. */
#ifndef RMEMD_LEDGER_LEDGER_H
#define RMEMD_LEDGER_LEDGER_H

#include <stddef.h>
#include <stdint.h>

#define LEDGER_VERSION 1
/* Of a value, bytes. */
#define LEDGER_VALUE_MAX 65536

struct ledger;

struct ledger_key {
	uint32_t kind; /* of value */
	uint64_t a, b;
};

/* Take over what is in the file, an empty one becomes a new ledger; borrows fd, whose file
 * must not be used by others meanwhile.
 *   -EPROTONOSUPPORT  a newer build wrote it
 *   -EBADMSG          it is damaged, or something else
 *   -ENOMEM, -ENOSPC  no memory, or room in its file system */
int ledger_open(int fd, struct ledger **ret_ledger);
/* What is staged is forgotten; the file stays.  NULL: nothing. */
void ledger_close(struct ledger *ledger);

/* Stage a value for a key, in place of what it had.  -ENOMEM, -ENOSPC */
int ledger_put(struct ledger *ledger, const struct ledger_key *key, const void *value,
	       size_t bytes);
/* Have room for a value of so many bytes: the next put of no more, for a key that has a value,
 * does not fail.  -ENOMEM, -ENOSPC */
int ledger_reserve(struct ledger *ledger, size_t bytes);
/* Stage that a key has none.  Cannot fail, as each put keeps room for it. */
void ledger_remove(struct ledger *ledger, const struct ledger_key *key);
/* All that is staged takes effect. */
void ledger_commit(struct ledger *ledger);

/* Call each() for every value of a kind, staged or committed, in no order, until it returns
 * non-zero, and return that.  The value is borrowed until each() returns; the ledger must not
 * change meanwhile. */
int ledger_each(const struct ledger *ledger, uint32_t kind,
		int (*each)(const struct ledger_key *key, const void *value,
			    size_t bytes, void *arg),
		void *arg);

/* How many keys have a value, and how large the file is. */
size_t ledger_count(const struct ledger *ledger);
uint64_t ledger_file_bytes(const struct ledger *ledger);

#endif
