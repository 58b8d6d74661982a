# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Sourced by tcp.sh: how each program is found, started and measured.  For a PROGRAM there are
#
#   PROGRAM_find     prints what is missing, if something is
#   PROGRAM_start    starts its servers, before the first round
#   PROGRAM_serve I  instead, for servers that serve one client: becomes the server of client I
#   PROGRAM_can      whether it has the cell: OP SIZE DEPTH CLIENTS
#   PROGRAM_client I COUNT   client I in the cell; those that end by a number of operations get
#                    COUNT
#   PROGRAM_result   of the client's output: OPERATIONS SECONDS, and the median latency in ns or 0
#
# ADDRESS is the server's, ENTER the command that enters the clients' network namespace.
# shellcheck disable=SC2034,SC2153 # variables of tcp.sh

PEER_NAMES=(redis redis-range memcached nbdkit ucx fabric)
LIMIT_NAMES=(iperf3 sockperf bare stream)
COUNTED=" redis redis-range ucx fabric " # end by a number of operations, not by time
MIB=$((1 << 20))
CLIENTS_MAX=4
declare -A SERVERS=() # process ids
declare -A PORTS=([rmem]=7000 [redis]=7010 [memcached]=7020 [nbdkit]=7030 [ucx]=7040 [fabric]=7050
	[iperf3]=7060 [sockperf]=7070 [bare]=7080)

# missing COMMAND...: print those that are not here
missing()
{
	local name
	for name; do
		command -v "$name" >/dev/null || echo "$name"
	done
}

# listening PORT: wait until a server of this network namespace listens there
listening()
{
	local i
	for ((i = 0; i < 600; i++)); do
		[ -z "$(ss -Hltn "sport = :$1")" ] || return 0
		sleep 0.05
	done
	echo "tcp: nothing listens on port $1" >&2
	exit 1
}

# server PROGRAM PORT COMMAND...
server()
{
	"${@:3}" >"$WORK/$1-server.log" 2>&1 </dev/null &
	SERVERS[$1]="${SERVERS[$1]-} $!"
	listening "$2"
}

milliseconds()
{
	echo $((SECONDS * 1000))
}

# bytes COUNT: so many bytes of text
bytes()
{
	head -c "$1" /dev/zero | tr '\0' x
}

# json FILTER: OPERATIONS SECONDS NANOSECONDS from JSON
json()
{
	jq -r "$1 | map(tostring) | join(\" \")"
}

# ---- rmem ----

rmem_start()
{
	daemon_start "$WORK" "$ADDRESS" "${PORTS[rmem]}" tcp "[pool main]
size = 64M" "$RMEMD"
	SERVERS[rmem]=$DAEMON_PID SERVERS[again]=$DAEMON_PID
}

# rmem_bench MILLISECONDS
rmem_bench()
{
	"${ENTER[@]}" "$RMEM" \
		-s "rmem://$ADDRESS:${PORTS[rmem]}?fabric=tcp&channels=1" bench --op "$OP" \
		--size "$SIZE" --depth "$DEPTH" --batch "$DEPTH" --region "$SIZE" \
		--duration "${1}ms" --json
}

rmem_client()
{
	rmem_bench "$(milliseconds)"
}

rmem_result()
{
	json '[.operations, .seconds, .latency_ns.p50]'
}

# ---- Redis: redis-benchmark sends DEPTH commands and waits for all replies ----

redis_find()
{
	missing redis-benchmark redis-cli redis-check-rdb
}

# The server has two names, and the package of the second one starts no service.
redis_start()
{
	local i size

	server redis "${PORTS[redis]}" bash -c 'exec -a redis-server redis-check-rdb "$@"' _ \
		--bind "$ADDRESS" --port "${PORTS[redis]}" --protected-mode no --save '' \
		--appendonly no --dir "$WORK"
	SERVERS[redis-range]=${SERVERS[redis]}
	for ((i = 0; i < CLIENTS_MAX; i++)); do
		for size in "${SIZES[@]}"; do
			bytes "$size" | redis-cli -h "$ADDRESS" -p "${PORTS[redis]}" \
				-x SET "rmem.$i.$size" >/dev/null
		done
	done
}

