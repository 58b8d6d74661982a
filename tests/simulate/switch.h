/* SPDX-License-Identifier: BSD-3-Clause */
/* Tell AddressSanitizer of a change of the stack; without it these do nothing. */
#ifndef TESTS_SIMULATE_SWITCH_H
#define TESTS_SIMULATE_SWITCH_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define SWITCH_TOLD 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SWITCH_TOLD 1
#endif
#endif

/* A stack, while it is left. */
struct switch_state {
	void *fake;
	const void *stack;
	size_t bytes;
};

#ifdef SWITCH_TOLD
#include <sanitizer/common_interface_defs.h>

/* Before the change.  from NULL: it is left for good. */
static inline void switch_leave(struct switch_state *from,
				const struct switch_state *to)
{
	__sanitizer_start_switch_fiber(from ? &from->fake : NULL, to->stack, to->bytes);
}

/* After the change, on the new stack. */
static inline void switch_arrived(struct switch_state *from)
{
	/* the first stack is learned when it is left first */
	__sanitizer_finish_switch_fiber(NULL, &from->stack, &from->bytes);
}
#else
static inline void switch_leave(struct switch_state *from,
				const struct switch_state *to)
{
	(void)from;
	(void)to;
}

static inline void switch_arrived(struct switch_state *from)
{
	(void)from;
}
#endif

#endif
