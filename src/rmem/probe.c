/* SPDX-License-Identifier: BSD-3-Clause */
#include "rmem/probe.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/err.h"
#include "rmem/options.h"
#include "rmem/session.h"

#define PROBE_BYTES ((size_t)64 << 10)
#define URI_BYTES 1024

static const char *const step_names[PROBE_STEPS] = {
	[PROBE_RESOLVE] = "resolve", [PROBE_CONNECT] = "connect",
	[PROBE_SECURE] = "tls",      [PROBE_WELCOME] = "welcome",
	[PROBE_CHANNEL] = "channel", [PROBE_LEASE] = "lease",
	[PROBE_WRITE] = "write",     [PROBE_READ] = "read",
	[PROBE_COMPARE] = "compare", [PROBE_FREE] = "free",
};

const char *probe_step_name(enum probe_step step)
{
	return step_names[step];
}

/* ---- steps ---- */

static void step_end(struct probe *probe, enum probe_step step)
{
	uint64_t now = clock_now_ns();

	/* a step that is repeated adds to what it took */
	probe->taken_ns[step] += now - probe->last_ns;
	probe->last_ns = now;
	probe->reached = step + 1;
}

static void stepped(void *ctx, enum rmem_step step)
{
	static const enum probe_step steps[] = {
		[RMEM_STEP_RESOLVED] = PROBE_RESOLVE,
		[RMEM_STEP_CONNECTED] = PROBE_CONNECT,
		[RMEM_STEP_SECURED] = PROBE_SECURE,
		[RMEM_STEP_WELCOMED] = PROBE_WELCOME,
		[RMEM_STEP_CHANNEL] = PROBE_CHANNEL,
	};

	step_end(ctx, steps[step]);
}

static int fail(struct probe *probe, enum probe_step step, int err)
{
	probe->err = err;
	probe->failed = step;
	(void)snprintf(probe->text, sizeof(probe->text), "%s", err_text());
	return err;
}

/* End a step of a call to the library. */
static int call_end(struct probe *probe, enum probe_step step, int result)
{
	int err = session_result(result);

	if (err < 0)
		return fail(probe, step, err);
	step_end(probe, step);
	return 0;
}

/* ---- the lease ---- */

static int bytes_compare(struct probe *probe, const unsigned char *written,
			 const unsigned char *read)
{
	size_t i = 0;

	while (i < PROBE_BYTES && written[i] == read[i])
		i++;
	if (i == PROBE_BYTES) {
		step_end(probe, PROBE_COMPARE);
		return 0;
	}
	return fail(probe, PROBE_COMPARE,
		    err_set(-EIO, "byte %zu is 0x%02x, but 0x%02x was written", i,
			    read[i], written[i]));
}

static int lease_use(struct probe *probe, rmem_lease *lease)
{
	static unsigned char written[PROBE_BYTES], got[PROBE_BYTES];
	int err;

	for (size_t i = 0; i < PROBE_BYTES; i++)
		written[i] = (unsigned char)(i * 7 + (i >> 8) + 1);
	memset(got, 0, sizeof(got));
	err = call_end(probe, PROBE_WRITE,
		       rmem_write(lease, 0, written, sizeof(written)));
	if (!err)
		err = call_end(probe, PROBE_READ,
			       rmem_read(lease, 0, got, sizeof(got)));
	return err ? err : bytes_compare(probe, written, got);
}

static void session_use(struct probe *probe, rmem *session)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();
	rmem_lease *lease = NULL;
	int err;

	params.bytes = PROBE_BYTES;
	if (call_end(probe, PROBE_LEASE, rmem_alloc(session, &params, &lease)))
		return;
	err = lease_use(probe, lease);
	if (!err)
		(void)call_end(probe, PROBE_FREE, rmem_destroy(lease));
	/* else it ends with the session */
}

/* ---- the session ---- */

static void session_describe(struct probe *probe, rmem *session)
{
	struct rmem_info info = rmem_info_init();

	if (rmem_info(session, &info))
		return;
	(void)snprintf(probe->server, sizeof(probe->server), "%s", info.server);
	(void)snprintf(probe->device, sizeof(probe->device), "%.127s", info.device);
	probe->auth = info.auth;
}

static int session_begin(struct probe *probe, rmem **ret_session)
{
	struct rmem_options opening = rmem_options_init();
	const char *asked = options.fabric;
	char uri[URI_BYTES];
	int err;

	options.fabric = probe->fabric;
	err = options_uri(uri, sizeof(uri));
	options.fabric = asked;
	if (err)
		return fail(probe, PROBE_RESOLVE, err);
	opening.timeout_ms = (unsigned)options.timeout_ms;
	opening.stepped = stepped;
	opening.stepped_ctx = probe;
	err = session_result(rmem_open(uri, &opening, ret_session));
	if (!err)
		return 0;
	/* without TLS its step is left out */
	if (probe->reached == PROBE_SECURE && !options_tls())
		probe->reached = PROBE_WELCOME;
	return fail(probe, probe->reached, err);
}

void probe_run(struct probe *probe, const char *fabric)
{
	rmem *session = NULL;
	uint64_t begin_ns = clock_now_ns();

	*probe = (struct probe){ .fabric = fabric, .last_ns = begin_ns };
	if (session_begin(probe, &session) == 0) {
		session_describe(probe, session);
		session_use(probe, session);
		probe->total_ns = probe->last_ns - begin_ns;
		rmem_close(session);
	}
	if (probe->err)
		probe->total_ns = clock_now_ns() - begin_ns;
}

/* ---- output ---- */

static const char *auth_name(enum rmem_auth auth)
{
	static const char *const names[] = { "none", "psk", "certificate" };

	return names[auth];
}

void probe_print(const struct probe *probe, FILE *out)
{
	(void)fprintf(out, "over %s:", probe->fabric);
	if (probe->server[0])
		(void)fprintf(out, " %s%s%s, auth %s", probe->server,
			      probe->device[0] ? ", device " : "", probe->device,
			      auth_name(probe->auth));
	(void)fputc('\n', out);
	for (size_t i = 0; i < PROBE_STEPS; i++)
		if (probe->taken_ns[i])
			(void)fprintf(out, "  %-8s %10.3f ms\n", step_names[i],
				      (double)probe->taken_ns[i] / 1e6);
	if (probe->err)
		(void)fprintf(out, "  %-8s failed after %.0f ms\n",
			      step_names[probe->failed], (double)probe->total_ns / 1e6);
	else
		(void)fprintf(out, "  %-8s %10.3f ms\n", "all",
			      (double)probe->total_ns / 1e6);
}

json_t *probe_json(const struct probe *probe)
{
	json_t *steps = json_array();
	int err = 0;

	for (size_t i = 0; i < PROBE_STEPS; i++)
		if (probe->taken_ns[i])
			err |= json_array_append_new(
				steps, json_pack("{s:s, s:I}", "step", step_names[i],
						 "ns", (json_int_t)probe->taken_ns[i]));
	if (err) {
		json_decref(steps);
		return NULL;
	}
	return json_pack("{s:s, s:b, s:s?, s:s?, s:s?, s:I, s:o}", "fabric",
			 probe->fabric, "works", probe->err == 0, "failed",
			 probe->err ? step_names[probe->failed] : NULL, "server",
			 probe->server[0] ? probe->server : NULL, "device",
			 probe->device[0] ? probe->device : NULL, "ns",
			 (json_int_t)probe->total_ns, "steps", steps);
}
