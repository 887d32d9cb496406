# The daemon without benchmarks and reports, as `cargo test` builds it.
TIDEGATE_SWITCH=$(dirname "$tests")/target/debug/ovs-vswitchd
[ -x "$TIDEGATE_SWITCH" ] || skip "there is no $TIDEGATE_SWITCH; run \`make test-cargo\` first"
client_and_server
start_switch
bridge br0 client server
eventually 5 pings client 10.0.0.2
contains "version" "$("$TIDEGATE_SWITCH" --version)" "ovs-vswitchd (Open vSwitch)"
stop_switch
