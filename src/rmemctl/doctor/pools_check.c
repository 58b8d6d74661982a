/* SPDX-License-Identifier: BSD-3-Clause */
/* Do the pools get their memory: huge pages, on the right node, near the RDMA devices? */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/units.h"
#include "doctor/files.h"
#include "rmemctl/doctor/server.h"
#include "rmemd/pool/capacity.h"
#include "rmemd/pool/cgroup.h"
#include "rmemd/pool/host.h"

#define NODES_MAX 1024
#define NODES_TEXT 128
/* What the daemon has in its group before it has pools. */
#define START_BYTES (UINT64_C(16) << 20)
#define MIB (UINT64_C(1) << 20)
#define THP_PATH "/sys/kernel/mm/transparent_hugepage/shmem_enabled"

/* " on node 1", or "" */
#define ON_NODE(node) on_node(node, (char[24]){ 0 })
static const char *on_node(int node, char buf[24])
{
	if (node >= 0)
		(void)snprintf(buf, 24, " on node %d", node);
	return buf;
}

static uint64_t pages_needed(const struct pool_params *pool, uint64_t page_bytes)
{
	if (pool->bytes == POOL_BYTES_AUTO)
		return 1;
	return (pool->bytes + page_bytes - 1) / page_bytes;
}

/* ---- control groups ---- */

/* The limit of the daemon, or of the unit that would start it. */
static bool group_limit(const struct server *server, uint64_t huge_page_bytes,
			struct cgroup_limit *ret_limit)
{
	const struct server_limits *limits = &server->limits;

	if (limits->process[0])
		return cgroup_limit(limits->process, huge_page_bytes, ret_limit) == 0;
	if (huge_page_bytes || limits->memory == SERVER_UNLIMITED)
		return false;
	*ret_limit = (struct cgroup_limit){ .path = "rmemd.service",
					    .setting = limits->memory_setting,
					    .service = true };
	cgroup_set_memory(ret_limit, limits->memory, START_BYTES);
	return true;
}

static void group_fix(const struct server *server, const struct cgroup_limit *limit,
		      uint64_t bytes)
{
	char exactly[32];

	if (limit->service && limit->setting)
		report_fix(server->host.report,
			   "systemctl edit rmemd   # [Service] %s%s; then restart it",
			   limit->setting,
			   units_write_bytes(bytes, exactly, sizeof(exactly)));
	else
		report_fix(server->host.report, "echo %" PRIu64 " >%s", bytes,
			   limit->path);
}

/* Whether the groups leave `bytes` to the pool; if not, that is a finding. */
static bool group_check(const struct server *server, const struct pool_params *pool,
			uint64_t bytes, uint64_t huge_page_bytes)
{
	struct report *report = server->host.report;
	struct cgroup_limit limit;
	uint64_t more;

	if (!group_limit(server, huge_page_bytes, &limit) || limit.left >= bytes)
		return true;
	report_find(report, REPORT_ERROR,
		    "pool '%s' needs %s, the limit of its control group leaves %s",
		    pool->name, UNITS_BYTES(bytes), UNITS_BYTES(limit.left));
	report_seen(report, limit.path, "%s; %s are used or for rmemd itself",
		    UNITS_BYTES(limit.bytes), UNITS_BYTES(limit.bytes - limit.left));
	more = limit.bytes - limit.left + bytes;
	/* what the kernel needs for each page grows, too */
	if (!huge_page_bytes)
		more = ((more + bytes / 100) / MIB + 1) * MIB;
	group_fix(server, &limit, more);
	return false;
}

/* ---- huge pages ---- */

/* Of the pools before this one, in the same pages and on the same node. */
static uint64_t pages_before(const struct server *server, unsigned i)
{
	const struct pool_params *pools = server->config.pools;
	uint64_t sum = 0;

	for (unsigned k = 0; k < i; k++)
		if (pools[k].pages == pools[i].pages &&
		    pools[k].node == pools[i].node &&
		    !server_pool(server, pools[k].name))
			sum += pages_needed(&pools[k], pages_bytes(pools[i].pages));
	return sum;
}

