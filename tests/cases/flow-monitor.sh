# Controllers monitor the flow tables. After a pause they get the changes that they missed, once
# they have read the queued messages.
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow10,OpenFlow13,OpenFlow15
{
    echo "in_port=2,actions=output:2"
    $python -c "
for i in range(6000): print(f'cookie=1,reg1={i},actions=drop')"
} >flows.txt
for version in 10 13 15; do
    ovs-ofctl del-flows br0
    ovs-ofctl -O OpenFlow$version monitor br0 watch: --detach --no-chdir \
        --pidfile="$PWD/monitor.pid" --unixctl="$PWD/monitor.ctl" >monitor.printed 2>&1
    control() { ovs-appctl -t "$PWD/monitor.ctl" "$@"; }
    control ofctl/block
    ovs-ofctl add-flows br0 flows.txt
    ovs-ofctl add-flow br0 in_port=1,cookie=3,actions=drop
    ovs-ofctl mod-flows br0 in_port=2,cookie=2,actions=output:1
    ovs-ofctl del-flows br0 cookie=1/-1
    control ofctl/unblock
    eventually 10 grep -q RESUMED monitor.printed
    control exit
    count() { grep -c "$1" monitor.printed; }
    same "pauses" "1 1" "$(count PAUSED) $(count RESUMED)"
    added=$(count 'ADDED.*reg1=')
    [ $added -gt 100 ] && [ $added -lt 6000 ] || fail "$added flows were added before the pause"
    same "flows that went, of those that were told of" $added "$(count 'DELETED.*reg1=')"
    missed=$(sed -n '/PAUSED/,$p' monitor.printed | grep -v DELETED)
    contains "what was missed" "$missed" "event=ADDED table=0 cookie=0x3 in_port=1"
    contains "what was missed" "$missed" "event=MODIFIED table=0 cookie=0x2 in_port=2 actions=output:1"
done
