/* SPDX-License-Identifier: BSD-3-Clause */
/* Who may look and who may act over the admin socket; what acts. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "base/log.h"
#include "rmemd/admin/peer.h"
#include "rmemd/control/control.h"
#include "unit/rmemd/admin/admin-stage.h"

/* ---- the kernel ---- */

static struct ucred peer;
static gid_t further[3]; /* groups of the peer */
static unsigned n_further;
static bool peer_unknown;

int getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
	const socklen_t all = (socklen_t)(n_further * sizeof(gid_t));

	(void)fd;
	ck_assert_int_eq(level, SOL_SOCKET);
	if (peer_unknown) {
		errno = EINVAL;
		return -1;
	}
	if (option == SO_PEERCRED) {
		memcpy(value, &peer, sizeof(peer));
		return 0;
	}
	ck_assert_int_eq(option, SO_PEERGROUPS);
	if (*bytes < all) {
		*bytes = all;
		errno = ERANGE;
		return -1;
	}
	if (all)
		memcpy(value, further, all);
	*bytes = all;
	return 0;
}

/* ---- the rules ---- */

#define VIEW 1001
#define ACT 1002

static const struct {
	struct ucred peer;
	gid_t further[3];
	unsigned n_further;
	bool acts; /* whether act_group is set */
	bool view, act;
} cases[] = {
	{ { .uid = 0, .gid = 0 }, { 0 }, 0, false, true, true },
	{ { .uid = 7, .gid = 7 }, { 0 }, 0, true, false, false },
	{ { .uid = 7, .gid = VIEW }, { 0 }, 0, true, true, false },
	{ { .uid = 7, .gid = ACT }, { 0 }, 0, true, false, true },
	{ { .uid = 7, .gid = ACT }, { 0 }, 0, false, false, false },
	{ { .uid = 7, .gid = 0 }, { 0 }, 0, true, false, false },
	{ { .uid = 7, .gid = 7 }, { 5, VIEW, 6 }, 3, true, true, false },
	{ { .uid = 7, .gid = 7 }, { 5, 6, ACT }, 3, true, false, true },
	{ { .uid = 7, .gid = 7 }, { 5, 6, ACT }, 2, true, false, false },
	{ { .uid = (uid_t)-1, .gid = VIEW }, { 0 }, 0, true, false, false },
};

START_TEST(peer__needs_a_group_for_each)
{
	const struct peer_groups groups = { VIEW, ACT, cases[_i].acts };

	peer = cases[_i].peer;
	memcpy(further, cases[_i].further, sizeof(further));
	n_further = cases[_i].n_further;
	peer_unknown = false;
	ck_assert_int_eq(peer_may_view(3, &groups), cases[_i].view);
	ck_assert_int_eq(peer_may_act(3, &groups), cases[_i].act);
	peer.uid = geteuid();
	ck_assert(peer_may_view(3, &groups) && peer_may_act(3, &groups));
	peer_unknown = true;
	ck_assert(!peer_may_view(3, &groups) && !peer_may_act(3, &groups));
}
END_TEST

START_TEST(groups__are_found_by_name)
{
	const struct group *group = getgrgid(0);
	struct peer_groups groups;

	ck_assert_ptr_nonnull(group);
	ck_assert_int_eq(peer_groups_find("", "", &groups), 0);
	ck_assert_uint_eq(groups.view, getegid());
	ck_assert(!groups.acts);
	ck_assert_int_eq(peer_groups_find("", group->gr_name, &groups), 0);
	ck_assert_uint_eq(groups.act, 0);
	ck_assert(groups.acts);
	ck_assert_int_eq(peer_groups_find("no-such-group", "", &groups), -ENOENT);
	ck_assert_str_eq(err_text(),
			 "[admin] view_group = no-such-group: there is no such group");
	ck_assert_int_eq(peer_groups_find("", "no-such-group", &groups), -ENOENT);
	ck_assert_str_eq(err_text(),
			 "[admin] act_group = no-such-group: there is no such group");
}
END_TEST

/* ---- the socket ---- */

/* A peer that is another user than the daemon's. */
static void be_user(uid_t uid, gid_t gid)
{
	peer = (struct ucred){ .uid = uid, .gid = gid, .pid = 77 };
	n_further = 0;
	peer_unknown = false;
}

/* The last line of the log. */
static char line[1024];

static void line_keep(int level, const char *event, const struct log_ctx *ctx,
		      const char *text)
{
	(void)level;
	(void)ctx;
	(void)snprintf(line, sizeof(line), "%s: %s", event, text);
}

