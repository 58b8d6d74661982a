/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/storage.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rmemd/system/fdstore.h"

#define FILES_MAX 16

struct file {
	uint32_t id; /* of the pool; 0: the ledger */
	int fd;
	char *content; /* kept; NULL: not */
	size_t bytes;
};

struct files {
	struct file at[FILES_MAX];
	unsigned n;
};

static struct files stored, kept;

static void add(struct files *files, uint32_t id, int fd)
{
	assert(files->n < FILES_MAX);
	files->at[files->n++] = (struct file){ .id = id, .fd = fd };
}

static struct file *find(struct files *files, uint32_t id)
{
	for (unsigned i = 0; i < files->n; i++)
		if (files->at[i].id == id)
			return &files->at[i];
	return NULL;
}

static void clear(struct files *files)
{
	while (files->n > 0) {
		struct file *file = &files->at[--files->n];

		(void)close(file->fd);
		free(file->content);
	}
}

void storage_open(void)
{
	add(&stored, 0, memfd_create("ledger", MFD_CLOEXEC));
}

void storage_close(void)
{
	clear(&stored);
	clear(&kept);
}

int storage_ledger(void)
{
	return find(&stored, 0)->fd;
}

/* The daemon dies here: what it has stored is what the next one finds. */
void storage_keep(void)
{
	struct stat stat;

	clear(&kept);
	for (unsigned i = 0; i < stored.n; i++) {
		struct file *file;

		add(&kept, stored.at[i].id, dup(stored.at[i].fd));
		file = &kept.at[i];
		assert(fstat(file->fd, &stat) == 0);
		file->bytes = (size_t)stat.st_size;
		file->content = malloc(file->bytes + 1);
		assert(file->content && pread(file->fd, file->content, file->bytes,
					      0) == (ssize_t)file->bytes);
	}
}

void storage_restore(void)
{
	clear(&stored);
	stored = kept;
	kept.n = 0;
	for (unsigned i = 0; i < stored.n; i++) {
		struct file *file = &stored.at[i];

		assert(ftruncate(file->fd, (off_t)file->bytes) == 0 &&
		       pwrite(file->fd, file->content, file->bytes, 0) ==
			       (ssize_t)file->bytes);
		free(file->content);
		file->content = NULL;
	}
}

/* ---- what the daemon calls ---- */

int fdstore_sweep(struct fdstore *, const uint32_t *ids, unsigned n_ids)
{
	for (unsigned i = 1; i < stored.n; i++) {
		unsigned k = 0;

		while (k < n_ids && ids[k] != stored.at[i].id)
			k++;
		if (k == n_ids)
			fdstore_drop_pool(NULL, stored.at[i--].id);
	}
	return 0;
}

int fdstore_find_pool(struct fdstore *, uint32_t id, int *ret_fd)
{
	const struct file *file = find(&stored, id);

	*ret_fd = file ? file->fd : 0;
	return 0;
}

int fdstore_make_pool(struct fdstore *, uint32_t, int *ret_fd)
{
	*ret_fd = 0;
	return 0;
}

void fdstore_store_pool(struct fdstore *, uint32_t id, int fd)
{
	assert(!find(&stored, id));
	add(&stored, id, fcntl(fd, F_DUPFD_CLOEXEC, 3));
}

void fdstore_drop_pool(struct fdstore *, uint32_t id)
{
	struct file *file = find(&stored, id);

	if (!file)
		return;
	(void)close(file->fd);
	*file = stored.at[--stored.n];
}
