# What the cases are made of: hosts, a database, the switch, and assertions. Started by tests/run
# inside namespaces that are its own, with the case's file as argument.
#
# A case is a list of commands, of which every one has to succeed. Words it may use:
#   host NAME ADDRESS MAC       a host; the switch's end of its cable has its name
#   client_and_server           the two that most cases want
#   on HOST COMMAND...          run there
#   serve HOST [PORT]           nginx; udp_echo HOST ADDRESS PORT: a UDP service
#   start_switch [OPTION...]    a database if there is none, and the switch on it
#   bridge NAME PORT...         with ovs-vsctl
#   start_peer                  Open vSwitch's daemon at the host `far`; peer COMMAND..., far_vsctl: there
#   monitor BRIDGE BYTES [OPTION...]  a controller's messages in monitor.printed, until unmonitor
#   must_fail COMMAND...        its output, of both kinds, if it fails
#   eventually S COMMAND...     until it succeeds, for at most S seconds of a machine with nothing else to do
#   never COMMAND...            it does not succeed now
#   same WHAT EXPECT GOT        texts; contains WHAT TEXT PIECE; lacks WHAT TEXT PIECE
#   fail WHY; skip WHY
set -Eeuo pipefail

case_file=$1
tests=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=/run/case
export OVS_RUNDIR=/run/openvswitch OVS_DBDIR=$work OVS_LOGDIR=$work OVS_SYSCONFDIR=$work
SWITCH_PID='' DATABASE_PID=''
# The stock tools' python, which has scapy.
python=/usr/bin/python3
# The same with the clients of tests/clients/requirements.txt; clients_of MODULE skips the case without them.
clients=$tests/../target/clients/python
client_python=(env "PYTHONPATH=$clients" PYTHONDONTWRITEBYTECODE=1 $python)
clients_of() {
    "${client_python[@]}" -c "import $1" 2>/dev/null ||
        skip "there is no Python package $1; tests/clients/prepare installs it"
}

# Whether the switch under test is ours.
ours() { [ "$(basename "$(realpath "$TIDEGATE_SWITCH")")" != ovs-vswitchd ]; }

fail() {
    trap - ERR
    # The first failure counts, also if it was in a subshell.
    [ -s "$CASE_WHY" ] || printf 'line %s: %s\n' "$(case_line)" "$1" >"$CASE_WHY"
    {
        printf -- '---- end of the log of the switch\n'
        tail -n 12 "$work/ovs-vswitchd.log" "$work/switch.printed" 2>/dev/null || true
    } >&2
    exit 1
}
skip() {
    printf '%s\n' "$1" >"$CASE_WHY"
    exit 77
}
# stopped_at COMMAND STATUS: a command that had to succeed did not.
stopped_at() { fail "\`$1\` ended with status $2"; }
# The innermost line of the case that is being run.
case_line() {
    local depth
    for depth in "${!BASH_SOURCE[@]}"; do
        if [ "${BASH_SOURCE[depth]}" = "$case_file" ]; then
            printf '%s\n' "${BASH_LINENO[depth - 1]}"
            return
        fi
    done
}

make_private() {
    mount -t tmpfs -o mode=0755 tests /run
    # So that /sys/class/net shows these namespaces' devices.
    mount -t sysfs sysfs /sys
    mkdir -p $work $OVS_RUNDIR
    cd $work
    ip link set lo up
}

# Hosts

