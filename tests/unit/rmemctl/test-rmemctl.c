/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of rmemctl. */
#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "rmemctl/command.h"
#include "rmemctl/list.h"
#include "rmemctl/table.h"
#include "rmemctl/view.h"
#include "unit/unit.h"

/* ---- tables ---- */

static char *shown; /* the output of the last command */
static size_t shown_bytes;

static void output_free(void)
{
	free(shown);
	shown = NULL;
}

static int show_to_memory(const char *name, const char *body, bool wide)
{
	const struct command *command = NULL;
	FILE *out;
	int err;

	output_free();
	out = open_memstream(&shown, &shown_bytes);
	ck_assert_ptr_nonnull(out);
	ck_assert_int_eq(command_find(name, &command), 0);
	err = view_show(command, body, wide, out);
	ck_assert_int_eq(fclose(out), 0);
	return err;
}

/* Escapes, C1 and a change of direction in all strings, and as a key of all objects. */
static void poison(json_t *value)
{
	static const char poisoned[] = "a\x1b[2J\n\xc2\x9b\xe2\x80\xae";
	json_t *child;
	const char *key;
	size_t i;

	if (json_is_string(value))
		ck_assert_int_eq(json_string_set(value, poisoned), 0);
	json_array_foreach(value, i, child) poison(child);
	json_object_foreach(value, key, child) poison(child);
	if (json_is_object(value))
		ck_assert_int_eq(json_object_set_new(value, poisoned, json_integer(1)),
				 0);
}

/* What is shown of such a reply a terminal does not act on. */
static void show_poisoned(const char *name, const char *body, bool wide)
{
	json_t *answer = json_loads(body, 0, NULL);
	char *text, *sanitized;

	poison(answer);
	text = json_dumps(answer, 0);
	json_decref(answer);
	if (!text)
		return;
	(void)show_to_memory(name, text, wide);
	sanitized = strdup(shown);
	ck_assert_ptr_nonnull(sanitized);
	ck_assert_str_eq(shown, utf8_sanitize(sanitized, "\n"));
	free(sanitized);
	free(text);
}

/* Show a reply of the server; returns the result.  Each reply is shown with escapes in it too, so
 * that a new command cannot forget them. */
static int show_as(const char *name, const char *body, bool wide)
{
	show_poisoned(name, body, wide);
	return show_to_memory(name, body, wide);
}

static int show(const char *name, const char *body)
{
	return show_as(name, body, true);
}

static void check_output(const char *name, const char *body, const char *output)
{
	ck_assert_int_eq(show(name, body), 0);
	ck_assert_str_eq(shown, output);
}

static void check_output_has(const char *part)
{
	ck_assert_msg(strstr(shown, part), "no %s in %s", part, shown);
}

START_TEST(table__aligns_columns)
{
	check_output(
		"pools",
		"{\"pools\": [{\"name\": \"caf\xc3\xa9\", \"node\": 1, "
		"\"node_asked\": null,\"pages\": \"2M\", \"pages_asked\": \"auto\", "
		"\"bytes\": 1610612736, \"bytes_asked\": null,"
		"\"state\": \"shrinking\", \"bytes_to\": 1073741824, "
		"\"recalled_bytes\": 4096, \"lent_bytes\": 0, \"scrubbing_bytes\": 0, "
		"\"free_bytes\": 1610612736,\"largest_free_bytes\": 4096, "
		"\"fragmentation_percent\": 99, \"devices\": [\"a0\", \"b1\"]}, "
		"{\"name\": \"longer\", \"node\": null, \"error\": \"no pages\"}]}",
		"POOL    NODE  (ASKED)  PAGES  (ASKED)     SIZE  (ASKED)  "
		"STATE         TO  RECALLED  LENT  "
		"SCRUBBING     FREE  LARGEST  FRAGMENTED  DEVICES  ERROR\n"
		"caf\xc3\xa9       1      any  2M     auto     1.5 GiB     auto  "
		"shrinking  1 GiB     4 KiB   0 B  "
		"      0 B  1.5 GiB    4 KiB         99%  a0, b1   -\n"
		"longer     -      any  -      -              -     auto  "
		"-              -         -     -  "
		"        -        -        -           -  all      no pages\n");
}
END_TEST

