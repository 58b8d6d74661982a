/* SPDX-License-Identifier: BSD-3-Clause */
/* The differences of two configurations, and the text of each type of value. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "base/err.h"
#include "rmemd/config/changes.h"
#include "rmemd/config/keys.h"
#include "unit/unit.h"

static struct config old, new;
static struct config_changes changes;

static void setup(void)
{
	config_default(&old);
	config_default(&new);
}

static const struct config_key *key_find(const char *section, const char *name)
{
	for (size_t i = 0; i < config_n_keys; i++)
		if (!strcmp(config_keys[i].section, section) &&
		    !strcmp(config_keys[i].name, name))
			return &config_keys[i];
	ck_abort_msg("no [%s] %s", section, name);
}

/* ---- values ---- */

static const struct {
	const char *section, *key, *value;
	const char *text; /* NULL: the value */
} values[] = {
	{ "server", "listen", "10.0.0.1, ::1", NULL },
	{ "server", "port", "65535", NULL },
	{ "server", "auth", "both", NULL },
	{ "server", "psk", "/etc/x", NULL },
	{ "server", "psk", "none", NULL },
	{ "server", "insecure", "yes", NULL },
	{ "session", "heartbeat", "1500ms", NULL },
	{ "session", "fence", "60s", "1min" },
	{ "session", "grace", "0", NULL },
	{ "limits", "sessions", "1000000", NULL },
	{ "scrubber", "rate", "1536M", NULL },
	{ "rdma", "enabled", "auto", NULL },
	{ "rdma", "devices", "", NULL },
	{ "rdma", "devices", "a0,b1", "a0, b1" },
	{ "rdma", "mtu", "1024", NULL },
	{ "rdma", "traffic_class", "auto", NULL },
	{ "rdma", "relaxed_ordering", "yes", NULL },
	{ "rdma", "connect", "direct", NULL },
	{ "rdma", "connect", "cm", NULL },
	{ "rdma", "pkey", "0x8001", NULL },
	{ "admin", "view_group", "auto", NULL },
	{ "admin", "act_group", "staff", NULL },
	{ "metrics", "listen", "none", NULL },
	{ "metrics", "listen", "[2001:db8::1]:9746", NULL },
	{ "log", "level", "debug", NULL },
};

/* The text is that of the value, and parses to it. */
START_TEST(value__is_written_as_it_is_parsed)
{
	const struct config_key *key = key_find(values[_i].section, values[_i].key);
	const char *expected = values[_i].text ? values[_i].text : values[_i].value;
	char text[CONFIG_TEXT_BYTES];

	ck_assert_int_eq(config_value_parse(key, values[_i].value, &old), 0);
	ck_assert_str_eq(config_value_text(key, &old, text), expected);
	ck_assert_int_eq(config_value_parse(key, text, &new), 0);
	ck_assert_mem_eq(&old, &new, sizeof(old));
}
END_TEST

/* Of named sections too. */
START_TEST(value__of_each_default_is_the_default)
{
	char text[CONFIG_TEXT_BYTES];
	union {
		struct pool_params pool;
		struct tenant_params tenant;
		struct fabric_device_params device;
		struct config config;
	} *object = calloc(1, sizeof(*object)), *again = calloc(1, sizeof(*again));

	for (size_t i = 0; i < config_n_keys; i++) {
		const struct config_key *key = &config_keys[i];

		/* what a device inherits is written as that */
		if (strcmp(key->standard, CONFIG_INHERIT_WORD) == 0)
			continue;
		memset(object, 0, sizeof(*object));
		memset(again, 0, sizeof(*again));
		config_value_default(key, object);
		(void)config_value_text(key, object, text);
		ck_assert_msg(config_value_parse(key, text, again) == 0, "[%s] %s: %s",
			      key->section, key->name, err_text());
		ck_assert_msg(memcmp(object, again, sizeof(*object)) == 0,
			      "[%s] %s: %s is not %s", key->section, key->name, text,
			      key->standard);
	}
	free(object);
	free(again);
}
END_TEST

START_TEST(value__of_a_list_may_be_the_longest)
{
	const struct config_key *key = key_find("rdma", "devices");
	char text[CONFIG_TEXT_BYTES];

	new.n_devices = CONFIG_LIST_MAX;
	for (unsigned i = 0; i < CONFIG_LIST_MAX; i++)
		memset(new.devices[i], 'a' + (int)i, sizeof(new.devices[i]) - 1);
	(void)config_value_text(key, &new, text);
	ck_assert_uint_eq(strlen(text),
			  CONFIG_LIST_MAX * 63 + 2 * (CONFIG_LIST_MAX - 1));
	config_compare(&old, &new, &changes);
	ck_assert_uint_eq(changes.n, 1);
	ck_assert_uint_eq(strlen(changes.at[0].new), CONFIG_CHANGE_TEXT - 1);
	ck_assert_ptr_nonnull(strstr(changes.at[0].new, "c..."));
}
END_TEST

