/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/utf8.h"
#include "rmem/options.h"

#define URI_BYTES 1024

int session_result(int result)
{
	const char *text = rmem_error();

	if (result >= 0)
		return result;
	/* a call that set no text is described by its errno */
	return text[0] ? err_set(result, "%s", text) : err_errno(result, "librmem");
}

const char *session_fabric_name(enum rmem_fabric fabric)
{
	return fabric == RMEM_FABRIC_RDMA ? "rdma" : "tcp";
}

static const char *auth_name(enum rmem_auth auth)
{
	static const char *const names[] = { "none", "psk", "certificate" };

	return names[auth];
}

static int session_describe(rmem *session)
{
	struct rmem_info info = rmem_info_init();
	int err = session_result(rmem_info(session, &info));

	if (err)
		return err;
	(void)fprintf(stderr, "rmem: %s over %s%s%s, %u channel%s, auth %s%s%s\n",
		      info.server, session_fabric_name(info.fabric),
		      info.device[0] ? " on " : "", info.device, info.channels,
		      info.channels == 1 ? "" : "s", auth_name(info.auth),
		      info.downgrade ? "; no RDMA: " : "",
		      info.downgrade ? info.downgrade : "");
	return 0;
}

int session_open(rmem **ret_session)
{
	struct rmem_options opening = rmem_options_init();
	char uri[URI_BYTES];
	rmem *session;
	int err = options_uri(uri, sizeof(uri));

	if (err)
		return err;
	opening.timeout_ms = (unsigned)options.timeout_ms;
	err = rmem_open(uri, &opening, &session);
	/* the library refuses only the URI so: the rest was checked */
	options.bad_usage = err == -EINVAL;
	if (err)
		return session_result(err);
	err = options.verbose ? session_describe(session) : 0;
	if (err) {
		rmem_close(session);
		return err;
	}
	*ret_session = session;
	return 0;
}

int session_name_check(const char *name)
{
	size_t n = strlen(name);

	if (n == 0)
		return options_usage("the name is empty");
	if (n > RMEM_NAME_MAX)
		return options_usage("the name is %zu bytes long, the limit is %d", n,
				     RMEM_NAME_MAX);
	if (!utf8_clean(name, n))
		return options_usage("the name " UTF8_UNCLEAN);
	return 0;
}

int names_each(rmem *session, const char *command, char **names,
	       int (*each)(rmem *session, const char *name))
{
	int failed = 0;

	for (; *names; names++) {
		int err = each(session, *names);

		if (!err)
			continue;
		failed = err;
		(void)fprintf(stderr, "rmem: %s: %s\n", command, err_text());
		options.reported = true;
	}
	return failed;
}
