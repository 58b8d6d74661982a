/* SPDX-License-Identifier: BSD-3-Clause */
/* The addresses that are served, sockets of other programs at the ports, and how a client sees
 * whether it reaches them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/files.h"
#include "fabric/address.h"
#include "rmemctl/doctor/server.h"

#define CONFIG_NAME(server) \
	((server)->config_path ? (server)->config_path : SYSCONFDIR "/rmem/rmemd.conf")

/* ---- addresses ---- */

static bool listens_at(const struct config *config, const char *address)
{
	struct fabric_address wanted;

	if (fabric_address_parse(address, &wanted))
		return false;
	for (unsigned i = 0; i < config->n_listen; i++) {
		const struct fabric_address *listen = &config->listen[i];

		if (listen->family != wanted.family)
			continue;
		if (fabric_address_is_any(listen) ||
		    fabric_address_host_equal(listen, &wanted))
			return true;
	}
	return false;
}

static bool port_served(const struct config *config, const struct host_port *port)
{
	for (unsigned i = 0; i < port->n_addresses; i++)
		if (listens_at(config, port->address[i]))
			return true;
	return false;
}

/* "127.0.0.1, ::1" */
static const char *listen_text(const struct config *config, char *buf, size_t bytes)
{
	size_t used = 0;

	buf[0] = '\0';
	for (unsigned i = 0; i < config->n_listen && used < bytes; i++) {
		char text[FABRIC_ADDRESS_TEXT];

		used += (size_t)snprintf(buf + used, bytes - used, "%s%s",
					 i ? ", " : "",
					 fabric_address_host(&config->listen[i], text));
	}
	return buf;
}

void listen_check(const struct server *server)
{
	struct report *report = server->host.report;
	char text[SERVER_TEXT_BYTES];
	bool served = false, reached = false;

	if (server->host.rdma == HOST_RDMA_UNUSED)
		return;
	for (unsigned i = 0; i < server->host.n_ports; i++) {
		const struct host_port *port = &server->host.ports[i];

		reached |= port->active && port->n_addresses > 0;
		served |= port->active && port_served(&server->config, port);
	}
	/* InfiniBand and iWARP: their addresses are not known here */
	if (!reached)
		return;
	(void)listen_text(&server->config, text, sizeof(text));
	if (served) {
		report_find(report, REPORT_OK, "RDMA is served at %s", text);
		return;
	}
	report_find(
		report, host_level(&server->host),
		"RDMA is not served: [server] listen has no address of an RDMA port");
	report_seen(report, CONFIG_NAME(server), "listen = %s", text);
	for (unsigned i = 0; i < server->host.n_ports; i++)
		if (server->host.ports[i].n_addresses > 0)
			report_seen(report, "ADDRESSES", "%s has %s",
				    server->host.ports[i].device,
				    server->host.ports[i].address[0]);
	report_fix(report, "editor %s   # [server] listen", CONFIG_NAME(server));
}

void advertise_check(const struct server *server)
{
	const struct config *config = &server->config;
	struct report *report = server->host.report;
	char text[FABRIC_ADDRESS_TEXT];

	for (unsigned i = 0; config->tcp && i < config->n_tcp_advertise; i++) {
		const struct fabric_address *address = &config->tcp_advertise[i];

		(void)fabric_address_text(address, text);
		if (server_is_local(server) || !fabric_address_is_loopback(address)) {
			report_find(report, REPORT_OK,
				    "clients are told to connect to %s for data over "
				    "TCP",
				    text);
			continue;
		}
		report_find(report, REPORT_WARNING,
			    "clients are told to connect to %s for data over TCP, "
			    "which on another host is that host itself",
			    text);
		report_seen(report, CONFIG_NAME(server), "[tcp] advertise, item %u",
			    i + 1);
		report_fix(report, "editor %s   # [tcp] advertise",
			   CONFIG_NAME(server));
	}
}

/* ---- sockets of other programs ---- */

#define LISTENING 0x0a

/* The inode of a socket that listens at the port; 0: none. */
static uint64_t listener_find(const char *root, const char *path, unsigned port)
{
	char full[2 * FILES_PATH_BYTES], line[512];
	uint64_t found = 0;
	FILE *file;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	file = fopen(full, "re");
	while (file && !found && fgets(line, sizeof(line), file)) {
		unsigned local, state;
		uint64_t inode;

		if (sscanf(line,
			   " %*u: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s "
			   "%*u %*u %" SCNu64,
			   &local, &state, &inode) == 3 &&
		    local == port && state == LISTENING)
			found = inode;
	}
	if (file)
		(void)fclose(file);
	return found;
}

