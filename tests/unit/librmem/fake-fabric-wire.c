/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/librmem/fake-fabric-wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/crc32c.h"

struct fake fake = { .lock = PTHREAD_MUTEX_INITIALIZER };

void fake_lock(void)
{
	(void)pthread_mutex_lock(&fake.lock);
}

void fake_unlock(void)
{
	(void)pthread_mutex_unlock(&fake.lock);
}

/* Where the fake device has local memory. */
static void *local_at(const struct fabric_local_mr *mr, void *addr)
{
	return mr && mr->at_device ? mr->at_device + ((unsigned char *)addr - mr->addr)
				   : addr;
}

static void perform_sges(const struct fake_wr *wr)
{
	unsigned char *remote = (unsigned char *)(uintptr_t)wr->remote_addr;

	for (unsigned i = 0; i < wr->n_sges; i++) {
		const struct fabric_sge *sge = &wr->sges[i];
		void *local = local_at(sge->region, sge->addr);

		if (wr->opcode == FABRIC_READ)
			memcpy(local, remote, sge->bytes);
		else
			memcpy(remote, local, sge->bytes);
		remote += sge->bytes;
	}
}

static void perform_request(const struct fake_wr *wr)
{
	unsigned char *remote = (unsigned char *)(uintptr_t)wr->remote_addr;
	uint64_t pattern = wr->request.pattern;

	if (wr->opcode == FABRIC_COPY)
		memcpy(remote, (const void *)(uintptr_t)wr->request.source.addr,
		       wr->bytes);
	if (wr->opcode == FABRIC_CRC)
		*(uint32_t *)wr->addr = crc32c(0, remote, wr->bytes);
	if (wr->opcode == FABRIC_NOTIFY) {
		fake.notified = wr->request.value;
		fake.notifications++;
	}
	for (uint32_t i = 0; wr->opcode == FABRIC_FILL && i < wr->bytes; i++)
		remote[i] = ((unsigned char *)&pattern)[i % 8];
}

void wire_perform(const struct fake_wr *wr)
{
	void *remote = (void *)(uintptr_t)wr->remote_addr;

	if (wr->opcode >= FABRIC_PING) {
		perform_request(wr);
		return;
	}
	if (wr->n_sges > 0) {
		perform_sges(wr);
		return;
	}
	if (wr->opcode != FABRIC_WRITE &&
	    !(fake.lose_answers && wr->opcode != FABRIC_READ))
		memcpy(local_at(wr->mr, wr->addr), remote, wr->bytes);
	if (wr->opcode == FABRIC_CAS && *(uint64_t *)remote == wr->atomic.compare)
		*(uint64_t *)remote = wr->atomic.operand;
	if (wr->opcode == FABRIC_FETCH_ADD)
		*(uint64_t *)remote += wr->atomic.operand;
	/* a first write has neither bytes nor addresses */
	if (wr->opcode == FABRIC_WRITE && wr->bytes > 0)
		memcpy(remote, local_at(wr->mr, wr->addr), wr->bytes);
}

/* A flushed write whose packet may still arrive. */
struct fake_late {
	struct fake_late *next;
	const void *owner;
	unsigned char *remote;
	uint32_t bytes;
	unsigned char data[];
};

static void late_add(const struct fabric_channel *channel, const struct fake_wr *wr)
{
	struct fake_late *late = malloc(sizeof(*late) + wr->bytes);

	late->next = fake.late;
	late->owner = channel->owner;
	late->remote = (unsigned char *)(uintptr_t)wr->remote_addr;
	late->bytes = wr->bytes;
	memcpy(late->data, local_at(wr->mr, wr->addr), wr->bytes);
	fake.late = late;
}

void fake_apply_late(const void *owner)
{
	fake_lock();
	for (const struct fake_late *late = fake.late; late; late = late->next)
		if (late->owner == owner) {
			memcpy(late->remote, late->data, late->bytes);
			break;
		}
	fake_unlock();
}

void fake_drop_late(const void *owner)
{
	fake_lock();
	for (struct fake_late **at = &fake.late; *at;) {
		struct fake_late *late = *at;

		if (owner && late->owner != owner) {
			at = &late->next;
			continue;
		}
		*at = late->next;
		free(late);
	}
	fake_unlock();
}

/* The oldest operation; returns its status. */
static int execute(const struct fabric_channel *channel, int status)
{
	const struct fake_wr *wr = &channel->posted[0];

	if (status == 0 && fake.server && !channel->peer)
		status = -ECONNRESET;
	else if (status == 0 && fake.server && !fake.server->allows(channel, wr))
		status = -EACCES;
	if (status == 0)
		wire_perform(wr);
	else if (status == -ECONNRESET && wr->opcode == FABRIC_WRITE)
		late_add(channel, wr);
	return status;
}

void wire_complete(struct fabric_channel *channel, int status)
{
	struct fabric_cq *cq = channel->cq;

	if (channel->n == 0 || cq->n >= cq->max)
		abort();
	if (!fake.server || !fake.server->post)
		status = execute(channel, status);
	if (cq->n > 0 && cq->wcs[cq->n - 1].owner == channel->owner &&
	    cq->wcs[cq->n - 1].status == status)
		cq->wcs[cq->n - 1].n++;
	else
		cq->wcs[cq->n++] = (struct fabric_wc){
			.owner = channel->owner,
			.n = 1,
			.status = status,
			.vendor = status ? 0x99 : 0,
			.text = status ? "fake status" : NULL,
		};
	channel->n--;
	memmove(&channel->posted[0], &channel->posted[1],
		(channel->n + channel->n_put) * sizeof(channel->posted[0]));
	(void)eventfd_write(cq->fd, 1);
}

void wire_flush(struct fabric_channel *channel)
{
	while (channel->n > 0)
		wire_complete(channel, -ECONNRESET);
}

void fake_complete(struct fabric_channel *channel, int status)
{
	fake_lock();
	wire_complete(channel, status);
	fake_unlock();
}

void fake_wear_out(struct fabric_channel *channel)
{
	struct fabric_cq *cq = channel->cq;

	fake_lock();
	if (cq->n >= cq->max)
		abort();
	cq->wcs[cq->n++] =
		(struct fabric_wc){ .owner = channel->owner, .status = -ESTALE };
	fake_unlock();
}

void fake_complete_all(void)
{
	fake_lock();
	for (struct fabric_channel *ch = fake.channels; ch; ch = ch->next)
		while (ch->n > 0)
			wire_complete(ch, 0);
	fake_unlock();
}

void fake_flush(struct fabric_channel *channel)
{
	fake_lock();
	wire_flush(channel);
	fake_unlock();
}

void wire_peer_gone(struct fabric_channel *channel)
{
	channel->peer_gone = true;
	(void)eventfd_write(channel->alive_fd, 1);
}

void fake_peer_gone(struct fabric_channel *channel)
{
	fake_lock();
	if (channel->peer)
		fake.server->disconnect(channel);
	wire_peer_gone(channel);
	fake_unlock();
}
