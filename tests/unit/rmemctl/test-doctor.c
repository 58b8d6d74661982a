/* SPDX-License-Identifier: BSD-3-Clause */
/* What rmemctl doctor makes of what the kernel says: tests/integration/doctor.sh has what it reads
 * from files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "doctor/host.h"
#include "doctor/host_port.h"
#include "doctor/report.h"
#include "rmemctl/doctor/server.h"
#include "unit/unit.h"

static struct server server;
static struct host *const host = &server.host;
static struct host_port *const port = &server.host.ports[0];
static char *shown;

/* An adapter with one active port, on a host with no files. */
static void setup(void)
{
	memset(&server, 0, sizeof(server));
	config_default(&server.config);
	ck_assert_int_eq(report_create(&host->report), 0);
	report_check(host->report, "check");
	host->root = "/nowhere";
	host->rdma = HOST_RDMA_WANTED;
	host->traffic_class = -1;
	host->n_ports = 1;
	*port = (struct host_port){ .device = "mlx5_0",
				    .number = 1,
				    .active = true,
				    .netdev = "eth0",
				    .netdev_mtu = 9000,
				    .active_mtu = 4096,
				    .max_mtu = 4096,
				    .pfc = -1 };
}

static void teardown(void)
{
	report_free(host->report);
	free(shown);
	shown = NULL;
}

/* The report as text. */
static const char *show(enum report_level least)
{
	size_t bytes;
	FILE *out;

	free(shown);
	out = open_memstream(&shown, &bytes);
	ck_assert_ptr_nonnull(out);
	report_print(host->report, least, out);
	report_print_counts(host->report, out);
	ck_assert_int_eq(fclose(out), 0);
	ck_assert_int_eq(report_end(host->report), 0);
	return shown;
}

#define CHECK_SHOWN(text) ck_assert_str_eq(show(REPORT_OK), text)
#define CHECK_HAS(part) \
	ck_assert_msg(strstr(show(REPORT_OK), part), "no %s in %s", part, shown)

/* ---- the report ---- */

START_TEST(report__has_lines_of_100_columns)
{
	report_find(host->report, REPORT_ERROR,
		    "a text that is so long that one line of a hundred columns is not "
		    "enough for it, caf\xc3\xa9");
	report_seen(host->report, "/sys/file", "1");
	report_fix(host->report, "modprobe it");
	report_find(host->report, REPORT_OK, "good");
	CHECK_SHOWN(
		"error    check            a text that is so long that one line of a "
		"hundred columns is not enough\n"
		"                          for it, caf\xc3\xa9\n"
		"         seen: /sys/file: 1\n"
		"         fix:  modprobe it\n"
		"ok       check            good\n"
		"1 error, 0 warnings, 0 notes, 1 ok\n");
	ck_assert_ptr_null(strstr(show(REPORT_NOTE), "good"));
	ck_assert_int_eq(report_status(host->report), REPORT_EXIT_ERRORS);
}
END_TEST

START_TEST(report__shows_no_control_characters)
{
	report_find(host->report, REPORT_WARNING, "a\033[31m\n\xff");
	report_seen(host->report, "/a\tb", "\x1b");
	CHECK_HAS("a?[31m??\n");
	CHECK_HAS("seen: /a?b: ?\n");
	ck_assert_int_eq(report_status(host->report), REPORT_EXIT_WARNINGS);
}
END_TEST