/* Another node that has enough of these pages; -1: none has. */
static int node_with_pages(uint64_t page_bytes, int node, uint64_t needed)
{
	struct host_huge huge;

	for (int other = 0; node >= 0 && other < NODES_MAX; other++)
		if (other != node && !host_huge_pages(page_bytes, other, &huge) &&
		    huge.free >= needed)
			return other;
	return -1;
}

static void huge_short(const struct server *server, const struct pool_params *pool,
		       const struct host_huge *huge, uint64_t needed)
{
	uint64_t page_bytes = pages_bytes(pool->pages);
	struct report *report = server->host.report;
	int other = node_with_pages(page_bytes, pool->node, needed);
	char path[FILES_PATH_BYTES];

	report_find(report, REPORT_ERROR,
		    "pool '%s' needs %" PRIu64 " pages of %s%s, %" PRIu64 " are free",
		    pool->name, needed, pool_pages_name(pool->pages),
		    ON_NODE(pool->node), huge->free);
	report_seen(report,
		    host_huge_path(page_bytes, pool->node, "free_hugepages", path,
				   sizeof(path)),
		    "%" PRIu64, huge->free);
	if (other >= 0) {
		report_seen(report,
			    host_huge_path(page_bytes, other, "free_hugepages", path,
					   sizeof(path)),
			    "enough, but node %d is not that of the pool", other);
	}
	report_fix(report, "echo %" PRIu64 " >%s", huge->total - huge->free + needed,
		   host_huge_path(page_bytes, pool->node, "nr_hugepages", path,
				  sizeof(path)));
	if (pool->pages >= POOL_PAGES_1G)
		report_fix(report,
			   "# or at boot: hugepagesz=%s hugepages=N on the kernel's "
			   "command line",
			   pool_pages_name(pool->pages));
}

static void huge_unknown(const struct server *server, const struct pool_params *pool)
{
	struct report *report = server->host.report;
	char path[FILES_PATH_BYTES];

	(void)capacity_huge_unknown(pool->pages);
	report_find(report, REPORT_ERROR, "pool '%s': %s", pool->name, err_text());
	report_seen(report,
		    host_huge_path(pages_bytes(pool->pages), POOL_NODE_ANY,
				   "nr_hugepages", path, sizeof(path)),
		    "does not exist");
	report_fix(report, "editor %s   # [pool %s] page_size",
		   server->config_path ? server->config_path : "/etc/rmem/rmemd.conf",
		   pool->name);
}

static void huge_check(const struct server *server, unsigned i)
{
	const struct pool_params *pool = &server->config.pools[i];
	struct report *report = server->host.report;
	uint64_t page_bytes = pages_bytes(pool->pages),
		 needed = pages_needed(pool, page_bytes) + pages_before(server, i);
	struct host_huge huge;

	if (server_pool(server, pool->name)) {
		report_find(report, REPORT_OK, "pool '%s' has its pages of %s",
			    pool->name, pool_pages_name(pool->pages));
		return;
	}
	if (host_huge_pages(page_bytes, POOL_NODE_ANY, &huge)) {
		huge_unknown(server, pool);
		return;
	}
	/* nodes_check() tells of a node that is missing */
	if (host_huge_pages(page_bytes, pool->node, &huge))
		return;
	if (huge.free < needed && !huge.overcommit)
		huge_short(server, pool, &huge, needed);
	else if (group_check(server, pool, needed * page_bytes, page_bytes))
		report_find(report, REPORT_OK,
			    "pool '%s': %" PRIu64 " pages of %s are free%s", pool->name,
			    huge.free, pool_pages_name(pool->pages),
			    ON_NODE(pool->node));
}

/* Whether huge pages of a size are free for at least a part of the pool. */
static bool huge_free(const struct server *server, const struct pool_params *pool,
		      uint64_t page_bytes)
{
	uint64_t needed = pages_needed(pool, page_bytes);
	struct cgroup_limit limit;
	struct host_huge huge;

	return host_huge_pages(page_bytes, pool->node, &huge) == 0 &&
	       (huge.overcommit || huge.free >= needed) &&
	       (!group_limit(server, page_bytes, &limit) ||
		limit.left / page_bytes >= needed);
}