/* The width of the longest line of `shown`. */
static size_t shown_width(void)
{
	size_t width = 0, longest = 0;

	for (const char *c = shown; *c; c++) {
		width = *c == '\n' ? 0 : width + (((unsigned char)*c & 0xc0) != 0x80);
		if (width > longest)
			longest = width;
	}
	return longest;
}

#define LONG_NAME \
	"caf\xc3\xa9-abcdefghijklmnopqrstuvwxyz-0123456789-abcdefghijklmnopqrstuvwxyz"

static const struct {
	const char *name, *body, *always, *wide;
} fitting[] = {
	{ "pools",
	  "{\"pools\": [{\"name\": \"" LONG_NAME "\", \"node\": null, "
	  "\"pages\": \"transparent\", \"bytes\": 1099511500000, "
	  "\"state\": \"shrinking\", \"bytes_to\": 1099511500000, "
	  "\"lent_bytes\": 1099511500000, \"scrubbing_bytes\": 1099511500000, "
	  "\"free_bytes\": 1099511500000}]}",
	  "  shrinking  ", "FRAGMENTED" },
	{ "devices",
	  "{\"devices\": [{\"fabric\": \"rdma\", \"address\": "
	  "\"2001:db8:1111:2222:3333:4444:5555:6666\", \"port\": 65535, "
	  "\"node\": null, \"channels\": 10000, \"refused\": 1000000, "
	  "\"errors\": 1000000}]}",
	  "  65535  unknown  ", "EXPOSURES" },
	{ "sessions",
	  "{\"sessions\": [{\"id\": \"18446744073709551615\", \"state\": "
	  "\"active\", \"tenant\": \"" LONG_NAME "\", \"peer\": "
	  "\"[2001:db8:1111:2222:3333:4444:5555:6666]:65535\", \"client\": "
	  "\"" LONG_NAME "\", \"leases\": 65536, \"lent_bytes\": 1099511500000, "
	  "\"idle_ms\": 3540000}]}",
	  "\n18446744073709551615  active  ", "RESUMES" },
	{ "leases",
	  "{\"leases\": [{\"id\": \"18446744073709551615\", \"state\": "
	  "\"waiting\", \"tenant\": \"" LONG_NAME "\", \"bytes\": "
	  "1099511500000, \"sessions\": 1000, \"age_ms\": 86300000, "
	  "\"ttl_ms\": 86300000, \"name\": \"" LONG_NAME "\"}]}",
	  "\n18446744073709551615  waiting  ", "PLACEMENT" },
	{ "tenants",
	  "{\"tenants\": [{\"name\": \"" LONG_NAME "\", \"state\": \"leaving\", "
	  "\"sessions\": 1000, \"channels\": 10000, \"leases\": 65536, "
	  "\"lent_bytes\": 1099511500000, \"bytes_max\": 1099511500000, "
	  "\"keys\": 1000000, \"refused\": 1000000}]}",
	  "  leaving  ", "TTL-MAX" },
};

START_TEST(table__fits_100_columns)
{
	const char *name = fitting[_i].name, *body = fitting[_i].body;
	bool cut = strstr(body, LONG_NAME);

	ck_assert_int_eq(show_as(name, body, false), 0);
	ck_assert_msg(shown_width() <= 100, "%zu: %s", shown_width(), shown);
	check_output_has(fitting[_i].always);
	ck_assert_ptr_null(strstr(shown, fitting[_i].wide));
	ck_assert_ptr_null(strstr(shown, LONG_NAME));
	if (cut)
		check_output_has("...");
	ck_assert_int_eq(show_as(name, body, true), 0);
	check_output_has(fitting[_i].wide);
	if (cut)
		check_output_has(LONG_NAME);
}
END_TEST

/* The text of a cell, up to the next call; frees the value. */
static const char *cell_text(json_t *json, enum cell cell, const char *null)
{
	static char buf[CELL_CHARS];
	const char *text;

	ck_assert_ptr_nonnull(json);
	text = cell_format(json, cell, null, buf);
	json_decref(json);
	return text;
}

START_TEST(cell__replaces_control_characters)
{
	json_t *json = json_string("a\x1b[31mb\n\xc2\x9b"
				   "c\x7f\xc3\xa9\xe2\x80\xae"
				   "d");

	ck_assert_str_eq(cell_text(json, CELL_TEXT, "-"), "a?[31mb??c?\xc3\xa9?d");
}
END_TEST