START_TEST(report__is_json)
{
	json_t *json, *finding;

	report_find(host->report, REPORT_NOTE, "a note");
	report_seen(host->report, "adjtimex", "%d", 5);
	report_fix(host->report, "fix it");
	json = report_json(host->report);
	finding = json_array_get(json_object_get(json, "findings"), 0);
	ck_assert_int_eq(json_integer_value(json_object_get(json, "notes")), 1);
	ck_assert_int_eq(json_integer_value(json_object_get(json, "errors")), 0);
	ck_assert_str_eq(json_string_value(json_object_get(finding, "level")), "note");
	ck_assert_str_eq(json_string_value(json_object_get(finding, "check")), "check");
	finding = json_array_get(json_object_get(finding, "seen"), 0);
	ck_assert_str_eq(json_string_value(json_object_get(finding, "source")),
			 "adjtimex");
	ck_assert_str_eq(json_string_value(json_object_get(finding, "value")), "5");
	ck_assert_int_eq(report_status(host->report), 0);
	json_decref(json);
}
END_TEST

/* ---- MTU ---- */

START_TEST(mtu__is_that_of_the_kernel)
{
	static const struct {
		unsigned netdev, rdma;
	} mtus[] = { { 9000, 4096 }, { 4192, 4096 }, { 4191, 2048 }, { 1500, 1024 },
		     { 1119, 512 },  { 352, 256 },   { 351, 0 } };

	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++)
		ck_assert_uint_eq(mtu_for_netdev(mtus[i].netdev), mtus[i].rdma);
}
END_TEST

START_TEST(mtu__device_below_interface)
{
	port->active_mtu = 1024;
	mtu_check(host);
	CHECK_SHOWN(
		"warning  check            mlx5_0, port 1 uses an MTU of 1024, "
		"although "
		"eth0 would carry 4096\n"
		"         seen: /sys/class/net/eth0/mtu: 9000\n"
		"         seen: ibv_query_port: mlx5_0, port 1: active_mtu 1024\n"
		"         fix:  ip link set dev eth0 mtu 9000   # again: the device "
		"follows a change\n"
		"0 errors, 1 warning, 0 notes, 0 ok\n");
}
END_TEST

START_TEST(mtu__device_above_interface)
{
	port->netdev_mtu = 1500;
	host->rdma = HOST_RDMA_REQUIRED;
	mtu_check(host);
	CHECK_HAS("error    check            mlx5_0, port 1 sends packets of 4096 "
		  "bytes of "
		  "data, which eth0 drops");
	CHECK_HAS("fix:  ip link set dev eth0 mtu 4200\n");
}
END_TEST

START_TEST(mtu__device_limit_is_good)
{
	port->active_mtu = port->max_mtu = 2048;
	mtu_check(host);
	CHECK_HAS("ok       check            mlx5_0, port 1: MTU 2048, of eth0 9000\n");
}
END_TEST

/* ---- queue pair of rdma_cm ---- */

START_TEST(gsi__in_error)
{
	(void)strcpy(port->gsi_state, "ERR");
	port->software = true;
	gsi_check(host);
	CHECK_SHOWN(
		"warning  check            mlx5_0, port 1 can make no connections: its "
		"GSI "
		"queue pair is in ERR\n"
		"         seen: rdma resource show qp: mlx5_0/1 type GSI state ERR\n"
		"         fix:  rdma link delete mlx5_0; rdma link add mlx5_0 type rxe "
		"netdev eth0\n"
		"0 errors, 1 warning, 0 notes, 0 ok\n");
}
END_TEST

START_TEST(gsi__of_adapter)
{
	(void)strcpy(port->gsi_state, "ERR");
	gsi_check(host);
	CHECK_HAS("fix:  # load the driver of mlx5_0 again");
}
END_TEST

START_TEST(gsi__good_or_unknown)
{
	gsi_check(host);
	CHECK_SHOWN("0 errors, 0 warnings, 0 notes, 0 ok\n");
	(void)strcpy(port->gsi_state, "RTS");
	gsi_check(host);
	CHECK_HAS("0 errors, 0 warnings, 0 notes, 1 ok\n");
}
END_TEST

/* ---- flow control ---- */