static uint64_t counter(const char *name)
{
	json_t *counters;

	be_user(0, 0);
	counters = json_object_get(get("/v1/status"), "counters");
	return (uint64_t)json_integer_value(json_object_get(counters, name));
}

static void check_refused(const char *method, const char *resource, const char *text)
{
	ck_assert_int_eq(request(method, resource), 403);
	ck_assert_str_eq(json_string_value(json_object_get(body(), "error")), text);
}

START_TEST(requests__of_others_are_refused_and_counted)
{
	const gid_t own = getegid();

	open_admin();
	be_user(geteuid() + 7, own + 1);
	ck_assert_int_eq(request("GET", "/v1/status"), 403);
	ck_assert_ptr_nonnull(strstr(reply, "may neither look nor act: root, the "
					    "daemon's user and the members of [admin] "
					    "view_group may"));
	log_set_sink(line_keep);
	ck_assert_int_eq(request("GET", "/v1/%1b[31m"), 403);
	/* the log has no text of the peer */
	ck_assert_ptr_null(strstr(line, "31m"));
	ck_assert_int_eq(strncmp(line, "admin-refused: user ", 20), 0);
	be_user(4242, own);
	ck_assert_int_eq(request("GET", "/v1/leases"), 200);
	check_refused("POST", "/v1/reload",
		      "user 4242 may not act: root, the daemon's user and the members "
		      "of [admin] act_group may");
	ck_assert_int_eq(request("POST", "/v1/revoke?lease=1"), 403);
	ck_assert_str_eq(line,
			 "admin-refused: user 4242, pid 77: /v1/revoke lease=1: user "
			 "4242 may not act: root, the daemon's user and the members "
			 "of [admin] act_group may");
	ck_assert_int_eq(request("POST", "/v1/revoke?lease=%1b[31m&x=y"), 403);
	ck_assert_ptr_null(strstr(line, "31m"));
	log_set_sink(NULL);
	ck_assert_int_eq(request("GET", "/v1/revoke?lease=1"), 403);
	ck_assert_uint_eq(n_reloads + last_revoked, 0);
	ck_assert_uint_eq(counter("admin_views_refused"), 2);
	ck_assert_uint_eq(counter("admin_acts_refused"), 4);
}
END_TEST

static int request_to(const char *host)
{
	char header[128];

	(void)snprintf(header, sizeof(header), "Host: %s\r\n", host);
	return request_with("GET", "/v1/status", header);
}

/* Whoever owns a name can make a browser ask this host by it. */
START_TEST(names__of_others_are_refused)
{
	static const char *const own[] = { "localhost",
					   "localhost:9746",
					   "127.0.0.1",
					   "127.0.0.1:9746",
					   "[::1]",
					   "[::1]:9746",
					   "[2001:db8::1]:80",
					   "[::ffff:10.0.0.7]",
					   "[::FFFF:10.0.0.7]:1" };
	static const char *const others[] = {
		"evil.example",       "evil.example:9746", "127.0.0.1.evil.example",
		"[::1].evil.example", "[.evil.example",    "[::1].evil.example:9746",
		"[evil.example]",     "[::1.evil.example", "[10.0.0.7]",
		"[::1]:80.evil",      "[::1]]:80.evil]",   "::1].evil.example",
		"127.0.0.1.",         "0127.0.0.1",        "[].",
		"[::ffff:10.0.0.7x"
	};

	be_user(0, 0);
	open_admin();
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		ck_assert_msg(request_to(own[i]) == 200, "%s", own[i]);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		ck_assert_msg(request_to(others[i]) == 403, "%s", others[i]);
	ck_assert_uint_eq(counter("http_refused"), sizeof(others) / sizeof(others[0]));
}
END_TEST

START_TEST(actions__act)
{
	open_admin();
	be_user(0, 0);
	ck_assert_int_eq(request("POST", "/v1/reload"), 200);
	ck_assert_uint_eq(n_reloads, 1);
	ck_assert_ptr_nonnull(strstr(
		reply,
		"{\"changed\":[{\"section\":\"log\",\"key\":\"level\",\"old\":\"info\","
		"\"new\":\"debug\"},{\"section\":\"pool b\",\"key\":null,\"old\":null,"
		"\"new\":\"present\"}],\"changed_more\":0,"
		"\"needs_restart\":[{\"section\":\"rdma\",\"key\":\"devices\",\"old\":"
		"\"\","
		"\"new\":\"a0\"}],\"needs_restart_more\":2}"));
	ck_assert_int_eq(request("POST", "/v1/reload"), 409);
	ck_assert_str_eq(json_string_value(json_object_get(body(), "error")),
			 "line 3 is wrong");
	ck_assert_int_eq(request("GET", "/v1/reload"), 405);
	ck_assert_ptr_nonnull(strstr(reply, "Allow: POST\r\n"));
	ck_assert_uint_eq(n_reloads, 2);
}
END_TEST

