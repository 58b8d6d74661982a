/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/given_file.h"
#include "unit/unit.h"

static char path[] = "/tmp/rmem-given-XXXXXX";

static void setup(void)
{
	int fd;

	(void)strcpy(path + strlen(path) - 6, "XXXXXX");
	fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(close(fd), 0);
}

static void teardown(void)
{
	(void)unlink(path);
}

static int opened(const char *name, enum given_file kind)
{
	FILE *file;
	int err = given_file_open("thing", name, kind, &file);

	if (!err)
		ck_assert_int_eq(fclose(file), 0);
	return err;
}

/* What can be read by whom. */
static const struct {
	mode_t mode;
	int trusted, secret;
} modes[] = {
	{ 0600, 0, 0 },
	{ 0400, 0, 0 },
	{ 0640, 0, 0 },
	{ 0440, 0, 0 },
	{ 0644, 0, -EACCES },
	{ 0604, 0, -EACCES },
	{ 0601, 0, -EACCES },
	{ 0660, -EACCES, -EACCES },
	{ 0620, -EACCES, -EACCES },
	{ 0602, -EACCES, -EACCES },
	{ 0666, -EACCES, -EACCES },
};

START_TEST(open__looks_at_the_mode)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		ck_assert_int_eq(chmod(path, modes[i].mode), 0);
		ck_assert_int_eq(opened(path, GIVEN_FILE_PLAIN), 0);
		ck_assert_int_eq(opened(path, GIVEN_FILE_TRUSTED), modes[i].trusted);
		ck_assert_int_eq(opened(path, GIVEN_FILE_SECRET), modes[i].secret);
	}
	ck_assert_ptr_nonnull(strstr(err_text(), "chmod 640"));
	ck_assert_int_eq(opened(path, GIVEN_FILE_TRUSTED), -EACCES);
	ck_assert_ptr_nonnull(strstr(err_text(), "chmod 644"));
	ck_assert_ptr_nonnull(strstr(err_text(), path));
}
END_TEST

/* Another user's, also behind a link of one's own, as that user could write to it. */
START_TEST(open__looks_at_the_owner)
{
	char link[sizeof(path) + 2];

	if (geteuid() != 0)
		return;
	(void)snprintf(link, sizeof(link), "%s.l", path);
	ck_assert_int_eq(symlink(path, link), 0);
	ck_assert_int_eq(chown(path, 12345, (gid_t)-1), 0);
	ck_assert_int_eq(opened(path, GIVEN_FILE_PLAIN), 0);
	for (int kind = GIVEN_FILE_TRUSTED; kind <= GIVEN_FILE_SECRET; kind++) {
		ck_assert_int_eq(opened(path, (enum given_file)kind), -EACCES);
		ck_assert_msg(strstr(err_text(), "belongs to user 12345") &&
				      strstr(err_text(), "chown root"),
			      "%s", err_text());
		ck_assert_int_eq(opened(link, (enum given_file)kind), -EACCES);
	}
	/* its own */
	ck_assert_int_eq(seteuid(12345), 0);
	ck_assert_int_eq(opened(path, GIVEN_FILE_SECRET), 0);
	ck_assert_int_eq(seteuid(0), 0);
	/* root's, which another user may use as well */
	ck_assert_int_eq(chown(path, 0, (gid_t)-1), 0);
	ck_assert_int_eq(chmod(path, 0644), 0);
	ck_assert_int_eq(seteuid(12345), 0);
	ck_assert_int_eq(opened(path, GIVEN_FILE_TRUSTED), 0);
	ck_assert_int_eq(seteuid(0), 0);
	ck_assert_int_eq(unlink(link), 0);
}
END_TEST

START_TEST(open__takes_regular_files_alone)
{
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(opened(path, GIVEN_FILE_PLAIN), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err_text(), "thing /tmp/"));
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	/* does not wait for a writer */
	ck_assert_int_eq(opened(path, GIVEN_FILE_PLAIN), -EINVAL);
	ck_assert_msg(strstr(err_text(), "not a regular file"), "%s", err_text());
	ck_assert_int_eq(opened("/dev/null", GIVEN_FILE_SECRET), -EINVAL);
	ck_assert_int_eq(opened("/", GIVEN_FILE_TRUSTED), -EINVAL);
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("given-file", setup, teardown);

	tcase_add_test(tc, open__looks_at_the_mode);
	tcase_add_test(tc, open__looks_at_the_owner);
	tcase_add_test(tc, open__takes_regular_files_alone);
	return unit_main();
}
