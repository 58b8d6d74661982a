/* SPDX-License-Identifier: BSD-3-Clause */
/* fairness-lister ADDRESS CONTROL_PORT DATA_PORT SESSIONS: sessions that list the tenant's leases
 * all the time, each with one request under way.  Every second session asks for a prefix that no
 * lease has, the others read page after page. */
#include <string.h>

#include "fairness-crowd.h"

#define TURN_MS 100

static void list_ask(struct crowd *crowd, unsigned member, uint64_t after)
{
	message(WIRE_TYPE_list);
	msg.list.after = after;
	if (member % 2)
		(void)strcpy(msg.list.prefix, "none-");
	(void)crowd_post(crowd, member);
}

static void on_reply(void *ctx, unsigned member)
{
	const struct wire_entries *page = &answer.entries;
	uint64_t after = 0;

	if (answer.type == WIRE_TYPE_entries && page->more && page->n_entries)
		after = page->entries[page->n_entries - 1].lease;
	list_ask(ctx, member, after);
}

int main(int argc, char **argv)
{
	static struct crowd crowd;
	unsigned sessions;

	crowd_begin(argc, argv, "SESSIONS", 1, &sessions);
	crowd_open(&crowd, sessions);
	while (crowd_goes_on()) {
		/* at first, and after a session was lost */
		for (unsigned i = 0; i < sessions; i++)
			if (!crowd.members[i].waiting)
				list_ask(&crowd, i, 0);
		crowd_turn(&crowd, TURN_MS, on_reply, &crowd);
	}
	crowd_report(crowd.replies, crowd.refused);
	return 0;
}
