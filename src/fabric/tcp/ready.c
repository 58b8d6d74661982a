/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/ready.h"

void tcp_group_init(struct tcp_group *group, struct tcp_group *parent, bool has_streams)
{
	list_init(&group->link);
	list_init(&group->members);
	group->parent = parent;
	group->has_streams = has_streams;
	group->used_ns = group->least_ns = 0;
}

/* Let the group wait behind those that have used no more. */
static void group_enqueue(struct tcp_group *group)
{
	struct list *at = &group->parent->members;

	while (at->prev != &group->parent->members &&
	       container_of(at->prev, struct tcp_group, link)->used_ns > group->used_ns)
		at = at->prev;
	/* before `at` */
	list_append(at, &group->link);
}

void tcp_group_add(struct tcp_group *session, struct list *stream)
{
	list_append(&session->members, stream);
	for (struct tcp_group *group = session;
	     group->parent && list_empty(&group->link); group = group->parent) {
		if (group->used_ns < group->parent->least_ns)
			group->used_ns = group->parent->least_ns;
		group_enqueue(group);
	}
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
	struct tcp_group *group = thread, *member;
	struct list *stream;

	while (!group->has_streams) {
		member = list_first(&group->members, struct tcp_group, link);
		if (!member)
			return NULL;
		group->least_ns = member->used_ns;
		group = member;
	}
	stream = group->members.next;
	tcp_group_remove(group, stream);
	return stream;
}

void tcp_group_charge(struct tcp_group *session, uint64_t ns)
{
	for (struct tcp_group *group = session; group->parent; group = group->parent) {
		group->used_ns += ns;
		if (list_empty(&group->link))
			continue;
		list_remove(&group->link);
		group_enqueue(group);
	}
}
