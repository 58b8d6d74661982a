/* SPDX-License-Identifier: BSD-3-Clause */
/* The HTTP client of rmemctl, with a server that sends one reply. */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "rmemctl/client.h"
#include "rmemctl/command.h"
#include "unit/unit.h"

static char directory[sizeof("/tmp/rmem-ctl-XXXXXX")];
static char path[64];
static int listener;
static const char *reply;
static char received[1024];

static void socket_create(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	memcpy(directory, "/tmp/rmem-ctl-XXXXXX", sizeof(directory));
	ck_assert_ptr_nonnull(mkdtemp(directory));
	(void)snprintf(path, sizeof(path), "%s/s", directory);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof(address)),
			 0);
	ck_assert_int_eq(listen(listener, 4), 0);
}

static void socket_remove(void)
{
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(rmdir(directory), 0);
}

static void *serve_once(void *ctx)
{
	int fd = accept(listener, NULL, NULL);
	ssize_t got = recv(fd, received, sizeof(received) - 1, 0);

	(void)ctx;
	if (got > 0)
		received[got] = '\0';
	(void)send(fd, reply, strlen(reply), MSG_NOSIGNAL);
	(void)close(fd);
	return NULL;
}

/* Get /v1/pools from a server that sends this text; returns the result. */
static int get(const char *text, char **ret_body)
{
	pthread_t thread;
	int err;

	reply = text;
	ck_assert_int_eq(pthread_create(&thread, NULL, serve_once, NULL), 0);
	err = client_get(path, "/v1/pools", NULL, ret_body);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return err;
}

START_TEST(client__gets_the_body)
{
	char *body = NULL;

	/* the client must not use a proxy */
	ck_assert_int_eq(setenv("http_proxy", "http://127.0.0.1:1", 1), 0);
	ck_assert_msg(get("HTTP/1.0 200 OK\r\n\r\n{\"x\": 1}\n", &body) == 0, "%s",
		      err_text());
	ck_assert_str_eq(body, "{\"x\": 1}\n");
	ck_assert_int_eq(strncmp(received, "GET /v1/pools HTTP/1.1\r\n", 24), 0);
	free(body);
	/* what a terminal would act on is not handed over */
	ck_assert_int_eq(get("HTTP/1.0 200 OK\r\n\r\na\x1b[2J\t\xc2\x9b\nb\n", &body),
			 0);
	ck_assert_str_eq(body, "a?[2J\t\x3f\x3f\nb\n");
	free(body);
}
END_TEST

START_TEST(client__posts)
{
	const struct client_parameter parameters[] = {
		{ "lease", "a&b=c +\xc3\xa9" },
		{ "without", NULL },
		{ "tenant", "red" },
		{ 0 },
	};
	const char *expected = "POST /v1/revoke?lease=a%26b%3Dc+%2B%C3%A9&tenant=red "
			       "HTTP/1.1\r\n";
	pthread_t thread;
	char *body = NULL;

	reply = "HTTP/1.0 200 OK\r\n\r\n{}\n";
	ck_assert_int_eq(pthread_create(&thread, NULL, serve_once, NULL), 0);
	ck_assert_int_eq(client_post(path, "/v1/revoke", parameters, &body), 0);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	ck_assert_msg(strncasecmp(received, expected, strlen(expected)) == 0, "%s",
		      received);
	free(body);
}
END_TEST

/* Run rmemctl --json reload with a server that sends this text; the caller frees its output. */
static int reload(const char *text, char **ret_shown)
{
	const struct command *command = NULL;
	size_t bytes;
	FILE *out = stdout;
	pthread_t thread;
	int result;

	reply = text;
	options.socket = path;
	options.json = true;
	ck_assert_int_eq(command_find("reload", &command), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, serve_once, NULL), 0);
	stdout = open_memstream(ret_shown, &bytes);
	ck_assert_ptr_nonnull(stdout);
	result = command->run(command, (char *[]){ NULL });
	ck_assert_int_eq(fclose(stdout), 0);
	stdout = out;
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	options.json = false;
	return result;
}

/* As JSON it is printed as it comes, but its meaning makes the exit status. */
START_TEST(reload__needs_an_answer_in_json)
{
	char *shown;

	ck_assert_int_eq(
		reload("HTTP/1.0 200 OK\r\n\r\n{\"needs_restart\": []}\n", &shown), 0);
	ck_assert_str_eq(shown, "{\"needs_restart\": []}\n");
	free(shown);
	ck_assert_int_eq(
		reload("HTTP/1.0 200 OK\r\n\r\n{\"needs_restart\": [{}]}\n", &shown),
		3);
	free(shown);
	ck_assert_int_eq(reload("HTTP/1.0 200 OK\r\n\r\nreloaded\n", &shown), -EPROTO);
	ck_assert_str_eq(err_text(), "rmemd's answer is not JSON");
	free(shown);
}
END_TEST

