# limit: 120
# Mininet's built-in test over some topologies, with the stock controller and without one, and with each datapath.
command -v mn >/dev/null || skip "there is no Mininet (package mininet)"
command -v ovs-testcontroller >/dev/null || skip "there is no ovs-testcontroller (package openvswitch-testcontroller)"
start_switch
passes() { # WHAT COMMAND...
    local what=$1 said
    shift
    said=$("$@" 2>&1) || fail "$what: $said"
    contains "$what" "$said" "0% dropped"
    lacks "$what" "$said" "X "
}
for switch in ovs,datapath=user ovs ovsbr,datapath=user; do
    for topology in single,3 linear,3 tree,2,2; do
        passes "$switch $topology" mn --topo $topology --switch $switch --controller ovsc --test pingall
        same "bridges that are left" "" "$(vsctl list-br)"
    done
done
passes "OpenFlow 1.3" mn --topo linear,3 --switch ovs,datapath=user,protocols=OpenFlow13 --controller ovsc --test pingall