# redis_benchmark COUNT ARGUMENTS...
redis_benchmark()
{
	"${ENTER[@]}" redis-benchmark -h "$ADDRESS" -p "${PORTS[redis]}" -c 1 -P "$DEPTH" -n "$1" \
		--precision 3 --csv "${@:2}"
}

redis_client()
{
	if [ "$OP" = read ]; then
		redis_benchmark "$2" GET "rmem.$1.$SIZE"
	else
		redis_benchmark "$2" -x SET "rmem.$1.$SIZE" < <(bytes "$SIZE")
	fi
}

redis_range_client()
{
	if [ "$OP" = read ]; then
		redis_benchmark "$2" GETRANGE "rmem.$1.$SIZE" 0 $((SIZE - 1))
	else
		redis_benchmark "$2" -x SETRANGE "rmem.$1.$SIZE" 0 < <(bytes "$SIZE")
	fi
}

# redis-benchmark counts milliseconds, and prints an infinite rate if there was none.
redis_result()
{
	tail -n 1 | awk -F '","' -v n="$COUNT" '{
		seconds = $(NF - 6) + 0 > 0 ? n / $(NF - 6) : 0
		printf "%d %.9f %.0f\n", n, seconds < 0.001 ? 0.001 : seconds, $(NF - 3) * 1e6
	}'
}

redis_range_result()
{
	redis_result
}

# ---- memcached ----

memcached_find()
{
	missing "${MEMCACHED:?}"
}

memcached_start()
{
	server memcached "${PORTS[memcached]}" "$MEMCACHED" -u root -l "$ADDRESS" \
		-p "${PORTS[memcached]}" -U 0 -m 256 -I 4m
}

memcached_client()
{
	"${ENTER[@]}" "$BARE" memcached "$ADDRESS" "${PORTS[memcached]}" "$OP" "$SIZE" "$DEPTH" \
		"$(milliseconds)"
}

memcached_result()
{
	cat
}

# ---- nbdkit and fio, which sends DEPTH requests and waits for all of them, too ----

nbdkit_find()
{
	missing nbdkit fio
	! command -v fio >/dev/null || fio --enghelp | grep -qw nbd || echo "fio's engine nbd"
}

nbdkit_start()
{
	server nbdkit "${PORTS[nbdkit]}" nbdkit -f -i "$ADDRESS" -p "${PORTS[nbdkit]}" memory \
		$((CLIENTS_MAX * MIB))
}

nbdkit_client()
{
	"${ENTER[@]}" fio --name=rmem --thread --ioengine=nbd \
		--uri="nbd://$ADDRESS:${PORTS[nbdkit]}" --rw="$OP" --bs="$SIZE" --size="$SIZE" \
		--offset=$(($1 * MIB)) --iodepth="$DEPTH" --iodepth_batch="$DEPTH" \
		--iodepth_batch_complete_min="$DEPTH" --time_based --runtime="$SECONDS" \
		--lat_percentiles=1 --output="$RUN/fio.$1" --output-format=json >&2
	cat "$RUN/fio.$1"
}

