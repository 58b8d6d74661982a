/* SPDX-License-Identifier: BSD-3-Clause */
/* Why a lease has ended. */
#include "librmem/lease/lease.h"

enum rmem_reason rmem_lease_reason(const rmem_lease *lease)
{
	/* the status is read first: it is set last */
	if (lease_ended(lease))
		return (enum rmem_reason)atomic_load_explicit(&lease->reason,
							      memory_order_relaxed);
	return lease_status(lease) ? RMEM_REASON_LOST : RMEM_REASON_NONE;
}

const char *lease_ended_text(const struct rmem_lease *lease)
{
	static const char *const texts[] = {
		[RMEM_REASON_NONE] = "the lease has ended",
		[RMEM_REASON_FREED] = "the lease was freed",
		[RMEM_REASON_EXPIRED] =
			"the lease has expired: its time to live was over",
		[RMEM_REASON_REVOKED] = "the server has revoked the lease",
		[RMEM_REASON_REPLACED] =
			"the lease was replaced: another one has its name",
		[RMEM_REASON_LOST] = "the session is lost, and with it the lease",
		[RMEM_REASON_UNKNOWN] = "the server has ended the lease",
		[RMEM_REASON_UNSHARED] =
			"the tenant that owns the lease shares it no longer",
	};

	return texts[rmem_lease_reason(lease)];
}