START_TEST(cell__is_cut_between_characters)
{
	char text[2 * CELL_CHARS + 2] = "x";

	for (unsigned i = 0; i < CELL_CHARS; i++)
		memcpy(text + 1 + 2 * i, "\xc3\xa9", 3);
	ck_assert_uint_eq(strlen(cell_text(json_string(text), CELL_TEXT, "-")),
			  CELL_CHARS - 1);
	/* one more byte would be half a character */
	ck_assert_uint_eq(strlen(cell_text(json_string(text + 1), CELL_TEXT, "-")),
			  CELL_CHARS - 2);
}
END_TEST

START_TEST(cell__joins_lists)
{
	json_t *array = json_array();
	const char *text;

	for (int i = 0; i < 16; i++)
		ck_assert_int_eq(json_array_append_new(array, json_string("mlx5_1")),
				 0);
	text = cell_text(array, CELL_LIST, "all");
	ck_assert_int_eq(strncmp(text, "mlx5_1, mlx5_1, ", 16), 0);
	ck_assert_uint_eq(strlen(text), CELL_CHARS - 1);
	ck_assert_str_eq(cell_text(json_array(), CELL_LIST, "all"), "all");
}
END_TEST

START_TEST(cell__cuts_the_list_of_nodes)
{
	json_t *array = json_array();

	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(
			json_array_append_new(array, json_pack("{s:i, s:i}", "node", i,
							       "bytes", 1024)),
			0);
	ck_assert_uint_eq(strlen(cell_text(array, CELL_SHARES, "-")), CELL_CHARS - 1);
	ck_assert_str_eq(cell_text(json_array(), CELL_SHARES, "-"), "-");
}
END_TEST

START_TEST(time__has_two_units)
{
	char buf[CELL_CHARS];

	ck_assert_str_eq(time_format(0, buf), "0ms");
	ck_assert_str_eq(time_format(999, buf), "999ms");
	ck_assert_str_eq(time_format(61500, buf), "1min 1s");
	ck_assert_str_eq(time_format(3600000, buf), "1h");
	ck_assert_str_eq(time_format(90061000, buf), "1d 1h");
}
END_TEST

START_TEST(show__reports_an_empty_list)
{
	check_output("sessions", "{\"sessions\": []}", "no sessions\n");
}
END_TEST

START_TEST(show__lists_sessions_leases_and_devices)
{
	ck_assert_int_eq(show("sessions",
			      "{\"sessions\": [{\"id\": \"18446744073709551615\","
			      "\"state\": \"fenced\", \"idle_ms\": 2500}]}"),
			 0);
	check_output_has("\n18446744073709551615  fenced  -");
	check_output_has("  2s  ");
	ck_assert_int_eq(show("leases", "{\"leases\": [{\"id\": \"3\", \"bytes\": 5000,"
					"\"ttl_ms\": null, \"name\": \"data\"}]}"),
			 0);
	check_output_has("  4.9 KiB");
	check_output_has("  none  data\n");
	ck_assert_int_eq(show("leases",
			      "{\"leases\": [{\"id\": \"3\", "
			      "\"placement\": \"interleave\", \"node_asked\": null, "
			      "\"nodes\": [{\"node\": 0, \"bytes\": 4096}, "
			      "{\"node\": null, \"bytes\": 512}]}]}"),
			 0);
	check_output_has("  interleave     any  0: 4 KiB, ?: 512 B  ");
	ck_assert_int_eq(show("devices", "{\"devices\": [{\"device\": \"rxe0\"}]}"), 0);
	check_output_has("\nrxe0    -       -");
	check_output_has("unknown");
}
END_TEST

START_TEST(show__says_who_made_a_lease)
{
	ck_assert_int_eq(show("leases",
			      "{\"leases\": [{\"id\": \"3\", \"owner\": null, "
			      "\"creator\": {\"session\": \"1\", \"client\": "
			      "\"prog\", \"peer\": \"[::1]:7\"}}, {\"id\": \"4\", "
			      "\"creator\": null}]}"),
			 0);
	check_output_has("  prog     [::1]:7  ");
	check_output_has("\n4      -      -       -      -        -  ");
}
END_TEST

