/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/devices.h"

#include <stdbool.h>

#include "rmemctl/table.h"

static void put_or(FILE *out, const char *before, const json_t *object, const char *key,
		   enum cell cell, const char *null)
{
	char buf[CELL_CHARS];

	(void)fprintf(out, "%s%s", before,
		      cell_format(json_object_get(object, key), cell, null, buf));
}

/* Print `before` and object[key]; a missing value is "unknown". */
static void put(FILE *out, const char *before, const json_t *object, const char *key,
		enum cell cell)
{
	put_or(out, before, object, key, cell, "unknown");
}

static bool flag(const json_t *object, const char *key)
{
	return json_is_true(json_object_get(object, key));
}

static void attributes_print(FILE *out, const json_t *can)
{
	put(out, "  atomics ", can, "atomics", CELL_TEXT);
	(void)fprintf(out, ", %swrite with immediate",
		      flag(can, "write_immediate") ? "" : "no ");
	put(out, ", inline ", can, "inline_bytes", CELL_BYTES);
	(void)fprintf(out, ", relaxed ordering %s, %son-demand paging\n",
		      flag(can, "relaxed_ordering") ? "accepted" : "refused",
		      flag(can, "on_demand_paging") ? "" : "no ");
	put(out, "  at most ", can, "max_qp", CELL_NUMBER);
	put(out, " QPs of ", can, "max_qp_wr", CELL_NUMBER);
	put(out, " requests and ", can, "max_sge", CELL_NUMBER);
	put(out, " SGEs, ", can, "max_cq", CELL_NUMBER);
	put(out, " CQs of ", can, "max_cqe", CELL_NUMBER);
	put(out, ", ", can, "max_mr", CELL_NUMBER);
	put(out, " MRs of ", can, "max_mr_bytes", CELL_BYTES);
	put(out, "\n  rd_atomic: of peers ", can, "responder_resources", CELL_NUMBER);
	put(out, ", its own ", can, "initiator_depth", CELL_NUMBER);
	(void)fputc('\n', out);
}

static void rdma_options_print(FILE *out, const json_t *rdma_options)
{
	static const struct {
		const char *before, *key;
	} shown[] = {
		{ "  in effect: MTU ", "mtu" },
		{ ", traffic class ", "traffic_class" },
		{ ", service level ", "service_level" },
		{ "\n  ACK timeout ", "ack_timeout" },
		{ ", retries ", "retry_count" },
		{ ", RNR retries ", "rnr_retry_count" },
		{ ", rd_atomic ", "rd_atomic" },
	};

	const json_t *index = json_object_get(rdma_options, "gid_index"),
		     *pkey = json_object_get(rdma_options, "pkey");

	for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
		put_or(out, shown[i].before, rdma_options, shown[i].key, CELL_NUMBER,
		       "auto");
	(void)fprintf(out, ", relaxed ordering %s",
		      flag(rdma_options, "relaxed_ordering") ? "on" : "off");
	put(out, "\n  connect ", rdma_options, "connect", CELL_TEXT);
	if (json_is_integer(index))
		put(out, ", GID index ", rdma_options, "gid_index", CELL_NUMBER);
	if (json_is_integer(pkey))
		(void)fprintf(out, ", P_Key 0x%04llx",
			      (long long)json_integer_value(pkey));
	(void)fputc('\n', out);
}

static void gids_print(FILE *out, const json_t *port)
{
	const json_t *gids = json_object_get(port, "gids"),
		     *more = json_object_get(port, "gids_more");

	for (size_t i = 0; i < json_array_size(gids); i++) {
		const json_t *gid = json_array_get(gids, i);

		put(out, "  GID ", gid, "index", CELL_NUMBER);
		put(out, "  ", gid, "gid", CELL_TEXT);
		put(out, "  ", gid, "type", CELL_TEXT);
		(void)fprintf(out, "%s\n", flag(gid, "served") ? "  served" : "");
	}
	if (json_integer_value(more) > 0)
		put(out, "  GIDs not shown: ", port, "gids_more", CELL_NUMBER);
	if (json_integer_value(more) > 0)
		(void)fputc('\n', out);
}

static void device_print(FILE *out, const json_t *device)
{
	const json_t *can = json_object_get(device, "can"),
		     *port = json_object_get(device, "device_port");

	put(out, "\n", device, "device", CELL_TEXT);
	if (!json_is_object(can)) {
		(void)fprintf(out, ": was removed\n");
		return;
	}
	put(out, ": ", can, "transport", CELL_TEXT);
	put(out, ", port ", port, "number", CELL_NUMBER);
	put(out, " ", port, "state", CELL_TEXT);
	put(out, ", MTU ", port, "active_mtu", CELL_NUMBER);
	put(out, " of ", port, "max_mtu", CELL_NUMBER);
	put(out, ", NUMA node ", device, "node", CELL_NUMBER);
	(void)fputc('\n', out);
	attributes_print(out, can);
	rdma_options_print(out, json_object_get(device, "knobs"));
	gids_print(out, port);
}

void devices_detail(FILE *out, const json_t *array)
{
	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *device = json_array_get(array, i);

		if (json_is_string(json_object_get(device, "device")))
			device_print(out, device);
	}
}
