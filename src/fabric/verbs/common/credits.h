/* SPDX-License-Identifier: BSD-3-Clause */
/* How many in-band requests a channel may have without an answer: both sides keep receives
 * for so many.  Part of the protocol. */
#ifndef FABRIC_VERBS_COMMON_CREDITS_H
#define FABRIC_VERBS_COMMON_CREDITS_H

#define VERBS_CREDITS 8u

#endif
