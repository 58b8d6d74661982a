/* SPDX-License-Identifier: BSD-3-Clause */
/* rmemctl top: the leases, sessions or tenants, again and again, the largest or busiest first. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/units.h"
#include "rmemctl/client.h"
#include "rmemctl/list.h"
#include "rmemctl/screen.h"
#include "rmemctl/view.h"

#define DELAY_MS 2000
#define DELAY_MIN_MS 100
#define HEAD_LINES 4 /* above the rows, with the titles */

/* ---- views ---- */

static const struct column lease_columns[] = {
	{ "LEASE", "id", CELL_ID, "-", COLUMN_ALWAYS },
	{ "TENANT", "tenant", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "SIZE", "bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "SESSIONS", "sessions", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "OPS/s", "operations_s", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "BYTES/s", "bytes_s", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "OPS", "tcp_operations", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "AGE", "age_ms", CELL_TIME, "-", COLUMN_ALWAYS },
	{ "TTL", "ttl_ms", CELL_TIME, "none", COLUMN_ALWAYS },
	{ "NAME", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ 0 },
};

static const struct column session_columns[] = {
	{ "SESSION", "id", CELL_ID, "-", COLUMN_ALWAYS },
	{ "TENANT", "tenant", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "STATE", "state", CELL_TEXT, "-", COLUMN_WIDE },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "LEASES", "leases", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "OPS/s", "operations_s", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "BYTES/s", "bytes_s", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "OPS", "tcp_operations", CELL_NUMBER, "-", COLUMN_WIDE },
	{ "AGE", "age_ms", CELL_TIME, "-", COLUMN_ALWAYS },
	{ "PEER", "peer", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "CLIENT", "client", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ 0 },
};

static const struct column tenant_columns[] = {
	{ "TENANT", "name", CELL_TEXT, "-", COLUMN_ALWAYS },
	{ "LENT", "lent_bytes", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "(MAX)", "bytes_max", CELL_BYTES, "none", COLUMN_ALWAYS },
	{ "LEASES", "leases", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "SESSIONS", "sessions", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "CHANNELS", "channels", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "OPS/s", "operations_s", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ "BYTES/s", "bytes_s", CELL_BYTES, "-", COLUMN_ALWAYS },
	{ "REFUSED", "refused", CELL_NUMBER, "-", COLUMN_ALWAYS },
	{ 0 },
};

static const struct top_view {
	const char *name; /* also of the list */
	const struct column *columns;
	const char *bytes, *age; /* keys to sort by; NULL: the items have none */
} views[] = {
	{ "leases", lease_columns, "bytes", "age_ms" },
	{ "sessions", session_columns, "lent_bytes", "age_ms" },
	{ "tenants", tenant_columns, "lent_bytes", NULL },
};
#define N_VIEWS (sizeof(views) / sizeof(views[0]))

static const struct top_view *view = &views[0];
static const char *sort_key = "bytes";
static bool sort_up, batch;
static unsigned iterations; /* 0: without end */
static uint64_t delay_ms = DELAY_MS;
static const char *sort_text;

/* ---- samples ---- */

/* Of each item, by its id: what it had at the last sample. */
static json_t *last;
static uint64_t last_ns;

static int get(const char *resource, const struct client_parameter *parameters,
	       json_t **ret_answer)
{
	json_error_t error;
	char path[64], *body;
	int err;

	(void)snprintf(path, sizeof(path), "/v1/%s", resource);
	err = client_get(options.socket, path, parameters, &body);
	if (err)
		return err;
	*ret_answer = json_loads(body, 0, &error);
	free(body);
	if (json_is_object(*ret_answer))
		return 0;
	json_decref(*ret_answer);
	*ret_answer = NULL;
	return err_set(-EPROTO, "rmemd does not answer in JSON: %s", error.text);
}

