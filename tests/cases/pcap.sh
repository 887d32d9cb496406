# Ports made of files: played as often and as fast as asked, recorded, and refused in words.
$python - <<'P'
from scapy.all import Ether, IP, UDP, Raw, wrpcap
frames = []
for i in range(50):
    frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.0.0.1", dst="10.0.0.2")
    frame = frame / UDP(sport=1000, dport=2000) / Raw(bytes([i]) * 20)
    frame.time = 1000 + i * 0.01
    frames.append(frame)
wrpcap("in.pcap", frames)
P
start_switch
vsctl add-br br0 -- set bridge br0 datapath_type=netdev fail_mode=secure
ovs-ofctl add-flow br0 "in_port=1 actions=output:2"
vsctl add-port br0 out0 -- set interface out0 type=pcap ofport_request=2 options:tx_pcap=$work/out.pcap
# Half a second in total, so that the first frame's miss is answered before the second frame.
vsctl add-port br0 in0 -- set interface in0 type=pcap ofport_request=1 \
    options:rx_pcap=$work/in.pcap options:rx_pace=recorded
same "its error" "[]" "$(vsctl get interface in0 error)"
same "its link" up "$(vsctl get interface in0 link_state)"
contains "type" "$(ovs-appctl dpctl/show)" "in0 (pcap)"
recorded() { [ "$($python -c 'from scapy.all import rdpcap; print(len(rdpcap("out.pcap")))')" -eq "$1" ]; }
eventually 15 recorded 50
$python - <<'P'
from scapy.all import rdpcap
sent, came = rdpcap("in.pcap"), rdpcap("out.pcap")
assert [bytes(a) for a in sent] == [bytes(b) for b in came], "other frames came out"
spread = float(came[-1].time - came[0].time)
assert 0.45 <= spread <= 1.5, f"49 gaps of 10 ms took {spread} s"
P
counted() { [ "$(vsctl get interface out0 statistics:tx_packets)" -eq "$1" ]; }
eventually 12 counted 50

# Other options play it again, ten times in a row; now the flow is there.
vsctl set interface in0 options:rx_rounds=10 options:rx_pace=full
eventually 5 recorded 550

# For ever, without recording: the port alone has to be fast enough to be worth while.
vsctl add-port br0 sink0 -- set interface sink0 type=pcap ofport_request=3
ovs-ofctl mod-flows br0 "in_port=1 actions=output:3"
vsctl remove interface in0 options rx_rounds -- set interface in0 options:infinite_rx=true
many() { [ "$(ovs-appctl dpctl/show -s | sed -n '/sink0/,$s/.*TX packets:\([0-9]*\).*/\1/p')" -ge 20000 ]; }
eventually 10 many

refused() {
    eventually 3 reads "$1" vsctl get interface in0 error
    same "its number" "-1" "$(ofport in0)"
}
vsctl set interface in0 options:rx_pcap=$work/missing.pcap
refused "missing.pcap: could not read the pcap file"
vsctl set interface in0 options:rx_pcap=$work/rules.br0 options:rx_rounds=1
refused "options:infinite_rx and options:rx_rounds exclude each other"
echo "this is no capture at all, just words" >$work/words
vsctl remove interface in0 options rx_rounds -- set interface in0 options:rx_pcap=$work/words
refused "not a pcap file"
vsctl set interface in0 options:rx_pcap=$work/in.pcap
numbered() { [ "$(ofport in0)" -eq 1 ]; }
eventually 3 numbered
vsctl del-port in0

# Without a database too; paths lie beside the file.
stop_switch
rm out.pcap
cat >$work/switch.toml <<T
[switch]
unixctl = "$work/tide.ctl"
run_dir = "$work"
[[bridge]]
name = "br1"
fail_mode = "secure"
flows = ["br1.flows"]
port = [
  { name = "out1", type = "pcap", ofport = 2, options = { tx_pcap = "out.pcap" } },
  { name = "in1", type = "pcap", ofport = 1, options = { rx_pcap = "in.pcap", rx_pace = "recorded" } },
]
T
echo "in_port=1 actions=output:2" >$work/br1.flows
sed 's/rx_pace = "recorded"/rx_pace = "fast"/' $work/switch.toml >$work/wrong.toml
contains "a wrong option" "$(must_fail "$TIDEGATE" switch --config $work/wrong.toml --check)" \
    'port "in1": options:rx_pace is "fast"'
"$TIDEGATE" switch --config $work/switch.toml &
eventually 15 recorded 50
kill $!
wait $! || true
