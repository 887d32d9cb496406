# Receive queues and the workers that poll them: given out as asked, pinned, moved under traffic
# without a loss, and told of in Open vSwitch's words.
# limit: 60
# alone
client_and_server
static_neighbours
[ "$(nproc)" -ge 2 ] || skip "needs two processors"
start_switch
bridge br0 client server
load br0 <<<"actions=normal"
rxqs() { ovs-appctl dpif-netdev/pmd-rxq-show "$@"; }
core_of() { rxqs | awk -v port="$1" '/core_id/ { core = $NF } $2 == port { sub(":", "", core); print core }'; }
same "without a mask" "Displaying last 60 seconds pmd usage %" "$(rxqs)"
contains "the main thread" "$(ovs-appctl dpif-netdev/pmd-stats-show)" "main thread:"
vsctl set open_vswitch . other_config:pmd-cpu-mask=0x3 other_config:pmd-rxq-assign=roundrobin
eventually 5 reads "core_id 1:" rxqs
# LOCAL, client and server in turn; what is known of their use comes with the first interval.
same "in turn" "0 1 0" "$(core_of br0) $(core_of client) $(core_of server)"
contains "line" "$(rxqs)" "  port: client            queue-id:  0 (enabled)   pmd usage: "
contains "isolated" "$(rxqs -pmd 1)" "isolated : false"
lacks "the other core" "$(rxqs -pmd 1)" "core_id 0"
contains "seconds" "$(rxqs -secs 7)" "Displaying last 10 seconds"
contains "log" "$(grep dpif_netdev $work/ovs-vswitchd.log)" \
    "Performing pmd to rx queue assignment using roundrobin algorithm."

# Queues move between workers under traffic, and nothing is lost.
eventually 5 pings client 10.0.0.2
on client ping -n -q -s 300 -i 0.001 -w 30 10.0.0.2 >ping.printed &
pid=$!
for core in 0 1 0 1 0; do
    vsctl set interface client other_config:pmd-rxq-affinity="0:$core"
    same "pinned" "$core" "$(core_of client)"
    contains "isolated" "$(rxqs -pmd $core)" "isolated : true"
    same "the others' core" "$((1 - core)) $((1 - core))" "$(core_of br0) $(core_of server)"
    sleep 0.3
done
vsctl set open_vswitch . other_config:pmd-rxq-assign=group other_config:pmd-rxq-isolate=false
contains "isolated" "$(rxqs -pmd 0)" "isolated : false"
same "pinned still" 0 "$(core_of client)"
vsctl remove interface client other_config pmd-rxq-affinity
for way in cycles group roundrobin cycles; do
    vsctl set open_vswitch . other_config:pmd-rxq-assign=$way
    same "rebalanced" "pmd rxq rebalance requested." "$(ovs-appctl dpif-netdev/pmd-rxq-rebalance)"
done
# Workers come and go too.
for mask in 0x1 0x2 0x3; do
    vsctl set open_vswitch . other_config:pmd-cpu-mask=$mask
    sleep 0.3
done
used() { rxqs | grep -qE 'client .*pmd usage: +[1-9][0-9]* %$'; }
# Pings at leisure are less than one percent of a core's time.
on client ping -f -q -w 20 10.0.0.2 >/dev/null &
flood=$!
eventually 12 used
kill -INT "$(pgrep -f 'ping -f -q -w 20')"
wait $flood || true
kill -INT "$(pgrep -f 'ping -n -q -s 300')"
wait $pid || true
lost=$(sed -n 's/^\([0-9]*\) packets transmitted, \([0-9]*\) received.*/\1 \2/p' ping.printed)
printf 'sent and came back: %s\n' "$lost"
# Two workers that poll leave little of two processors to ping.
[ "${lost% *}" -ge 200 ] || fail "too little traffic: $lost"
[ $((${lost% *} - ${lost#* })) -le 1 ] || fail "sent and came back: $lost"

# A queue that no worker may poll.
vsctl set interface client other_config:pmd-rxq-affinity=0:0
vsctl set interface server other_config:pmd-rxq-affinity=0:1
eventually 3 reads "no worker may poll receive queue 0" vsctl get interface br0 error
pings client 10.0.0.2
vsctl remove interface server other_config pmd-rxq-affinity
eventually 3 reads "[]" vsctl get interface br0 error
# A core without a worker is reported, and its queue is assigned to another.
vsctl set interface client other_config:pmd-rxq-affinity=0:77
contains "log" "$(tail -n 9 $work/ovs-vswitchd.log)" "Core 77 cannot be pinned with port 'client' rx queue 0"
pings client 10.0.0.2

# What workers do, and how long they sleep when told to.
busy=$(ovs-appctl dpif-netdev/pmd-perf-show)
for line in "Measurement duration:" "  Iterations:  " "  - idle iterations: " "  Rx packets: " \
    "  - Megaflow hits: " "us/upcall" "  Tx batches: "; do
    contains "pmd-perf-show" "$busy" "$line"
done
contains "sleeps" "$(ovs-appctl dpif-netdev/pmd-sleep-show)" "Default max sleep:    0 us"
contains "no sleeps" "$busy" "  - sleep iterations:            0"
percent_of_a_core() {
    local before
    before=$(awk '{ print $14 + $15 }' "/proc/$SWITCH_PID/stat")
    sleep 1
    awk -v before="$before" '{ printf "%d\n", ($14 + $15 - before) }' "/proc/$SWITCH_PID/stat"
}
awake=$(percent_of_a_core)
vsctl set open_vswitch . other_config:pmd-sleep-max=500,1:10000
ovs-appctl dpif-netdev/pmd-stats-clear
contains "sleeps" "$(ovs-appctl dpif-netdev/pmd-sleep-show)" "Default max sleep:  500 us
pmd thread numa_id 0 core_id 0:
  max sleep:  500 us
pmd thread numa_id 0 core_id 1:
  max sleep: 10000 us"
asleep=$(percent_of_a_core)
printf 'percent of a core without and with sleeps: %s %s\n' "$awake" "$asleep"
[ "$asleep" -lt $((awake / 2)) ] || fail "without sleeps $awake % of a core, with them $asleep %"
lacks "sleeps" "$(ovs-appctl dpif-netdev/pmd-perf-show)" "  - sleep iterations:            0"
pings client 10.0.0.2
