/* SPDX-License-Identifier: BSD-3-Clause */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/verbs/common/address.h"
#include "fabric/verbs/common/device_attr.h"
#include "unit/unit.h"

static char sysfs[PATH_MAX];

static void setup(void)
{
	(void)snprintf(sysfs, sizeof(sysfs), "%s/rmem-facts-XXXXXX",
		       getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(sysfs));
}

static void teardown(void)
{
	char command[PATH_MAX + 16];

	(void)snprintf(command, sizeof(command), "rm -r '%s'", sysfs);
	ck_assert_int_eq(system(command), 0);
}

/* A file below sysfs, and the folders on the way. */
static void put(const char *name, const char *text)
{
	char path[PATH_MAX + 128];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	for (char *slash = path + strlen(sysfs) + 1; (slash = strchr(slash, '/'));
	     slash++) {
		*slash = '\0';
		(void)mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fprintf(file, "%s\n", text), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void put_link(const char *name, const char *target)
{
	char path[PATH_MAX + 128];

	(void)snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	ck_assert_int_eq(symlink(target, path), 0);
}

START_TEST(node__is_the_devices_own_first)
{
	put("class/infiniband/mlx5_0/parent", "eth5");
	put("class/net/eth5/device/numa_node", "2");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 2);
	put("class/infiniband/mlx5_0/device/numa_node", "-1");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 2);
	put("class/infiniband/mlx5_0/device/numa_node", "1");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 1);
}
END_TEST

START_TEST(node__of_an_interface_on_a_bus_is_the_buss)
{
	put("class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "eth0");
	put("devices/pci0/0000:01:00.0/numa_node", "3");
	put("devices/pci0/0000:01:00.0/virtio1/features", "0");
	put("class/net/eth0/mtu", "1500");
	put_link("class/net/eth0/device", "../../../devices/pci0/0000:01:00.0/virtio1");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), 3);
}
END_TEST

START_TEST(node__is_unknown_where_nothing_tells)
{
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
	put("class/infiniband/rxe0/parent", "dummy0");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
	put("class/net/dummy0/device/numa_node", "junk");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
}
END_TEST

START_TEST(address__reads_as_people_write_it)
{
	struct fabric_address v4 = { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 7 };
	struct fabric_address v6 = { .family = 6,
				     .bytes = { 0xfd, [15] = 1 },
				     .port = 7 };
	struct fabric_address any = { .port = 7 };
	char text[VERBS_ADDRESS_TEXT];

	ck_assert_str_eq(verbs_address_text(&v4, text), "10.0.0.1:7");
	ck_assert_str_eq(verbs_address_text(&v6, text), "[fd00::1]:7");
	ck_assert_str_eq(verbs_address_text(&any, text), "*:7");
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("verbs-facts");
	TCase *tcase = tcase_create("facts");

	tcase_add_checked_fixture(tcase, setup, teardown);
	tcase_add_test(tcase, node__is_the_devices_own_first);
	tcase_add_test(tcase, node__of_an_interface_on_a_bus_is_the_buss);
	tcase_add_test(tcase, node__is_unknown_where_nothing_tells);
	tcase_add_test(tcase, address__reads_as_people_write_it);
	suite_add_tcase(suite, tcase);
	return unit_main(suite);
}
