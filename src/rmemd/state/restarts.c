/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemd/state/restarts.h"

#include "rmemd/state/ledger.h"
#include "rmemd/state/ledger_value.h"

struct restarts_head {
	uint32_t head_bytes;
	uint32_t unused;
	uint64_t n;
};

static int restarts_read(const struct ledger_key *, const void *data, size_t bytes,
			 void *arg)
{
	struct value value = { data, bytes };
	struct restarts_head head;

	if (value_parse_head(&value, &head, sizeof(head)))
		*(uint64_t *)arg = head.n;
	return 0;
}

uint64_t restarts_get(const struct ledger *ledger)
{
	uint64_t n = 0;

	(void)ledger_each(ledger, LEDGER_RESTARTS, restarts_read, &n);
	return n;
}

int restarts_add(struct ledger *ledger)
{
	const struct ledger_key key = { .kind = LEDGER_RESTARTS };
	const struct restarts_head head = { .head_bytes = sizeof(head),
					    .n = restarts_get(ledger) + 1 };
	int err = ledger_put(ledger, &key, &head, sizeof(head));

	if (!err)
		ledger_commit(ledger);
	return err;
}
