/* SPDX-License-Identifier: BSD-3-Clause */
/* What the calls on a lease have in common. */
#include "librmem/lease/lease.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

int lease_rights_check(uint64_t rights)
{
	if (rights == RMEM_READ || rights == (RMEM_READ | RMEM_WRITE))
		return 0;
	return err_set(-EINVAL,
		       "rights is neither RMEM_READ nor RMEM_READ | RMEM_WRITE");
}

int lease_check_writable(const struct rmem_lease *lease)
{
	if (lease->rights & RMEM_WRITE)
		return 0;
	return err_set(-EACCES, "it is attached for reading only");
}

struct lease_call *lease_call_new(void)
{
	struct lease_call *call = calloc(1, sizeof(*call));

	if (!call)
		(void)err_set(-ENOMEM, "no memory for a call");
	return call;
}

struct call *lease_call_init(struct lease_call *call, const struct call_kind *kind,
			     const struct rmem_request *request, int err)
{
	struct rmem_lease *lease = request->lease;

	call->call.lease = lease;
	call->call.line = &lease->line;
	call->value = request->value;
	call_init(&call->call, kind, lease->session, request, err);
	return &call->call;
}

int lease_call_describe(struct call *call, int err)
{
	call->answer.reason = (uint16_t)rmem_lease_reason(call->lease);
	return lease_error(call->lease, err, call->kind->name);
}

int lease_call_check(const struct call *call)
{
	const struct rmem_lease *lease = call->lease;

	if (atomic_load(&lease->status) != 0)
		return err_set(-ESTALE, "%s", lease_ended_text(lease));
	return lease_check_writable(lease);
}
