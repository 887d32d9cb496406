# A patch port without a usable peer says so in Interface.error, until there is one that names it.
# limit: 30
start_switch
bridge br0
bridge br1
error_of() { vsctl get interface "$1" error; }
unusable() { printf '"No usable peer '"'%s'"' exists in '"'netdev'"' datapath."' "$1"; }
waits_for_error() { eventually 5 same_error "$@"; }
same_error() { [ "$(error_of "$1")" = "$2" ]; }

says "a peer that is itself" "p1: patch peer must not be self" \
    vsctl add-port br0 p1 -- set interface p1 type=patch options:peer=p1
vsctl set interface p1 options:peer=p2
waits_for_error p1 "$(unusable p2)"
same "a peer that does not exist" "$(unusable p2)" "$(error_of p1)"
# A device of the name, and a patch port that names another.
vsctl add-port br1 p2 -- set interface p2 type=internal
waits_for_error p1 "$(unusable p2)"
same "a peer that is no patch port" "$(unusable p2)" "$(error_of p1)"
vsctl del-port p2 -- add-port br1 p2 -- set interface p2 type=patch options:peer=p3
waits_for_error p2 "$(unusable p3)"
same "a peer that names another: the one" "$(unusable p2)" "$(error_of p1)"
same "a peer that names another: the other" "$(unusable p3)" "$(error_of p2)"
vsctl set interface p2 options:peer=p1
waits_for_error p1 "[]"
same "a usable peer: the one" "[]" "$(error_of p1)"
same "a usable peer: the other" "[]" "$(error_of p2)"
vsctl del-port p2
waits_for_error p1 "$(unusable p2)"
same "a peer that is gone" "$(unusable p2)" "$(error_of p1)"