START_TEST(actions__are_logged_with_who_acts)
{
	tenants_init(&tenants);
	open_admin();
	be_user(0, 0);
	log_set_sink(line_keep);
	ck_assert_int_eq(request("POST", "/v1/revoke?lease=18446744073709551615"), 200);
	ck_assert_str_eq(line, "admin-acts: user 0 (root), pid 77: /v1/revoke "
			       "lease=18446744073709551615");
	ck_assert_int_eq(request("POST", "/v1/revoke?name=a%20b&tenant=x"), 404);
	ck_assert_str_eq(line, "admin-failed: user 0 (root), pid 77: /v1/revoke "
			       "name=a b tenant=x: there is no tenant x");
	peer_unknown = true;
	ck_assert_int_eq(request("POST", "/v1/reload"), 403);
	ck_assert_int_eq(
		strncmp(line, "admin-refused: an unknown user: /v1/reload", 42), 0);
	log_set_sink(NULL);
}
END_TEST

START_TEST(log_level__is_changed_and_logged_at_any_level)
{
	open_admin();
	be_user(4242, getegid());
	log_set_level(LOG_ERR);
	ck_assert_int_eq(request("GET", "/v1/log-level"), 200);
	ck_assert_int_eq(request("POST", "/v1/log-level?level=debug"), 403);
	be_user(0, 0);
	log_set_sink(line_keep);
	ck_assert_int_eq(request("POST", "/v1/log-level?level=debug"), 200);
	ck_assert_ptr_nonnull(
		strstr(reply, "{\"level\":\"debug\",\"configured\":\"info\"}"));
	ck_assert_str_eq(
		line, "admin-acts: user 0 (root), pid 77: /v1/log-level level=debug");
	ck_assert_int_eq(log_level(), LOG_DEBUG);
	ck_assert_int_eq(request("POST", "/v1/log-level?level=warn"), 400);
	ck_assert_str_eq(json_string_value(json_object_get(body(), "error")),
			 "level: 'warn' is not one of error, warning, notice, info, "
			 "debug");
	log_set_level(LOG_ERR);
	ck_assert_int_eq(request("POST", "/v1/log-level"), 400);
	ck_assert_str_eq(line,
			 "admin-failed: user 0 (root), pid 77: /v1/log-level: the "
			 "parameter level is missing");
	ck_assert_int_eq(log_level(), LOG_ERR);
	log_set_sink(NULL);
	log_set_level(LOG_INFO);
}
END_TEST

static const struct {
	const char *query;
	uint64_t revoked; /* 0: nothing */
	int status;
	const char *text;
} revocations[] = {
	{ "?lease=18446744073709551615", UINT64_MAX, 200,
	  "{\"revoked\":{\"id\":\"18446744073709551615\",\"name\":null,\"tenant\":"
	  "\"red\",\"bytes\":5000,\"sessions\":2}}" },
	{ "?lease=5", 0, 404, "there is no lease 5" },
	{ "", 0, 400, "one of the parameters lease and name is needed" },
	{ "?lease=5&name=x", 0, 400, "one of the parameters lease and name is needed" },
	{ "?lease=5&tenant=red", 0, 400, "the parameter tenant needs a name" },
	{ "?leases=1", 0, 400,
	  "the query has a parameter that /v1/revoke does not have" },
	{ "?lease", 0, 400, "the query is malformed" },
	{ "?lease=0", 0, 400, "lease: " },
	{ "?lease=1x", 0, 400, "lease: " },
	{ "?name=data+%26+7", LEASE_OF_RED, 200, "\"id\":\"31\",\"name\":\"data\"" },
	{ "?name=data+%26+7&tenant=red", LEASE_OF_RED, 200, "\"id\":\"31\"" },
	{ "?name=data+%26+7&tenant=blue", 0, 404,
	  "tenant blue has no lease with the name \\\"data & 7\\\"" },
	{ "?name=other", 0, 404, "no tenant has a lease with the name \\\"other\\\"" },
	{ "?name=x%0Ay", 0, 400, "name has a control character" },
	{ "?name=both", 0, 409,
	  "2 tenants have a lease with the name \\\"both\\\" (red, blue): give the "
	  "number of the lease, or its tenant (--tenant)" },
	{ "?name=both&tenant=blue", LEASE_OF_BLUE, 200, "\"tenant\":\"blue\"" },
	{ "?name=both&tenant=green", 0, 404, "there is no tenant green" },
};

