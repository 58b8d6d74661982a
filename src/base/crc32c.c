/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/crc32c.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define HWCAP_CRC32_BIT (1ul << 7)
#endif

/* The polynomial, bit 31 is that of x^0. */
#define POLYNOMIAL UINT32_C(0x82f63b78)
#define X_TO_0 UINT32_C(0x80000000)
#define X_TO_8 UINT32_C(0x00800000)

/* Three independent lanes hide the latency of the instruction.  Bytes of each; two times three are
 * a page, all but 64 bytes: */
#define LANE_BYTES ((size_t)672)

static uint32_t times_x(uint32_t a)
{
	return (a >> 1) ^ (a & 1 ? POLYNOMIAL : 0);
}

/* The product of two polynomials, modulo the polynomial. */
static uint32_t product(uint32_t a, uint32_t b)
{
	uint32_t sum = 0;

	for (uint32_t bit = X_TO_0; bit; bit >>= 1, b = times_x(b))
		if (a & bit)
			sum ^= b;
	return sum;
}

/* x to the power of 8 * bytes: appending `bytes` zero bytes multiplies by it. */
static uint32_t zeros(uint64_t bytes)
{
	uint32_t result = X_TO_0;

	for (uint32_t power = X_TO_8; bytes; bytes >>= 1, power = product(power, power))
		if (bytes & 1)
			result = product(result, power);
	return result;
}

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_bytes)
{
	return product(first, zeros(second_bytes)) ^ second;
}

static inline uint64_t load_word(const unsigned char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return le64toh(word);
}

/* ---- without the instruction: eight bytes at a time ---- */

static uint32_t tables[8][256];
static pthread_once_t tables_made = PTHREAD_ONCE_INIT;

static void tables_make(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t value = i;

		for (unsigned bit = 0; bit < 8; bit++)
			value = times_x(value);
		tables[0][i] = value;
	}
	for (unsigned t = 1; t < 8; t++)
		for (unsigned i = 0; i < 256; i++) {
			uint32_t before = tables[t - 1][i];

			tables[t][i] = (before >> 8) ^ tables[0][before & 0xff];
		}
}

static uint32_t word_of(uint64_t word)
{
	uint32_t value = 0;

	for (unsigned i = 0; i < 8; i++)
		value ^= tables[7 - i][word >> (8 * i) & 0xff];
	return value;
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint32_t state = ~crc;

	(void)pthread_once(&tables_made, tables_make);
	for (; bytes >= 8; bytes -= 8, at += 8)
		state = word_of(state ^ load_word(at));
	for (; bytes > 0; bytes--, at++)
		state = (state >> 8) ^ tables[0][(state ^ *at) & 0xff];
	return ~state;
}

/* ---- with the instruction ---- */

#if defined(__x86_64__) || (defined(__aarch64__) && defined(__linux__))
#if defined(__x86_64__)
#define WITH_INSTRUCTION __attribute__((target("sse4.2")))

static WITH_INSTRUCTION inline uint32_t step_8(uint32_t state, uint64_t word)
{
	return (uint32_t)__builtin_ia32_crc32di(state, word);
}

static WITH_INSTRUCTION inline uint32_t step_1(uint32_t state, unsigned char byte)
{
	return __builtin_ia32_crc32qi(state, byte);
}

static bool instruction_is_there(void)
{
	return __builtin_cpu_supports("sse4.2");
}
#else
#define WITH_INSTRUCTION

static inline uint32_t step_8(uint32_t state, uint64_t word)
{
	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1"
		: "+r"(state)
		: "r"(word));
	return state;
}

static inline uint32_t step_1(uint32_t state, unsigned char byte)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
		: "+r"(state)
		: "r"(byte));
	return state;
}

static bool instruction_is_there(void)
{
	return (getauxval(AT_HWCAP) & HWCAP_CRC32_BIT) != 0;
}
#endif

/* Products of each byte of a state with the zeros of a lane. */
static uint32_t joints[4][256];
static pthread_once_t joints_made = PTHREAD_ONCE_INIT;

static void joints_make(void)
{
	uint32_t lane_zeros = zeros(LANE_BYTES);

	for (unsigned byte = 0; byte < 4; byte++)
		for (uint32_t i = 0; i < 256; i++)
			joints[byte][i] = product(i << (8 * byte), lane_zeros);
}

/* The state after a lane of zeros. */
static uint32_t lane_passed(uint32_t state)
{
	return joints[0][state & 0xff] ^ joints[1][state >> 8 & 0xff] ^
	       joints[2][state >> 16 & 0xff] ^ joints[3][state >> 24];
}

/* Process three lanes and join them; returns the new state. */
static WITH_INSTRUCTION uint32_t lanes(uint32_t state, const unsigned char *at)
{
	uint32_t second = 0, third = 0;

	for (size_t i = 0; i < LANE_BYTES; i += 8) {
		state = step_8(state, load_word(at + i));
		second = step_8(second, load_word(at + LANE_BYTES + i));
		third = step_8(third, load_word(at + 2 * LANE_BYTES + i));
	}
	return lane_passed(lane_passed(state) ^ second) ^ third;
}

static WITH_INSTRUCTION uint32_t crc_fast(uint32_t crc, const unsigned char *at,
					  size_t bytes)
{
	uint32_t state = ~crc;

	if (bytes >= 3 * LANE_BYTES)
		(void)pthread_once(&joints_made, joints_make);
	for (; bytes >= 3 * LANE_BYTES; bytes -= 3 * LANE_BYTES, at += 3 * LANE_BYTES)
		state = lanes(state, at);
	for (; bytes >= 8; bytes -= 8, at += 8)
		state = step_8(state, load_word(at));
	for (; bytes > 0; bytes--, at++)
		state = step_1(state, *at);
	return ~state;
}

#else
#define instruction_is_there() false
#define crc_fast crc32c_portable
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t bytes)
{
	if (instruction_is_there())
		return crc_fast(crc, data, bytes);
	return crc32c_portable(crc, data, bytes);
}
