/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl devices: endpoints, and what RDMA devices can do. */
#include "rmemctl/list.h"
#include "rmemctl/view.h"

static const struct column devices_columns[] = {
	{ "DEVICE", "device", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "FABRIC", "fabric", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "ADDRESS", "address", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "PORT", "port", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "ADVERTISED", "advertised", CELL_TEXT, "-", COLUMN_WIDE },
	{ "NODE", "node", CELL_NUMBER, "unknown", COLUMN_ALWAYS },
	{ "CHANNELS", "channels", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "KERNEL-TLS", "tls_in_kernel", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "EXPOSURES", "exposures", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "EXPOSED", "exposed_bytes", CELL_BYTES, "-", COLUMN_WIDE },
	{ "REFUSED", "refused", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "ERRORS", "errors", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ 0 },
};

static const struct field device_fields[] = {
	{ ": ", "can", "transport", CELL_TEXT, "unknown" },
	{ ", port ", "device_port", "number", CELL_NUMBER, "unknown" },
	{ " ", "device_port", "state", CELL_TEXT, "unknown" },
	{ ", MTU ", "device_port", "active_mtu", CELL_NUMBER, "unknown" },
	{ " of ", "device_port", "max_mtu", CELL_NUMBER, "unknown" },
	{ ", NUMA node ", NULL, "node", CELL_NUMBER, "unknown" },
	{ "\n  atomics ", "can", "atomics", CELL_TEXT, "unknown" },
	{ ", ", "can", "write_immediate", CELL_UNLESS, "no " },
	{ "write with immediate, inline ", "can", "inline_bytes", CELL_BYTES,
	  "unknown" },
	{ ", relaxed ordering ", "can", "relaxed_ordering", CELL_IF, "accepted" },
	{ "", "can", "relaxed_ordering", CELL_UNLESS, "refused" },
	{ ", ", "can", "on_demand_paging", CELL_UNLESS, "no " },
	{ "on-demand paging\n  at most ", "can", "max_qp", CELL_NUMBER, "unknown" },
	{ " QPs of ", "can", "max_qp_wr", CELL_NUMBER, "unknown" },
	{ " requests and ", "can", "max_sge", CELL_NUMBER, "unknown" },
	{ " SGEs, ", "can", "max_cq", CELL_NUMBER, "unknown" },
	{ " CQs of ", "can", "max_cqe", CELL_NUMBER, "unknown" },
	{ ", ", "can", "max_mr", CELL_NUMBER, "unknown" },
	{ " MRs of ", "can", "max_mr_bytes", CELL_BYTES, "unknown" },
	{ "\n  rd_atomic: of peers ", "can", "responder_resources", CELL_NUMBER,
	  "unknown" },
	{ ", its own ", "can", "initiator_depth", CELL_NUMBER, "unknown" },
	{ "\n  in effect: MTU ", "knobs", "mtu", CELL_NUMBER, "auto" },
	{ ", traffic class ", "knobs", "traffic_class", CELL_NUMBER, "auto" },
	{ ", service level ", "knobs", "service_level", CELL_NUMBER, "auto" },
	{ "\n  ACK timeout ", "knobs", "ack_timeout", CELL_NUMBER, "auto" },
	{ ", retries ", "knobs", "retry_count", CELL_NUMBER, "auto" },
	{ ", RNR retries ", "knobs", "rnr_retry_count", CELL_NUMBER, "auto" },
	{ ", rd_atomic ", "knobs", "rd_atomic", CELL_NUMBER, "auto" },
	{ ", relaxed ordering ", "knobs", "relaxed_ordering", CELL_IF, "on" },
	{ "", "knobs", "relaxed_ordering", CELL_UNLESS, "off" },
	{ "\n  connect ", "knobs", "connect", CELL_TEXT, "unknown" },
	{ ", GID index ", "knobs", "gid_index", CELL_NUMBER, NULL },
	{ ", P_Key ", "knobs", "pkey", CELL_HEX, NULL },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static const struct field gid_fields[] = {
	{ "  GID ", NULL, "index", CELL_NUMBER, "unknown" },
	{ "  ", NULL, "gid", CELL_TEXT, "unknown" },
	{ "  ", NULL, "type", CELL_TEXT, "unknown" },
	{ "", NULL, "served", CELL_IF, "  served" },
	{ "\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static void device_show(FILE *out, const json_t *device)
{
	const json_t *port = json_object_get(device, "device_port"),
		     *gids = json_object_get(port, "gids");
	json_int_t more = json_integer_value(json_object_get(port, "gids_more"));

	(void)fputc('\n', out);
	text_print(out, json_string_value(json_object_get(device, "device")));
	if (!json_is_object(json_object_get(device, "can"))) {
		(void)fprintf(out, ": is not there\n");
		return;
	}
	fields_print(out, device_fields, device);
	for (size_t i = 0; i < json_array_size(gids); i++)
		fields_print(out, gid_fields, json_array_get(gids, i));
	if (more > 0)
		(void)fprintf(out, "  GIDs not shown: %" JSON_INTEGER_FORMAT "\n",
			      more);
}

/* A paragraph for each RDMA device, or why none is served. */
static void devices_show(FILE *out, const json_t *answer)
{
	const json_t *array = json_object_get(answer, "devices");
	bool any = false;

	for (size_t i = 0; i < json_array_size(array); i++) {
		const json_t *device = json_array_get(array, i);

		if (!json_is_string(json_object_get(device, "device")))
			continue;
		device_show(out, device);
		any = true;
	}
	if (any)
		return;
	(void)fputc('\n', out);
	fabric_show(out, answer, "rdma");
}

const struct command devices_command = {
	.name = "devices",
	.synopsis = "devices [--sort COLUMN]",
	.summary = "where it serves data: RDMA devices, and TCP",
	.options = list_sort_options,
	.args = "no argument",
	.run = view_run,
	.columns = devices_columns,
	.show = devices_show,
};