static unsigned n_lines;
static char lines[3][32];

static int on_line(const char *line, void *ctx)
{
	(void)snprintf(lines[n_lines], sizeof(lines[n_lines]), "%s", line);
	return ++n_lines == 3 ? err_set(-EPIPE, "enough") : *(const int *)ctx;
}

/* Follow a server that sends this text. */
static int follow(const char *text)
{
	pthread_t thread;
	int err, zero = 0;

	reply = text;
	n_lines = 0;
	ck_assert_int_eq(pthread_create(&thread, NULL, serve_once, NULL), 0);
	err = client_follow(path, "/v1/events", NULL, on_line, &zero);
	ck_assert_int_eq(pthread_join(thread, NULL), 0);
	return err;
}

START_TEST(client__follows_lines)
{
	ck_assert_int_eq(follow("HTTP/1.0 200 OK\r\n\r\none\n\nhalf"), -EIO);
	ck_assert_uint_eq(n_lines, 2);
	ck_assert_str_eq(lines[0], "one");
	ck_assert_str_eq(lines[1], "");
	ck_assert_int_eq(follow("HTTP/1.0 200 OK\r\n\r\na\nb\nc\nd\n"), -EPIPE);
	ck_assert_str_eq(err_text(), "enough");
	ck_assert_uint_eq(n_lines, 3);
	ck_assert_int_eq(follow("HTTP/1.0 503 No\r\n\r\n{\"error\": \"too many\"}\n"),
			 -EPROTO);
	ck_assert_str_eq(err_text(), "rmemd answers 503: too many");
	ck_assert_uint_eq(n_lines, 0);
}
END_TEST

static const struct {
	const char *reply;
	int err;
	const char *text;
} bad[] = {
	{ "HTTP/1.0 404 Not Found\r\n\r\n{\"error\": \"no such thing\"}", -EPROTO,
	  "rmemd answers 404: no such thing" },
	{ "HTTP/1.0 403 Forbidden\r\n\r\n{\"error\": \"not you\"}", -EACCES,
	  "rmemd answers 403: not you" },
	{ "HTTP/1.0 500 Oops\r\n\r\n<html>", -EPROTO, "rmemd answers 500" },
	{ "HTTP/1.0 200 OK\r\n\r\n", -EPROTO, "gives an empty answer" },
	{ "HTTP/1.0 200 OK\r\nContent-Length: 10\r\n\r\nshort", -EIO, "" },
	{ "what?\r\n\r\n", -EIO, "" },
	{ "", -EIO, "without an answer: its log tells why" },
};

START_TEST(client__refuses_bad_replies)
{
	char *body = NULL;

	ck_assert_int_eq(get(bad[_i].reply, &body), bad[_i].err);
	ck_assert_ptr_nonnull(strstr(err_text(), bad[_i].text));
	ck_assert_ptr_null(body);
}
END_TEST

START_TEST(client__without_a_daemon_says_how_to_start_it)
{
	char expected[256], *body = NULL;

	(void)snprintf(
		expected, sizeof(expected),
		"no rmemd serves %s: start it (systemctl start rmemd), or name its "
		"socket with --socket",
		path);
	/* the daemon has died: its socket file exists */
	ck_assert_int_eq(close(listener), 0);
	ck_assert_int_eq(client_get(path, "/v1/pools", NULL, &body), -ECONNREFUSED);
	ck_assert_str_eq(err_text(), expected);
	ck_assert_int_eq(client_get("/nonexistent/s", "/v1/pools", NULL, &body),
			 -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(err_text(), "no rmemd serves /nonexistent/s: "));
}
END_TEST

START_TEST(client__without_permission_names_the_group)
{
	char *body = NULL;

	ck_assert_int_eq(chmod(path, 0600), 0);
	ck_assert_int_eq(chmod(directory, 0711), 0);
	/* connect as another user, or as the owner without permission */
	if (geteuid() == 0)
		ck_assert_int_eq(seteuid(65534), 0);
	else
		ck_assert_int_eq(chmod(path, 0), 0);
	ck_assert_int_eq(client_get(path, "/v1/pools", NULL, &body), -EACCES);
	ck_assert_ptr_nonnull(strstr(err_text(),
				     "permission denied: only root and members "
				     "of the group "));
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

int main(void)
{
	TCase *client = unit_case("client", socket_create, socket_remove);

	tcase_add_test(client, client__gets_the_body);
	tcase_add_test(client, client__posts);
	tcase_add_test(client, reload__needs_an_answer_in_json);
	tcase_add_test(client, client__follows_lines);
	tcase_add_loop_test(client, client__refuses_bad_replies, 0,
			    sizeof(bad) / sizeof(bad[0]));
	tcase_add_test(client, client__without_a_daemon_says_how_to_start_it);
	tcase_add_test(client, client__without_permission_names_the_group);
	return unit_main();
}
