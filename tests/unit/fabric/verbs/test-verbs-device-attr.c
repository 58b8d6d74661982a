/* SPDX-License-Identifier: BSD-3-Clause */
/* The NUMA node of a device, read from sysfs; addresses as text. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/address.h"
#include "fabric/verbs/common/device_attr.h"
#include "unit/unit.h"

static char sysfs[PATH_MAX];

static void setup(void)
{
	(void)snprintf(sysfs, sizeof(sysfs), "%s/rmem-sysfs-XXXXXX",
		       getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(sysfs));
}

static void teardown(void)
{
	char command[PATH_MAX + 16];

	(void)snprintf(command, sizeof(command), "rm -r '%s'", sysfs);
	ck_assert_int_eq(system(command), 0);
}

/* Write a file below sysfs, with its folders. */
static void file_write(const char *name, const char *text)
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

static void link_write(const char *name, const char *target)
{
	char path[PATH_MAX + 128];

	(void)snprintf(path, sizeof(path), "%s/%s", sysfs, name);
	ck_assert_int_eq(symlink(target, path), 0);
}

START_TEST(node__of_the_device_comes_first)
{
	file_write("class/infiniband/mlx5_0/parent", "eth5");
	file_write("class/net/eth5/device/numa_node", "2");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 2);
	file_write("class/infiniband/mlx5_0/device/numa_node", "-1");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 2);
	file_write("class/infiniband/mlx5_0/device/numa_node", "1");
	ck_assert_int_eq(verbs_device_node(sysfs, "mlx5_0"), 1);
}
END_TEST

START_TEST(node__of_an_interface_is_that_of_its_bus)
{
	file_write("class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0", "eth0");
	file_write("devices/pci0/0000:01:00.0/numa_node", "3");
	file_write("devices/pci0/0000:01:00.0/virtio1/features", "0");
	file_write("class/net/eth0/mtu", "1500");
	link_write("class/net/eth0/device",
		   "../../../devices/pci0/0000:01:00.0/virtio1");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), 3);
}
END_TEST

START_TEST(node__is_unknown_without_files)
{
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
	file_write("class/infiniband/rxe0/parent", "dummy0");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
	file_write("class/net/dummy0/device/numa_node", "junk");
	ck_assert_int_eq(verbs_device_node(sysfs, "rxe0"), -1);
}
END_TEST

START_TEST(address__formats_as_text)
{
	struct fabric_address v4 = { .family = 4, .bytes = { 10, 0, 0, 1 }, .port = 7 };
	struct fabric_address v6 = { .family = 6,
				     .bytes = { 0xfd, [15] = 1 },
				     .port = 7 };
	struct fabric_address any = { .port = 7 };
	char text[FABRIC_ADDRESS_TEXT];

	ck_assert_str_eq(fabric_address_text(&v4, text), "10.0.0.1:7");
	ck_assert_str_eq(fabric_address_text(&v6, text), "[fd00::1]:7");
	ck_assert_str_eq(fabric_address_text(&any, text), "*:7");
}
END_TEST

int main(void)
{
	TCase *tcase = unit_case("device_attr", setup, teardown);

	tcase_add_test(tcase, node__of_the_device_comes_first);
	tcase_add_test(tcase, node__of_an_interface_is_that_of_its_bus);
	tcase_add_test(tcase, node__is_unknown_without_files);
	tcase_add_test(tcase, address__formats_as_text);
	return unit_main();
}