#define LEASES                                                                        \
	"{\"leases\": [{\"id\": \"3\", \"bytes\": 4096, \"name\": \"b\", "            \
	"\"attached\": "                                                              \
	"[{\"session\": \"9\", \"rights\": \"read\", \"tenant\": \"red\", \"peer\": " \
	"\"p\", \"client\": \"c\"}, {\"session\": \"10\", \"client\": \"d\"}]}, "     \
	"{\"id\": \"20\", \"bytes\": 1024, \"name\": \"a\", \"attached\": []}, "      \
	"{\"id\": \"5\", \"bytes\": 8192, \"name\": null, \"attached\": []}]}"

START_TEST(holders__have_a_line_each)
{
	ck_assert_int_eq(show_as("holders", LEASES, false), 0);
	ck_assert_str_eq(shown,
			 "LEASE   SIZE  SESSION  RIGHTS  TENANT  PEER  CLIENT  NAME\n"
			 "3      4 KiB  9        read    red     p     c       b\n"
			 "3      4 KiB  10       -       -       -     d       b\n"
			 "20     1 KiB  -        -       -       -     -       a\n"
			 "5      8 KiB  -        -       -       -     -       -\n");
}
END_TEST

/* Set an option as the command line does.  The value is kept until the next call. */
static void option_set(const struct option_row *rows, const char *option,
		       const char *value)
{
	static char name[32], text[32];
	char *argv[] = { (char[]){ "x" }, name, text, NULL };

	ck_assert_uint_lt(strlen(option), sizeof(name));
	ck_assert_uint_lt(strlen(value), sizeof(text));
	strcpy(name, option);
	strcpy(text, value);
	optind = 1;
	ck_assert_msg(option_parse(rows, false, 3, argv) == 0, "%s", err_text());
}

static const struct {
	const char *sort, *names;
} sorted[] = {
	{ "id", "3\n5\n20\n" },     { "LEASE", "3\n5\n20\n" },
	{ "-lease", "20\n5\n3\n" }, { "size", "20\n3\n5\n" },
	{ "-bytes", "5\n3\n20\n" }, { "name", "5\n20\n3\n" },
	{ "ttl", "3\n20\n5\n" },
};

/* --sort for leases, as on a command line. */
static int sort_set(const char *column)
{
	const struct command *command;

	ck_assert_int_eq(command_find("leases", &command), 0);
	option_set(list_sort_options, "--sort", column);
	return list_sort_check(command->columns);
}

START_TEST(lists__are_sorted)
{
	ck_assert_int_eq(sort_set(sorted[_i].sort), 0);
	options.names = true;
	ck_assert_int_eq(show("leases", LEASES), 0);
	ck_assert_str_eq(shown, sorted[_i].names);
}
END_TEST

START_TEST(sort__by_an_unknown_column_is_refused)
{
	ck_assert_int_eq(sort_set("bites"), -EINVAL);
	ck_assert_str_eq(err_text(),
			 "--sort: unknown column 'bites'; did you mean 'bytes'?");
	ck_assert_int_eq(sort_set("(node)"), -EINVAL);
}
END_TEST

START_TEST(names__of_endpoints_are_devices_or_fabrics)
{
	options.names = true;
	check_output("devices",
		     "{\"devices\": [{\"device\": null, \"fabric\": \"tcp\"}, "
		     "{\"device\": \"rxe0\", \"can\": null}]}",
		     "tcp\nrxe0\n");
}
END_TEST

START_TEST(events__have_a_line_each)
{
	ck_assert_int_eq(setenv("TZ", "UTC", 1), 0);
	check_output("events",
		     "{\"events\": [{\"number\": 7, \"missed\": 3, \"time_ms\": "
		     "1764000000123, \"level\": \"notice\", \"event\": "
		     "\"lease-expired\", \"text\": \"a\\nb\", \"lease\": \"5\", "
		     "\"session\": null, \"tenant\": \"blue\"}, {\"time_ms\": 0, "
		     "\"missed\": 0, \"level\": \"info\", \"event\": \"x\", \"text\": "
		     "\"y\"}]}",
		     "missed: 3 events\n"
		     "2025-11-24T16:00:00.123+0000 notice lease-expired: a?b [lease=5 "
		     "tenant=blue]\n"
		     "1970-01-01T00:00:00.000+0000 info x: y\n");
}
END_TEST

