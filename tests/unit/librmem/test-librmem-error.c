/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of rmem_error(): there after a call that failed, gone after one that did not. */
#include <errno.h>

#include "librmem/lease/lease.h"
#include "unit/librmem/core-case.h"

static rmem_lease *lease;
static rmem_buffer *buffer;
static rmem_queue *made;

static int each(const struct rmem_stat *stat, void *arg)
{
	(void)stat;
	(void)arg;
	return 0;
}

static int call_ping(void)
{
	return rmem_ping(stage.client, NULL);
}

static int call_ping_data(void)
{
	return rmem_ping_data(stage.client, NULL);
}

static int call_info(void)
{
	struct rmem_info info = rmem_info_init();

	return rmem_info(stage.client, &info);
}

static int call_write(void)
{
	return rmem_write(lease, 0, stage.buf, 64);
}

static int call_read(void)
{
	return rmem_read(lease, 0, stage.buf, 64);
}

static int call_rename(void)
{
	return rmem_rename(lease, "other", 0);
}

static int call_stat(void)
{
	struct rmem_stat stat = rmem_stat_init();

	return rmem_stat(stage.client, "other", &stat);
}

static int call_list(void)
{
	return rmem_list(stage.client, "", each, NULL);
}

static int call_attach(void)
{
	rmem_lease *again;

	return rmem_attach(stage.client, "other", RMEM_READ | RMEM_WRITE, &again);
}

static int call_renew(void)
{
	return rmem_renew(lease, 60000);
}

static int call_grow(void)
{
	return rmem_grow(lease, 8192);
}

static int call_shrink(void)
{
	return rmem_shrink(lease, 4096);
}

static int call_layout(void)
{
	struct rmem_layout layout = rmem_layout_init();

	return rmem_lease_layout(lease, &layout);
}

static int call_wanted(void)
{
	struct rmem_wanted wanted = rmem_wanted_init();

	return rmem_lease_wanted(lease, &wanted);
}

static int call_watch(void)
{
	return rmem_watch(lease);
}

static int call_notified(void)
{
	struct rmem_notice notice;

	return rmem_notified(stage.client, &notice, 1, 0);
}

static int call_unwatch(void)
{
	return rmem_unwatch(lease);
}

static int call_buffer_create(void)
{
	struct rmem_buffer_params params = rmem_buffer_params_init();

	params.bytes = 4096;
	return rmem_buffer_create(stage.client, &params, &buffer);
}

static int call_buffer_free(void)
{
	return rmem_buffer_free(buffer);
}

static int call_queue_create(void)
{
	return rmem_queue_create(stage.client, NULL, &made);
}

static int call_detach(void)
{
	return rmem_detach(lease);
}

static int call_destroy(void)
{
	return rmem_destroy(lease);
}

static int call_alloc(void)
{
	struct rmem_alloc_params params = rmem_alloc_params_init();

	params.bytes = 4096;
	params.name = "mine";
	return rmem_alloc(stage.client, &params, &lease);
}

static int (*const calls[])(void) = {
	call_ping,         call_ping_data, call_info,          call_alloc,
	call_write,        call_read,      call_rename,        call_stat,
	call_list,         call_attach,    call_renew,         call_grow,
	call_shrink,       call_layout,    call_wanted,        call_watch,
	call_notified,     call_unwatch,   call_buffer_create, call_buffer_free,
	call_queue_create, call_detach,    call_destroy,
};

START_TEST(error__is_empty_after_a_success)
{
	open_with(0);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		ck_assert_int_eq(rmem_remove(stage.client, "nothing"), -ENOENT);
		ck_assert_str_ne(rmem_error(), "");
		ck_assert_msg(calls[i]() >= 0, "call %zu: %s", i, rmem_error());
		ck_assert_msg(!rmem_error()[0], "call %zu: %s", i, rmem_error());
	}
	rmem_queue_free(made);
}
END_TEST

/* The text names the function that was called. */
START_TEST(error__names_its_call)
{
	struct rmem_lease foreign = { .session = NULL };

	open_with(0);
	ck_assert_int_eq(call_alloc(), 0);
	ck_assert_int_eq(rmem_copy(lease, 0, &foreign, 0, 8), -EINVAL);
	ck_assert_str_eq(rmem_error(),
			 "rmem_copy: the source's lease is not of this session");
	ck_assert_int_eq(rmem_readv(lease, 0, NULL, 1), -EINVAL);
	ck_assert_str_eq(rmem_error(), "rmem_readv: vec is NULL");
}
END_TEST

int main(void)
{
	TCase *tcase = core_case("error");

	tcase_add_test(tcase, error__is_empty_after_a_success);
	tcase_add_test(tcase, error__names_its_call);
	return unit_main();
}
