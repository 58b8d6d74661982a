/* SPDX-License-Identifier: BSD-3-Clause */
/* The rules of nftables, as the program nft(8) lists them; those of iptables are among them. */
#include <linux/capability.h>
#include <nftables/libnftables.h>
#include <stdio.h>
#include <string.h>

#include "rmemctl/doctor/server.h"

/* NULL: `text` says why. */
static char *ruleset_list(struct nft_ctx *nft, char *text, size_t text_bytes)
{
	char *ruleset = NULL;
	const char *said;

	nft_ctx_output_set_flags(nft, NFT_CTX_OUTPUT_JSON | NFT_CTX_OUTPUT_HANDLE);
	if (nft_ctx_buffer_output(nft) || nft_ctx_buffer_error(nft)) {
		(void)snprintf(text, text_bytes, "no memory");
	} else if (nft_run_cmd_from_buffer(nft, "list ruleset")) {
		said = nft_ctx_get_error_buffer(nft);
		(void)snprintf(text, text_bytes, "%.*s", (int)strcspn(said, "\n"),
			       said);
	} else {
		ruleset = strdup(nft_ctx_get_output_buffer(nft));
		if (!ruleset)
			(void)snprintf(text, text_bytes, "no memory");
	}
	return ruleset;
}

char *ruleset_read(char *text, size_t text_bytes)
{
	struct nft_ctx *nft;
	char *ruleset;

	/* the library would print an error of its own */
	if (!limits_capable("", "self", CAP_NET_ADMIN)) {
		(void)snprintf(text, text_bytes, "needs CAP_NET_ADMIN, which root has");
		return NULL;
	}
	nft = nft_ctx_new(NFT_CTX_DEFAULT);
	if (!nft) {
		(void)snprintf(text, text_bytes, "no memory");
		return NULL;
	}
	ruleset = ruleset_list(nft, text, text_bytes);
	nft_ctx_free(nft);
	return ruleset;
}
