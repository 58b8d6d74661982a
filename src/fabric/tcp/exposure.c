/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/exposure.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/random.h"

#define ADDR_MASK UINT64_C(0x00007ffffffff000)
#define PAGE_MASK UINT64_C(0xfff)

/* Addresses of the range as the client sees it are drawn at random: where the daemon has
 * its memory is none of the client's business, and one who leaves the address out of the
 * calculation is refused here as it is with RDMA.  Alignment stays as it is. */
static struct fabric_key key_new(const void *addr)
{
	return (struct fabric_key){
		.addr = (random_u64() & ADDR_MASK) | ((uintptr_t)addr & PAGE_MASK),
		.rkey = random_u64(),
	};
}

int tcp_exposure_new(struct fabric_session *session, void *addr, size_t bytes,
		     unsigned rights, void *cookie, unsigned n_threads,
		     struct fabric_exposure **ret_exposure)
{
	struct fabric_exposure *e =
		calloc(1, sizeof(*e) + n_threads * sizeof(e->seats[0]));

	if (!e)
		return err_errno(-ENOMEM, "exposing %zu bytes", bytes);
	list_init(&e->link);
	e->cookie = cookie;
	e->state = TCP_EXPOSING;
	e->session = session;
	e->key = key_new(addr);
	e->base = addr;
	e->bytes = bytes;
	e->rights = rights;
	e->news.kind = TCP_NEWS_EXPOSURE;
	e->notes_news.kind = TCP_NEWS_NOTES;
	fabric_notes_init(&e->notes);
	e->n_seats = n_threads;
	for (unsigned i = 0; i < n_threads; i++)
		e->seats[i].exposure = e;
	*ret_exposure = e;
	return 0;
}

void tcp_exposure_free(struct fabric_exposure *exposure)
{
	if (!exposure)
		return;
	fabric_notes_destroy(&exposure->notes);
	free(exposure);
}

static void seat_done(struct tcp_seat *seat, struct mailbox *news)
{
	struct fabric_exposure *e = seat->exposure;

	if (atomic_fetch_sub(&e->pending, 1) == 1)
		mailbox_post(news, &e->news.link);
}

void tcp_seat_take(struct tcp_seat *seat, struct map *table, struct mailbox *news)
{
	struct fabric_exposure *e = seat->exposure;
	int err = map_insert(table, &seat->node, map_hash_u64(e->key.rkey));

	if (err)
		atomic_store(&e->err, err);
	else
		seat->seated = true;
	seat_done(seat, news);
}

void tcp_seat_leave(struct tcp_seat *seat, struct map *table, struct mailbox *news)
{
	if (seat->seated)
		map_remove(table, &seat->node);
	seat->seated = false;
	seat_done(seat, news);
}

static struct fabric_exposure *
table_find(const struct map *table, const struct fabric_session *session, uint64_t rkey)
{
	struct map_node *node = map_find(table, map_hash_u64(rkey));

	for (; node; node = map_find_next(node)) {
		struct fabric_exposure *e =
			container_of(node, struct tcp_seat, node)->exposure;

		if (e->key.rkey == rkey && e->session == session)
			return e;
	}
	return NULL;
}

static bool range_allowed(const struct fabric_exposure *e, uint64_t addr,
			  uint32_t bytes, unsigned rights)
{
	/* an address below the range wraps to an offset far beyond it */
	uint64_t offset = addr - e->key.addr;

	return (e->rights & rights) == rights && offset <= e->bytes &&
	       bytes <= e->bytes - offset;
}

char *tcp_exposure_resolve(const struct map *table,
			   const struct fabric_session *session, uint64_t rkey,
			   uint64_t addr, uint32_t bytes, unsigned rights,
			   const struct fabric_exposure **ret_exposure)
{
	const struct fabric_exposure *e = table_find(table, session, rkey);

	if (!e || !range_allowed(e, addr, bytes, rights))
		return NULL;
	*ret_exposure = e;
	return e->base + (addr - e->key.addr);
}

bool tcp_exposure_notify(const struct map *table, const struct fabric_session *session,
			 uint64_t rkey, uint64_t addr, uint32_t value)
{
	struct fabric_exposure *e = table_find(table, session, rkey);

	if (!e || !range_allowed(e, addr, 0, FABRIC_RIGHT_WRITE))
		return false;
	if (fabric_notes_add(&e->notes, value))
		mailbox_post(e->box, &e->notes_news.link);
	return true;
}
