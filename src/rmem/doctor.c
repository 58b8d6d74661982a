/* SPDX-License-Identifier: BSD-3-Clause */
/* rmem doctor: the client's half of RDMA, and a probe of the server over each fabric. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "base/err.h"
#include "base/units.h"
#include "doctor/host.h"
#include "rmem/command.h"
#include "rmem/entry.h"
#include "rmem/path.h"
#include "rmem/probe.h"
#include "rmem/route.h"

#define MEMLOCK_SMALL (UINT64_C(64) << 20)

static bool json;

enum { RDMA, TCP, FABRICS };

struct visit {
	struct host host;
	struct probe probes[FABRICS];
	bool probed[FABRICS];
};

/* ---- this host ---- */

/* Buffers of programs are locked too, when RDMA uses them. */
static void memlock_check(const struct host *host)
{
	struct rlimit limit;

	if (host->n_ports == 0 || getrlimit(RLIMIT_MEMLOCK, &limit) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return;
	report_find(host->report,
		    limit.rlim_cur < MEMLOCK_SMALL ? REPORT_WARNING : REPORT_OK,
		    "programs of this user may lock %s of memory; buffers are locked "
		    "while RDMA uses them",
		    UNITS_BYTES(limit.rlim_cur));
	report_seen(host->report, "getrlimit", "RLIMIT_MEMLOCK %" PRIu64,
		    (uint64_t)limit.rlim_cur);
	if (limit.rlim_cur < MEMLOCK_SMALL)
		report_fix(host->report, "ulimit -l unlimited   # or memlock in "
					 "/etc/security/limits.conf");
}

static void host_examine(struct host *host)
{
	const char *fabric = options_fabric();

	host->root = "";
	host->traffic_class = -1;
	host->rdma = strcmp(fabric, "rdma") == 0  ? HOST_RDMA_REQUIRED
		     : strcmp(fabric, "tcp") == 0 ? HOST_RDMA_UNUSED
						  : HOST_RDMA_WANTED;
	host_read(host);
	if (host->rdma != HOST_RDMA_UNUSED) {
		rdma_check(host);
		report_check(host->report, "memlock");
		memlock_check(host);
	}
	report_check(host->report, "clock");
	clock_check(host);
}

/* ---- the server ---- */

/* What to do about a step that failed; the text of the error has the cause. */
static void failed_fix(struct report *report, const struct probe *probe)
{
	bool rdma = strcmp(probe->fabric, "rdma") == 0;

	switch (probe->failed) {
	case PROBE_RESOLVE:
		report_fix(report,
			   "getent ahosts HOST   # does the name have an address?");
		return;
	case PROBE_CONNECT:
		if (probe->err == -ECONNREFUSED)
			report_fix(report,
				   "rmemctl status   # on the server: does rmemd "
				   "run, at this address and port?");
		else
			report_fix(report, "nft list ruleset   # on the server: its "
					   "firewall; and is this its address?");
		return;
	case PROBE_SECURE:
	case PROBE_WELCOME:
		report_fix(report, "journalctl -u rmemd   # on the server: why it "
				   "refuses; see auth in rmemd.conf(5)");
		return;
	case PROBE_CHANNEL:
		report_fix(report,
			   "rmemctl doctor; nft list ruleset   # on the server: %s",
			   rdma ? "RDMA, and its firewall"
				: "[tcp] advertise, and its firewall, for the port "
				  "of [tcp]");
		return;
	case PROBE_LEASE:
		report_fix(report, "rmemctl pools; rmemctl tenants   # on the server");
		return;
	default:
		report_fix(report, "rmemctl doctor   # on the server");
	}
}

/* RDMA goes by the addresses of RDMA ports: is the one that leads to the server among them? */
static void route_seen(const struct visit *visit)
{
	const struct host *host = &visit->host;
	char local[INET6_ADDRSTRLEN];

	if (host->n_ports == 0 || !visit->probed[TCP] ||
	    route_local(visit->probes[TCP].server, local))
		return;
	for (unsigned i = 0; i < host->n_ports; i++)
		for (unsigned k = 0; k < host->ports[i].n_addresses; k++)
			if (strcmp(host->ports[i].address[k], local) == 0)
				return;
	report_seen(host->report, "the route to the server",
		    "from %s, which is no address of an RDMA port", local);
}

static void probe_report(const struct visit *visit, const struct probe *probe,
			 enum report_level level)
{
	struct report *report = visit->host.report;

	if (!probe->err) {
		report_find(report, REPORT_OK, "the server works over %s%s%s",
			    probe->fabric, probe->device[0] ? ", on " : "",
			    probe->device);
		return;
	}
	report_find(report, level, "over %s the step '%s' fails", probe->fabric,
		    probe_step_name(probe->failed));
	report_seen(report, "rmem", "%s", probe->text);
	if (probe->failed == PROBE_CHANNEL && probe == &visit->probes[RDMA])
		route_seen(visit);
	failed_fix(report, probe);
}

/* A failure before the welcome has nothing to do with the fabric. */
static bool server_reached(const struct probe *probe)
{
	return !probe->err || probe->failed > PROBE_WELCOME;
}

static void server_probe(struct visit *visit)
{
	const struct host *host = &visit->host;
	struct probe *rdma = &visit->probes[RDMA], *tcp = &visit->probes[TCP];
	bool wanted = host->rdma == HOST_RDMA_WANTED;

	report_check(host->report, "server");
	if (host->rdma != HOST_RDMA_REQUIRED) {
		probe_run(tcp, "tcp");
		visit->probed[TCP] = true;
	}
	if (host->rdma != HOST_RDMA_UNUSED &&
	    (!visit->probed[TCP] || server_reached(tcp))) {
		probe_run(rdma, "rdma");
		visit->probed[RDMA] = true;
	}
	/* one fabric that works is enough, unless it was asked for */
	if (visit->probed[RDMA])
		probe_report(visit, rdma,
			     wanted && !tcp->err ? REPORT_WARNING : REPORT_ERROR);
	if (visit->probed[TCP])
		probe_report(visit, tcp,
			     wanted && visit->probed[RDMA] && !rdma->err
				     ? REPORT_WARNING
				     : REPORT_ERROR);
}

/* ---- the path ---- */

static void path_fix(struct report *report, const char *where)
{
	report_fix(
		report,
		"sysctl -w net.ipv4.tcp_mtu_probing=2   # on %s: TCP finds the length, "
		"also for IPv6; or let ICMP through",
		where);
}

/* Packets that are too long for a link on the way are lost, and no router says so.  What comes from
 * the server cannot be measured here. */
static void path_check(const struct visit *visit)
{
	struct report *report = visit->host.report;
	const struct probe *probe = &visit->probes[TCP];
	struct path path;

	if (!visit->probed[TCP] || probe->err != -ETIMEDOUT || !*probe->server)
		return;
	report_check(report, "path-mtu");
	if (path_examine(probe->server, (unsigned)options.timeout_ms, &path)) {
		report_find(report, REPORT_NOTE,
			    "which packets reach the server is not known");
		report_seen(report, probe->server, "%s", err_text());
		return;
	}
	if (path.arrives > 0 && path.arrives < path.sent) {
		report_find(
			report, REPORT_ERROR,
			"packets of up to %u bytes reach the server, longer ones are "
			"lost: a link on the way has this MTU, and what its router "
			"says of it (ICMP) is lost too",
			path.arrives);
		report_seen(
			report, probe->server,
			"%u bytes are acknowledged; %u are not within %u ms, and TCP "
			"sends %u",
			path.arrives, path.arrives + 1, path.wait_ms, path.sent);
		path_fix(report, "both hosts");
	} else if (path.arrives > 0 && probe->failed == PROBE_READ) {
		report_find(
			report, REPORT_WARNING,
			"packets of %u bytes reach the server, but its long answers "
			"do not arrive: perhaps a link on the way has a lesser MTU, "
			"and what its router says of it (ICMP) does not reach the "
			"server",
			path.arrives);
		report_seen(report, probe->server, "%s", probe->text);
		path_fix(report, "the server");
	}
}

/* ---- output ---- */

static int visit_json(const struct visit *visit)
{
	json_t *all = report_json(visit->host.report), *probes = json_array();
	int err = 0;

	for (size_t i = 0; i < FABRICS; i++)
		if (visit->probed[i])
			err |= json_array_append_new(probes,
						     probe_json(&visit->probes[i]));
	err |= json_object_set_new(all, "probes", probes);
	if (err) {
		json_decref(all);
		all = NULL;
	}
	return json_print(all);
}

static int visit_show(const struct visit *visit)
{
	const struct report *report = visit->host.report;
	int err = report_end(report);

	if (err)
		return err;
	if (json)
		return visit_json(visit);
	report_print(report, options.quiet ? REPORT_NOTE : REPORT_OK, stdout);
	for (size_t i = 0; i < FABRICS; i++)
		if (visit->probed[i])
			probe_print(&visit->probes[i], stdout);
	report_print_counts(report, stdout);
	return 0;
}

/* A wrong URI is no finding. */
static bool is_usage(const struct visit *visit)
{
	for (size_t i = 0; i < FABRICS; i++)
		if (visit->probed[i] && visit->probes[i].err == -EINVAL)
			return true;
	return false;
}

static int doctor_run(char **args)
{
	static struct visit visit;
	int err = report_create(&visit.host.report);

	if (err)
		return err;
	if (args[0])
		options.server = args[0];
	host_examine(&visit.host);
	server_probe(&visit);
	path_check(&visit);
	if (is_usage(&visit))
		err = options_usage("%s",
				    visit.probes[visit.probed[TCP] ? TCP : RDMA].text);
	else
		err = visit_show(&visit);
	if (!err)
		err = report_status(visit.host.report);
	report_free(visit.host.report);
	return err;
}

static const struct option_row doctor_options[] = {
	{ "json", 0, OPTION_FLAG, &json, .help = "an object" },
	{ .more = options_table },
	{ 0 },
};

const struct command doctor_command = {
	.name = "doctor",
	.synopsis = "doctor [--json] [URI]",
	.summary = "examine this host's RDMA, and probe the server over each fabric",
	.options = doctor_options,
	.args_max = 1,
	.args = "at most one URI",
	.run_alone = doctor_run,
};
