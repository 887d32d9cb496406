# Ports of type dummy-pmd: workers that poll, on simulated processors, by NUMA node.
if ! ours; then exit 0; fi
start_switch --enable-dummy --dummy-numa=0,0,1,1
vsctl add-br br0 -- set bridge br0 datapath_type=dummy fail_mode=secure -- \
    add-port br0 p1 -- set interface p1 type=dummy-pmd options:n_rxq=2 options:numa_id=1 -- \
    add-port br0 p2 -- set interface p2 type=dummy
queues() { ovs-appctl dpif-netdev/pmd-rxq-show | awk '/^pmd/ { core = $6 } /port:/ { print core $2 "." $4 }'; }

# A worker on the first processor of each node; the port's node has its queues.
same "by node" "2:p1.0 2:p1.1" "$(queues | xargs)"
contains "the ports" "$(ovs-appctl dpif/show)" \
    "(dummy-pmd: configured_rx_queues=2, configured_tx_queues=1, requested_rx_queues=2, requested_tx_queues=1)"
vsctl set interface p1 options:n_rxq=3
same "another queue" "2:p1.0 2:p1.1 2:p1.2" "$(queues | xargs)"
vsctl set open_vswitch . other_config:pmd-cpu-mask=0xc
same "two workers" "2:p1.0 3:p1.1 3:p1.2" "$(queues | xargs)"

# Each port's packets go to its own kind of worker.
ovs-ofctl add-flow br0 actions=drop
packet='eth(src=02:00:00:00:00:01,dst=02:00:00:00:00:02),eth_type(0x1234)'
ovs-appctl netdev-dummy/receive p1 --qid 1 "in_port(1),$packet"
ovs-appctl netdev-dummy/receive p2 "in_port(2),$packet"
flows_are() { [ "$(ovs-appctl dpctl/dump-flows "$1" | grep -c "in_port($2)")" = 1 ]; }
eventually 5 flows_are pmd=3 1
eventually 5 flows_are pmd=-1 2

contains "of the bridge" "$(ovs-appctl dpif/dump-flows -m br0)" "actions:drop"
lacks "what datapaths add" "$(ovs-appctl dpif/dump-flows -m br0)" "dp:ovs"

# Workers see the time that a warp lets pass, and the balancer does.
contains "settings" "$(cat $work/ovs-vswitchd.log)" "PMD auto load balance is disabled."
vsctl set open_vswitch . other_config:pmd-auto-lb=true other_config:pmd-auto-lb-load-threshold=0
ovs-appctl vlog/set dpif_netdev:dbg
ovs-appctl time/warp 600000 10000
contains "attempt" "$(cat $work/ovs-vswitchd.log)" "PMD auto load balance performing dry run."
vsctl set open_vswitch . other_config:pmd-rxq-assign=roundrobin
ovs-appctl time/warp 600000 10000
contains "no attempt" "$(cat $work/ovs-vswitchd.log)" \
    "nothing to do, pmd-rxq-assign=roundrobin assignment type configured."
contains "all seconds" "$(ovs-appctl dpif-netdev/pmd-rxq-show -secs -1)" "last 60 seconds"

# Without such a port nothing polls.
vsctl del-port p1
same "no queue is polled" "" "$(queues)"