static json_int_t member(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

/* What was added in a second; an item that is new has none yet. */
static void rate_set(json_t *item, const char *key, json_int_t now, const json_t *then,
		     uint64_t ns)
{
	if (!json_is_integer(then) || !ns || now < json_integer_value(then))
		return;
	(void)json_object_set_new(
		item, key,
		json_integer((json_int_t)((double)(now - json_integer_value(then)) *
					  1e9 / (double)ns)));
}

/* Give the items their rates since the last sample, which they replace. */
static void rates_set(json_t *items)
{
	uint64_t now_ns = clock_now_ns();
	json_t *next = json_object();

	for (size_t i = 0; i < json_array_size(items); i++) {
		json_t *item = json_array_get(items, i);
		const char *id = json_string_value(json_object_get(item, "id"));
		json_int_t operations = member(item, "tcp_operations"),
			   bytes = member(item, "tcp_bytes");
		const json_t *was = id ? json_object_get(last, id) : NULL;

		if (!id)
			continue;
		rate_set(item, "operations_s", operations, json_array_get(was, 0),
			 now_ns - last_ns);
		rate_set(item, "bytes_s", bytes, json_array_get(was, 1),
			 now_ns - last_ns);
		(void)json_object_set_new(next, id,
					  json_pack("[I, I]", operations, bytes));
	}
	json_decref(last);
	last = next;
	last_ns = now_ns;
}

static void sum_add(json_t *to, const char *key, const json_t *from)
{
	const json_t *value = json_object_get(from, key);

	if (json_is_integer(value))
		(void)json_object_set_new(
			to, key,
			json_integer(json_number((uint64_t)member(to, key) +
						 (uint64_t)json_integer_value(value))));
}

/* A tenant's rates are those of its sessions. */
static int tenants_add_rates(json_t *tenants)
{
	json_t *answer, *sessions;
	int err = get("sessions", NULL, &answer);

	if (err)
		return err;
	sessions = json_object_get(answer, "sessions");
	rates_set(sessions);
	for (size_t i = 0; i < json_array_size(sessions); i++) {
		const json_t *session = json_array_get(sessions, i),
			     *name = json_object_get(session, "tenant");

		for (size_t k = 0; k < json_array_size(tenants); k++) {
			json_t *tenant = json_array_get(tenants, k);

			if (!json_equal(name, json_object_get(tenant, "name")))
				continue;
			sum_add(tenant, "operations_s", session);
			sum_add(tenant, "bytes_s", session);
		}
	}
	json_decref(answer);
	return 0;
}

/* The items of the view, sorted. */
static int sample(json_t **ret_answer, json_t **ret_items)
{
	static const struct client_parameter no_sessions[] = { { "attached", "no" },
							       { 0 } };
	bool tenants = view->columns == tenant_columns;
	json_t *answer = NULL, *items;
	int err = get(view->name, view->columns == lease_columns ? no_sessions : NULL,
		      &answer);

	if (err)
		return err;
	items = json_object_get(answer, view->name);
	if (!json_is_array(items))
		err = err_set(-EPROTO, "rmemd's answer has no list of %s", view->name);
	else if (tenants)
		err = tenants_add_rates(items);
	else
		rates_set(items);
	if (!err)
		err = list_sort_by(items, sort_key, !sort_up);
	if (err) {
		json_decref(answer);
		return err;
	}
	*ret_answer = answer;
	*ret_items = items;
	return 0;
}

/* ---- a picture ---- */

static const struct field head[] = {
	{ "rmemd ", NULL, "version", CELL_TEXT, "-" },
	{ ", up ", NULL, "uptime_ms", CELL_TIME, "-" },
	{ ", sessions: ", "sessions", "active", CELL_NUMBER, "-" },
	{ " active, ", "sessions", "fenced", CELL_NUMBER, "-" },
	{ " fenced, leases: ", "leases", "named", CELL_NUMBER, "-" },
	{ " named, ", "leases", "ephemeral", CELL_NUMBER, "-" },
	{ " ephemeral\nmemory ", "memory", "bytes", CELL_BYTES, "-" },
	{ ", ", "memory", "lent_bytes", CELL_BYTES, "-" },
	{ " lent, ", "memory", "scrubbing_bytes", CELL_BYTES, "-" },
	{ " being zeroed, ", "memory", "free_bytes", CELL_BYTES, "-" },
	{ " free\n", NULL, NULL, CELL_TEXT, NULL },
	{ 0 },
};

static const char *sort_title(void)
{
	for (const struct column *column = view->columns; column->title; column++)
		if (strcmp(column->key, sort_key) == 0)
			return column->title;
	return sort_key;
}

/* Print all of it, with `rows` items at most. */
static int picture_print(FILE *out, size_t rows)
{
	json_t *status = NULL, *answer = NULL, *items;
	int err = get("status", NULL, &status);

	if (!err)
		err = sample(&answer, &items);
	if (err) {
		json_decref(status);
		return err;
	}
	fields_print(out, head, status);
	(void)fprintf(out, "%s: %zu, by %s, %s first; traffic over TCP alone\n",
		      view->name, json_array_size(items), sort_title(),
		      sort_up ? "the smallest" : "the largest");
	while (json_array_size(items) > rows)
		(void)json_array_remove(items, json_array_size(items) - 1);
	if (json_array_size(items) > 0)
		err = table_print(out, view->columns, options.wide, items);
	json_decref(answer);
	json_decref(status);
	return err;
}

static int picture_draw(void)
{
	unsigned lines, columns;
	size_t bytes;
	char *text = NULL;
	FILE *out;
	int err;

	screen_size(&lines, &columns);
	out = open_memstream(&text, &bytes);
	if (!out)
		return err_errno(-errno, "top");
	err = picture_print(out, lines > HEAD_LINES ? lines - HEAD_LINES : 0);
	if (fclose(out) && !err)
		err = err_errno(-errno, "top");
	if (!err)
		err = screen_draw(text);
	free(text);
	return err;
}

/* ---- keys ---- */

static const char help_text[] =
	"Keys of rmemctl top\n\n"
	"  1, 2, 3   leases, sessions, tenants\n"
	"  Tab       the next of these\n"
	"  M         sort by bytes\n"
	"  P         sort by operations in a second\n"
	"  T         sort by age\n"
	"  <, >      sort by the column before or behind\n"
	"  R         the other end first\n"
	"  +, -      wait longer or shorter, now with twice or half the delay\n"
	"  w         all columns, or those that fit\n"
	"  Space     at once\n"
	"  h, ?      this\n"
	"  q         quit\n\n"
	"Operations and their bytes are those over TCP.  RDMA devices serve clients "
	"without the\n"
	"daemon; rmemctl metrics has what the kernel counts for each of them.\n\n"
	"Any key goes back.\n";

static void view_choose(size_t i)
{
	view = &views[i % N_VIEWS];
	sort_key = view->bytes;
	sort_up = false;
	json_decref(last);
	last = NULL;
}

static void sort_move(int by)
{
	int n = 0, at = 0;

	for (const struct column *column = view->columns; column->title; column++, n++)
		if (strcmp(column->key, sort_key) == 0)
			at = n;
	sort_key = view->columns[(at + by + n) % n].key;
}

static void sort_choose(const char *key)
{
	if (key)
		sort_key = key;
	sort_up = false;
}

static void delay_change(bool longer)
{
	delay_ms = longer ? delay_ms * 2 : delay_ms / 2;
	if (delay_ms < DELAY_MIN_MS)
		delay_ms = DELAY_MIN_MS;
	if (delay_ms > 60000)
		delay_ms = 60000;
}

/* 1: quit; -errno with text */
static int key_handle(int key)
{
	int err;

	switch (key) {
	case 'q':
	case SCREEN_END:
		return 1;
	case '1':
	case '2':
	case '3':
		view_choose((size_t)(key - '1'));
		break;
	case '\t':
		view_choose((size_t)(view - views) + 1);
		break;
	case 'M':
		sort_choose(view->bytes);
		break;
	case 'P':
		sort_choose("operations_s");
		break;
	case 'T':
		sort_choose(view->age);
		break;
	case '<':
	case '>':
		sort_move(key == '<' ? -1 : 1);
		break;
	case 'R':
		sort_up = !sort_up;
		break;
	case '+':
	case '-':
		delay_change(key == '+');
		break;
	case 'w':
		options.wide = !options.wide;
		break;
	case 'h':
	case '?':
		err = screen_draw(help_text);
		while (!err && (key = screen_key(60000)) == SCREEN_TIMEOUT)
			;
		return err ? err : key == SCREEN_END;
	default:
		break;
	}
	return 0;
}

/* ---- the command ---- */

static int run_screen(void)
{
	int err = screen_open(), key;

	for (unsigned i = 0; !err && (!iterations || i < iterations); i++) {
		err = picture_draw();
		if (err || i + 1 == iterations)
			break;
		key = screen_key((unsigned)delay_ms);
		err = key == SCREEN_TIMEOUT ? 0 : key_handle(key);
	}
	screen_close();
	return err < 0 ? err : 0;
}

static int run_batch(void)
{
	const struct timespec delay = { .tv_sec = (time_t)(delay_ms / 1000),
					.tv_nsec = (long)(delay_ms % 1000 * 1000000) };
	int err = 0;

	for (unsigned i = 0; !err && (!iterations || i < iterations); i++) {
		if (i > 0) {
			(void)nanosleep(&delay, NULL);
			(void)fputc('\n', stdout);
		}
		err = picture_print(stdout, SIZE_MAX);
		if (!err && fflush(stdout))
			err = err_errno(-errno, "writing the output");
	}
	return err;
}

static int top_run(const struct command *, char **)
{
	int err = batch ? run_batch() : run_screen();

	json_decref(last);
	last = NULL;
	return err;
}

static int top_check(char **args)
{
	size_t i = 0;

	while (args[0] && i < N_VIEWS && strcmp(args[0], views[i].name) != 0)
		i++;
	if (i == N_VIEWS)
		return err_set(-EINVAL, "'%s' is not leases, sessions or tenants",
			       args[0]);
	view_choose(i);
	if (sort_text) {
		sort_up = *sort_text == '+';
		sort_key = list_key(view->columns, sort_text + sort_up);
		if (!sort_key)
			return err_set(-EINVAL, "--sort: %s", err_text());
	}
	if (!batch && !screen_there())
		return err_set(-EINVAL, "this is no terminal: -b prints lines");
	return 0;
}

static const struct option_row top_options[] = {
	{ "batch", 'b', OPTION_FLAG, &batch, .help = "print lines, without a screen" },
	{ "iterations", 'n', OPTION_NUMBER, &iterations, .min = 1, .max = UINT32_MAX,
	  .argument = "N", .help = "end after this number of pictures" },
	{ "delay", 'd', OPTION_MS, &delay_ms, .min = DELAY_MIN_MS, .max = 3600000,
	  .argument = "TIME", .help = "between pictures, by default 2s" },
	{ "sort", 0, OPTION_TEXT, &sort_text, .argument = "COLUMN",
	  .help = "the largest of this column first; +COLUMN:" OPTION_INDENT
		  "the smallest" },
	{ .more = options_table },
	{ 0 },
};

const struct command top_command = {
	.name = "top",
	.synopsis = "top [OPTION...] [leases | sessions | tenants]",
	.summary = "the largest or busiest, live; h lists the keys",
	.options = top_options,
	.args_max = 1,
	.args = "at most one of leases, sessions and tenants",
	.check = top_check,
	.run = top_run,
};