static bool any_huge(const struct server *server, const struct pool_params *pool)
{
	enum pool_pages pages[POOL_PAGES_END];
	unsigned n = pages_huge(pages);

	for (unsigned i = 0; i < n; i++)
		if (huge_free(server, pool, pages_bytes(pages[i])))
			return true;
	return false;
}

/* The huge pages to reserve: 2M, or the next larger size that the kernel has; 0: it has none. */
static uint64_t huge_usual(void)
{
	enum pool_pages pages[POOL_PAGES_END];
	unsigned n = pages_huge(pages);

	while (n > 1 && pages[n - 1] < POOL_PAGES_2M)
		n--;
	return n ? pages_bytes(pages[n - 1]) : 0;
}

static void auto_check(const struct server *server, const struct pool_params *pool)
{
	const json_t *open = server_pool(server, pool->name);
	const char *pages = json_string_value(json_object_get(open, "pages"));
	struct report *report = server->host.report;
	char path[FILES_PATH_BYTES];
	uint64_t huge = huge_usual();

	if (open ? pages && strcmp(pages, pool_pages_name(POOL_PAGES_THP)) != 0 &&
			    strcmp(pages, pool_pages_name(POOL_PAGES_BASE)) != 0
		 : any_huge(server, pool)) {
		report_find(report, REPORT_OK, "pool '%s' %s", pool->name,
			    open ? "has huge pages" : "gets huge pages");
		return;
	}
	report_find(
		report, REPORT_NOTE,
		"pool '%s' %s no huge pages: more registrations by the device, and a "
		"slower start",
		pool->name, open ? "has" : "gets");
	if (open)
		report_seen(report, "rmemctl pools", "page_size auto became %s",
			    pages ? pages : "-");
	else if (huge)
		report_seen(report,
			    host_huge_path(huge, pool->node, "free_hugepages", path,
					   sizeof(path)),
			    "too few");
	if (huge && pool->bytes != POOL_BYTES_AUTO)
		report_fix(report, "echo %" PRIu64 " >%s", pages_needed(pool, huge),
			   host_huge_path(huge, pool->node, "nr_hugepages", path,
					  sizeof(path)));
}

/* Memory that is not reserved in huge pages. */
static void memory_check(const struct server *server, const struct pool_params *pool)
{
	struct report *report = server->host.report;
	uint64_t available;

	if (server_pool(server, pool->name) || pool->bytes == POOL_BYTES_AUTO ||
	    !group_check(server, pool, pool->bytes, 0) ||
	    host_available(pool->node, &available) || available >= pool->bytes)
		return;
	report_find(report, REPORT_ERROR, "pool '%s' needs %s%s, %s are available",
		    pool->name, UNITS_BYTES(pool->bytes), ON_NODE(pool->node),
		    UNITS_BYTES(available));
	report_seen(report,
		    pool->node < 0
			    ? "/proc/meminfo"
			    : FILES_PATH("/sys/devices/system/node/node%d/meminfo",
					 pool->node),
		    "%s", UNITS_BYTES(available));
	report_fix(report, "editor %s   # [pool %s] size",
		   server->config_path ? server->config_path : "/etc/rmem/rmemd.conf",
		   pool->name);
}

void hugepages_check(const struct server *server)
{
	for (unsigned i = 0; i < server->config.n_pools; i++) {
		const struct pool_params *pool = &server->config.pools[i];

		if (pages_hugetlb(pool->pages)) {
			huge_check(server, i);
			continue;
		}
		if (pool->pages == POOL_PAGES_AUTO)
			auto_check(server, pool);
		if (pool->pages != POOL_PAGES_AUTO || !any_huge(server, pool))
			memory_check(server, pool);
	}
}

/* ---- transparent huge pages ---- */

static bool wants_thp(const struct server *server, const struct pool_params *pool)
{
	if (pool->pages == POOL_PAGES_THP)
		return true;
	return pool->pages == POOL_PAGES_AUTO && !server_pool(server, pool->name) &&
	       !any_huge(server, pool);
}

