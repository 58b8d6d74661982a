# shellcheck shell=bash disable=SC2034 # variables for the commands
# SPDX-License-Identifier: BSD-3-Clause
# Sanitizers of clang: sums and products that wrap, and narrowing that loses bits; see
# base/modular.h.
INTEGERS=unsigned-integer-overflow,implicit-conversion
