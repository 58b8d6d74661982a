/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmemctl/client.h"

#include <curl/curl.h>
#include <errno.h>
#include <grp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/err.h"
#include "base/utf8.h"

#define CONNECT_MS 2000L
#define ANSWER_MS 30000L
#define SILENCE_S 30L /* of a daemon that is followed */
/* Enough for some hundred thousand leases. */
#define BODY_MAX ((size_t)256 << 20)

struct body {
	char *text;
	size_t bytes;
	int err;
	/* NULL: keep the whole text.  Otherwise it is the beginning of a line. */
	int (*on_line)(const char *line, void *ctx);
	void *ctx;
	CURL *curl;
};

/* Hand over the lines that are complete. */
static int lines_take(struct body *body)
{
	char *line = body->text, *end;
	long status = 0;
	int err = 0;

	/* the text of an error is kept */
	if (curl_easy_getinfo(body->curl, CURLINFO_RESPONSE_CODE, &status) ||
	    status != 200)
		return 0;
	while (!err && (end = strchr(line, '\n'))) {
		*end = '\0';
		err = body->on_line(utf8_sanitize(line, "\t"), body->ctx);
		line = end + 1;
	}
	body->bytes -= (size_t)(line - body->text);
	memmove(body->text, line, body->bytes + 1);
	return err;
}

static size_t body_append(const char *data, size_t size, size_t n, void *ctx)
{
	struct body *body = ctx;
	size_t more = size * n;
	char *grown;

	if (body->bytes + more > BODY_MAX) {
		body->err = -EMSGSIZE;
		return 0;
	}
	grown = realloc(body->text, body->bytes + more + 1);
	if (!grown) {
		body->err = -ENOMEM;
		return 0;
	}
	memcpy(grown + body->bytes, data, more);
	body->text = grown;
	body->bytes += more;
	body->text[body->bytes] = '\0';
	if (body->on_line)
		body->err = lines_take(body);
	return body->err ? 0 : more;
}

/* Why connecting fails: libcurl does not report it for UNIX sockets. */
static int socket_try(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd, err;

	if (strlen(path) >= sizeof(address.sun_path))
		return -ENAMETOOLONG;
	memcpy(address.sun_path, path, strlen(path) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	err = connect(fd, (const struct sockaddr *)&address, sizeof(address)) ? -errno
									      : 0;
	(void)close(fd);
	return err;
}

/* The group that may connect; NULL: unknown. */
static const char *socket_group(const char *path)
{
	struct group *group;
	struct stat st;

	if (stat(path, &st))
		return NULL;
	group = getgrgid(st.st_gid);
	return group ? group->gr_name : NULL;
}

static int connect_error(const char *path)
{
	int err = socket_try(path);
	const char *group;

	switch (err) {
	case -ENOENT:
	case -ECONNREFUSED:
		return err_set(
			-ECONNREFUSED,
			"no rmemd serves %s: start it (systemctl start rmemd), or name "
			"its socket with --socket",
			path);
	case -EACCES:
		group = socket_group(path);
		return err_set(
			err,
			"%s: permission denied: only root and members of the group %s "
			"may ask the daemon",
			path, group ? group : "that owns it (rmem by default)");
	default:
		return err_errno(err ? err : -EIO, "cannot connect to %s", path);
	}
}

/* With the error text of the daemon if the body has one. */
static int status_error(long status, const char *body)
{
	json_t *json = body ? json_loads(body, 0, NULL) : NULL;
	const char *text = json_string_value(json_object_get(json, "error"));

	int err = status == 403 ? -EACCES : -EPROTO;

	(void)err_set(err, "rmemd answers %ld%s%s", status, text ? ": " : "",
		      text ? text : "");
	json_decref(json);
	return err;
}

/* The URL of a resource with the parameters as its query, escaped where it must be. */
static CURLU *url_make(const char *resource, const struct client_parameter *parameters)
{
	CURLU *url = curl_url();
	char *text = NULL;
	bool ok;

	ok = url && !curl_url_set(url, CURLUPART_URL, "http://rmemd", 0) &&
	     !curl_url_set(url, CURLUPART_PATH, resource, 0);
	for (; ok && parameters && parameters->key; parameters++) {
		if (!parameters->value)
			continue;
		ok = asprintf(&text, "%s=%s", parameters->key, parameters->value) >=
			     0 &&
		     !curl_url_set(url, CURLUPART_QUERY, text,
				   CURLU_APPENDQUERY | CURLU_URLENCODE);
		free(text);
		text = NULL;
	}
	if (ok)
		return url;
	curl_url_cleanup(url);
	return NULL;
}

static CURLcode request_perform(CURL *curl, const char *socket_path, CURLU *url,
				bool post, struct body *body)
{
	CURLcode code;

	/* ignore proxies of the environment */
	if ((code = curl_easy_setopt(curl, CURLOPT_NOPROXY, "*")) ||
	    (code = curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket_path)) ||
	    (code = curl_easy_setopt(curl, CURLOPT_CURLU, url)) ||
	    (post && (code = curl_easy_setopt(curl, CURLOPT_POSTFIELDS, ""))) ||
	    (code = curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L)) ||
	    (code = curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS)) ||
	    (!body->on_line &&
	     (code = curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, ANSWER_MS))) ||
	    (body->on_line &&
	     ((code = curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L)) ||
	      (code = curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, SILENCE_S)))) ||
	    (code = curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, body_append)) ||
	    (code = curl_easy_setopt(curl, CURLOPT_WRITEDATA, body)))
		return code;
	return curl_easy_perform(curl);
}