START_TEST(show__lists_tenants)
{
	check_output("tenants",
		     "{\"tenants\": [{\"name\": \"a\", \"state\": \"leaving\", "
		     "\"sessions\": 1, \"sessions_max\": null, \"channels\": 2, "
		     "\"channels_max\": 3, \"leases\": 4, \"leases_max\": 5, "
		     "\"lent_bytes\": 6, \"bytes_max\": 1024, \"keys\": 7, "
		     "\"keys_max\": 8, \"lease_min\": null, \"lease_max\": 9, "
		     "\"ttl_max_ms\": 60000, \"access\": \"read-only\", "
		     "\"pools\": [], \"names\": [\"n*\", \"m\"], \"refused\": 10, "
		     "\"denied_pools\": 12, \"denied_access\": 13, \"denied_names\": "
		     "14, \"denied_shares\": 15, "
		     "\"accesses_refused\": 11}]}",
		     "TENANT  STATE    SESSIONS  (MAX)  CHANNELS  (MAX)  LEASES  "
		     "(MAX)  LENT  "
		     "(MAX)  KEYS  (MAX)  LEASE-MIN  LEASE-MAX  TTL-MAX  ACCESS     "
		     "POOLS  NAMES  REFUSED  NO-POOL  NO-WRITE  NO-NAME  NO-SHARE  "
		     "ACCESSES\n"
		     "a       leaving         1   none         2      3       4      "
		     "5   6 B  "
		     "1 KiB     7      8       none        9 B     1min  "
		     "read-only  all    n*, m       10       12        13       14     "
		     "   15        "
		     "11\n");
}
END_TEST

START_TEST(show__says_what_actions_did)
{
	check_output("reload",
		     "{\"changed\": [{\"section\": \"log\", \"key\": \"level\", "
		     "\"old\": \"info\", \"new\": \"\"}, {\"section\": \"pool b\", "
		     "\"key\": null, \"old\": null, \"new\": \"present\"}, "
		     "{\"section\": \"pool c\", \"key\": null, \"old\": \"present\", "
		     "\"new\": null}], \"changed_more\": 7, \"needs_restart\": "
		     "[{\"section\": \"tcp\", \"key\": \"port\", \"old\": \"1\", "
		     "\"new\": \"2\"}, {\"section\": \"device a0\", \"key\": null, "
		     "\"old\": null, \"new\": \"present\"}], "
		     "\"needs_restart_more\": 8}",
		     "[log] level: info -> \"\"\n"
		     "[pool b]: added\n"
		     "[pool c]: removed\n"
		     "and 7 more\n"
		     "needs a restart: [tcp] port: 1 (running) -> 2 (in the file)\n"
		     "needs a restart: [device a0]: added (in the file)\n"
		     "needs a restart: and 8 more\n");
	check_output("reload", "{\"changed\": [], \"needs_restart\": []}",
		     "nothing has changed\n");
	check_output("log-level", "{\"level\": \"info\", \"configured\": \"info\"}",
		     "info\n");
	check_output("log-level", "{\"level\": \"debug\", \"configured\": \"info\"}",
		     "debug until the next reload or restart, then info\n");
	check_output("revoke",
		     "{\"revoked\": {\"id\": \"5\", \"name\": \"x\\ny\", \"tenant\": "
		     "\"red\", \"bytes\": 4096, \"sessions\": 2}}",
		     "revoked lease 5 (x?y) of tenant red: 4 KiB, sessions that had it "
		     "attached: 2\n");
}
END_TEST

START_TEST(show__says_whom_it_kicked)
{
	check_output(
		"kick",
		"{\"kicked\": {\"id\": \"5\", \"tenant\": \"red\", \"client\": "
		"\"p[1]\", \"peer\": \"[::1]:9\", \"leases\": 2, \"keys\": 3}}",
		"ended session 5 of tenant red: p[1] at [::1]:9, leases that it had "
		"attached: 2\n");
}
END_TEST

START_TEST(show__says_why_there_is_no_device)
{
	ck_assert_int_eq(show("devices",
			      "{\"devices\": [{\"device\": null}], \"fabrics\": "
			      "{\"rdma\": {\"serving\": false, \"why\": \"off\"}}}"),
			 0);
	check_output_has("\n\nrdma       not serving: off\n");
}
END_TEST

