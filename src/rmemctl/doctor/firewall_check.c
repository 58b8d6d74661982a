/* SPDX-License-Identifier: BSD-3-Clause */
/* Does the firewall of this host let clients in? */
#include <stdio.h>
#include <string.h>

#include "doctor/files.h"
#include "rmemctl/doctor/ruleset.h"
#include "rmemctl/doctor/server.h"

#define ROCE_PORT 4791
#define LEGACY_PATH "/proc/net/ip_tables_names"

static void packet_check(const struct server *server, const json_t *ruleset, bool udp,
			 unsigned port, const char *what)
{
	const struct ruleset_packet packet = { .udp = udp, .port = port };
	struct ruleset_result result = ruleset_judge(ruleset, &packet);
	struct report *report = server->host.report;
	const char *protocol = udp ? "udp" : "tcp";

	if (result.fate == RULESET_ACCEPTED) {
		report_find(report, REPORT_OK, "the firewall accepts %s port %u, %s",
			    protocol, port, what);
		return;
	}
	report_find(report, result.fate == RULESET_DROPPED ? REPORT_ERROR : REPORT_NOTE,
		    "the firewall drops %s port %u, %s%s", protocol, port, what,
		    result.fate == RULESET_DROPPED
			    ? ""
			    : ", except for clients that a rule accepts");
	report_seen(report, "nft list ruleset", "%s", result.why);
	if (result.fate != RULESET_DROPPED)
		report_mend(report,
			    "nft -a list ruleset   # are all clients accepted?");
	else if (strcmp(result.hook, "ip filter INPUT") == 0)
		report_mend(report, "iptables -I INPUT -p %s --dport %u -j ACCEPT",
			    protocol, port);
	else
		report_mend(report, "nft insert rule %s %s dport %u accept",
			    result.hook, protocol, port);
}

/* The rules of iptables' older interface are not those of nftables. */
static void legacy_check(const struct server *server)
{
	struct report *report = server->host.report;
	char line[64];

	if (files_line(server->host.root, LEGACY_PATH, line, sizeof(line)))
		return;
	report_find(
		report, REPORT_NOTE,
		"legacy iptables has rules, which are not examined: see whether they "
		"accept the ports of rmemd, and UDP %d for RoCE",
		ROCE_PORT);
	report_seen(report, LEGACY_PATH, "%s", line);
	report_mend(report, "iptables-legacy -S INPUT");
}

static void packets_check(const struct server *server, const json_t *ruleset)
{
	const struct config *config = &server->config;
	bool roce = false, iwarp = false;

	packet_check(server, ruleset, false, config->port, "for control connections");
	if (config->tcp)
		packet_check(server, ruleset, false, config->tcp_port,
			     "for data over TCP");
	if (server->host.rdma == HOST_RDMA_UNUSED)
		return;
	for (unsigned i = 0; i < server->host.n_ports; i++) {
		const struct host_port *port = &server->host.ports[i];

		/* adapters take their packets before the firewall sees them */
		roce |= !port->infiniband && !port->iwarp && port->software;
		iwarp |= port->iwarp;
	}
	if (roce)
		packet_check(server, ruleset, true, ROCE_PORT, "for RoCE");
	if (iwarp)
		packet_check(server, ruleset, false, config->verbs_port, "for iWARP");
}

void firewall_check(const struct server *server)
{
	struct report *report = server->host.report;
	json_t *ruleset;

	if (server_is_local(server)) {
		report_find(
			report, REPORT_OK,
			"only this host is served, which a firewall seldom hinders");
		return;
	}
	legacy_check(server);
	ruleset = server->ruleset ? json_loads(server->ruleset, 0, NULL) : NULL;
	if (ruleset) {
		packets_check(server, ruleset);
		json_decref(ruleset);
		return;
	}
	if (!host_is_live(&server->host))
		return;
	report_find(report, REPORT_NOTE, "the firewall is not examined");
	report_seen(report, "nft list ruleset", "%s",
		    server->ruleset ? "is not JSON" : server->ruleset_text);
	report_mend(report, "sudo rmemctl doctor");
}
