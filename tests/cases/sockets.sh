# limit: 45
# What the database may make the switch do with files and sockets, and who may reach it: a remote
# writer overwrites nothing, and a peer that says nothing holds up no other.
umask 0
start_switch
bridge br0
for _ in 1 2 3 4 5; do
    vsctl add-br br1
    [ -S $OVS_RUNDIR/br1.mgmt ] || fail "add-br returned before br1.mgmt was there"
    vsctl del-br br1
done
same "the permissions of br0.mgmt" 750 "$(stat -c %a $OVS_RUNDIR/br0.mgmt)"
same "the permissions of the pidfile" 644 "$(stat -c %a $OVS_RUNDIR/ovs-vswitchd.pid)"

# Sockets in the run directory, of the bridge's own name, and never in the place of a file.
printf precious >$work/precious
printf precious >$OVS_RUNDIR/br0.file
for target in punix:$work/precious punix:$OVS_RUNDIR/br0.file punix:$OVS_RUNDIR/br0.mgmt/../x \
    unix:$work/precious; do
    vsctl set-controller br0 "$target"
    never test -S "${target#*:}"
done
same "the file outside" precious "$(cat $work/precious)"
same "the file inside" precious "$(cat $OVS_RUNDIR/br0.file)"
contains "the log" "$(cat $work/ovs-vswitchd.log)" "due to possibility of overwriting local files"
contains "the log" "$(cat $work/ovs-vswitchd.log)" "br0.file is there already and is not a socket"
vsctl set-controller br0 punix:$OVS_RUNDIR/br0.own
eventually 5 ovs-ofctl show $OVS_RUNDIR/br0.own
vsctl del-controller br0

# A path outside of the run directory is ignored.
mkdir -p $OVS_RUNDIR/../q
touch $OVS_RUNDIR/../q/f.mgmt
ovs-vsctl --no-wait -- --id=@b create Bridge 'name="../q/f"' -- add Open_vSwitch . bridges @b
eventually 5 grep -q "ignoring bridge with invalid name" $work/ovs-vswitchd.log
[ -f $OVS_RUNDIR/../q/f.mgmt ] || fail "the file of another was replaced"
ovs-vsctl --no-wait del-br ../q/f

# A recording replaces nothing but recordings.
vsctl add-port br0 rec -- set interface rec type=pcap options:tx_pcap=$work/precious
contains "error" "$(vsctl get interface rec error)" "not a pcap file"
same "the file" precious "$(cat $work/precious)"
vsctl del-port br0 rec

# Silent peers and TLS.
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority 2>/dev/null
openssl req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=own 2>/dev/null
openssl x509 -req -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out own.pem \
    -extfile <(echo subjectAltName=DNS:own) 2>/dev/null
vsctl set-ssl $work/own.key $work/own.pem $work/ca.pem
vsctl set-controller br0 pssl:6655:127.0.0.1
shown() { timeout 2 ovs-ofctl -p own.key -c own.pem -C ca.pem show ssl:127.0.0.1:6655; }
eventually 5 shown
for _ in 1 2 3; do
    $python -c 'import socket, time; s = socket.create_connection(("127.0.0.1", 6655)); time.sleep(20)' &
done
sleep 0.3
shown || fail "a controller waits for peers that say nothing"
