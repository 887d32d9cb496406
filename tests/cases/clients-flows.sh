# limit: 120
# The flow parsers of the Python package `ovs` and `ovs-flowviz` read every dump: OpenFlow flows with each action, and the
# datapath flows that packets through them make.
clients_of ovs.flow.odp
clients_of ovs.flowviz.main
start_switch --enable-dummy
ours || skip "ports of Open vSwitch's own daemon are numbered otherwise"
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure other_config:hwaddr=aa:55:aa:55:00:00
for number in 1 2 3 4; do
    vsctl add-port br0 p$number -- set interface p$number type=dummy ofport_request=$number
done
for kind in vxlan geneve gre; do
    vsctl add-port br0 $kind -- set interface $kind type=$kind options:remote_ip=1.1.2.92 options:key=flow
done
vsctl add-br br-under -- set bridge br-under datapath_type=dummy
ovs-appctl netdev-dummy/ip4addr br-under 1.1.2.88/24 >/dev/null
ovs-appctl tnl/arp/set br-under 1.1.2.92 f8:bc:12:44:34:b6 >/dev/null
ovs-ofctl -O OpenFlow13 add-tlv-map br0 "{class=0xffff,type=0x80,len=4}->tun_metadata0"
ovs-ofctl -O OpenFlow13 add-meter br0 meter=1,kbps,burst,bands=type=drop,rate=100,burst_size=10
ovs-ofctl -O OpenFlow15 add-group br0 group_id=1,type=all,bucket=output:2,bucket=output:3
ovs-ofctl -O OpenFlow15 add-group br0 group_id=2,type=select,selection_method=dp_hash,bucket=weight:1,output:2,bucket=weight:2,output:3
ovs-ofctl -O OpenFlow15 add-group br0 group_id=3,type=ff,bucket=watch_port:2,output:2

geneve_port=$(ofport geneve)
# A match and actions, one flow each; the second table has the rest.
cat >actions <<A
any drop
any output:2
any output:2,output:3
any output:NXM_NX_REG1[0..15]
any output(port=2,max_len=100)
any enqueue(2,1)
any in_port
any flood
any all
any local
any normal
any controller
any controller(max_len=128,id=3,reason=no_match)
any controller(userdata=01.02.03,pause),output:2
any mod_dl_src:02:00:00:00:00:09,mod_dl_dst:02:00:00:00:00:0a,output:2
any set_field:02:00:00:00:00:09/ff:00:00:00:00:ff->eth_src,output:2
ip mod_nw_src:10.9.9.9,mod_nw_dst:10.8.8.8,mod_nw_tos:184,output:2
ip mod_nw_ecn:1,mod_nw_ttl:9,output:2
ip dec_ttl,output:2
ip dec_ttl(1,2),output:2
tcp mod_tp_src:99,mod_tp_dst:98,output:2
any mod_vlan_vid:7,mod_vlan_pcp:3,output:2
any push_vlan:0x8100,set_field:4103->vlan_vid,output:2
any push_vlan:0x88a8,set_field:4103->vlan_vid,push_vlan:0x8100,set_field:4104->vlan_vid,output:2
vlan_tci=0x1000/0x1000 strip_vlan,output:2
any push_mpls:0x8847,set_field:10->mpls_label,set_mpls_ttl(3),output:2
any encap(nsh(md_type=1)),set_field:0x1234->nsh_spi,encap(ethernet),output:2
ip ct
ip ct(commit)
ip ct(commit,zone=5,exec(set_field:0x1->ct_mark,set_field:0x2/0xff->ct_label)),output:2
ip ct(commit,nat(src=10.7.0.1-10.7.0.9:5000-5010,random)),output:2
tcp ct(commit,force,alg=ftp,nat(dst=10.7.0.1)),output:2
ip ct(table=1,zone=NXM_NX_REG2[0..15],nat)
any ct_clear,output:2
any group:1
any group:2
any group:3
any learn(table=2,idle_timeout=5,NXM_OF_ETH_DST[]=NXM_OF_ETH_SRC[],output:NXM_OF_IN_PORT[]),output:2
any load:0x7->NXM_NX_REG0[4..7],resubmit(,1)
any move:NXM_NX_REG0[0..7]->NXM_NX_REG1[8..15],resubmit(3,1)
any set_field:0x12345678->xreg3,goto_table:1
any write_metadata:0x5/0xff,goto_table:1
any push:NXM_NX_REG2[0..5],pop:NXM_NX_REG2[0..5],output:2
ip multipath(eth_src,50,modulo_n,1,0,NXM_NX_REG0[0..15]),output:2
ip bundle(eth_src,50,hrw,ofport,slaves:2,3)
ip bundle_load(eth_src,50,hrw,ofport,NXM_NX_REG0[0..15],slaves:2,3),output:2
any note:11.22.33,output:2
tcp fin_timeout(idle_timeout=5),output:2
any sample(probability=12345,collector_set_id=1,obs_domain_id=2,obs_point_id=3),output:2
any sample(probability=65535,collector_set_id=1,obs_domain_id=2,obs_point_id=3,sampling_port=2,egress),output:2
ip clone(mod_nw_ttl:9,output:2),output:3
ip clone(ct(commit,zone=3)),output:3
any check_pkt_larger(100)->NXM_NX_REG0[0],resubmit(,1)
any delete_field:tun_metadata0,output:2
any meter:1,output:2
ip write_actions(output:2,mod_nw_ttl:3)
any output:2,clear_actions
any set_tunnel:0x7,output:$(ofport vxlan)
any set_tunnel64:0x7,set_field:0x12345678->tun_metadata0,output:$geneve_port
any set_field:0x9->tun_id,set_field:1.1.2.92->tun_dst,output:$(ofport gre)
any set_queue:3,output:2,pop_queue
any resubmit:3,output:2
A