START_TEST(revoke__finds_the_lease)
{
	const struct tenant_params params[] = {
		{ .name = "red", .limits = { .leases_max = 1 } },
		{ .name = "blue", .limits = { .leases_max = 1 } },
	};
	char resource[128];

	tenants_init(&tenants);
	ck_assert_int_eq(tenants_set(&tenants, params, 2), 0);
	open_admin();
	be_user(0, 0);
	(void)snprintf(resource, sizeof(resource), "/v1/revoke%s",
		       revocations[_i].query);
	ck_assert_int_eq(request("POST", resource), revocations[_i].status);
	ck_assert_msg(strstr(reply, revocations[_i].text), "%s", reply);
	ck_assert_uint_eq(last_revoked, revocations[_i].revoked);
	tenants_destroy(&tenants);
}
END_TEST

START_TEST(kick__ends_the_session)
{
	open_admin();
	be_user(0, 0);
	ck_assert_int_eq(request("POST", "/v1/kick?session=5"), 404);
	ck_assert_int_eq(request("POST", "/v1/kick?session=x"), 400);
	ck_assert_int_eq(request("POST", "/v1/kick"), 400);
	ck_assert_ptr_nonnull(strstr(reply, "the parameter session is missing"));
	ck_assert_int_eq(request("GET", "/v1/kick?session=18446744073709551615"), 405);
	ck_assert_uint_eq(last_kicked, 0);
	ck_assert_int_eq(request("POST", "/v1/kick?session=18446744073709551615"), 200);
	ck_assert_uint_eq(last_kicked, UINT64_MAX);
	ck_assert_ptr_nonnull(strstr(
		reply,
		"{\"kicked\":{\"id\":\"18446744073709551615\",\"tenant\":\"red\","
		"\"client\":\"prog[7]\",\"peer\":\"127.0.0.1:5\",\"leases\":3,"
		"\"keys\":4}}"));
}
END_TEST

START_TEST(drain__is_begun_and_taken_back)
{
	json_t *draining;

	open_admin();
	be_user(0, 0);
	ck_assert(json_is_null(json_object_get(get("/v1/status"), "draining")));
	ck_assert_int_eq(request("POST", "/v1/drain"), 200);
	draining = json_object_get(body(), "draining");
	ck_assert(json_is_null(json_object_get(draining, "left_ms")));
	ck_assert(json_is_integer(json_object_get(draining, "age_ms")));
	ck_assert_int_eq(json_integer_value(json_object_get(body(), "sessions")), 2);
	ck_assert_int_eq(request("POST", "/v1/drain?deadline_ms=600000"), 200);
	draining = json_object_get(get("/v1/status"), "draining");
	ck_assert_int_gt(json_integer_value(json_object_get(draining, "left_ms")), 0);
	ck_assert_int_le(json_integer_value(json_object_get(draining, "left_ms")),
			 600000);
	ck_assert_int_eq(request("POST", "/v1/drain?deadline_ms=4"), 409);
	ck_assert_ptr_nonnull(strstr(reply, "too late"));
	ck_assert_int_eq(request("POST", "/v1/drain?deadline_ms=10min"), 400);
	ck_assert_int_eq(request("POST", "/v1/drain?deadline_ms=2592000001"), 400);
	ck_assert_int_eq(request("POST", "/v1/undrain"), 200);
	ck_assert(json_is_null(json_object_get(body(), "draining")));
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("peer", NULL, NULL);

	tcase_add_loop_test(tc, peer__needs_a_group_for_each, 0,
			    sizeof(cases) / sizeof(cases[0]));
	tcase_add_test(tc, groups__are_found_by_name);
	tc = unit_case("rights", admin_setup, admin_teardown);
	tcase_add_test(tc, requests__of_others_are_refused_and_counted);
	tcase_add_test(tc, names__of_others_are_refused);
	tcase_add_test(tc, actions__act);
	tcase_add_test(tc, actions__are_logged_with_who_acts);
	tcase_add_test(tc, log_level__is_changed_and_logged_at_any_level);
	tcase_add_test(tc, kick__ends_the_session);
	tcase_add_test(tc, drain__is_begun_and_taken_back);
	tcase_add_loop_test(tc, revoke__finds_the_lease, 0,
			    sizeof(revocations) / sizeof(revocations[0]));
	return unit_main();
}
