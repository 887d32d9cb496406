# What docs/guide.md tells a newcomer to type works as it stands there, in its order.
# limit: 60
ours || skip "docs/guide.md is ours"
guide=$(dirname "$tests")/docs/guide.md
# block NUMBER: the commands of the thing with that number.
block() {
    awk -v number="$1" '/^\*\*[0-9]+\./ { here = index($0, "**" number ".") == 1 }
        here && /^```/ { inside = !inside; next }
        here && inside' "$guide"
}
tidegate() { "$TIDEGATE" "$@"; }
for pair in "veth0 end0" "veth1 end1"; do
    ip link add "${pair% *}" type veth peer name "${pair#* }"
    ip link set "${pair% *}" up
    ip link set "${pair#* }" up
done
start_switch

# follow NUMBER COUNT: its commands one by one, but for those that build, install and start what runs
# here already, or run until they are stopped.
follow() {
    local line done=0
    while IFS= read -r line; do
        case $line in
        make* | ln* | ovs-vswitchd* | *"--config bridge.toml" | *--events*) continue ;;
        ovs-vsctl* | ovs-appctl* | tidegate*) ;;
        *) continue ;;
        esac
        printf '$ %s\n' "$line"
        eval "$line"
        done=$((done + 1))
    done < <(block "$1")
    same "commands of number $1" "$2" $done
}
follow 1 3
echo "actions=normal" >br0.flows
eval "$(block 2 | sed -n '/^cat >/,/^END$/p')"
follow 2 1
follow 3 5
follow 4 1
follow 5 2
follow 7 5
same "the timeout" 3600 "$(vsctl list-zone-tp netdev | sed -n 's/.*tcp_established=\([0-9]*\).*/\1/p')"
# The file is one that runs.
stop_switch
tidegate switch --config bridge.toml --unixctl=$work/ctl &
eventually 10 ovs-appctl -T 2 -t $work/ctl version
contains "its port" "$(ovs-appctl -t $work/ctl dpif/show)" veth1
ovs-appctl -t $work/ctl exit --cleanup
