/* SPDX-License-Identifier: BSD-3-Clause */
/* The server's side of the fake fabric, without clients: the test chooses which calls fail, when
 * events come, and in which order. */
#ifndef TESTS_UNIT_STAGE_FABRIC_H
#define TESTS_UNIT_STAGE_FABRIC_H

#include "unit/librmem/fake-server.h"

/* The server of all sessions. */
struct fabric_server *fake_fabric_server(void);
/* Before the first call of the daemon.  Every registration and deregistration has an event, or keys
 * live and die without one. */
void fake_fabric_begin(bool without_events);
/* fabric_qp_info.gid_verified of the queue pair that was connected last. */
extern bool fake_fabric_gid_verified;
/* The test reports when a channel is connected directly. */
extern bool fake_fabric_hold_connect;

/* Fail if an mr or a session is left; reset. */
void fake_fabric_check_empty(void);
/* As close(): free all mrs and sessions without events; reset. */
void fake_fabric_close(void);

/* `after` registrations succeed, then one call fails with err. */
void fake_fabric_fail_reg(unsigned after, int err);
/* `after` registrations succeed, then the event of one has err. */
void fake_fabric_fail_event(unsigned after, int err);
/* Opening a session fails with err; 0: succeeds. */
void fake_fabric_fail_session(int err);
/* Closing a channel fails with err; 0: succeeds. */
void fake_fabric_keep_channels(int err);
/* Without events every n-th deregistration has one, as for a key in use; 0: none. */
void fake_fabric_keep_keys(unsigned n);

/* A client notifies through this key.  False: the key does not exist or has no right to
 * write. */
bool fake_fabric_notify(uint64_t rkey, uint32_t value, uint32_t lost);

/* Deliver the event number `pick`, modulo their number, of those that may come next;
 * false if there is none. */
bool fake_fabric_step(unsigned pick);
/* Deliver all events, the oldest first. */
void fake_fabric_settle(void);

/* The number of mrs, whether pending, live or dying; and of sessions. */
unsigned fake_fabric_alive(void);
unsigned fake_fabric_sessions(void);
/* Until when the fabric applies what the session opened last sends; 0: not limited yet. */
uint64_t fake_fabric_until_ns(void);
/* Whether an mr overlaps [addr, addr + bytes). */
bool fake_fabric_reaches(const void *addr, size_t bytes);
/* Whether the key is live and reaches this number of bytes. */
bool fake_fabric_key_works(uint64_t rkey, uint64_t bytes);

#endif
