/* SPDX-License-Identifier: BSD-3-Clause */
#include "unit/rmemd/bare-daemon.h"

#include "rmemd/control/auth.h"
#include "rmemd/provision/plan.h"
#include "rmemd/state/ledger.h"
#include "tls/context.h"

static void on_stays(const struct pool_params *)
{
}

static int open_pools(const struct control *control, struct pools **ret_pools)
{
	static struct plan plan;
	int err = plan_make(&plan, control->config, control->ledger, control->fdstore,
			    leases_use_pool, on_stays);

	if (!err)
		err = pools_open(plan.pools, plan.n_pools, NULL, ret_pools);
	return err ? err
		   : plan_record(&plan, *ret_pools, control->ledger, control->fdstore);
}

int bare_daemon_open(struct control *control, int ledger_fd,
		     const struct fabric_server_ops *const *fabrics)
{
	static struct tenants tenants;
	const struct fabric_server_params params = { .threads = 1 };
	const struct config *config = control->config;
	struct pools *pools;
	int err;

	control->tenants = &tenants;
	tenants_init(&tenants);
	err = tenants_set(&tenants, config->tenants, config->n_tenants);
	if (!err)
		err = ledger_open(ledger_fd, &control->ledger);
	if (!err)
		err = auth_load(config, &control->tls);
	if (!err)
		err = control_open(control);
	for (; !err && *fabrics; fabrics++)
		err = endpoints_serve(control, *fabrics, &params);
	if (!err)
		err = open_pools(control, &pools);
	return err ? err : control_start(control, pools);
}

void bare_daemon_close(struct control *control)
{
	control_close(control);
	tls_context_unref(control->tls);
	tenants_destroy(control->tenants);
	pools_close(control->pools);
	ledger_close(control->ledger);
}
