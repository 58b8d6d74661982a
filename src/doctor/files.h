/* SPDX-License-Identifier: BSD-3-Clause */
/* The small files of /sys, /proc and /dev that a doctor reads, below a root directory: "" is this
 * host, another one a copy of the files of a host.  Threads: [any]. */
#ifndef DOCTOR_FILES_H
#define DOCTOR_FILES_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILES_PATH_BYTES 512

/* The path by a format, without the root, into buf; returns buf. */
const char *files_path(char *buf, size_t buf_bytes, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
#define FILES_PATH(...) \
	files_path((char[FILES_PATH_BYTES]){ 0 }, FILES_PATH_BYTES, __VA_ARGS__)

/* The first line of a file, without its end.  -errno: there is no such file, or it is empty
 * (-ENODATA). */
int files_line(const char *root, const char *path, char *buf, size_t buf_bytes);
/* A number, decimal or with 0x.  -EINVAL, or as above. */
int files_number(const char *root, const char *path, uint64_t *ret_value);
/* The whole of a small file, as a string; bytes beyond buf are dropped.  -errno. */
int files_text(const char *root, const char *path, char *buf, size_t buf_bytes);
bool files_exist(const char *root, const char *path);

/* The names in a folder, without hidden ones, in the order of their numbers; 0: there are none, or
 * no such folder.  The caller calls files_list_free(). */
unsigned files_list(const char *root, const char *path, struct dirent ***ret_names);
void files_list_free(struct dirent **names, unsigned n);

#endif
