/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"
#include "fabric/status.h"

#define ADDR_MASK UINT64_C(0x00007ffffffff000)
#define PAGE_MASK UINT64_C(0xfff)

/* Two unpredictable numbers.  A system call for each would take longer than the rest of a small
 * allocation, so the kernel is asked for many at once.  A number in use is erased here. */
static int numbers_draw(uint64_t ret_numbers[2])
{
	static uint64_t numbers[32];
	static unsigned left;

	if (left == 0) {
		int err = random_bytes(numbers, sizeof(numbers));

		if (err)
			return err;
		left = sizeof(numbers) / sizeof(numbers[0]);
	}
	for (unsigned i = 0; i < 2; i++) {
		ret_numbers[i] = numbers[--left];
		numbers[left] = 0;
	}
	return 0;
}

/* The client is given a random address: it must not learn the daemon's addresses, and a client
 * that ignores the address is refused, as with RDMA.  The offset in the page is kept. */
static int key_new(const void *addr, struct fabric_key *ret_key)
{
	uint64_t numbers[2];
	int err = numbers_draw(numbers);

	if (err)
		return err;
	ret_key->addr = (numbers[0] & ADDR_MASK) | ((uintptr_t)addr & PAGE_MASK);
	ret_key->rkey = numbers[1];
	return 0;
}

int tcp_mr_new(struct fabric_session *session, void *addr, size_t bytes,
	       unsigned rights, void *cookie, unsigned n_threads,
	       struct fabric_mr **ret_mr)
{
	struct fabric_mr *mr =
		calloc(1, sizeof(*mr) + n_threads * sizeof(mr->entries[0]));
	int err;

	if (!mr)
		return err_errno(-ENOMEM, "registering %zu bytes", bytes);
	err = key_new(addr, &mr->key);
	if (err) {
		free(mr);
		return err;
	}
	list_init(&mr->link);
	mr->cookie = cookie;
	mr->session = session;
	mr->base = addr;
	mr->bytes = bytes;
	mr->rights = rights;
	fabric_notifications_init(&mr->notifications);
	mr->n_entries = n_threads;
	for (unsigned i = 0; i < n_threads; i++)
		mr->entries[i].mr = mr;
	*ret_mr = mr;
	return 0;
}

void tcp_mr_free(struct fabric_mr *mr)
{
	if (!mr)
		return;
	fabric_notifications_destroy(&mr->notifications);
	free(mr);
}

void tcp_table_init(struct tcp_table *table)
{
	/* a default mutex cannot fail to initialise */
	(void)pthread_mutex_init(&table->lock, NULL);
	map_init(&table->entries);
}

void tcp_table_destroy(struct tcp_table *table)
{
	map_destroy(&table->entries);
	(void)pthread_mutex_destroy(&table->lock);
}

int tcp_table_add(struct tcp_table *table, struct tcp_key_entry *entry)
{
	uint64_t rkey = entry->mr->key.rkey;
	int err;

	(void)pthread_mutex_lock(&table->lock);
	err = map_insert(&table->entries, &entry->node, map_hash_u64(rkey));
	(void)pthread_mutex_unlock(&table->lock);
	return err ? err_set(err, "no memory for a data thread's table") : 0;
}

void tcp_table_remove(struct tcp_table *table, struct tcp_key_entry *entry)
{
	(void)pthread_mutex_lock(&table->lock);
	map_remove(&table->entries, &entry->node);
	(void)pthread_mutex_unlock(&table->lock);
}

void tcp_key_entry_done(struct tcp_key_entry *entry, struct mailbox *loop)
{
	struct fabric_mr *mr = entry->mr;

	if (atomic_fetch_sub(&mr->pending, 1) == 1)
		mailbox_post(loop, &mr->event.link);
}

/* The region stays valid until the stream has forgotten it. */
static struct tcp_key_entry *
table_find(struct tcp_table *table, const struct fabric_session *session, uint64_t rkey)
{
	struct tcp_key_entry *found = NULL;
	struct map_node *node;

	(void)pthread_mutex_lock(&table->lock);
	node = map_find(&table->entries, map_hash_u64(rkey));
	for (; node && !found; node = map_find_next(node)) {
		struct tcp_key_entry *entry =
			container_of(node, struct tcp_key_entry, node);

		if (entry->mr->key.rkey == rkey && entry->mr->session == session)
			found = entry;
	}
	(void)pthread_mutex_unlock(&table->lock);
	return found;
}

static enum fabric_status entry_check(const struct tcp_key_entry *entry, uint64_t addr,
				      uint32_t bytes, unsigned rights)
{
	if (!entry)
		return FABRIC_STALE;
	if ((entry->mr->rights & rights) != rights)
		return FABRIC_FORBIDDEN;
	return fabric_range_inside(entry->mr->key.addr, entry->mr->bytes, addr, bytes)
		       ? FABRIC_DONE
		       : FABRIC_OUTSIDE;
}

/* No other thread writes it, so this needs no locked instruction. */
static void counter_add(_Atomic uint64_t *counter, uint64_t n)
{
	atomic_store_explicit(counter,
			      atomic_load_explicit(counter, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

enum fabric_status tcp_mr_resolve(struct tcp_table *table,
				  const struct fabric_session *session, uint64_t rkey,
				  uint64_t addr, uint32_t bytes, unsigned rights,
				  struct tcp_place *ret_place)
{
	struct tcp_key_entry *entry = table_find(table, session, rkey);
	enum fabric_status status = entry_check(entry, addr, bytes, rights);

	if (status != FABRIC_DONE)
		return status;
	counter_add(&entry->operations, 1);
	counter_add(&entry->bytes, bytes);
	*ret_place = (struct tcp_place){
		.at = entry->mr->base + (addr - entry->mr->key.addr),
		.mr = entry->mr,
	};
	return FABRIC_DONE;
}

void tcp_mr_traffic(const struct fabric_mr *mr, struct fabric_mr_traffic *sum)
{
	for (unsigned i = 0; i < mr->n_entries; i++) {
		sum->operations += atomic_load_explicit(&mr->entries[i].operations,
							memory_order_relaxed);
		sum->bytes += atomic_load_explicit(&mr->entries[i].bytes,
						   memory_order_relaxed);
	}
}

enum fabric_status tcp_mr_notify(struct tcp_table *table,
				 const struct fabric_session *session, uint64_t rkey,
				 uint64_t addr, uint32_t value)
{
	struct tcp_key_entry *entry = table_find(table, session, rkey);
	enum fabric_status status = entry_check(entry, addr, 0, FABRIC_RIGHT_WRITE);

	if (status == FABRIC_DONE &&
	    fabric_notifications_add(&entry->mr->notifications, value))
		mailbox_post(entry->mr->box, &entry->mr->notifications_event.link);
	return status;
}