START_TEST(pfc__of_no_priority)
{
	port->pfc = 0;
	congestion_check(host);
	CHECK_HAS("warning  check            mlx5_0, port 1: no priority of eth0 has "
		  "flow "
		  "control");
	CHECK_HAS("seen: DCB: eth0: PFC of no priority\n");
	CHECK_HAS("fix:  dcb pfc set dev eth0 prio-pfc 3:on");
}
END_TEST

/* Write a file below a directory of this test, which becomes the host's root. */
static void traffic_class_write(char root[32], const char *path, const char *value)
{
	char command[512];

	(void)strcpy(root, "/tmp/rmem-doctor.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	host->root = root;
	(void)snprintf(command, sizeof(command),
		       "mkdir -p \"$(dirname %s%s)\" && echo %s >%s%s", root, path,
		       value, root, path);
	ck_assert_int_eq(system(command), 0);
}

static void root_remove(const char *root)
{
	char command[64];

	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	ck_assert_int_eq(system(command), 0);
}

#define TC_PATH "/sys/class/infiniband/mlx5_0/tc/1/traffic_class"
#define TOS_PATH "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos"

START_TEST(pfc__of_the_priority)
{
	char root[32];

	/* DSCP 26, which switches map to the priority 3 */
	traffic_class_write(root, TOS_PATH, "104");
	port->pfc = 1 << 3;
	congestion_check(host);
	CHECK_HAS("ok       check            mlx5_0, port 1: RDMA has the traffic "
		  "class 104 "
		  "(DSCP 26, priority 3),");
	CHECK_HAS("seen: " TOS_PATH ": 104\n");
	root_remove(root);
}
END_TEST

START_TEST(pfc__of_another_priority)
{
	char root[32];

	traffic_class_write(root, TC_PATH, "0");
	port->pfc = 1 << 3;
	congestion_check(host);
	CHECK_HAS("warning  check            mlx5_0, port 1: RDMA has the traffic "
		  "class 0 "
		  "(DSCP 0, priority 0), which\n");
	CHECK_HAS("seen: DCB: eth0: PFC of the priorities 0x08\n");
	CHECK_HAS("fix:  mkdir -p /sys/kernel/config/rdma_cm/mlx5_0 && echo 96 "
		  ">" TOS_PATH);
	root_remove(root);
}
END_TEST

START_TEST(pfc__of_the_configured_class)
{
	port->pfc = 1 << 3;
	host->traffic_class = 106;
	congestion_check(host);
	CHECK_HAS("ok       check            mlx5_0, port 1: RDMA has the traffic "
		  "class 106 ");
	CHECK_HAS("seen: traffic_class: 106\n");
}
END_TEST

START_TEST(pfc__traffic_class_unknown)
{
	port->pfc = 1 << 3;
	congestion_check(host);
	CHECK_HAS("note     check            mlx5_0, port 1: flow control is on for "
		  "some");
}
END_TEST

/* ---- clock ---- */

START_TEST(clock__not_synchronised)
{
	host->clock = 0;
	clock_check(host);
	CHECK_HAS("warning  check            the clock is not synchronised");
	CHECK_HAS("seen: adjtimex: STA_UNSYNC\n");
	CHECK_HAS("fix:  timedatectl set-ntp true");
}
END_TEST

START_TEST(clock__synchronised_or_unknown)
{
	host->clock = -1;
	clock_check(host);
	CHECK_SHOWN("0 errors, 0 warnings, 0 notes, 0 ok\n");
	host->clock = 1;
	clock_check(host);
	CHECK_HAS("1 ok\n");
}
END_TEST

/* ---- the daemon ---- */

START_TEST(daemon__serves_no_rdma)
{
	server.status =
		json_loads("{\"version\": \"0.0.1\", \"pid\": 4711, \"fabrics\": "
			   "{\"rdma\": {\"serving\": false, \"why\": \"no device\"},"
			   " \"tcp\": {\"serving\": true}}}",
			   0, NULL);
	daemon_check(&server);
	CHECK_HAS("warning  check            the daemon is of another version");
	CHECK_HAS("warning  check            the daemon does not serve rdma\n"
		  "         seen: rmemctl status: no device\n");
	CHECK_HAS("systemctl restart rmemd   # after the findings below");
	ck_assert_ptr_null(strstr(shown, "serve tcp"));
	json_decref(server.status);
}
END_TEST

/* It is served once its device is there: a restart changes nothing. */
START_TEST(daemon__awaits_rdma)
{
	server.status = json_loads("{\"pid\": 4711, \"fabrics\": {\"rdma\": "
				   "{\"serving\": false, \"awaited\": true, "
				   "\"why\": \"no device\"}, "
				   "\"tcp\": {\"serving\": true}}}",
				   0, NULL);
	daemon_check(&server);
	CHECK_HAS("the daemon does not serve rdma\n"
		  "         seen: rmemctl status: no device\n");
	ck_assert_ptr_null(strstr(shown, "restart"));
	json_decref(server.status);
}
END_TEST

START_TEST(daemon__has_pools_without_huge_pages)
{
	server.config.n_pools = 1;
	server.config.pools[0] = (struct pool_params){ .name = "p",
						       .node = POOL_NODE_ANY,
						       .bytes = 1 << 20 };
	server.pools = json_loads(
		"{\"pools\": [{\"name\": \"p\", \"pages\": \"base\"}]}", 0, NULL);
	hugepages_check(&server);
	CHECK_HAS("note     check            pool 'p' has no huge pages");
	CHECK_HAS("seen: rmemctl pools: page_size auto became base\n");
	json_decref(server.pools);
}
END_TEST

/* ---- clients ---- */

static const struct {
	const char *listen, *seen;
} listens[] = {
	{ "192.0.2.1", "rmem doctor rmem://192.0.2.1:7460   # on a client" },
	{ "2001:db8::1", "rmem doctor rmem://[2001:db8::1]:7460 " },
	{ "::", "rmem doctor rmem://HOST:7460 " },
	{ "127.0.0.1", "ok       check            only clients of this host" },
};

START_TEST(clients__are_told_where_to_look)
{
	ck_assert_int_eq(
		fabric_address_parse(listens[_i].listen, &server.config.listen[1]), 0);
	ck_assert_int_eq(fabric_address_parse("::1", &server.config.listen[0]), 0);
	server.config.n_listen = 2;
	clients_check(&server);
	CHECK_HAS(listens[_i].seen);
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("doctor", setup, teardown);

	tcase_add_test(tcase, report__has_lines_of_100_columns);
	tcase_add_test(tcase, report__shows_no_control_characters);
	tcase_add_test(tcase, report__is_json);
	tcase_add_test(tcase, mtu__is_that_of_the_kernel);
	tcase_add_test(tcase, mtu__device_below_interface);
	tcase_add_test(tcase, mtu__device_above_interface);
	tcase_add_test(tcase, mtu__device_limit_is_good);
	tcase_add_test(tcase, gsi__in_error);
	tcase_add_test(tcase, gsi__of_adapter);
	tcase_add_test(tcase, gsi__good_or_unknown);
	tcase_add_test(tcase, pfc__of_no_priority);
	tcase_add_test(tcase, pfc__of_the_priority);
	tcase_add_test(tcase, pfc__of_another_priority);
	tcase_add_test(tcase, pfc__of_the_configured_class);
	tcase_add_test(tcase, pfc__traffic_class_unknown);
	tcase_add_test(tcase, clock__not_synchronised);
	tcase_add_test(tcase, clock__synchronised_or_unknown);
	tcase_add_test(tcase, daemon__serves_no_rdma);
	tcase_add_test(tcase, daemon__awaits_rdma);
	tcase_add_test(tcase, daemon__has_pools_without_huge_pages);
	tcase_add_loop_test(tcase, clients__are_told_where_to_look, 0,
			    sizeof(listens) / sizeof(listens[0]));
	return unit_main();
}
