/* SPDX-License-Identifier: BSD-3-Clause */
/* Intrusive doubly linked list.  The head is a separate node; an unlinked node points
 * at itself, so it can be removed again.  Not thread-safe. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* GCC 12 assumes that a head accessed as a member of its structure does not alias the head
 * accessed through its neighbours, and keeps stale values of it.  may_alias prevents that. */
struct __attribute__((__may_alias__)) list {
	struct list *next, *prev;
};

/* The structure of `type` whose `member` is at `ptr`. */
#define container_of(ptr, type, member) \
	((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#define LIST_INIT(name) { &(name), &(name) }

static inline void list_init(struct list *node)
{
	node->next = node->prev = node;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

/* Move a node, which may be in another list, to the end of `head`. */
static inline void list_move(struct list *head, struct list *node)
{
	list_remove(node);
	list_append(head, node);
}

/* Move all nodes of `from` to the end of `head`. */
static inline void list_splice(struct list *head, struct list *from)
{
	if (list_empty(from))
		return;
	from->next->prev = head->prev;
	head->prev->next = from->next;
	from->prev->next = head;
	head->prev = from->prev;
	list_init(from);
}

#define list_first(head, type, member) \
	(list_empty(head) ? NULL : container_of((head)->next, type, member))

#define list_last(head, type, member) \
	(list_empty(head) ? NULL : container_of((head)->prev, type, member))

/* The structure behind that of `entry`, or NULL. */
#define list_next(entry, head, type, member) \
	((entry)->member.next == (head)      \
		 ? NULL                      \
		 : container_of((entry)->member.next, type, member))

/* `node` may be removed and freed in the body. */
#define list_for_each_safe(node, head)                                    \
	for (struct list *node = (head)->next, *node##_next = node->next; \
	     node != (head); node = node##_next, node##_next = node->next)

/* Each structure of `type` whose `member` is in the list. */
#define list_for_each_entry(type, entry, head, member)            \
	for (type *entry = list_first(head, type, member); entry; \
	     entry = list_next(entry, head, type, member))

/* `entry` may be removed and freed in the body. */
#define list_for_each_entry_safe(type, entry, head, member)                        \
	for (type *entry = list_first(head, type, member), *entry##_next;          \
	     entry && (entry##_next = list_next(entry, head, type, member), true); \
	     entry = entry##_next)

#endif
