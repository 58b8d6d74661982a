/* SPDX-License-Identifier: BSD-3-Clause */
#include "simulate/keys.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rmemd/control/auth.h"
#include "simulate/daemon.h"
#include "simulate/fds.h"
#include "tls/context_use.h"
#include "tls/stream.h"

/* Keys that a tenant has at once. */
#define KEYS_MAX 3u
/* In which a client whose key was removed comes back with another one. */
#define REMOVED_NS (2000 * SIM_MS)
#define LINE_BYTES 96

/* A tenant's keys have numbers; the daemon accepts those from the oldest to the newest. */
struct range {
	unsigned oldest, newest;
};

static struct range written[DAEMON_TENANTS], loaded[DAEMON_TENANTS];
static uint64_t removed_ns[DAEMON_TENANTS];
static unsigned given[SIM_CLIENTS];                    /* in the clients' files */
static char opened[SIM_CLIENTS][TLS_IDENTITY_MAX + 1]; /* of the last session */
static bool used;

/* ---- files ---- */

static struct file {
	int fd;
	char path[40];
} daemon_file, files[SIM_CLIENTS];

static void file_open(struct file *file)
{
	file->fd = memfd_create("keys", MFD_CLOEXEC);
	if (file->fd < 0 || fchmod(file->fd, 0600))
		sim_fail("no file for keys");
	(void)snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

static int key_line(char line[LINE_BYTES], unsigned tenant, unsigned number)
{
	return snprintf(line, LINE_BYTES, "%s:%032x%032x\n", daemon_tenants[tenant],
			tenant + 1, number + 1);
}

static void file_write(const struct file *file, unsigned from_tenant, unsigned n,
		       const struct range *ranges)
{
	char line[LINE_BYTES];
	off_t at = 0;

	if (ftruncate(file->fd, 0))
		sim_fail("a file of keys cannot be cut");
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = ranges[i].oldest; k <= ranges[i].newest; k++) {
			int bytes = key_line(line, from_tenant + i, k);

			if (pwrite(file->fd, line, (size_t)bytes, at) != bytes)
				sim_fail("a file of keys cannot be written");
			at += bytes;
		}
}

static unsigned tenant_of(unsigned client)
{
	return client % DAEMON_TENANTS;
}

/* The client gets its tenant's newest key. */
static void hand_out(unsigned client)
{
	unsigned newest = written[tenant_of(client)].newest;
	const struct range one = { newest, newest };

	given[client] = newest;
	file_write(&files[client], tenant_of(client), 1, &one);
}

void keys_init(void)
{
	memset(written, 0, sizeof(written));
	memset(loaded, 0, sizeof(loaded));
	memset(removed_ns, 0, sizeof(removed_ns));
	memset(opened, 0, sizeof(opened));
	used = sim_chance(2);
	if (!used)
		return;
	file_open(&daemon_file);
	file_write(&daemon_file, 0, DAEMON_TENANTS, written);
	for (unsigned i = 0; i < SIM_CLIENTS; i++) {
		file_open(&files[i]);
		hand_out(i);
	}
}

void keys_end(void)
{
	if (!used)
		return;
	(void)close(daemon_file.fd);
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		(void)close(files[i].fd);
}

bool keys_used(void)
{
	return used;
}

const char *keys_daemon_path(void)
{
	return daemon_file.path;
}

const char *keys_client_path(unsigned client)
{
	return files[client].path;
}

/* ---- changes ---- */

/* An administrator in a hurry does not wait for all clients. */
static bool may_remove(unsigned tenant)
{
	for (unsigned i = tenant; i < SIM_CLIENTS; i += DAEMON_TENANTS)
		if (given[i] != written[tenant].newest)
			return sim_chance(4);
	return true;
}

static void rotate(unsigned tenant)
{
	struct range *range = &written[tenant];
	unsigned client =
		tenant +
		DAEMON_TENANTS * (unsigned)sim_random(SIM_CLIENTS / DAEMON_TENANTS);

	switch (sim_random(4)) {
	case 0:
		if (range->newest - range->oldest + 1 < KEYS_MAX)
			range->newest++;
		break;
	case 1:
		sim_note("client %u gets key %u", client, range->newest);
		hand_out(client);
		break;
	case 2:
		for (unsigned i = tenant; i < SIM_CLIENTS; i += DAEMON_TENANTS)
			hand_out(i);
		break;
	default:
		if (may_remove(tenant))
			range->oldest = range->newest;
		break;
	}
	sim_note("the keys of tenant %s are %u to %u", daemon_tenants[tenant],
		 range->oldest, range->newest);
}

void keys_step(void)
{
	if (!used)
		return;
	rotate((unsigned)sim_random(DAEMON_TENANTS));
	file_write(&daemon_file, 0, DAEMON_TENANTS, written);
}

void keys_heal(void)
{
	if (!used)
		return;
	for (unsigned i = 0; i < SIM_CLIENTS; i++)
		hand_out(i);
	for (unsigned i = 0; i < DAEMON_TENANTS; i++)
		written[i].oldest = written[i].newest;
	file_write(&daemon_file, 0, DAEMON_TENANTS, written);
}

void keys_loaded(void)
{
	for (unsigned i = 0; i < DAEMON_TENANTS; i++)
		if (loaded[i].oldest != written[i].oldest)
			removed_ns[i] = sim_now_ns;
	memcpy(loaded, written, sizeof(loaded));
}

bool keys_disturb(unsigned client)
{
	unsigned tenant = tenant_of(client);

	return used && (given[client] < loaded[tenant].oldest ||
			given[client] > loaded[tenant].newest ||
			sim_now_ns - removed_ns[tenant] < REMOVED_NS);
}

bool keys_removed(unsigned client)
{
	return used && *opened[client] &&
	       !tls_context_has_key(daemon_control.tls, opened[client]);
}

/* ---- what the daemon calls ---- */

int __real_auth_check(const struct control *control, const struct stream *stream,
		      const char *tenant);
int __wrap_auth_check(const struct control *control, const struct stream *stream,
		      const char *tenant);

/* A hello; later looks of auth.c itself do not come here. */
int __wrap_auth_check(const struct control *control, const struct stream *stream,
		      const char *tenant)
{
	int err = __real_auth_check(control, stream, tenant);

	if (used && !err)
		(void)strcpy(opened[socket_client(fds_socket(stream->fd))],
			     stream->key->identity);
	return err;
}