static bool process_has(const char *root, const char *pid, const char *socket)
{
	const char *folder = FILES_PATH("/proc/%s/fd", pid);
	char full[2 * FILES_PATH_BYTES], target[64];
	struct dirent **fds;
	unsigned n = files_list(root, folder, &fds);
	bool found = false;

	for (unsigned i = 0; i < n && !found; i++) {
		ssize_t bytes;

		(void)snprintf(full, sizeof(full), "%s%s/%s", root, folder,
			       fds[i]->d_name);
		bytes = readlink(full, target, sizeof(target) - 1);
		if (bytes > 0) {
			target[bytes] = '\0';
			found = strcmp(target, socket) == 0;
		}
	}
	files_list_free(fds, n);
	return found;
}

/* The program that has the socket, "" if unknown: only root sees those of others. */
static const char *owner_find(const char *root, uint64_t inode, char *buf, size_t bytes)
{
	char socket[64];
	struct dirent **pids;
	unsigned n = files_list(root, "/proc", &pids);

	(void)snprintf(socket, sizeof(socket), "socket:[%" PRIu64 "]", inode);
	buf[0] = '\0';
	for (unsigned i = 0; i < n && !buf[0]; i++)
		if (strtol(pids[i]->d_name, NULL, 10) > 0 &&
		    process_has(root, pids[i]->d_name, socket))
			(void)files_line(root,
					 FILES_PATH("/proc/%s/comm", pids[i]->d_name),
					 buf, bytes);
	files_list_free(pids, n);
	return buf;
}

static void socket_check(const struct server *server, const char *section,
			 unsigned port)
{
	const char *root = server->host.root, *path = "/proc/net/tcp";
	struct report *report = server->host.report;
	uint64_t inode = listener_find(root, path, port);
	char owner[64];

	if (!inode) {
		path = "/proc/net/tcp6";
		inode = listener_find(root, path, port);
	}
	if (!inode)
		return;
	(void)owner_find(root, inode, owner, sizeof(owner));
	/* rmemd.socket listens for the daemon; a daemon that does not answer has its own ports */
	if (strcmp(owner, "systemd") == 0 || strcmp(owner, "rmemd") == 0)
		return;
	report_find(report, *owner ? REPORT_ERROR : REPORT_WARNING,
		    "%s%s has TCP port %u of [%s]: rmemd cannot start",
		    *owner ? "the program " : "a program", owner, port, section);
	report_seen(report, path, "a socket listens at port %u, inode %" PRIu64, port,
		    inode);
	report_fix(report, "ss -ltnp 'sport = :%u'   # stop it, or set [%s] port", port,
		   section);
}

void sockets_check(const struct server *server)
{
	const struct config *config = &server->config;
	struct report *report = server->host.report;
	unsigned before = report_count(report, REPORT_ERROR) +
			  report_count(report, REPORT_WARNING);

	if (server->status)
		return;
	socket_check(server, "server", config->port);
	if (config->tcp)
		socket_check(server, "tcp", config->tcp_port);
	if (report_count(report, REPORT_ERROR) + report_count(report, REPORT_WARNING) ==
	    before)
		report_find(report, REPORT_OK, "no other program has the TCP ports");
}

/* ---- the way from clients ---- */

/* Where the URI of a client leads: to an address that is listened at, or that the host's name has.
 * Returns buf. */
static const char *reached_at(const struct server *server, char *buf, size_t bytes)
{
	const struct config *config = &server->config;
	char host[FABRIC_ADDRESS_TEXT];

	for (unsigned i = 0; i < config->n_listen; i++) {
		struct fabric_address address = config->listen[i];

		if (fabric_address_is_any(&address) ||
		    fabric_address_is_loopback(&address))
			continue;
		address.port = config->port;
		(void)snprintf(buf, bytes, "%s", fabric_address_text(&address, host));
		return buf;
	}
	if (files_line(server->host.root, "/proc/sys/kernel/hostname", host,
		       sizeof(host)))
		(void)strcpy(host, "HOST");
	(void)snprintf(buf, bytes, "%s:%u", host, config->port);
	return buf;
}

/* Firewalls, routes and links are on both hosts and between them: only a client that connects knows
 * what they let through. */
void clients_check(const struct server *server)
{
	struct report *report = server->host.report;
	char text[2 * FABRIC_ADDRESS_TEXT];

	if (server_is_local(server)) {
		report_find(report, REPORT_OK, "only clients of this host are served");
		return;
	}
	report_find(
		report, REPORT_NOTE,
		"whether firewalls and the network let clients in is not known here: "
		"ask on a client");
	report_fix(report, "rmem doctor rmem://%s   # on a client",
		   reached_at(server, text, sizeof(text)));
}
