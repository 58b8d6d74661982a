/* SPDX-License-Identifier: BSD-3-Clause */
/* A host that is made of files. */
#ifndef TESTS_UNIT_HOST_FILES_H
#define TESTS_UNIT_HOST_FILES_H

/* Checked fixture: host_set_root() of a folder of its own, which is empty. */
void host_files_setup(void);
void host_files_teardown(void);

void host_file(const char *path, const char *text);

#endif