/* The body is kept, or its lines are handed over; in any case its text becomes the caller's. */
static int request(const char *socket_path, const char *resource,
		   const struct client_parameter *parameters, bool post,
		   struct body *body)
{
	CURLcode code;
	CURL *curl;
	CURLU *url;
	long status = 0;
	int err = 0;

	/* no TLS, which takes time; it lasts as long as the process */
	curl = curl_global_init(CURL_GLOBAL_NOTHING) ? NULL : curl_easy_init();
	url = url_make(resource, parameters);
	if (!curl || !url) {
		curl_easy_cleanup(curl);
		curl_url_cleanup(url);
		return err_set(-ENOMEM, "libcurl cannot be set up");
	}
	body->curl = curl;
	code = request_perform(curl, socket_path, url, post, body);
	if (code == CURLE_OK)
		code = curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	/* what on_line() returned has its text */
	if (body->on_line && body->err)
		err = body->err;
	else if (code == CURLE_COULDNT_CONNECT)
		err = connect_error(socket_path);
	else if (code == CURLE_OPERATION_TIMEDOUT)
		err = err_set(-ETIMEDOUT, "rmemd at %s does not answer", socket_path);
	else if (code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR)
		err = err_set(-EIO,
			      "rmemd closed %s without an answer: its log tells why "
			      "(journalctl -u rmemd)",
			      socket_path);
	else if (body->err)
		err = err_errno(body->err, "answer of %s", socket_path);
	else if (code)
		err = err_set(-EIO, "%s: %s", socket_path, curl_easy_strerror(code));
	else if (status != 200)
		err = status_error(status, body->text);
	else if (body->on_line)
		err = err_set(-EIO, "rmemd has closed %s", socket_path);
	else if (!body->text)
		err = err_set(-EPROTO, "rmemd at %s gives an empty answer",
			      socket_path);
	curl_easy_cleanup(curl);
	curl_url_cleanup(url);
	return err;
}

static int request_body(const char *socket_path, const char *resource,
			const struct client_parameter *parameters, bool post,
			char **ret_body)
{
	struct body body = { 0 };
	int err = request(socket_path, resource, parameters, post, &body);

	if (err)
		free(body.text);
	else
		*ret_body = utf8_sanitize(body.text, "\n\t");
	return err;
}

int client_get(const char *socket_path, const char *resource,
	       const struct client_parameter *parameters, char **ret_body)
{
	return request_body(socket_path, resource, parameters, false, ret_body);
}

int client_post(const char *socket_path, const char *resource,
		const struct client_parameter *parameters, char **ret_body)
{
	return request_body(socket_path, resource, parameters, true, ret_body);
}

int client_follow(const char *socket_path, const char *resource,
		  const struct client_parameter *parameters,
		  int (*on_line)(const char *line, void *ctx), void *ctx)
{
	struct body body = { .on_line = on_line, .ctx = ctx };
	int err = request(socket_path, resource, parameters, false, &body);

	free(body.text);
	return err;
}
