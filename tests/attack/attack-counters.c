/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "attack.h"

#define ANSWER_MAX (1 << 20)

int admin_connect(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	must(fd >= 0, "a socket");
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin.sock",
		       attack_options.folder);
	if (!connect(fd, (const struct sockaddr *)&address, sizeof(address)))
		return fd;
	(void)close(fd);
	return -errno;
}

/* The whole answer, to be freed; NULL: there is none. */
static char *admin_ask(const char *method, const char *path)
{
	char request[300], *answer;
	size_t bytes = 0;
	ssize_t n;
	int fd = admin_connect();

	if (fd < 0)
		return NULL;
	n = snprintf(request, sizeof(request),
		     "%s %s HTTP/1.0\r\nHost: rmemd\r\nContent-Length: 0\r\n\r\n",
		     method, path);
	must(send(fd, request, (size_t)n, MSG_NOSIGNAL) == n,
	     "sending to the admin socket");
	answer = malloc(ANSWER_MAX);
	must(answer, "memory");
	while ((n = recv(fd, answer + bytes, ANSWER_MAX - 1 - bytes, 0)) > 0)
		bytes += (size_t)n;
	answer[bytes] = '\0';
	(void)close(fd);
	return answer;
}

int admin_request(const char *method, const char *path)
{
	char *answer = admin_ask(method, path);
	int status = -EACCES;

	if (answer && sscanf(answer, "HTTP/1.%*d %d", &status) != 1)
		status = -EPROTO;
	free(answer);
	return status;
}

/* A member of an object, or the item of a list with this name or fabric. */
static json_t *step(json_t *at, const char *name)
{
	json_t *item;
	size_t i;

	if (!json_is_array(at))
		return json_object_get(at, name);
	json_array_foreach(at, i, item)
	{
		const char *is = json_string_value(json_object_get(item, "name"));

		if (!is)
			is = json_string_value(json_object_get(item, "fabric"));
		if (is && strcmp(is, name) == 0)
			return item;
	}
	return NULL;
}

uint64_t counter_get(const char *path)
{
	char names[128], resource[64], *rest = names, *name, *answer, *body;
	json_t *json, *at;
	uint64_t value;

	(void)snprintf(names, sizeof(names), "%s", path);
	name = strsep(&rest, " ");
	(void)snprintf(resource, sizeof(resource), "/v1/%s", name);
	answer = admin_ask("GET", resource);
	must(answer && (body = strstr(answer, "\r\n\r\n")),
	     "no answer at the admin socket");
	json = json_loads(body + 4, 0, NULL);
	must(json, "the admin socket's answer is not JSON");
	at = json_object_get(json, name) ? json_object_get(json, name) : json;
	while ((name = strsep(&rest, " ")))
		at = step(at, name);
	must(json_is_integer(at), path);
	value = (uint64_t)json_integer_value(at);
	json_decref(json);
	free(answer);
	return value;
}

double metric_get(const char *name)
{
	char *answer = admin_ask("GET", "/metrics"), *at = answer;
	size_t bytes = strlen(name);
	double value;

	must(answer, "no answer at the admin socket");
	do {
		at = strchr(at, '\n');
		must(at++, name);
	} while (strncmp(at, name, bytes) || at[bytes] != ' ');
	value = strtod(at + bytes, NULL);
	free(answer);
	return value;
}
