# Ports of type dummy-pmd: workers that poll, on processors that are made up, by nodes of memory.
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

# Without such a port nothing polls.
vsctl del-port p1
same "nobody polls" "" "$(queues)"