nbdkit_result()
{
	sed -n '/^{/,$p' | json ".jobs[0].$OP | [.total_ios, .runtime / 1e3,
		(.lat_ns.percentile.\"50.000000\" // 0)]"
}

# ---- UCX ----

ucx_find()
{
	missing ucx_perftest
}

ucx_serve()
{
	UCX_TLS=tcp UCX_NET_DEVICES=$DEVICE exec ucx_perftest -p $((PORTS[ucx] + $1))
}

ucx_client()
{
	local test=ucp_get

	[ "$OP" = read ] || test=$([ "$DEPTH" = 1 ] && echo ucp_put_lat || echo ucp_put_bw)
	UCX_TLS=tcp UCX_NET_DEVICES=$DEVICE "${ENTER[@]}" ucx_perftest "$ADDRESS" \
		-p $((PORTS[ucx] + $1)) -t "$test" -s "$SIZE" -n "$2" -w 10 -O "$DEPTH" -f -v
}

# The rate of put_lat is that of one way.
ucx_result()
{
	local ways=1 latency=0

	[ "$DEPTH" -gt 1 ] || latency=1000
	[ "$OP$DEPTH" != write1 ] || ways=2
	tail -n 1 | awk -F , -v ways="$ways" -v latency="$latency" \
		'{ printf "%d %.9f %.0f\n", $1, $1 / $8 * ways, $2 * latency * ways }'
}

# ---- libfabric: a ping-pong, with the bytes in both directions ----

fabric_find()
{
	missing fi_pingpong
}

fabric_can()
{
	[ "$DEPTH" = 1 ]
}

fabric_serve()
{
	exec fi_pingpong -p tcp -e rdm -B $((PORTS[fabric] + $1)) -I "$COUNT" -S "$SIZE"
}

fabric_client()
{
	"${ENTER[@]}" fi_pingpong -p tcp -e rdm -P $((PORTS[fabric] + $1)) -I "$2" -S "$SIZE" \
		"$ADDRESS"
}

fabric_result()
{
	tail -n 1 | awk -v n="$COUNT" '{ printf "%d %.9f 0\n", n, n * $7 * 2 / 1e6 }'
}

# ---- iperf3: a server for each client, as each runs one test at a time ----

iperf3_find()
{
	missing iperf3
}

iperf3_can()
{
	[ "$DEPTH" -gt 1 ] && [ "$SIZE" -ge 65536 ]
}

iperf3_start()
{
	local i
	for ((i = 0; i < CLIENTS_MAX; i++)); do
		server iperf3 $((PORTS[iperf3] + i)) iperf3 -s -B "$ADDRESS" \
			-p $((PORTS[iperf3] + i))
	done
}

iperf3_client()
{
	local way=()

	[ "$OP" = write ] || way=(-R)
	"${ENTER[@]}" iperf3 -c "$ADDRESS" -p $((PORTS[iperf3] + $1)) -t "$SECONDS" -l "$SIZE" \
		-J "${way[@]}"
}

iperf3_result()
{
	json ".end.sum_received | [.bytes / $SIZE, .seconds, 0]"
}

# ---- sockperf: a ping-pong, with the bytes in both directions; a server for each client ----

sockperf_find()
{
	missing sockperf
}

sockperf_can()
{
	[ "$DEPTH" = 1 ] && [ "$SIZE" -lt 65000 ]
}

sockperf_start()
{
	local i
	for ((i = 0; i < CLIENTS_MAX; i++)); do
		server sockperf $((PORTS[sockperf] + i)) sockperf server --tcp -i "$ADDRESS" \
			-p $((PORTS[sockperf] + i))
	done
}

sockperf_client()
{
	"${ENTER[@]}" sockperf ping-pong --tcp -i "$ADDRESS" -p $((PORTS[sockperf] + $1)) \
		-t "$SECONDS" -m "$SIZE" --full-rtt
}

sockperf_result()
{
	sed -nE -e '/.*Valid Duration\] RunTime=([0-9.]+) .*ReceivedMessages=([0-9]+).*/{
			s//rate \2 \1/p
		}' \
		-e 's/.*percentile 50\.000 = *([0-9.]+).*/p50 \1/p' |
		awk '$1 == "rate" { rate = $2 " " $3 }
			$1 == "p50" { printf "%s %.0f\n", rate, $2 * 1e3 }'
}

# ---- send(2) and recv(2) ----

bare_start()
{
	server bare "${PORTS[bare]}" "$BARE" serve "$ADDRESS" "${PORTS[bare]}"
	SERVERS[stream]=${SERVERS[bare]}
}

bare_client()
{
	"${ENTER[@]}" "$BARE" bare "$ADDRESS" "${PORTS[bare]}" "$OP" "$SIZE" "$DEPTH" \
		"$(milliseconds)"
}

bare_result()
{
	cat
}

stream_can()
{
	iperf3_can
}

stream_client()
{
	"${ENTER[@]}" "$BARE" stream "$ADDRESS" "${PORTS[bare]}" "$OP" "$SIZE" "$DEPTH" \
		"$(milliseconds)"
}

stream_result()
{
	cat
}
