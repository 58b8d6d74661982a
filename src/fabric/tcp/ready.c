/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/ready.h"

void tcp_group_init(struct tcp_group *group, struct tcp_group *parent, bool has_streams)
{
	list_init(&group->link);
	list_init(&group->members);
	group->parent = parent;
	group->has_streams = has_streams;
}

/* Let the group and those it is in wait for their next turn, if they have members. */
static void group_requeue(struct tcp_group *group)
{
	for (; group->parent; group = group->parent) {
		list_remove(&group->link);
		if (!list_empty(&group->members))
			list_append(&group->parent->members, &group->link);
	}
}

void tcp_group_add(struct tcp_group *session, struct list *stream)
{
	list_append(&session->members, stream);
	for (struct tcp_group *group = session;
	     group->parent && list_empty(&group->link); group = group->parent)
		list_append(&group->parent->members, &group->link);
}

void tcp_group_remove(struct tcp_group *session, struct list *stream)
{
	list_remove(stream);
	for (struct tcp_group *group = session;
	     group->parent && list_empty(&group->members); group = group->parent)
		list_remove(&group->link);
}

struct list *tcp_group_take(struct tcp_group *thread)
{
	struct tcp_group *group = thread;
	struct list *stream;

	while (group && !group->has_streams)
		group = list_first(&group->members, struct tcp_group, link);
	if (!group)
		return NULL;
	stream = group->members.next;
	list_remove(stream);
	group_requeue(group);
	return stream;
}
