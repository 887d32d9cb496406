# Networks of one tunnel end that differ in their VNI alone, behind one port with `options:key=flow`: its flows match
# and set the key, and packets of one network appear in no other.
# limit: 90
. "$tests/cases/tunnels-isolation.sh"
# One port for all networks, whose flows match and set the key.
for vni in $networks; do
    vsctl del-br "br$vni"
done
vsctl add-br br-all -- set bridge br-all datapath_type=netdev
for vni in $networks; do
    vsctl add-port br-all "guest$vni"
done
capture far
for protocol in vxlan geneve; do
    vsctl --if-exists del-port t0 -- add-port br-all t0 -- set interface t0 type=$protocol ofport_request=99 \
        options:remote_ip=172.31.1.2 options:key=flow
    for vni in $networks; do
        cat <<R
table=0,in_port=t0,tun_id=$vni,ip,actions=ct(table=1,zone=$vni)
table=0,in_port=guest$vni,ip,actions=ct(table=1,zone=$vni)
table=1,in_port=t0,tun_id=$vni,ip,ct_state=+trk+new,actions=ct(commit,zone=$vni),output:guest$vni
table=1,in_port=t0,tun_id=$vni,ip,ct_state=+trk+est,actions=output:guest$vni
table=1,in_port=guest$vni,ip,ct_state=+trk+est,actions=set_field:$vni->tun_id,output:t0
R
    done | load br-all
    isolated $protocol 8
done
well_formed far "ip.src == 172.31.1.1 && (vxlan || geneve)"
