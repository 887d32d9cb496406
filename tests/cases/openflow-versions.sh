# Every version of OpenFlow: a flow that is accepted in one is decoded by ovs-ofctl from a dump of any.
all=OpenFlow10,OpenFlow11,OpenFlow12,OpenFlow13,OpenFlow14,OpenFlow15
start_switch
vsctl add-br br0 -- set bridge br0 protocols=$all fail_mode=secure
cat >flows10 <<'F'
table=1,priority=1 actions=load:1->NXM_NX_REG0[],resubmit(,2),write_metadata:1/3
table=1,priority=2,tcp,tcp_flags=+syn actions=mod_vlan_vid:3,mod_nw_tos:8,dec_ttl,output:1
table=1,priority=3,vlan_tci=0x1000/0x1000 actions=strip_vlan,mod_dl_src:00:00:00:00:00:01,NORMAL
table=1,priority=4,ipv6 actions=clone(set_field:1->tun_id),note:00.11,exit
table=1,priority=5,udp,ct_state=+trk+est actions=ct(commit,zone=1,exec(load:1->NXM_NX_CT_MARK[]))
F
cat >flows15 <<'F'
table=2,priority=1 actions=clear_actions,write_actions(output:1),write_metadata:5,goto_table:3
table=2,priority=2,tun_id=1/1 actions=set_field:1/1->metadata,move:NXM_OF_ETH_SRC[]->NXM_OF_ETH_DST[]
table=2,priority=3,arp actions=push_vlan:0x8100,set_field:4101->vlan_vid,set_field:2->arp_op
table=2,priority=4,ip actions=dec_ttl(1,2),controller(max_len=9,reason=no_match,userdata=00.01)
F
ovs-ofctl -O OpenFlow10 add-flows br0 flows10
ovs-ofctl -O OpenFlow15 add-flows br0 flows15
for version in 10 11 12 13 14 15; do
    ovs-ofctl -O OpenFlow$version dump-flows br0 >dump 2>errors || fail "dump of $version: $(cat errors)"
    same "$version: errors" "" "$(cat errors)"
    same "$version: flows" 9 "$(grep -c actions= dump)"
    contains "$version: sums" "$(ovs-ofctl -O OpenFlow$version dump-aggregate br0)" "flow_count=9"
    contains "$version: tables" "$(ovs-ofctl -O OpenFlow$version dump-tables br0)" "active=5"
    ovs-ofctl -O OpenFlow$version add-flow br0 "table=9,ip,nw_dst=10.0.0.1,actions=drop"
    ovs-ofctl -O OpenFlow$version --strict del-flows br0 \
        "table=9,priority=32768,ip,nw_dst=10.0.0.1"
done

# A flow of OpenFlow 1.0 whose write_metadata stands before an output, which ovs-ofctl itself does not
# send: 1.0 has no number for the error, and so it is NXBRC_UNENCODABLE_ERROR. The flow is not there.
head=010e006800000002003fffff$(printf '00%.0s' {1..36})0000000000000001
flow=${head}0000000000008000ffffffffffff0000
metadata=ffff002000002320001600000000000000000000000000010000000000000001
output=0000000800010000
answer=$(xxd -r -p <<<"0100000800000001${flow/0068/0070}$metadata$output" |
    timeout 5 nc -N -w 1 -U "$OVS_RUNDIR/br0.mgmt" | xxd -p -c 999)
contains "wrong order" "$answer" "b0c200000000232000010209"
same "nothing was added" 9 "$(ovs-ofctl dump-flows br0 | grep -c actions=)"

# 2,045 times dec_ttl and resubmit are 49,090 bytes in OpenFlow 1.5, and more than 65,535 in 1.0.
{
    printf 'table=5,ip,actions='
    for _ in {1..2045}; do printf 'dec_ttl,resubmit(,39),'; done
    printf 'resubmit(,39)\n'
} >large
ovs-ofctl -O OpenFlow15 add-flows br0 large
same "left out" 9 "$(ovs-ofctl -O OpenFlow10 dump-flows br0 | grep -c actions=)"
same "told" 10 "$(ovs-ofctl -O OpenFlow15 dump-flows br0 | grep -c actions=)"
eventually 3 grep -q "ofp_flow|WARN|Flow exceeded the maximum flow statistics reply size and was \
excluded from the response set" ovs-vswitchd.log

# The configuration: fragments, and packets whose TTL runs out, which end here before OpenFlow 1.3.
for mode in drop nx-match normal; do
    ovs-ofctl set-frags br0 $mode
    contains "fragments" "$(ovs-ofctl get-frags br0)" "$mode"
done
for version in 10 11 12; do
    ovs-ofctl -O OpenFlow$version monitor br0 65534 invalid_ttl --detach --no-chdir --pidfile \
        2>monitor.log
    kill "$(cat $OVS_RUNDIR/ovs-ofctl.pid)"
    eventually 3 test ! -e $OVS_RUNDIR/ovs-ofctl.pid
done