cat >parse.py <<'P'
"""Reads dumps with the parsers of the package ovs; ends with 1 where one refuses a line."""
import sys
from ovs.flow.odp import ODPFlow
from ovs.flow.ofp import OFPFlow
parse = {"odp": ODPFlow, "ofp": OFPFlow}[sys.argv[1]]
bad = read = 0
for line in open(sys.argv[2]):
    line = line.strip()
    # Open vSwitch prints push_eth, too; the parser knows it only within clone().
    if "actions" not in line or sys.argv[1] == "odp" and "push_eth(" in line:
        continue
    read += 1
    try:
        flow = parse(line)
        assert flow.section("actions") is not None
    except Exception as error:  # whatever a parser raises is a refusal
        bad += 1
        print(f"refused: {line}\n    {type(error).__name__}: {error}")
print(f"{read} lines")
sys.exit(bad > 0 or read < int(sys.argv[3]))
P
ip_frame='eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=6,tos=0,ttl=64,frag=no),tcp(src=1,dst=2),tcp_flags(syn)'
six_frame='eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x86dd),ipv6(src=fd00::1,dst=fd00::2,label=5,proto=17,tclass=0,hlimit=64,frag=no),udp(src=1,dst=2)'
arp_frame='eth(src=02:00:00:00:00:01,dst=ff:ff:ff:ff:ff:ff),eth_type(0x0806),arp(sip=10.0.0.1,tip=10.0.0.2,op=1,sha=02:00:00:00:00:01,tha=00:00:00:00:00:00)'
vlan_frame='eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x8100),vlan(vid=7,pcp=1),encap(eth_type(0x0800),ipv4(src=10.0.0.1,dst=10.0.0.2,proto=1,tos=0,ttl=64,frag=no),icmp(type=8,code=0))'
nd_frame='eth(src=02:00:00:00:00:01,dst=33:33:00:00:00:02),eth_type(0x86dd),ipv6(src=fd00::1,dst=fd00::2,label=0,proto=58,tclass=0,hlimit=255,frag=no),icmpv6(type=135,code=0),nd(target=fd00::9)'

count=0
while read -r match actions; do
    [ "$match" != any ] || match=priority=5
    ovs-ofctl del-flows br0
    # A few actions exist in old versions only.
    ovs-ofctl -O OpenFlow15 add-flow br0 "in_port=1,$match,actions=$actions" 2>said ||
        ovs-ofctl add-flow br0 "in_port=1,$match,actions=$actions" 2>>said || fail "$actions: $(cat said)"
    ovs-ofctl -O OpenFlow15 add-flow br0 'table=1,priority=9,ct_state=+new+trk,ct_zone=5,ct_mark=0x1/0xff,tcp,reg0=0,actions=output:3'
    ovs-ofctl -O OpenFlow15 add-flow br0 'table=1,cookie=0x7,hard_timeout=90,udp6,ipv6_src=fd00::/64,tp_dst=0x10/0xfff0,actions=output:3'
    ovs-ofctl -O OpenFlow15 add-flow br0 'table=1,priority=0,actions=output:4'
    ovs-ofctl -O OpenFlow15 dump-flows br0 >>openflow
    ovs-ofctl -O OpenFlow15 --no-stats dump-flows br0 >>openflow
    for frame in "$ip_frame" "$six_frame" "$arp_frame" "$vlan_frame" "$nd_frame"; do
        for number in 1 2; do
            ovs-appctl netdev-dummy/receive p1 "in_port(1),$frame"
        done
    done
    ovs-appctl dpctl/dump-flows >>datapath
    ovs-appctl dpctl/dump-flows -m >>datapath
    ovs-appctl dpctl/dump-flows --names >>datapath
    count=$((count + 1))
done <actions
"${client_python[@]}" parse.py ofp openflow $((count * 6)) || failed=1
"${client_python[@]}" parse.py odp datapath $((count * 6)) || failed=1
[ -z "${failed:-}" ] || fail "a parser refused a line, or there were too few"

flowviz() { "${client_python[@]}" "$clients/bin/ovs-flowviz" "$@"; }
export LC_ALL=C.UTF-8
# As one dump, with one line that names the thread, and with the names of ports.
{ printf 'flow-dump from the main thread:\n' && sed '/push_eth(/d; /^ufid:/!d' datapath; } >one && mv one datapath
for how in "openflow console" "openflow json" "datapath console" "datapath json" "datapath tree"; do
    kind=${how% *}
    # shellcheck disable=SC2086 # two words
    flowviz -i $kind $how >drawn 2>problems || fail "ovs-flowviz $how: $(tail -n 5 problems)"
    [ -s drawn ] || fail "ovs-flowviz $how prints nothing"
    lacks "ovs-flowviz $how" "$(cat problems)" "rror"
done
