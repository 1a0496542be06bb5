/* list.h - an intrusive circular list; its head is a node outside of any object */
#ifndef KEYHOLE_BASE_LIST_H
#define KEYHOLE_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct kh_node {
	struct kh_node *next;
	struct kh_node *prev;
};

#define kh_container_of(node, type, member) \
	((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void kh_list_init(struct kh_node *head)
{
	head->next = head->prev = head;
}

static inline bool kh_list_is_empty(const struct kh_node *head)
{
	return head->next == head;
}

static inline void kh_list_append(struct kh_node *head, struct kh_node *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

/* Does nothing if the node is in no list (zeroed, or removed before). */
static inline void kh_list_remove(struct kh_node *node)
{
	if (!node->next)
		return;
	node->prev->next = node->next;
	node->next->prev = node->prev;
	node->next = node->prev = NULL;
}

/* Moves all nodes of `from` to `to`, in their order; `from` is empty then. `to` need not be
 * initialised. */
static inline void kh_list_move(struct kh_node *from, struct kh_node *to)
{
	kh_list_init(to);
	if (kh_list_is_empty(from))
		return;
	*to = *from;
	to->next->prev = to->prev->next = to;
	kh_list_init(from);
}

static inline size_t kh_list_count(const struct kh_node *head)
{
	size_t n = 0;

	for (const struct kh_node *node = head->next; node != head; node = node->next)
		n++;
	return n;
}

static inline bool kh_list_has_node(const struct kh_node *node)
{
	return node->next != NULL;
}

#endif
