# Networks of one tunnel end that differ in their VNI alone stay apart also where the kernel forwards their packets.
# limit: 90
ours || skip "Open vSwitch does not offload to XDP"
protocols=vxlan
. "$tests/cases/tunnels-isolation.sh"
offload_to_xdp far ${networks//10/guest10}
# In generic mode a partial checksum of a veth's peer stays partial, also in a capture, so the guests make whole ones.
for vni in $networks; do
    on "guest$vni" ethtool -K eth0 tx off >/dev/null
done
capture far
are_offloaded() { isolated vxlan 20 && offload_is "CT bi-dir Connections" = 4; }
eventually 9 are_offloaded
before=$(offload_stat "Forwarded packets")
isolated vxlan 40
counted() { offload_is "Forwarded packets" -ge $((before + 300)); }
eventually 3 counted
# What XDP sent is well-formed for tshark.
well_formed far "ip.src == 172.31.1.1 && vxlan"
