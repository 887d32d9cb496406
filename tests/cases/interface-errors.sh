# What is wrong with a port stands in Interface.error, in words that say what to do: devices that are
# taken, MTUs that are too large, options that mean nothing; and other ports carry traffic all the while.
# limit: 60
ours || skip "Open vSwitch only logs most of it"
client_and_server
start_switch
bridge br0 client server
pings client 10.0.0.2
error_of() { vsctl get interface "$1" error; }

# A TAP device that another program has, an AF_XDP device that another switch has.
$python - <<'P' &
import fcntl, os, struct, time
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH22x", b"busy0", 0x1002))
time.sleep(60)
P
eventually 5 test -e /sys/class/net/busy0
ip link add busy1 type veth peer name busy2
ip link set busy1 up
cat >other.toml <<T
[switch]
run_dir = "$work/other"
unixctl = "$work/other/ctl"
[[bridge]]
name = "br-other"
port = [{ name = "busy1", type = "afxdp" }]
T
mkdir -p other
"$TIDEGATE_SWITCH" switch --config other.toml -vconsole:off --log-file=$work/other.log &
eventually 5 grep -q "busy1: .*XDP mode will be in use\|could not open.*busy1" other.log
grep -q "XDP mode will be in use" other.log || printf 'AF_XDP is not possible here\n'

# check PIECE TYPE NAME [SETTING...]: a port that cannot be opened.
check() {
    local piece=$1 type=$2 name=$3
    shift 3
    vsctl add-port br0 "$name" -- set interface "$name" type="$type" "$@" 2>/dev/null
    contains "error of $name, type $type $*" "$(error_of "$name")" "$piece"
    contains "error of $name, type $type $*" "$(error_of "$name")" "could not open network device $name"
    same "its number" "-1" "$(ofport "$name")"
    vsctl del-port "$name"
}
check "the TAP device is in use by another program" tap busy0
check "No such device" system nosuch0
check "No such device" afxdp nosuch0
check "name too long" internal a234567890b23456
check "name too long" system a234567890b23456
! grep -q "XDP mode will be in use" other.log || check "another XDP program" afxdp busy1
check "it has to be a number up to 16" afxdp busy2 options:n_rxq=banana
check "No such file or directory" pcap files options:tx_pcap=$work/nosuch/out.pcap
check "options:banana is unknown" pcap files options:banana=1
says "a patch without a peer" "joint: patch type requires valid 'peer' argument" \
    vsctl add-port br0 joint -- set interface joint type=patch
vsctl del-port joint
pings client 10.0.0.2

# An MTU that the device refuses: it stays as it was, and its port works.
mtu_refused() {
    vsctl set interface "$1" mtu_request="$2"
    eventually 3 reads "mtu_request is $2" error_of "$1"
    contains "error" "$(error_of "$1")" "could not set the MTU"
    same "the MTU of $1" 1500 "$(vsctl get interface "$1" mtu)"
    pings client 10.0.0.2
    vsctl set interface "$1" mtu_request=1500
    eventually 3 reads "[]" error_of "$1"
}
vsctl add-port br0 int0 -- set interface int0 type=internal \
    -- add-port br0 tap0 -- set interface tap0 type=tap
mtu_refused client 70000
mtu_refused int0 65536
mtu_refused tap0 4000000
vsctl add-port br0 int1 -- set interface int1 type=internal mtu_request=70000
contains "from the start" "$(error_of int1)" "mtu_request is 70000"
vsctl set interface int1 mtu_request=2000
eventually 3 reads "[]" error_of int1
same "its MTU" 2000 "$(vsctl get interface int1 mtu)"
pings client 10.0.0.2