START_TEST(show__describes_devices)
{
	ck_assert_int_eq(
		show("devices",
		     "{\"devices\": [{\"device\": null, \"can\": null}, "
		     "{\"device\": \"mlx5_0\", \"can\": null}, {\"device\": \"rxe0\", "
		     "\"node\": 1, \"can\": {\"transport\": \"RoCE\", "
		     "\"atomics\": \"HCA\", \"write_immediate\": true, "
		     "\"relaxed_ordering\": true, \"on_demand_paging\": false, "
		     "\"inline_bytes\": 476, \"max_qp\": 1, \"max_qp_wr\": 2, "
		     "\"max_sge\": 3, \"max_cq\": 4, \"max_cqe\": 5, \"max_mr\": 6, "
		     "\"max_mr_bytes\": 4096, \"responder_resources\": 7, "
		     "\"initiator_depth\": 8}, \"device_port\": {\"number\": 1, "
		     "\"state\": \"active\", \"active_mtu\": 1024, \"max_mtu\": null, "
		     "\"gids_more\": 2, \"gids\": [{\"index\": 1, \"gid\": \"::1\", "
		     "\"type\": \"RoCE v2\", \"served\": true}, {\"index\": 2}]}, "
		     "\"knobs\": {\"mtu\": 1024, \"traffic_class\": null, "
		     "\"ack_timeout\": 14, \"retry_count\": 6, "
		     "\"rnr_retry_count\": 5, \"rd_atomic\": 16, "
		     "\"relaxed_ordering\": true, \"connect\": \"direct\", "
		     "\"gid_index\": 1, \"pkey\": 32770}}]}"),
		0);
	ck_assert_str_eq(
		strstr(shown, "\n\n"),
		"\n\nmlx5_0: is not there\n"
		"\nrxe0: RoCE, port 1 active, MTU 1024 of unknown, NUMA node 1\n"
		"  atomics HCA, write with immediate, inline 476 B, relaxed ordering "
		"accepted, no on-demand paging\n"
		"  at most 1 QPs of 2 requests and 3 SGEs, 4 CQs of 5, 6 MRs of 4 "
		"KiB\n"
		"  rd_atomic: of peers 7, its own 8\n"
		"  in effect: MTU 1024, traffic class auto, service level auto\n"
		"  ACK timeout 14, retries 6, RNR retries 5, rd_atomic 16, relaxed "
		"ordering on\n"
		"  connect direct, GID index 1, P_Key 0x8002\n"
		"  GID 1  ::1  RoCE v2  served\n"
		"  GID 2  unknown  unknown\n"
		"  GIDs not shown: 2\n");
}
END_TEST

START_TEST(show__formats_the_status)
{
	check_output(
		"status",
		"{\"version\": \"1.2\", \"pid\": 7, \"uptime_ms\": 65000, "
		"\"control\": [\"192.0.2.10:7460\", \"[::1]:7460\"],"
		"\"fabrics\": {\"rdma\": {\"serving\": false, "
		"\"why\": \"no device\"},\"tcp\": {\"serving\": true}}, "
		"\"memory\": {\"pools\": 1, \"bytes\": 1024,\"lent_bytes\": 0, "
		"\"scrubbing_bytes\": 0, \"free_bytes\": 1024},"
		"\"sessions\": {\"active\": 1, \"fenced\": 0, \"channels\": 2, "
		"\"keys\": 12},\"leases\": {\"named\": 3, \"ephemeral\": 4, "
		"\"bytes\": 10},\"state\": {\"bytes\": 3072, \"bytes_max\": null},"
		"\"counters\": {\"requests\": 5, "
		"\"requests_failed\": 1,\"sessions_opened\": 9, "
		"\"sessions_fenced\": 8, \"sessions_resumed\": 6,"
		"\"leases_granted\": 21, \"leases_expired\": 20,"
		"\"leases_waited\": 11, \"leases_waited_ms\": 61000,"
		"\"connections_refused\": 2, \"channels_refused\": 3,"
		"\"admin_views_refused\": 30, \"admin_acts_refused\": 31, "
		"\"http_refused\": 32, "
		"\"refused\": {\"token\": 2, \"tls\": 0, \"tenant\": 1}},"
		"\"turns\": {\"count\": 900, \"long\": 1, "
		"\"wall_recent_us\": 950, \"cpu_recent_us\": 800}}",
		"rmemd      1.2, pid 7, up 1min 5s\n"
		"control    192.0.2.10:7460, [::1]:7460\n"
		"rdma       not serving: no device\n"
		"tcp        serving\n"
		"memory     1 KiB, 0 B lent, 0 B being zeroed, 1 KiB free, pools: 1\n"
		"sessions   1 active, 0 fenced, channels: 2, keys: 12\n"
		"leases     3 named, 4 ephemeral, together 10 B\n"
		"state      3 KiB in the ledger, limit: none\n"
		"granted    21, expired 20, waited for zeroed memory 11, "
		"in all for 1min 1s\n"
		"requests   5, 1 failed; sessions opened 9, fenced 8, resumed 6\n"
		"refused    connections 2, channels 3, of rmemctl 30 to look and 31 to "
		"act, of HTTP 32\n"
		"turns      900, 1 too long; the longest recent one took 950 us "
		"(of the CPU 800 us)\n"
		"refusals   token 2, tenant 1\n");
}
END_TEST

