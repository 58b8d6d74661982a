# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# The integration and fault tests over RDMA; after each the kernel's RDMA stack is idle again.
#   RMEM_RIG_TESTS  which tests, as paths below tests/ without .sh; default: on soft-RoCE all that
#                   use the fabric, on iWARP those that depend on the device
: "${top_srcdir:?}"
rxe_tests="integration/acting integration/atomics integration/bad-memory integration/cache
	integration/cache-history integration/examples
	integration/inband integration/isolation integration/metrics integration/soak
	integration/kill integration/resize integration/shares integration/tenants
	integration/watch fault/channels fault/hostile fault/killstep attack/attack sweep/sample"
siw_tests="integration/atomics integration/bad-memory integration/inband integration/isolation
	integration/vectors integration/soak integration/watch fault/channels sweep/sample"
tests=$siw_tests
[ ! -e /sys/class/infiniband/rxe0 ] || tests=$rxe_tests
skipped=()
for test in ${RMEM_RIG_TESTS:-$tests}; do
	echo "-- $test"
	status=0 started=$SECONDS
	bash "$top_srcdir/tests/$test.sh" || status=$?
	case $status in
	0) ;;
	77) skipped+=("$test") ;;
	*) fail "$test: status $status" ;;
	esac
	rdma_idle "${before:?}"
	kernel_clean
	echo "-- $test took $((SECONDS - started)) s"
done
[ ${#skipped[@]} -eq 0 ] || echo "skipped: ${skipped[*]}"
