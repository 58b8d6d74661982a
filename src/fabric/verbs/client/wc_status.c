/* SPDX-License-Identifier: BSD-3-Clause */
#include "fabric/verbs/client/wc_status.h"

#include <errno.h>

int verbs_wc_errno(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_REM_ACCESS_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
	case IBV_WC_REM_OP_ERR:
		return -EACCES;
	case IBV_WC_WR_FLUSH_ERR:
	/* the queue pair is at fault, not the request: soft-RoCE up to 6.1 has no way to the
	 * peer any more, siw's socket is closed */
	case IBV_WC_LOC_QP_OP_ERR:
		return -ECONNRESET;
	case IBV_WC_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_LEN_ERR:
		return -EFAULT;
	default:
		return -EIO;
	}
}