host() {
    local name=$1 address=$2 mac=$3
    ip netns add "$name"
    ip link add name "$name" type veth peer name eth0 netns "$name"
    quiet_ipv6
    on "$name" bash -c "$(declare -f quiet_ipv6); quiet_ipv6"
    ip link set dev "$name" up
    ip -n "$name" link set lo up
    ip -n "$name" link set eth0 address "$mac" up
    ip -n "$name" addr add "$address" dev eth0
    # Open vSwitch 3.1 forwards partial checksums as they are; ours has to cope with them.
    if ! ours; then
        on "$name" ethtool -K eth0 tx off tso off gso off >/dev/null
    fi
}
# Otherwise neighbour discovery would appear in every dump.
quiet_ipv6() {
    local file
    for file in /proc/sys/net/ipv6/conf/*/disable_ipv6; do
        [ ! -e "$file" ] || echo 1 >"$file"
    done
}
client_and_server() {
    host client 10.0.0.1/24 02:00:00:00:00:01
    host server 10.0.0.2/24 02:00:00:00:00:02
}
# A guest behind br-int, and a host `far` on the underlay of br-phy, whose address is 172.31.1.1.
guest_and_underlay() {
    host guest 10.0.0.1/24 02:00:00:00:00:01
    host far 172.31.1.2/24 02:00:00:00:00:fe
    start_switch
    underlay far
    bridge br-int guest
}
# underlay PORT: the bridge br-phy with this port, and the switch's address in the tunnels' network.
underlay() {
    bridge br-phy "$@"
    ip addr add 172.31.1.1/24 dev br-phy
    ip link set br-phy up
}
# With these, no ARP disturbs the counters.
static_neighbours() {
    ip -n client neigh replace 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
    ip -n server neigh replace 10.0.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
}
on() {
    local name=$1
    shift
    ip netns exec "$name" "$@"
}
serve() {
    local name=$1 port=${2:-80} folder=$work/nginx.$1.${2:-80}
    mkdir -p "$folder"
    cat >"$folder/conf" <<N
user root; daemon off; master_process off; pid $folder/pid; error_log $folder/error.log;
events { worker_connections 900; }
http {
  # Kept connections stay, however many requests a fast machine makes.
  keepalive_requests 100000000; access_log off; client_body_temp_path $folder/b; proxy_temp_path $folder/p;
  fastcgi_temp_path $folder/f; uwsgi_temp_path $folder/u; scgi_temp_path $folder/s;
  server { listen $port; listen [::]:$port; root $work/www; location = / { return 200 "hello"; } }
}
N
    on "$name" nginx -p "$folder" -e "$folder/error.log" -c "$folder/conf" &
    eventually 5 test -s "$folder/pid"
}
udp_echo() {
    on "$1" $python "$tests/hosts/udp_echo.py" "$2" "$3" &
    eventually 5 on "$1" grep -qi ":$(printf %04X "$3") " /proc/net/udp
}
# udp_ask HOST ADDRESS PORT [COUNT] [SOURCE_PORT] [BYTES]: how many of COUNT datagrams came back.
udp_ask() { on "$1" $python "$tests/hosts/udp_ask.py" "$2" "$3" "${4:-3}" "${5:-0}" "${6:-0}"; }
fetch() { on "$1" curl -sS --noproxy '*' --connect-timeout 2 -m 20 "${@:2}"; }
# listen HOST, and later heard HOST: the frames that arrived there meanwhile, one per line.
listen() {
    # Not by `on`: of a function in the background, only the shell around it would be killed.
    ip netns exec "$1" $python "$tests/hosts/frames.py" receive 20 >"$1.heard" &
    echo $! >"$1.listens"
    eventually 5 grep -q ready "$1.heard"
}
heard() {
    # The first frame may wait for a busy machine; others come with it.
    for _ in {1..30}; do
        [ "$(wc -l <"$1.heard")" -lt 2 ] || break
        sleep 0.1
    done
    sleep 0.4
    kill "$(cat "$1.listens")"
    sed 1d "$1.heard"
}
# capture HOST: records what crosses its cable. well_formed HOST FILTER [TSHARK_OPTION...]: ends that, and tshark has
# no warning about the packets that FILTER chooses; decodes does the same with a capture that is there. What tshark
# says of lost or repeated TCP segments is none about form.
capture() {
    rm -f "$work/$1.tcpdump"
    ip netns exec "$1" tcpdump -Z root -p -n -U -s 0 -B 8192 -i eth0 -w "$work/$1.pcap" 2>"$work/$1.tcpdump" &
    echo $! >"$1.captures"
    eventually 5 grep -q 'listening on' "$work/$1.tcpdump"
}
well_formed() {
    local name=$1
    # The kernel hands packets over after a second at the latest.
    sleep 1.2
    kill -INT "$(cat "$name.captures")"
    eventually 5 grep -q 'packets captured' "$work/$name.tcpdump"
    decodes "$@"
}
decodes() {
    local name=$1 filter=$2 said
    shift 2
    command -v tshark >/dev/null || skip "all passed, but there is no tshark that reads the capture"
    [ "$(tshark -r "$work/$name.pcap" "$@" -Y "$filter" 2>/dev/null | wc -l)" -gt 0 ] ||
        fail "$name: no packet of $filter was captured"
    said=$(tshark -q -r "$work/$name.pcap" -o ip.check_checksum:TRUE -o udp.check_checksum:TRUE \
        -o tcp.check_checksum:TRUE "$@" -z "expert,warn,$filter" 2>/dev/null)
    said=$(grep -E '^ +[0-9]+ ' <<<"$said" | grep -vE '^ +[0-9]+ +Sequence ' || true)
    same "$name: what tshark warns of" "" "$said"
}
pings() { on "$1" ping -n -q -i 0.2 -W 2 -c 2 "$2" >/dev/null; }

# Open vSwitch's own daemon at the other end, in the namespace of the host `far`, with a database of its own. Commands
# run there by `peer`.
start_peer() {
    peer=$work/peer
    mkdir -p "$peer"
    peer ovsdb-tool create "$peer/conf.db" /usr/share/openvswitch/vswitch.ovsschema
    peer ovsdb-server "$peer/conf.db" --remote=punix:"$peer/db.sock" --unixctl="$peer/db.ctl" \
        -vconsole:off -vsyslog:off &
    eventually 5 test -S "$peer/db.sock"
    peer ovs-vsctl --db=unix:"$peer/db.sock" --no-wait init
    peer /usr/sbin/ovs-vswitchd unix:"$peer/db.sock" --unixctl="$peer/ctl" -vconsole:off -vsyslog:off \
        --log-file="$peer/log" &
    eventually 20 test -S "$peer/ctl"
}
peer() { OVS_RUNDIR=$peer OVS_DBDIR=$peer OVS_LOGDIR=$peer ip netns exec far "$@"; }
far_vsctl() { peer ovs-vsctl --db=unix:"$peer/db.sock" --timeout=20 "$@"; }

# The database and the switch

start_database() {
    [ -e $work/conf.db ] || ovsdb-tool create $work/conf.db /usr/share/openvswitch/vswitch.ovsschema
    ovsdb-server $work/conf.db --remote=punix:$OVS_RUNDIR/db.sock --pidfile -vconsole:off \
        -vsyslog:off --log-file=$work/ovsdb-server.log &
    DATABASE_PID=$!
    eventually 5 test -S $OVS_RUNDIR/db.sock
    vsctl --no-wait init
}
stop_database() {
    kill "$DATABASE_PID"
    wait "$DATABASE_PID" || true
    DATABASE_PID=''
}
start_switch() {
    [ -n "$DATABASE_PID" ] || start_database
    (exec -a ovs-vswitchd "$TIDEGATE_SWITCH" unix:$OVS_RUNDIR/db.sock --pidfile -vconsole:off \
        -vsyslog:off --log-file=$work/ovs-vswitchd.log "$@") >>$work/switch.printed 2>&1 &
    SWITCH_PID=$!
    eventually 10 ovs-appctl -T 2 version >/dev/null
    if [ -n "${TIDEGATE_OFFLOAD-}" ]; then
        ovs-vsctl --no-wait set open_vswitch . other_config:hw-offload=true
    fi
}
# start_dpdk: a switch with DPDK that needs no huge pages; the case is skipped where it does not start.
start_dpdk() {
    start_database
    vsctl --no-wait set open_vswitch . other_config:dpdk-init=try \
        other_config:dpdk-extra="--no-huge -m 256 --no-pci"
    start_switch
    has_dpdk || skip "this build has no DPDK"
    [ "$(vsctl get open_vswitch . dpdk_initialized)" = true ] ||
        skip "DPDK does not start here: $(grep -o 'Unable to initialize.*' $work/ovs-vswitchd.log)"
}
# has_dpdk: whether the switch was built with it, as it says when it has tried to start it.
has_dpdk() {
    eventually 20 dpdk_version_is_told
    [ "$(vsctl get open_vswitch . dpdk_version)" != none ]
}
dpdk_version_is_told() { [ "$(vsctl get open_vswitch . dpdk_version)" != "[]" ]; }
stop_switch() {
    ovs-appctl -T 5 exit --cleanup
    wait "$SWITCH_PID" || true
    SWITCH_PID=''
}
vsctl() { ovs-vsctl --timeout=60 "$@"; }
bridge() {
    local name=$1 port
    shift
    vsctl add-br "$name" -- set bridge "$name" datapath_type=netdev
    for port; do
        vsctl add-port "$name" "$port" \
            ${TIDEGATE_OFFLOAD:+-- set interface "$port" options:xdp-offload=true}
    done
}
# load BRIDGE: the rules on standard input, in place of all others.
load() {
    cat >"$work/rules.$1"
    ovs-ofctl del-flows "$1"
    ovs-ofctl add-flows "$1" "$work/rules.$1"
}
# The two published rule sets. The first one's hosts knew each other's addresses beforehand.
seed1_rules() {
    cat <<R
priority=1 ip ct_state=-trk actions=ct(table=0)
priority=1 ip ct_state=+trk+new in_port=client actions=ct(commit),normal
priority=1 ip ct_state=+trk+est actions=normal
priority=0 actions=drop
R
}
seed2_rules_ex() {
    cat <<R
table=0 priority=300 in_port=client,tcp,tp_dst=32768/0x8000 actions=output:br-int-patch
table=0 priority=300 in_port=client,udp,tp_dst=32768/0x8000 actions=output:br-int-patch
table=0 priority=200 in_port=client actions=output:LOCAL
table=0 priority=200 in_port=LOCAL actions=client
table=0 priority=200 in_port=br-int-patch actions=client
R
}
seed2_rules_int() {
    cat <<R
table=0,arp,action=normal
table=1,priority=1,ip,ct_state=+trk+new,action=ct(commit),normal
table=0,ip,ct_state=-trk,action=ct(table=1)
table=1,priority=1,ip,ct_state=+trk+est,action=normal
R
}
# offload_to_xdp PORT...: turns offload on, for packets of these ports; the case is skipped where that is impossible.
offload_to_xdp() {
    local port
    vsctl set open_vswitch . other_config:hw-offload=true
    ! grep -q "hw-offload has no effect" $work/ovs-vswitchd.log ||
        skip "$(grep -o -m1 'hw-offload has no effect.*' $work/ovs-vswitchd.log)"
    for port; do
        vsctl set interface "$port" options:xdp-offload=true
    done
}
# offload_stat NAME: a number of dpctl/offload-stats-show. offload_is NAME OPERATOR NUMBER compares it.
offload_stat() { ovs-appctl dpctl/offload-stats-show | sed -n "s/^ *Total *$1: *//p"; }
offload_is() { [ "$(offload_stat "$1")" "$2" "$3" ]; }
# Two bridges, joined by patch ports: client - br-ex - br-int - server.
seed2_bridges() {
    vsctl add-br br-ex -- set bridge br-ex datapath_type=netdev \
        -- add-br br-int -- set bridge br-int datapath_type=netdev \
        -- add-port br-ex client -- add-port br-ex br-int-patch \
        -- set interface br-int-patch type=patch options:peer=br-ex-patch \
        -- add-port br-int br-ex-patch \
        -- set interface br-ex-patch type=patch options:peer=br-int-patch \
        -- add-port br-int server
    seed2_rules_ex | load br-ex
    seed2_rules_int | load br-int
}
# monitor BRIDGE BYTES OPTION...: a controller of ovs-ofctl that is connected, asks for that many bytes of a packet, and
# writes what it gets to monitor.printed; unmonitor ends it.
monitor() {
    ovs-ofctl "${@:3}" monitor "$1" "$2" --detach --no-chdir --pidfile="$work/monitor.pid" 2>monitor.printed
}
unmonitor() {
    kill "$(cat "$work/monitor.pid")"
    eventually 3 test ! -e "$work/monitor.pid"
}
ofport() { vsctl get interface "$1" ofport; }
# flows BRIDGE [OPTION...]: one per line, without what changes by itself, sorted.
flows() {
    local name=$1
    shift
    ovs-ofctl --no-stats "$@" dump-flows "$name" | sed '/ reply/d; s/^ *//; s/reset_counts //' | sort
}

# Assertions

# The bound only ends what will never happen: other work may leave a case a small part of the processors.
eventually() {
    local end=$(($(date +%s%N) + $1 * 4000000000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s%N)" -lt $end ] || fail "did not happen in time: $*"
        sleep 0.1
    done
}
never() { if "$@" >/dev/null 2>&1; then fail "happened: $*"; fi; }
must_fail() {
    local output
    if output=$("$@" 2>&1); then fail "succeeded: $* ($output)"; fi
    printf '%s\n' "$output"
}
same() {
    [ "$2" = "$3" ] && return
    printf -- '---- %s: expected -, got +\n' "$1" >&2
    diff -u <(printf '%s\n' "$2") <(printf '%s\n' "$3") | tail -n +3 >&2 || true
    fail "$1: not as expected"
}
contains() {
    grep -qF -- "$3" <<<"$2" && return
    printf -- '---- %s\n%s\n' "$1" "$2" >&2
    fail "$1: no \`$3\`"
}
lacks() {
    grep -qF -- "$3" <<<"$2" || return 0
    printf -- '---- %s\n%s\n' "$1" "$2" >&2
    fail "$1: has \`$3\`"
}
# says WHAT PIECE COMMAND...: its output, of both kinds, whatever its status.
says() {
    local what=$1 piece=$2 output
    shift 2
    output=$("$@" 2>&1) || true
    contains "$what" "$output" "$piece"
}
reads() { "${@:2}" 2>&1 | grep -qF -- "$1"; }

# unless_late FILE WHY: a run with --rate that did not end with 0 came too late for it, on a machine that
# is too busy, as the verdict in its JSON says, or else something is wrong.
unless_late() {
    grep -q '"verdict":"invalid"' "$1" || fail "$2"
    printf 'the machine is too busy for %s\n' "$1" >&2
}

# refused STATUS PIECE ARGUMENT...: tidegate with these arguments ends with this status and says this.
refused() {
    local expect=$1 piece=$2 got=0 said
    shift 2
    said=$("$TIDEGATE" "$@" 2>&1) || got=$?
    same "status of $*: $said" "$expect" "$got"
    contains "$*" "$said" "$piece"
}

make_private
trap 'stopped_at "$BASH_COMMAND" $?' ERR
# shellcheck source=/dev/null
source "$case_file"
trap - ERR
exit 0
