/* SPDX-License-Identifier: BSD-3-Clause */
/* The ranges of requests at the borders of numbers. */
#include <endian.h>

#include "fabric/inband.h"
#include "unit/borders.h"
#include "unit/unit.h"

__extension__ typedef unsigned __int128 wide;

#define BASE UINT64_C(0x7f0000001000)
#define SIZE UINT64_C(4096)

static const uint64_t lengths[] = { BASE, BASE + SIZE, FABRIC_INBAND_BYTES_MAX };
static const struct borders borders = { lengths, 3 };

static void check_range(uint64_t base, uint64_t size, uint64_t addr, uint32_t bytes)
{
	bool inside = addr >= base && (wide)addr + bytes <= (wide)base + size;

	if (fabric_range_inside(base, size, addr, bytes) != inside)
		ck_abort_msg("%u bytes at %#llx", bytes, (unsigned long long)addr);
}

START_TEST(range__is_inside_of_the_region_or_refused)
{
	for (unsigned i = 0; i < borders_count(&borders); i++)
		for (unsigned k = 0; k < borders_count(&borders); k++) {
			uint32_t bytes = (uint32_t)border_at(&borders, k);

			check_range(BASE, SIZE, border_at(&borders, i), bytes);
			/* a region at the end of all addresses */
			check_range(UINT64_MAX - SIZE, SIZE, border_at(&borders, i),
				    bytes);
		}
}
END_TEST

static bool is_served(enum fabric_opcode opcode, uint32_t bytes)
{
	const struct inband_request request = { .op = htole16((uint16_t)opcode),
						.bytes = htole32(bytes) };

	return !inband_request_check(&request);
}

START_TEST(request__has_as_many_bytes_as_it_may)
{
	for (unsigned i = 0; i < borders_count(&borders); i++) {
		uint32_t bytes = (uint32_t)border_at(&borders, i);

		ck_assert_int_eq(is_served(FABRIC_FILL, bytes),
				 bytes > 0 && bytes <= FABRIC_INBAND_BYTES_MAX);
		ck_assert_int_eq(is_served(FABRIC_NOTIFY, bytes), bytes == 0);
	}
}
END_TEST

int main(void)
{
	TCase *tc = unit_case("inband", NULL, NULL);

	tcase_add_test(tc, range__is_inside_of_the_region_or_refused);
	tcase_add_test(tc, request__has_as_many_bytes_as_it_may);
	return unit_main();
}