void thp_check(const struct server *server)
{
	struct report *report = server->host.report;
	char word[32] = "";
	bool allowed = false, known;

	known = host_shmem_thp(&allowed, word, sizeof(word)) == 0;
	for (unsigned i = 0; i < server->config.n_pools; i++) {
		const struct pool_params *pool = &server->config.pools[i];

		if (!wants_thp(server, pool))
			continue;
		if (allowed) {
			report_find(report, REPORT_OK,
				    "pool '%s' gets transparent huge pages",
				    pool->name);
			continue;
		}
		report_find(report,
			    pool->pages == POOL_PAGES_THP ? REPORT_ERROR : REPORT_NOTE,
			    "pool '%s' gets no transparent huge pages%s", pool->name,
			    pool->pages == POOL_PAGES_THP ? ", which it asks for"
							  : " either");
		report_seen(report, THP_PATH, "%s", known ? word : "does not exist");
		report_fix(report, "echo advise >%s", THP_PATH);
	}
}

/* ---- nodes ---- */

/* Nodes with memory, "0-1,4". */
static const char *nodes_text(const struct server *server, char buf[NODES_TEXT])
{
	if (files_line(server->host.root, "/sys/devices/system/node/has_memory", buf,
		       NODES_TEXT))
		(void)snprintf(buf, NODES_TEXT, "0");
	return buf;
}

static bool list_has(const char *list, long node)
{
	while (*list) {
		char *end;
		long first = strtol(list, &end, 10), last = first;

		if (end == list)
			return false;
		if (*end == '-')
			last = strtol(end + 1, &end, 10);
		if (node >= first && node <= last)
			return true;
		list = *end == ',' ? end + 1 : end;
	}
	return false;
}

/* Whether the pool is lent through this port. */
static bool lends_through(const struct pool_params *pool, const struct host_port *port)
{
	for (unsigned i = 0; i < pool->n_devices; i++)
		if (strcmp(pool->devices[i], port->device) == 0)
			return true;
	return pool->n_devices == 0;
}

/* A device of the pool that is on another node, if all devices are; NULL: one is near, or no node
 * is known. */
static const struct host_port *device_far(const struct server *server,
					  const struct pool_params *pool)
{
	const struct host_port *far = NULL;

	for (unsigned i = 0; i < server->host.n_ports; i++) {
		const struct host_port *port = &server->host.ports[i];

		if (!port->active || !lends_through(pool, port) || port->node < 0)
			continue;
		if (port->node == pool->node)
			return NULL;
		far = port;
	}
	return far;
}

static void distance_check(const struct server *server, const struct pool_params *pool)
{
	const struct host_port *far = device_far(server, pool);
	struct report *report = server->host.report;

	if (!far) {
		report_find(report, REPORT_OK, "pool '%s' is on node %d", pool->name,
			    pool->node);
		return;
	}
	report_find(
		report, REPORT_WARNING,
		"pool '%s' is on node %d, its RDMA device %s on node %d: each access "
		"goes from one processor to the other",
		pool->name, pool->node, far->device, far->node);
	report_seen(report, far->node_path, "%d", far->node);
	report_fix(report, "editor %s   # [pool %s] node = %d",
		   server->config_path ? server->config_path : "/etc/rmem/rmemd.conf",
		   pool->name, far->node);
}

static void node_check(const struct server *server, const struct pool_params *pool)
{
	struct report *report = server->host.report;
	char nodes[NODES_TEXT];

	if (list_has(nodes_text(server, nodes), pool->node)) {
		distance_check(server, pool);
		return;
	}
	report_find(report, REPORT_ERROR,
		    "pool '%s' is to be on node %d, which has no memory", pool->name,
		    pool->node);
	report_seen(report, "/sys/devices/system/node/has_memory", "%s", nodes);
	report_fix(report, "editor %s   # [pool %s] node",
		   server->config_path ? server->config_path : "/etc/rmem/rmemd.conf",
		   pool->name);
}

void nodes_check(const struct server *server)
{
	for (unsigned i = 0; i < server->config.n_pools; i++)
		if (server->config.pools[i].node != POOL_NODE_ANY)
			node_check(server, &server->config.pools[i]);
}
