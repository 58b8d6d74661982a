/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/stage-state.h"

#include <check.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemd/state/ledger.h"

uint64_t stage_now_ms;
unsigned stage_wakes;

static int ledger_fd = -1;

static struct ledger *open_ledger(void)
{
	struct ledger *ledger;

	ck_assert_msg(ledger_open(ledger_fd, &ledger) == 0, "%s", err_text());
	return ledger;
}

struct ledger *stage_ledger_new(void)
{
	if (ledger_fd >= 0)
		ck_assert_int_eq(close(ledger_fd), 0);
	ledger_fd = memfd_create("stage-ledger", MFD_CLOEXEC);
	ck_assert_int_ge(ledger_fd, 0);
	return open_ledger();
}

struct ledger *stage_ledger_again(struct ledger *ledger)
{
	ledger_close(ledger);
	return open_ledger();
}
