/* SPDX-License-Identifier: BSD-3-Clause */
/* Can programs reach the devices: the modules, and the files of /dev/infiniband? */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/files.h"
#include "doctor/host_port.h"

#define CM_PATH "/dev/infiniband/rdma_cm"

/* The kernel has the device, but /dev lacks its file. */
static void file_missing(const struct host *host, const char *path, const char *class)
{
	const char *container = host_container(host);

	report_find(host->report, host_level(host), "%s is missing%s%s%s", path,
		    container ? ": this container (" : "", container ? container : "",
		    container ? ") was not given it" : "");
	report_seen(host->report, path, "does not exist");
	report_seen(host->report, class, "exists: the kernel has the device");
	if (!container)
		report_fix(host->report, "udevadm trigger --subsystem-match=infiniband_"
					 "verbs --subsystem-match=misc --action=add");
	else if (strcmp(container, "kubernetes") == 0)
		report_fix(host->report, "# mount /dev/infiniband into the pod, as its "
					 "hostPath, or use a device plugin");
	else
		report_fix(host->report,
			   "%s run --device=/dev/infiniband --ulimit "
			   "memlock=-1:-1 ...",
			   strcmp(container, "podman") == 0 ? "podman" : "docker");
}

/* Open the file, as programs do: permissions and the cgroup of this process decide. */
static void file_open(const struct host *host, const char *path)
{
	struct stat st;
	int fd, err;

	if (!host_is_live(host))
		return;
	fd = open(path, O_RDWR | O_CLOEXEC);
	err = errno;
	if (fd >= 0) {
		(void)close(fd);
		return;
	}
	report_find(host->report, host_level(host), "%s cannot be opened", path);
	report_seen(host->report, path, "%s", strerror(err));
	if (stat(path, &st) == 0 && err == EACCES)
		report_fix(host->report,
			   "chmod 0666 %s   # mode %04o; udev's rule "
			   "of rdma-core does so",
			   path, (unsigned)st.st_mode & 07777);
	else if (err == EPERM)
		report_fix(host->report, "# allow the device in the cgroup: docker "
					 "run --device, or DeviceAllow= of systemd");
	else
		report_fix(host->report, "dmesg | tail");
}

static void verbs_file_check(const struct host *host, const char *uverbs)
{
	const char *path = FILES_PATH("/dev/infiniband/%s", uverbs),
		   *class = FILES_PATH("/sys/class/infiniband_verbs/%s", uverbs);

	if (!files_exist(host->root, path))
		file_missing(host, path, class);
	else
		file_open(host, path);
}

static bool verbs_check(const struct host *host)
{
	struct dirent **names;
	unsigned n = files_list(host->root, "/sys/class/infiniband_verbs", &names);
	unsigned devices = 0;

	for (unsigned i = 0; i < n; i++) {
		if (strncmp(names[i]->d_name, "uverbs", 6) != 0)
			continue;
		verbs_file_check(host, names[i]->d_name);
		devices++;
	}
	files_list_free(names, n);
	if (devices > 0)
		return true;
	report_find(host->report, host_level(host),
		    "programs cannot use the RDMA devices: the module ib_uverbs is not "
		    "loaded");
	report_seen(host->report, "/sys/class/infiniband_verbs", "has no device");
	report_fix(host->report, "modprobe ib_uverbs");
	return false;
}

static void manager_check(const struct host *host)
{
	if (files_exist(host->root, CM_PATH)) {
		file_open(host, CM_PATH);
		return;
	}
	if (files_exist(host->root, "/sys/class/misc/rdma_cm")) {
		file_missing(host, CM_PATH, "/sys/class/misc/rdma_cm");
		return;
	}
	report_find(host->report, host_level(host),
		    "connections cannot be made: the module rdma_ucm is not loaded");
	report_seen(host->report, CM_PATH, "does not exist");
	report_seen(host->report, "/sys/class/misc/rdma_cm", "does not exist");
	report_fix(host->report, "modprobe rdma_ucm && echo rdma_ucm "
				 ">/etc/modules-load.d/rdma_ucm.conf");
}

static unsigned bad(const struct report *report)
{
	return report_count(report, REPORT_ERROR) +
	       report_count(report, REPORT_WARNING);
}

void cm_check(const struct host *host)
{
	unsigned before = bad(host->report);

	if (host->n_ports == 0)
		return;
	(void)verbs_check(host);
	manager_check(host);
	if (bad(host->report) == before)
		report_find(host->report, REPORT_OK,
			    "programs can open the devices and %s", CM_PATH);
}
