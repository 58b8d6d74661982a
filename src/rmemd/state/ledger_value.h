/* SPDX-License-Identifier: BSD-3-Clause */
/* The daemon's values in the ledger.  A value has a head, which is a structure that begins with its
 * own length as a uint32_t, then rows and texts.  A later build adds members at the end of a head;
 * they read as zero from what an older one wrote.  Threads: [any]. */
#ifndef RMEMD_LEDGER_VALUE_H
#define RMEMD_LEDGER_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ledger_key;

/* The kinds of keys.  A number keeps its meaning once a release has written it. */
enum ledger_kind {
	LEDGER_POOL = 1,       /* pool id */
	LEDGER_LEASE = 2,      /* lease id */
	LEDGER_ATTACHMENT = 3, /* session id, lease id */
	LEDGER_SESSION = 4,    /* session id */
	LEDGER_REPLY = 5,      /* session id, request id */
	LEDGER_IDS = 6,        /* ids that are not used again */
	LEDGER_RESTARTS = 7,   /* one key */
};

/* Sessions and leases have no larger ids: JSON carries these exactly. */
#define LEDGER_ID_MAX (UINT64_C(1) << 53)

/* Append to a value that ends at `end` and has room for it; returns its new end. */
char *value_add(char *end, const void *data, size_t bytes);
/* The text, cut after `max` bytes, and a zero. */
char *value_add_text(char *end, const char *text, size_t max);

/* The part of a value that is not parsed yet. */
struct value {
	const char *at;
	size_t left;
};

/* The head, as far as its writer knew it; the rest of it is zero.  False: there is none. */
bool value_parse_head(struct value *value, void *head, size_t bytes);
/* -EBADMSG: the key's value is not what it is said to be. */
int value_malformed(const char *what, const struct ledger_key *key);
/* `bytes` bytes.  False: there are fewer. */
bool value_parse(struct value *value, void *data, size_t bytes);
/* A text of at most `max` bytes, in the value.  NULL: there is none. */
const char *value_parse_text(struct value *value, size_t max);

#endif
