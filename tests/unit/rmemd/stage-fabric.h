/* SPDX-License-Identifier: BSD-3-Clause */
/* A fabric without bytes: mrs and sessions whose news are delivered when and in the
 * order a test wants.  It fails a test that breaks the contract of fabric.h. */
#ifndef TESTS_UNIT_STAGE_FABRIC_H
#define TESTS_UNIT_STAGE_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/fabric.h"

extern const struct fabric_server_ops fake_fabric;
/* The same, which needs no news where it can do without. */
extern const struct fabric_server_ops fake_fabric_now;
/* What was known of the client's end that was joined last. */
extern bool fake_fabric_own;

/* Forget everything; fails when anything is left. */
void fake_fabric_check_empty(void);
/* Forget what is left, as close() does. */
void fake_fabric_close(void);

/* The next `after` calls of expose succeed, the one behind them fails at once with err. */
void fake_fabric_fail_call(unsigned after, int err);
/* The same for the news of an mr. */
void fake_fabric_fail_news(unsigned after, int err);
void fake_fabric_fail_session(int err);
/* The device does not release channels that are closed; 0: it does. */
void fake_fabric_keep_channels(int err);

/* Each `turn`th key, or none (0), is in use when fake_fabric_now is to withdraw it: it has news
 * then. */
void fake_fabric_use(unsigned turn);

/* Its client notifies through this key.  False: it does not work, or not for writing. */
bool fake_fabric_notify(uint64_t rkey, uint32_t value, uint32_t lost);

/* Deliver one piece of news, chosen by `pick` from those that may come next; false when
 * there is none. */
bool fake_fabric_step(unsigned pick);
/* Deliver everything, the oldest first. */
void fake_fabric_settle(void);

/* Exposures whose key works, or may work: pending, live, being withdrawn. */
unsigned fake_fabric_alive(void);
unsigned fake_fabric_sessions(void);
/* Whether some key reaches into [addr, addr + bytes). */
bool fake_fabric_reaches(const void *addr, size_t bytes);
/* Whether the key works now, for this many bytes. */
bool fake_fabric_key_works(uint64_t rkey, uint64_t bytes);

#endif
