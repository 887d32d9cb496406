# A switch without privileges reports each port that needs them, and forwards between the others.
ours || skip "Open vSwitch has no such ports"
host client 10.0.0.1/24 02:00:00:00:00:01
$python - <<'P'
from scapy.all import Ether, Raw, wrpcap
wrpcap("in.pcap", [Ether(src="02:00:00:00:0a:01", dst="02:00:00:00:0a:02", type=0x88b5) / Raw(bytes(50))] * 10)
P
printf '#!/bin/sh\nexec setpriv --bounding-set=-all --inh-caps=-all "%s" switch "$@"\n' "$TIDEGATE_SWITCH" >bare
chmod +x bare
TIDEGATE_SWITCH=$work/bare
start_switch
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
vsctl --no-wait add-port br0 client -- add-port br0 client2 -- set interface client2 type=afxdp \
    -- add-port br0 tap0 -- set interface tap0 type=tap
vsctl add-port br0 play0 -- set interface play0 type=pcap options:rx_pcap=$work/in.pcap \
    options:infinite_rx=true ofport_request=7 \
    -- add-port br0 rec0 -- set interface rec0 type=pcap options:tx_pcap=$work/out.pcap ofport_request=8
for port in "client CAP_NET_RAW" "tap0 CAP_NET_ADMIN" "br0 CAP_NET_ADMIN"; do
    contains "error of ${port% *}" "$(vsctl get interface "${port% *}" error)" "${port#* }"
    same "its number" "-1" "$(ofport "${port% *}" | sed s/65534/-1/)"
done
lacks "an error of AF_XDP" "$(vsctl get interface client2 error)" "[]"
same "errors" "[] []" "$(vsctl get interface play0 error) $(vsctl get interface rec0 error)"
load br0 <<<"in_port=7,actions=output:8"
recorded() { [ "$(stat -c %s out.pcap)" -gt 1000 ]; }
eventually 5 recorded
