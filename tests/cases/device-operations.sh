# Other programs move, rename, set and remove the devices of ports while the switch runs. The expected columns and traffic
# are those of Open vSwitch 3.7.1's daemon, which passes this case, except that a system device that comes back carries
# traffic again only with this switch: Open vSwitch keeps its socket of the device that left.
# limit: 180
host client 10.0.0.1/24 02:00:00:00:00:01
ip netns add far
ip -n far link set lo up
start_switch
bridge br0 client
own=02:00:00:00:00:09 at_switch=02:00:00:00:00:0a
# plug KIND: the port `dut`, behind which is 10.0.0.9, its number and its device's index.
plug() {
    ip netns add inside
    case $1 in
    internal | tap)
        vsctl add-port br0 dut -- set interface dut type="$1"
        mac=$own
        arrive
        ;;
    *)
        mac=$at_switch
        ip link add dut address $mac ${can_set_queues:+numtxqueues 2 numrxqueues 2} type veth \
            peer name eth0 address $own netns far
        ip -n far addr add 10.0.0.9/24 dev eth0
        ip -n far link set eth0 up
        ours || on far ethtool -K eth0 tx off tso off gso off >/dev/null
        ip link set dut up
        vsctl add-port br0 dut -- set interface dut type="$1"
        ;;
    esac
    number=$(ofport dut) index=$(<"/sys/class/net/dut/ifindex")
    [ "$number" -gt 0 ] || return 1
}
# arrive [-n NAMESPACE]: the device is up there, with its addresses.
arrive() {
    if [ "$kind" = internal ] || [ "$kind" = tap ]; then
        ip "$@" link set dut address $own
        ip "$@" addr replace 10.0.0.9/24 dev dut
    fi
    ip "$@" link set dut up
}
unplug() {
    vsctl del-port dut
    ip link del dut 2>/dev/null || true
    ip netns del inside
}
columns() {
    vsctl --bare --columns=ofport,error,admin_state,link_state,mtu,mac_in_use,ifindex \
        list interface dut | tr '\n' ' '
}
# Of a port: how it is up, down, and without a device.
up() { echo "$number  up up ${1:-1500} $mac $index "; }
down() { echo "$number  down down 1500 $mac $index "; }
away() { echo "$number  down down   0 "; }
# after EXPECT flows|stops COMMAND...
after() {
    local expect=$1 traffic=$2 _
    shift 2
    printf "%s: %s, %s\n" "$kind" "$*" "$traffic"
    "$@"
    for _ in {1..60}; do
        [ "$(columns)" != "$expect" ] || break
        sleep 0.1
    done
    same "$kind: $*" "$expect" "$(columns)"
    ip -n client neigh flush dev eth0
    if [ "$traffic" = flows ]; then
        eventually 5 pings client 10.0.0.9
    else
        never pings client 10.0.0.9
    fi
}
into() { ip link set dut netns inside; }
back() {
    ip -n inside link set dut netns 1
    arrive
}
set_inside() { ip -n inside link set dut mtu "$1"; }
set_columns() { vsctl set interface dut external_ids:attached=yes; }
add_another() { vsctl add-port br0 another -- set interface another type=internal; }
offloads() { ethtool -K dut tx "$1" tso "$1" gso "$1" gro "$1" >/dev/null 2>&1 || true; }
down_and_up() {
    ip link set dut down
    ip link set dut up
}
change_mac() {
    mac=02:00:00:00:00:19
    ip link set dut address $mac
}
queues() { ethtool -L dut rx "$1" tx "$1"; }
enslave() {
    ip link add kbr type bridge
    ip link set dut master kbr
}
free() { ip link del kbr; }
kinds="internal tap system"
# Open vSwitch's AF_XDP ports carry nothing here.
! ours || kinds+=" afxdp"
for kind in $kinds; do
    # An AF_XDP port has as many queues as its options say.
    can_set_queues=$([ $kind != system ] || echo yes)
    if ! plug $kind; then
        same "only AF_XDP may be missing here" afxdp $kind
        printf 'AF_XDP is not possible here\n'
        unplug
        continue
    fi
    is_tap=$([ $kind = internal ] || [ $kind = tap ] && echo yes || echo no)
    works=$([ $is_tap = yes ] && echo flows || echo stops)
    works_again=$([ $is_tap = yes ] || ours && echo flows || echo stops)
    after "$(up)" flows true
    for setting in 'offloads off' 'offloads on' 'ip link set dut alias port' 'set_columns'; do
        # shellcheck disable=SC2086
        after "$(up)" flows $setting
    done
    [ -z "$can_set_queues" ] || after "$(up)" flows queues 2
    after "$(up 1300)" flows ip link set dut mtu 1300
    after "$(up)" flows ip link set dut mtu 1500
    after "$(up)" flows ip link set dut name other
    after "$(up)" flows set_columns
    after "$(up)" flows ip link set other name dut
    after "$(down)" stops ip link set dut down
    after "$(up)" flows arrive
    after "$(up)" flows down_and_up
    after "$(up)" flows enslave
    after "$(up)" flows free
    change_mac
    after "$(up)" flows true

    after "$(away)" stops into
    [ $is_tap = no ] || mac=$own
    arrive -n inside
    after "$(away)" $works true
    after "$(away)" $works set_inside 1400
    after "$(away)" $works set_columns
    after "$(away)" $works add_another
    contains "$kind: ports" "$(ovs-ofctl show br0)" "$number(dut): addr:00:00:00:00:00:00"
    set_inside 1500
    back
    index=$(<"/sys/class/net/dut/ifindex")
    after "$(up)" "$works_again" true
    if [ $is_tap = yes ]; then
        into
        arrive -n inside
        # Another device of the name in the switch's own namespace is not the port's, whose columns Open vSwitch
        # would fill with it.
        if ours; then
            ip link add dut type veth peer name dut1
            after "$(away)" flows true
            ip link del dut
        fi
        # A port that is removed takes its device along, wherever that is.
        vsctl del-port dut
        never ip -n inside link show dut
        ip netns del inside
        plug $kind
    fi
    into
    after "$(away)" stops ip netns del inside
    unplug 2>/dev/null || true
    vsctl del-port another
    plug $kind
    after "$(up)" flows true
    after "$(away)" stops ip link del dut
    after "$(away)" stops set_columns
    unplug
done
