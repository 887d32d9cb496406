# With pmd-auto-lb, two busy queues on one core are separated after a minute, not before; without it
# they stay.
# limit: 240
ours || skip "Open vSwitch polls veths from its main thread"
[ "$(nproc)" -ge 2 ] || skip "needs two processors"
hosts="a b c d"
number=1
for name in $hosts; do
    host $name 10.0.0.$number/24 02:00:00:00:00:0$number
    number=$((number + 1))
done
start_switch
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x3
# shellcheck disable=SC2086
bridge br0 $hosts
load br0 <<<"actions=drop"
core_of() {
    ovs-appctl dpif-netdev/pmd-rxq-show |
        awk -v port="$1" '/core_id/ { core = $NF } $2 == port { sub(":", "", core); print core }'
}
# Of four queues on two cores, some two share one.
one='' other=''
for each in $hosts; do
    for next in $hosts; do
        [ -n "$one" ] || [ "$each" = "$next" ] || [ "$(core_of $each)" != "$(core_of $next)" ] ||
            one=$each other=$next
    done
done
[ -n "$one" ] || fail "no two queues share a core: $(ovs-appctl dpif-netdev/pmd-rxq-show)"
share() { [ "$(core_of $one)" = "$(core_of $other)" ]; }
for name in $one $other; do
    on $name $python - <<'P' &
import socket, time
end = time.monotonic() + 220
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    while time.monotonic() < end:
        for _ in range(60):
            sender.sendto(bytes(100), ("10.0.0.255", 9))
        time.sleep(0.002)
P
done
usage() { ovs-appctl dpif-netdev/pmd-rxq-show -secs 5 | awk -v port="$1" '$2 == port { print $(NF - 1) }'; }
busy() { [ "$(usage $one)" -ge 1 ] && [ "$(usage $other)" -ge 1 ]; }
eventually 25 busy
share || fail "queues moved without being told to"
vsctl set open_vswitch . other_config:pmd-auto-lb=true other_config:pmd-auto-lb-load-threshold=1 \
    other_config:pmd-auto-lb-improvement-threshold=1 other_config:pmd-auto-lb-rebal-interval=1
began=$SECONDS
parted() { ! share; }
eventually 150 parted
[ $((SECONDS - began)) -ge 50 ] || fail "after $((SECONDS - began)) s, before a minute was over"
printf 'parted after %s s\n' $((SECONDS - began))
contains "log" "$(grep dpif_netdev $work/ovs-vswitchd.log)" "Requesting datapath reconfigure."
