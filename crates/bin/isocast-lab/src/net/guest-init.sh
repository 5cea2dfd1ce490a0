#!/bin/sh
# Init of one node of `isocast lab net`: a User-mode Linux on the host's own files, with an Ethernet device, TCP and TIPC.
# From the kernel's command line: LAB (the network's folder), N (this node), NODES, RATE (bit/s, or nothing).
# Talks to the host over its second console: says `ready` or `failed WHY`, obeys `run ID` and `end ID`, says `done ID STATUS`.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs tmpfs /run
# /tmp is the host's, which cannot be written to here: a program may lie below it.
export TMPDIR=/run
mkdir -p /run/lab; mount -t hostfs -o "$LAB" none /run/lab
exec 3<>/dev/tty1
busybox stty raw -echo <&3
tell() { echo "$*" >&3; }
fail() { tell "failed node $N: $*"; sleep 1; echo o >/proc/sysrq-trigger; sleep 9; }

# Of a kernel that has one built in, no file is there.
modules=/usr/lib/uml/modules/$(uname -r)/kernel
for module in lib/crc-ccitt net/ipv6/ipv6 net/ipv4/udp_tunnel net/ipv6/ip6_udp_tunnel net/tipc/tipc net/sched/sch_tbf; do
	[ ! -e "$modules/$module.ko" ] || busybox insmod "$modules/$module.ko" || fail "$module.ko cannot be loaded"
done
ip -b - <<X || fail "its network device cannot be set up"
link set lo up
addr add 10.9.0.$N/24 dev vec0
link set vec0 address 02:00:00:00:09:0$N
link set vec0 txqueuelen 1000
link set vec0 up
X
[ -z "$RATE" ] || tc qdisc add dev vec0 root tbf rate "${RATE}bit" burst 32k latency 50ms || fail "no rate of $RATE bit/s"
tipc node set address "1.1.$N"
tipc bearer enable media eth device vec0 || fail "TIPC has no bearer"
tries=0
until [ "$(tipc node list | grep -c 'up$')" = $((NODES - 1)) ]; do
	busybox usleep 50000
	tries=$((tries + 1))
	[ $tries -lt 200 ] || fail "its TIPC links do not come up"
done
tell ready

while read -r verb id <&3; do
	case $verb in
	run)
		(
			busybox setsid sh "/run/lab/$id.sh" </dev/null >"/run/lab/$id.out" 2>"/run/lab/$id.err" 3<&- &
			child=$!
			echo $child >"/run/$id.pid"
			wait $child
			status=$?
			sync
			tell "done $id $status"
		) &
		;;
	end) busybox kill -TERM "-$(cat "/run/$id.pid")" ;;
	esac
done
echo o >/proc/sysrq-trigger
sleep 9
