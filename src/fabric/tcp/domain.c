/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/tcp/domain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/err.h"

struct fabric_domain {
	struct fabric_address address;
	bool atomics, inband; /* the server does them */
};

int tcp_domain_open(const struct fabric_endpoint *endpoint,
		    const struct fabric_client_params *params, unsigned timeout_ms,
		    struct fabric_domain **ret_domain)
{
	struct fabric_domain *domain;

	(void)params;
	(void)timeout_ms;
	if (endpoint->address.family != 4 && endpoint->address.family != 6)
		return err_set(-EINVAL, "a tcp endpoint without an address");
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return err_errno(-ENOMEM, "a domain");
	domain->address = endpoint->address;
	domain->atomics = (endpoint->flags & FABRIC_ENDPOINT_ATOMICS) != 0;
	domain->inband = (endpoint->flags & FABRIC_ENDPOINT_INBAND) != 0;
	*ret_domain = domain;
	return 0;
}

void tcp_domain_close(struct fabric_domain *domain)
{
	free(domain);
}

const char *tcp_domain_device(const struct fabric_domain *domain)
{
	(void)domain;
	return "";
}

int tcp_domain_supports(const struct fabric_domain *domain,
			enum fabric_capability capability)
{
	bool able = capability == FABRIC_CAN_ATOMICS ? domain->atomics : domain->inband;

	if (able)
		return 0;
	return err_set(-ENOTSUP, "the server has no %s over tcp",
		       capability == FABRIC_CAN_ATOMICS ? "atomics"
							: "in-band requests");
}

const struct fabric_address *tcp_domain_address(const struct fabric_domain *domain)
{
	return &domain->address;
}
