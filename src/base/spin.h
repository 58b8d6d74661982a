/* SPDX-License-Identifier: BSD-3-Clause */
/* Adaptive spinning: whether to look again before sleeping.  A thread that sleeps is woken tens of
 * microseconds after what it waits for, which may come sooner than that.  It spins for a short time
 * if that was enough lately.  Others that need its core have it between two looks; one that keeps
 * it ends them.  Not thread-safe.
 *
 * 	found = look();
 * 	if (!found && spin_begin(&spin)) {
 * 		while (!found && spin_more(&spin))
 * 			found = look();
 * 		spin_end(&spin, found);
 * 	}
 * 	if (!found)
 * 		sleep(); */
#ifndef BASE_SPIN_H
#define BASE_SPIN_H

#include <stdbool.h>
#include <stdint.h>

/* All zero: a new one, which spins. */
struct spin {
	uint64_t begin_ns, last_ns;
	unsigned looks;
	unsigned failed;  /* waits in a row in which nothing was found */
	unsigned skipped; /* waits that still go without */
	bool shared;      /* another thread had the core at the last yield */
};

/* Nothing was found: whether to look again before sleeping. */
bool spin_begin(struct spin *spin);
/* Whether to look once more.  Other threads that wait for this core get it first. */
bool spin_more(struct spin *spin);
/* Whether it was found. */
void spin_end(struct spin *spin, bool found);

#endif
