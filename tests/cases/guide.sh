# Every command of docs/guide.md works as it is written there, in that order, on a system that has none of it.
# limit: 150
ours || skip "docs/guide.md is ours"
root=$(dirname "$tests") programs=$(dirname "$TIDEGATE")
[ -x "$programs/ovs-vswitchd" ] || skip "there is no $programs/ovs-vswitchd"
command -v update-alternatives >/dev/null || skip "update-alternatives is not installed"

# What the commands change of the system they change for this case alone.
for folder in /usr/local /usr/sbin /etc/alternatives /var/lib/dpkg/alternatives; do
    over=$work/over$folder
    mkdir -p "$over/upper" "$over/work"
    mount -t overlay overlay -o "lowerdir=$folder,upperdir=$over/upper,workdir=$over/work" "$folder" ||
        skip "no overlay can be mounted on $folder"
done
for folder in /etc/openvswitch /var/log/openvswitch; do
    mount -t tmpfs tests "$folder" || skip "there is no $folder"
done
unset OVS_RUNDIR OVS_DBDIR OVS_LOGDIR OVS_SYSCONFDIR
export PATH=/usr/local/bin:/usr/sbin:$PATH
# The case has a folder of its own; the guide's commands are typed in the clone.
scripts/setup() { "$root/scripts/setup"; }
# The programs are built already.
make() { command make --silent -C "$root" -o build "$@" programs="$programs"; }

# The commands, but for those that need all processors for long: generate.sh and bench-rfc.sh run them.
awk '/^```/ { inside = !inside; next } inside' "$root/docs/guide.md" >guide
grep -v -e '^tidegate generate --self-test' -e '^tidegate cps-ndr  ' -e '^tidegate bench rfc rfc2544' \
    guide >commands
# A machine that is too busy for a rate is no fault of the guide.
sed -i '/&$/!s/^tidegate \(generate\|cps-ndr\) --client [^#&>]*/& || [[ $? == [13] ]] /' commands
same "commands left out" 3 $(($(wc -l <guide) - $(wc -l <commands)))

# run UNTIL: the commands up to the first line that begins so, which comes first the next time.
exec 3<commands
line=''
run() {
    local block=$line
    while IFS= read -r line <&3 && [[ $line != "$1"* || -z $1 ]]; do
        block+=$'\n'$line
    done
    printf '%s\n' "$block"
    eval "$block"
}
run "ovs-appctl exit"
contains "the version" "$(ovs-vswitchd --version)" "$(ovs-appctl version)"
contains "the version" "$(ovs-vswitchd --version)" Tidegate
test -s /usr/local/share/man/man1/tidegate-bench-rfc.1
contains "completion" "$(cat /usr/local/share/bash-completion/completions/tidegate)" cps-ndr
same "the timeout" 3600 "$(vsctl list-zone-tp netdev | sed -n 's/.*tcp_established=\([0-9]*\).*/\1/p')"
run "ovs-appctl dpif/show"
contains "its port" "$(ovs-appctl dpif/show)" veth1
run "tidegate generate --client"
run "tidegate conntrack --source"
contains "a connection of the generator's" "$(tidegate conntrack --json --zone 5)" '"zone":5'
run "ovs-appctl netdev-dummy/receive"
test -s results/report.html
run "ovs-pcap p2.pcap"
eventually 5 test -s p2.pcap
same "the packet, with its TTL" 3f "$(ovs-pcap p2.pcap | cut -c45-46)"
run ""
never ip link show veth0
never ovs-appctl -T 1 version
