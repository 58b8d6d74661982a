/* SPDX-License-Identifier: BSD-3-Clause */
#include "sweep/server.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sweep/calls.h"

#define LIMIT_MS 60000
#define POOL_MIB 4
#define SHOW_MS 500

static struct server_options options;
static pid_t pid; /* of the daemon; 0: it does not run */
static int log_fd = -1;
static char log_text[1 << 18];
static size_t log_used;
static size_t log_from; /* where lines were not looked at yet */

/* What the daemon says and does in the end. */
static void daemon_show(void)
{
	struct pollfd ready = { .fd = log_fd, .events = POLLIN };
	char part[4096];
	ssize_t got = 1;
	int status;

	while (got > 0 && poll(&ready, 1, SHOW_MS) == 1) {
		got = read(log_fd, part, sizeof(part));
		if (got > 0)
			(void)fwrite(part, 1, (size_t)got, stdout);
	}
	(void)fflush(stdout);
	if (waitpid(pid, &status, got == 0 ? 0 : WNOHANG) == pid)
		(void)fprintf(stderr, "the daemon was ended by signal %d, status %d\n",
			      WIFSIGNALED(status) ? WTERMSIG(status) : 0,
			      WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

void broken(const char *fmt, ...)
{
	va_list args;

	if (pid)
		daemon_show();

	(void)fprintf(stderr, "broken: ");
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fputc('\n', stderr);
	/* without the end of main(), which would report what is left of the session */
	_exit(1);
}

static FILE *file_write(const char *name)
{
	char path[256];
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/%s", options.directory, name);
	file = fopen(path, "we");
	if (!file || fchmod(fileno(file), 0600))
		broken("%s: %s", path, strerror(errno));
	return file;
}

static void keys_write(void)
{
	FILE *file = file_write(SERVER_KEYS);

	(void)fputs("default:000102030405060708090a0b0c0d0e0f\n", file);
	if (fclose(file))
		broken("%s: %s", SERVER_KEYS, strerror(errno));
}

static void config_write(unsigned pool_mib)
{
	bool rdma = strcmp(options.fabric, "rdma") == 0;
	FILE *file = file_write("rmemd.conf");

	(void)fprintf(file,
		      "[server]\nlisten = %s\nport = %u\nstate = %s/state\n"
		      "auth = %s\npsk = %s/" SERVER_KEYS "\n"
		      "[session]\nheartbeat = 500ms\nfence = 5s\ngrace = 60s\n"
		      "[limits]\nsessions = 8\nchannels = 16\n"
		      "[rdma]\nenabled = %s\nport = %u\n"
		      "[tcp]\nport = %u\n[admin]\nsocket = %s/admin\n"
		      "[log]\ntarget = plain\n"
		      "[pool one]\nsize = %uM\npage_size = base\n"
		      "[pool two]\nsize = %uM\npage_size = base\n"
		      "[tenant default]\nleases = 1000\n%s",
		      options.address, options.port, options.directory, options.auth,
		      options.directory, rdma ? "yes" : "no", options.port + 1,
		      options.port + 2, options.directory, POOL_MIB, pool_mib,
		      pool_mib == POOL_MIB ? "" : "[tenant other]\n");
	if (fclose(file))
		broken("the configuration: %s", strerror(errno));
}

void server_init(const struct server_options *want)
{
	char path[256];

	options = *want;
	(void)snprintf(path, sizeof(path), "%s/state", options.directory);
	if (mkdir(path, 0700))
		broken("%s: %s", path, strerror(errno));
	keys_write();
	config_write(POOL_MIB);
}

/* ---- the log ---- */

/* Read more of the log; false: it has ended. */
static bool log_read(uint64_t until_ms)
{
	struct pollfd ready = { .fd = log_fd, .events = POLLIN };
	uint64_t now = clock_now_ms();
	ssize_t got;

	if (now >= until_ms || poll(&ready, 1, (int)(until_ms - now)) == 0)
		broken("hang: the daemon says nothing for %d ms", LIMIT_MS);
	got = read(log_fd, log_text + log_used, sizeof(log_text) - 1 - log_used);
	if (got < 0)
		broken("the daemon's log: %s", strerror(errno));
	(void)fwrite(log_text + log_used, 1, (size_t)got, stdout);
	(void)fflush(stdout);
	log_used += (size_t)got;
	log_text[log_used] = '\0';
	return got > 0;
}

/* Until the daemon has read its configuration, which asks for plain lines, a line has the time. */
static char *time_skip(char *line)
{
	char *end = strchr(line, ' ');

	return end && end > line && end[-1] == 'Z' && isdigit((unsigned char)*line)
		       ? end + 1
		       : line;
}

/* The next line; NULL: the log has ended. */
static char *log_line(uint64_t until_ms)
{
	for (;;) {
		char *line = log_text + log_from;
		char *end = strchr(line, '\n');

		if (end) {
			*end = '\0';
			log_from = (size_t)(end + 1 - log_text);
			return time_skip(line);
		}
		if (!log_read(until_ms))
			return NULL;
	}
}

/* Wait for a line that begins with one of both; NULL: the log has ended. */
static const char *log_await(const char *begin, const char *other)
{
	uint64_t until_ms = clock_now_ms() + LIMIT_MS;
	const char *line;

	while ((line = log_line(until_ms)))
		if (strncmp(line, begin, strlen(begin)) == 0 ||
		    (other && strncmp(line, other, strlen(other)) == 0))
			break;
	return line;
}

const char *server_await(const char *begin)
{
	const char *line = log_await(begin, NULL);

	if (!line)
		broken("the daemon has ended before '%s'", begin);
	return line;
}

/* ---- the process ---- */

static void spawn(void)
{
	char config[256], preload[512], calls[512], variable[] = "ASAN_OPTIONS";
	char asan[512];
	char *argv[] = { (char *)(uintptr_t)options.rmemd,
			 (char *)(uintptr_t)"--config", config, NULL };
	char *environment[] = { asan, calls, preload, NULL };
	posix_spawn_file_actions_t actions;
	int fds[2];
	int err;

	(void)snprintf(config, sizeof(config), "%s/rmemd.conf", options.directory);
	(void)snprintf(asan, sizeof(asan), "%s=%s", variable,
		       getenv(variable) ? getenv(variable) : "");
	(void)snprintf(calls, sizeof(calls), "%s=%s/calls", CALLS_FILE_VARIABLE,
		       options.directory);
	if (options.preload)
		(void)snprintf(preload, sizeof(preload), "LD_PRELOAD=%s",
			       options.preload);
	else
		environment[1] = NULL;
	if (pipe2(fds, O_CLOEXEC) || posix_spawn_file_actions_init(&actions) ||
	    posix_spawn_file_actions_adddup2(&actions, fds[1], 1) ||
	    posix_spawn_file_actions_adddup2(&actions, fds[1], 2))
		broken("no pipe");
	err = posix_spawn(&pid, options.rmemd, &actions, NULL, argv, environment);
	if (err)
		broken("%s: %s", options.rmemd, strerror(err));
	(void)posix_spawn_file_actions_destroy(&actions);
	(void)close(fds[1]);
	log_fd = fds[0];
	log_used = log_from = 0;
	log_text[0] = '\0';
}

/* The daemon's exit status, once it has closed its log. */
static int process_end(void)
{
	int status;

	(void)close(log_fd);
	log_fd = -1;
	if (waitpid(pid, &status, 0) != pid)
		broken("waitpid: %s", strerror(errno));
	pid = 0;
	if (WIFSIGNALED(status))
		broken("the daemon was ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

int server_start(const char **ret_text)
{
	static char text[2048];
	const char *line;
	int status;

	spawn();
	line = log_await("ready:", "error start-failed: ");
	(void)snprintf(text, sizeof(text), "%s", line ? line : "");
	*ret_text = text;
	if (line && strncmp(line, "ready:", 6) == 0)
		return 0;
	while ((line = log_line(clock_now_ms() + LIMIT_MS)))
		if (strncmp(line, "error ", 6) == 0)
			broken("more than one line tells why the start failed");
	status = process_end();
	if (status != EXIT_FAILURE)
		broken("the start ends with the status %d", status);
	*ret_text = text;
	return -EIO;
}

void server_stop(void)
{
	int status;

	if (kill(pid, SIGTERM))
		broken("kill: %s", strerror(errno));
	while (log_line(clock_now_ms() + LIMIT_MS))
		;
	status = process_end();
	if (status)
		broken("the daemon ends with the status %d", status);
}

int server_reload(unsigned pool_mib, const char **ret_text)
{
	const char *line;

	config_write(pool_mib);
	if (kill(pid, SIGHUP))
		broken("kill: %s", strerror(errno));
	line = log_await("reloaded:", "error reload-failed:");
	if (!line)
		broken("the daemon has ended at a reload");
	*ret_text = line;
	return strncmp(line, "reloaded:", 9) == 0 ? 0 : -EIO;
}

int server_get(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct pollfd ready = { .events = POLLIN };
	char text[65536];
	size_t used = 0;
	ssize_t got;
	int n;

	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/admin",
		       options.directory);
	ready.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (ready.fd < 0 ||
	    connect(ready.fd, (struct sockaddr *)&address, sizeof(address)))
		broken("%s: %s", address.sun_path, strerror(errno));
	n = snprintf(text, sizeof(text),
		     "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		     path);
	(void)send(ready.fd, text, (size_t)n, MSG_NOSIGNAL);
	do {
		if (poll(&ready, 1, LIMIT_MS) == 0)
			broken("hang: the admin socket does not answer %s", path);
		got = read(ready.fd, text + used, sizeof(text) - 1 - used);
		used += got > 0 ? (size_t)got : 0;
	} while (got > 0);
	(void)close(ready.fd);
	text[used] = '\0';
	if (sscanf(text, "HTTP/1.1 %d", &n) != 1)
		return -EIO;
	if (n == 200 && !strchr(text, '}'))
		return -EIO;
	return n;
}