/* ---- differences ---- */

static void assert_change(unsigned i, const char *section, const char *key,
			  const char *before, const char *after)
{
	const struct config_change *change = &changes.at[i];

	ck_assert_uint_gt(changes.n, i);
	ck_assert_str_eq(change->section, section);
	ck_assert_pstr_eq(change->key, key);
	ck_assert_str_eq(change->old, before);
	ck_assert_str_eq(change->new, after);
}

START_TEST(compare__of_equal_ones_is_empty)
{
	config_compare(&old, &new, &changes);
	ck_assert_uint_eq(changes.n + changes.more, 0);
}
END_TEST

static void pool_add(struct config *config, const char *name, uint64_t bytes)
{
	struct pool_params *pool = &config->pools[config->n_pools++];

	*pool = config->pools[0];
	(void)strcpy(pool->name, name);
	pool->bytes = bytes;
}

START_TEST(compare__has_keys_and_sections_in_order)
{
	char names[64];

	pool_add(&old, "same", 3 << 20);
	pool_add(&old, "gone", 1 << 20);
	/* another order is no change */
	new.pools[1] = new.pools[0];
	new.n_pools = 0;
	pool_add(&new, "same", 3 << 20);
	(void)strcpy(new.pools[0].name, "same");
	new.n_pools = 2;
	pool_add(&new, "added", 1 << 20);
	new.pools[1].bytes = 2 << 20;
	new.tenants[0].limits.leases_max = 3;
	new.tenants[0].rights.access = RIGHTS_READ_ONLY;
	new.log_level = LOG_DEBUG;
	new.port = 7000;
	config_compare(&old, &new, &changes);
	assert_change(0, "server", "port", "7460", "7000");
	assert_change(1, "tenant default", "leases", "65536", "3");
	assert_change(2, "tenant default", "access", "read-write", "read-only");
	assert_change(3, "log", "level", "info", "debug");
	assert_change(4, "pool default", "size", "1G", "2M");
	assert_change(5, "pool gone", NULL, "present", "");
	assert_change(6, "pool added", NULL, "", "present");
	ck_assert_uint_eq(changes.n, 7);
	ck_assert_str_eq(config_changes_names(&changes, names, sizeof(names)),
			 "[server] port, [tenant default] leases, [tenant default] "
			 "access");
}
END_TEST

START_TEST(unused__are_keys_of_fabrics_that_are_not_enabled)
{
	char names[256];

	config_value_parse(key_find("tcp", "advertise"), "*:1, *:2", &new);
	config_value_parse(key_find("tcp", "check_address"), "no", &new);
	config_value_parse(key_find("rdma", "mtu"), "1024", &new);
	new.n_device_params = 1;
	(void)strcpy(new.device_params[0].name, "a");
	config_unused(&new, &changes);
	ck_assert_uint_eq(changes.n, 0);
	new.tcp = false;
	config_unused(&new, &changes);
	ck_assert_str_eq(config_changes_names(&changes, names, sizeof(names)),
			 "[tcp] advertise, [tcp] check_address");
	new.tcp = true;
	new.verbs = CONFIG_NO;
	config_unused(&new, &changes);
	ck_assert_str_eq(config_changes_names(&changes, names, sizeof(names)),
			 "[rdma] mtu, [device a]");
}
END_TEST

START_TEST(compare__is_bounded)
{
	old.n_tenants = new.n_tenants = CONFIG_TENANTS_MAX;
	for (unsigned i = 0; i < CONFIG_TENANTS_MAX; i++) {
		(void)snprintf(old.tenants[i].name, sizeof(old.tenants[i].name), "%u",
			       i);
		new.tenants[i] = old.tenants[i];
		new.tenants[i].limits.leases_max++;
		new.tenants[i].limits.keys_max++;
	}
	config_compare(&old, &new, &changes);
	ck_assert_uint_eq(changes.n, CONFIG_CHANGES_MAX);
	ck_assert_uint_eq(changes.more, 2 * CONFIG_TENANTS_MAX - CONFIG_CHANGES_MAX);
	config_compare(&old, &old, &changes);
	ck_assert_uint_eq(changes.n + changes.more, 0);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("changes", setup, NULL);

	tcase_add_loop_test(tc, value__is_written_as_it_is_parsed, 0,
			    sizeof(values) / sizeof(values[0]));
	tcase_add_test(tc, value__of_each_default_is_the_default);
	tcase_add_test(tc, value__of_a_list_may_be_the_longest);
	tcase_add_test(tc, compare__of_equal_ones_is_empty);
	tcase_add_test(tc, compare__has_keys_and_sections_in_order);
	tcase_add_test(tc, compare__is_bounded);
	tcase_add_test(tc, unused__are_keys_of_fabrics_that_are_not_enabled);
	return unit_main();
}
