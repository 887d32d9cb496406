# limit: 90
# os-ken as the controller, with each version of OpenFlow that it speaks: it reads every statistics reply, and its learning
# switch connects two hosts.
clients_of os_ken.base.app_manager
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 fail_mode=secure other_config:hwaddr=02:00:00:00:aa:01
is_connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }
says_of() { grep -c "\"what\": \"$1\"" said || true; }
has_said() { [ "$(says_of "$1")" -ge 1 ]; }

version_case() { # VERSION PROTOCOL REPLIES
    local port=6653 controller
    ovs-ofctl -O "$2" del-flows br0 2>/dev/null || true
    vsctl set bridge br0 protocols="$2"
    "${client_python[@]}" "$tests/clients/learning.py" $port "$1" >said 2>complaints &
    controller=$!
    vsctl set-controller br0 tcp:127.0.0.1:$port -- set controller br0 max_backoff=1000
    eventually 10 is_connected
    eventually 5 has_said OFPBarrierReply
    contains "$1: its features" "$(cat said)" '"datapath_id": "000002000000aa01"'
    for reply in $3; do
        same "$1: replies $reply" 1 "$(says_of "OFP${reply}Reply" | sed 's/^[1-9].*/1/')"
    done
    same "$1: errors" 0 "$(says_of error)"
    eventually 5 pings client 10.0.0.2
    learned() { [ "$(ovs-ofctl -O "$2" dump-flows br0 | grep -c dl_src)" -ge 2 ]; }
    eventually 5 learned "$@"
    kill $controller
    wait $controller || true
    same "$1: what it complains of" "" "$(grep -v -i 'deprecat\|eventlet\|warn\|^ *$\|^  \|^loading app\|^instantiating app' complaints || true)"
    vsctl del-controller br0
    ovs-ofctl -O "$2" del-flows br0
}
many='DescStats AggregateStats TableStats TableFeaturesStats PortStats PortDescStats QueueStats GroupStats
GroupDescStats GroupFeaturesStats MeterStats Role'
version_case 1.0 OpenFlow10 "DescStats FlowStats AggregateStats TableStats PortStats QueueStats"
version_case 1.3 OpenFlow13 "$many FlowStats MeterFeaturesStats MeterConfigStats"
version_case 1.4 OpenFlow14 "$many FlowStats MeterFeaturesStats MeterConfigStats GetAsync"
version_case 1.5 OpenFlow15 "$many FlowDescStats GetAsync"
