# limit: 45
# Controllers: those the switch connects to by TCP and TLS, and those that connect to it. When one
# is lost, a standalone bridge goes on by itself; a secure one does not.
client_and_server
start_switch
bridge br0 client server
vsctl set bridge br0 protocols=OpenFlow13
connected() { [ "$(vsctl get controller br0 is_connected)" = true ]; }
lost() { [ "$(vsctl get controller br0 is_connected)" = false ]; }
hands_shaken() { grep -q "^type=6 length=32" "$1"; }

$python "$tests/hosts/controller.py" listen tcp 6653 4 >tcp.printed &
controller=$!
eventually 5 grep -q ready tcp.printed
vsctl set-controller br0 tcp:127.0.0.1:6653
eventually 8 connected
eventually 5 hands_shaken tcp.printed
contains "status" "$(vsctl get controller br0 status)" "state=ACTIVE"
same "role" "other" "$(vsctl get controller br0 role)"
same "flows gone to the controller" "" "$(flows br0 -O OpenFlow13)"
status() { vsctl get controller br0 status; }
# On request, it connects again.
asked=$(grep -c "^type=6 length=32" tcp.printed)
same "bridge/reconnect" "" "$(ovs-appctl bridge/reconnect br0)"
again() { [ "$(grep -c "^type=6 length=32" tcp.printed)" -gt "$asked" ]; }
eventually 10 again
eventually 8 connected
contains "no bridge" "$(must_fail ovs-appctl bridge/reconnect nosuch)" "Unknown bridge"
kill $controller
eventually 8 lost
eventually 8 reads 'last_error="Connection refused"' status
for fact in state=BACKOFF sec_since_connect= sec_since_disconnect=; do
    contains "status" "$(status)" "$fact"
done
same "role" "[]" "$(vsctl get controller br0 role)"
# Open vSwitch waits three probe intervals before it takes over.
vsctl set controller br0 inactivity_probe=5000
eventually 20 pings client 10.0.0.2
vsctl del-controller br0

vsctl set-controller br0 ptcp:6654:127.0.0.1
$python "$tests/hosts/controller.py" connect tcp 6654 4 >ptcp.printed &
eventually 8 hands_shaken ptcp.printed
eventually 5 ovs-ofctl -O OpenFlow13 show tcp:127.0.0.1:6654
vsctl del-controller br0

# A snoop connection gets the messages with the controller, and nothing without one.
must_fail ovs-ofctl -t 2 -O OpenFlow13 snoop br0
$python "$tests/hosts/controller.py" listen tcp 6657 4 >snooped.printed &
vsctl set-controller br0 tcp:127.0.0.1:6657 -- set controller br0 inactivity_probe=1000
eventually 10 connected
ovs-ofctl -O OpenFlow13 snoop br0 >snoop.printed 2>&1 &
snooping=$!
heard_both() { grep -q OFPT_ECHO_REQUEST snoop.printed && grep -q OFPT_ECHO_REPLY snoop.printed; }
eventually 10 heard_both
kill $snooping
same "the permissions of the socket" 750 "$(stat -c %a $OVS_RUNDIR/br0.snoop)"
vsctl del-controller br0

openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority 2>/dev/null
for name in switch controller; do
    openssl req -newkey rsa:2048 -nodes -keyout $name.key -out $name.csr -subj /CN=$name 2>/dev/null
    openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out $name.pem \
        -extfile <(echo subjectAltName=DNS:$name) 2>/dev/null
done
vsctl set-ssl $work/switch.key $work/switch.pem $work/ca.pem
$python "$tests/hosts/controller.py" listen ssl 6655 4 controller.pem controller.key ca.pem >ssl.printed &
eventually 5 grep -q ready ssl.printed
vsctl set-controller br0 ssl:127.0.0.1:6655
eventually 10 connected
eventually 5 hands_shaken ssl.printed
vsctl del-controller br0