START_TEST(show__prints_the_whole_reason_of_a_fabric)
{
	char why[256], text[400];

	memset(why, 'w', sizeof(why) - 2);
	memcpy(why + sizeof(why) - 2, "!", 2);
	(void)snprintf(text, sizeof(text),
		       "{\"fabrics\": {\"rdma\": {\"why\": \"\\n%s\"}}}", why);
	ck_assert_int_eq(show("status", text), 0);
	check_output_has("\nrdma       not serving: ?www");
	check_output_has(why);
}
END_TEST

static const char *const bad_bodies[] = { "", "hello", "[1]", "{\"pools\": 5}", "{}" };

START_TEST(show__refuses_bad_bodies)
{
	ck_assert_int_eq(show("pools", bad_bodies[_i]), -EPROTO);
	ck_assert_str_eq(shown, "");
}
END_TEST

START_TEST(command__unknown_suggests_the_nearest)
{
	const struct command *command = NULL;

	ck_assert_int_eq(command_find("sesions", &command), -EINVAL);
	ck_assert_str_eq(err_text(),
			 "unknown command 'sesions'; did you mean 'sessions'?");
	ck_assert_int_eq(command_find("frobnicate", &command), -EINVAL);
	ck_assert_str_eq(err_text(), "unknown command 'frobnicate'");
	ck_assert_ptr_null(command);
}
END_TEST

int main(void)
{
	TCase *table = unit_case("table", NULL, output_free);

	tcase_add_test(table, table__aligns_columns);
	tcase_add_loop_test(table, table__fits_100_columns, 0,
			    sizeof(fitting) / sizeof(fitting[0]));
	tcase_add_test(table, cell__replaces_control_characters);
	tcase_add_test(table, cell__is_cut_between_characters);
	tcase_add_test(table, cell__joins_lists);
	tcase_add_test(table, cell__cuts_the_list_of_nodes);
	tcase_add_test(table, time__has_two_units);
	tcase_add_test(table, show__reports_an_empty_list);
	tcase_add_test(table, show__lists_sessions_leases_and_devices);
	tcase_add_test(table, show__says_who_made_a_lease);
	tcase_add_test(table, holders__have_a_line_each);
	tcase_add_loop_test(table, lists__are_sorted, 0,
			    sizeof(sorted) / sizeof(sorted[0]));
	tcase_add_test(table, sort__by_an_unknown_column_is_refused);
	tcase_add_test(table, names__of_endpoints_are_devices_or_fabrics);
	tcase_add_test(table, events__have_a_line_each);
	tcase_add_test(table, show__lists_tenants);
	tcase_add_test(table, show__says_what_actions_did);
	tcase_add_test(table, show__says_whom_it_kicked);
	tcase_add_test(table, show__says_why_there_is_no_device);
	tcase_add_test(table, show__describes_devices);
	tcase_add_test(table, show__formats_the_status);
	tcase_add_test(table, show__prints_the_whole_reason_of_a_fabric);
	tcase_add_loop_test(table, show__refuses_bad_bodies, 0,
			    sizeof(bad_bodies) / sizeof(bad_bodies[0]));
	tcase_add_test(table, command__unknown_suggests_the_nearest);
	return unit_main();
}
