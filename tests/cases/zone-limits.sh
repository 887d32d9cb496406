# Limits of zones from the database: `ct_zone_default_limit` of a Datapath and `limit` of a CT_Zone, as
# Open vSwitch has them since 3.3. Debian's schema is older, so the case adds its columns to it.
ours || skip "ovs-vswitchd 3.1 knows no such columns"
client_and_server
static_neighbours
$python - /usr/share/openvswitch/vswitch.ovsschema >$work/newer.ovsschema <<'P'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    schema = json.load(file)
limit = {"type": {"key": {"type": "integer", "minInteger": 0, "maxInteger": 4294967295}, "min": 0, "max": 1}}
schema["tables"]["CT_Zone"]["columns"].setdefault("limit", limit)
schema["tables"]["Datapath"]["columns"].setdefault("ct_zone_default_limit", limit)
schema.pop("cksum", None)
json.dump(schema, sys.stdout)
P
ovsdb-tool create $work/conf.db $work/newer.ovsschema
start_switch
bridge br0 client server
load br0 <<R
udp,udp_src=6000/0xfff0,ct_state=-trk,actions=ct(table=0,zone=3)
udp,udp_src=7000/0xfff8,ct_state=-trk,actions=ct(table=0,zone=4)
udp,udp_dst=6000/0xfff0,ct_state=-trk,actions=ct(table=0,zone=3)
udp,udp_dst=7000/0xfff8,ct_state=-trk,actions=ct(table=0,zone=4)
udp,ct_state=+trk+new,ct_zone=3,in_port=client,actions=ct(commit,zone=3),server
udp,ct_state=+trk+new,ct_zone=4,in_port=client,actions=ct(commit,zone=4),server
udp,ct_state=+trk+est,in_port=client,actions=server
udp,ct_state=+trk+est,in_port=server,actions=client
R
udp_echo server 10.0.0.2 53
# ovs-vsctl 3.1 knows only the columns that it was built with; ovsdb-client takes any.
transact() {
    local answer
    answer=$(ovsdb-client transact unix:$OVS_RUNDIR/db.sock "[\"Open_vSwitch\",$1]")
    lacks "the database's answer" "$answer" error
    printf '%s\n' "$answer"
}
# put TABLE ROW: in its only row.
put() { transact "{\"op\":\"update\",\"table\":\"$1\",\"where\":[],\"row\":$2}" >/dev/null; }
none='["set",[]]'
limits() { [ "$(ovs-appctl dpctl/ct-get-limits)" = "$1" ]; }
# asks ZONE'S_FIRST_PORT COUNT: how many of so many new connections get their answer.
asks() {
    local source answered=0
    for source in $(seq "$1" $(($1 + $2 - 1))); do
        answered=$((answered + $(udp_ask client 10.0.0.2 53 1 "$source")))
    done
    printf '%s\n' "$answered"
}
same "no limits" "default limit=0" "$(ovs-appctl dpctl/ct-get-limits)"

transact '{"op":"insert","table":"CT_Zone","uuid-name":"zone","row":{"limit":2}},
    {"op":"insert","table":"Datapath","uuid-name":"dp","row":{"ct_zones":["map",[[3,["named-uuid","zone"]]]]}},
    {"op":"update","table":"Open_vSwitch","where":[],
     "row":{"datapaths":["map",[["netdev",["named-uuid","dp"]]]]}}' >/dev/null
eventually 5 limits "default limit=0
zone=3,limit=2,count=0"
same "within a zone's limit" 2 "$(asks 6000 4)"
same "a zone without one" 4 "$(asks 7000 4)"
same "counts" "default limit=0
zone=3,limit=2,count=2" "$(ovs-appctl dpctl/ct-get-limits)"

put Datapath '{"ct_zone_default_limit":5}'
eventually 5 limits "default limit=5
zone=3,limit=2,count=2"
same "up to the default" 5 "$(asks 7000 8)"

put CT_Zone '{"limit":3}'
eventually 5 limits "default limit=5
zone=3,limit=3,count=2"
same "one more" 3 "$(asks 6000 5)"

# Without a limit of its own the default is the zone's, and without that there is none.
put CT_Zone "{\"limit\":$none}"
eventually 5 limits "default limit=5"
same "the default holds for it too" 5 "$(asks 6000 8)"
put Datapath "{\"ct_zone_default_limit\":$none}"
eventually 5 limits "default limit=0"
same "no limit any more" 8 "$(asks 6000 8)"

# A limit and timeouts stand in one row; either goes without the other.
put CT_Zone '{"limit":9}'
datapath=$(vsctl get Open_vSwitch . datapaths:netdev)
zone=$(vsctl get Datapath "$datapath" ct_zones:3)
vsctl -- --id=@policy create CT_Timeout_Policy timeouts:udp_first=9 -- \
    set CT_Zone "$zone" timeout_policy=@policy >/dev/null
eventually 5 limits "default limit=0
zone=3,limit=9,count=8"
vsctl clear CT_Zone "$zone" timeout_policy
same "without timeouts" "default limit=0
zone=3,limit=9,count=8" "$(ovs-appctl dpctl/ct-get-limits)"
vsctl clear Datapath "$datapath" ct_zones
eventually 5 limits "default limit=0"
