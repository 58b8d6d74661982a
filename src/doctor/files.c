/* SPDX-License-Identifier: BSD-3-Clause */
#include "doctor/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FULL_BYTES (2 * FILES_PATH_BYTES)

const char *files_path(char *buf, size_t buf_bytes, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(buf, buf_bytes, fmt, ap);
	va_end(ap);
	return buf;
}

int files_text(const char *root, const char *path, char *buf, size_t buf_bytes)
{
	char full[FULL_BYTES];
	size_t used = 0;
	ssize_t n = 1;
	int fd, err;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	fd = open(full, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (n > 0 && used + 1 < buf_bytes) {
		n = read(fd, buf + used, buf_bytes - 1 - used);
		if (n > 0)
			used += (size_t)n;
	}
	err = n < 0 ? -errno : 0;
	(void)close(fd);
	buf[used] = '\0';
	return err;
}

int files_line(const char *root, const char *path, char *buf, size_t buf_bytes)
{
	int err = files_text(root, path, buf, buf_bytes);

	if (err)
		return err;
	buf[strcspn(buf, "\n")] = '\0';
	return *buf ? 0 : -ENODATA;
}

int files_number(const char *root, const char *path, uint64_t *ret_value)
{
	char line[64], *end;
	unsigned long long value;
	int err = files_line(root, path, line, sizeof(line));

	if (err)
		return err;
	errno = 0;
	value = strtoull(line, &end, 0);
	if (errno || end == line || *end || *line == '-')
		return -EINVAL;
	*ret_value = value;
	return 0;
}

bool files_exist(const char *root, const char *path)
{
	char full[FULL_BYTES];

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	return access(full, F_OK) == 0;
}

static int is_shown(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

unsigned files_list(const char *root, const char *path, struct dirent ***ret_names)
{
	char full[FULL_BYTES];
	int n;

	(void)snprintf(full, sizeof(full), "%s%s", root, path);
	n = scandir(full, ret_names, is_shown, versionsort);
	if (n == 0)
		free(*ret_names);
	return n > 0 ? (unsigned)n : 0;
}

void files_list_free(struct dirent **names, unsigned n)
{
	if (n == 0)
		return;
	for (unsigned i = 0; i < n; i++)
		free(names[i]);
	free(names);
}
