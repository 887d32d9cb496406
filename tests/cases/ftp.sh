# FTP and TFTP through rules that let in only what is related: active and passive, plain and
# with NAT, over IPv4 and IPv6; and nothing without the helper.
# limit: 60
client_and_server
static_neighbours
ip -n server neigh replace 10.0.0.100 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
ip -n client neigh replace 10.0.0.200 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
start_switch
bridge br0 client server

# rules NAT_OF_NEW HELPER: what the client begins, and what is related to it.
rules() {
    cat <<R
table=0 priority=1 ip actions=ct(zone=3,nat,table=1)
table=1 priority=3 tcp,tcp_dst=21,ct_state=+new-rel,in_port=client actions=ct(commit,zone=3$2$1),server
table=1 priority=3 udp,udp_dst=69,ct_state=+new-rel,in_port=client actions=ct(commit,zone=3${2/ftp/tftp}$1),server
table=1 priority=2 ip,ct_state=+new+rel,in_port=server actions=ct(commit,zone=3,nat),client
table=1 priority=2 ip,ct_state=+new+rel,in_port=client actions=ct(commit,zone=3,nat),server
table=1 priority=1 ip,ct_state=+est-inv,in_port=client actions=server
table=1 priority=1 ip,ct_state=+est-inv,in_port=server actions=client
R
}
on server $python "$tests/hosts/ftp_server.py" 10.0.0.2 21 &
on server $python "$tests/hosts/tftp_server.py" 10.0.0.2 &
eventually 5 on server grep -q ":0015 " /proc/net/tcp
eventually 5 on server grep -q ":0045 " /proc/net/udp
size=$((22 * 4000))
# ftp TARGET CURL_OPTION...: prints the number of received bytes.
ftp() {
    local target=$1
    shift
    on client curl -sS --noproxy '*' --connect-timeout 2 --ftp-method nocwd -m 4 "$@" \
        "ftp://$target/file" | wc -c
}
tftp() { on client curl -sS --noproxy '*' -m 4 "tftp://$1/file" | wc -c; }
forget() { ovs-appctl dpctl/flush-conntrack; }

# Without NAT.
rules "" ,alg=ftp | load br0
same "passive" $size "$(ftp 10.0.0.2 --disable-epsv)"
same "active" $size "$(ftp 10.0.0.2 --disable-eprt -P -)"
same "TFTP" 1400 "$(tftp 10.0.0.2)"
contains "data connection" "$(ovs-appctl dpctl/dump-conntrack -m)" \
    ",parent=(src=10.0.0.1,dst=10.0.0.2,sport="
contains "control connection" "$(ovs-appctl dpctl/dump-conntrack)" ",helper=ftp"
if ours; then
    # Open vSwitch 3.1 knows these over IPv6 only.
    same "extended passive" $size "$(ftp 10.0.0.2)"
    same "extended active" $size "$(ftp 10.0.0.2 -P -)"
fi

if ours; then
    # A data connection that a client announced and the server has not begun. Open vSwitch lists those
    # too that there already are, until the control connection ends.
    on client $python - 2>"$work/announce.err" <<'P' &
import ftplib, time
ftp = ftplib.FTP("10.0.0.2", "joe", "x", timeout=4)
ftp.sendport("10.0.0.1", 40000)
time.sleep(60)
P
    announcing=$!
    expected() { ovs-appctl dpctl/dump-conntrack-exp "$@" | sed 's/sport=[1-9][0-9]*/sport=any/'; }
    eventually 5 reads "tcp,orig=(src=10.0.0.2,dst=10.0.0.1,sport=0,dport=40000),zone=3,parent=(src=10.0.0.1,dst=10.0.0.2,sport=any,dport=21)" \
        expected
    same "expected in zone 3" "$(expected)" "$(expected zone=3)"
    same "expected in zone 4" "" "$(expected zone=4)"
    contains "a zone that is none" "$(must_fail ovs-appctl dpctl/dump-conntrack-exp zone=x)" "failed to parse zone"
    kill $announcing
    forget
    same "expected after a flush" "" "$(expected)"
fi

# Without the helper nothing is related.
rules "" "" | load br0
forget
same "passive without the helper" 0 "$(ftp 10.0.0.2 --disable-epsv 2>/dev/null || true)"
same "active without the helper" 0 "$(ftp 10.0.0.2 --disable-eprt -P - 2>/dev/null || true)"
same "TFTP without the helper" 0 "$(tftp 10.0.0.2 2>/dev/null || true)"

# With source NAT, to an address with a longer text.
rules ",nat(src=10.0.0.100)" ,alg=ftp | load br0
forget
same "passive, NAT of the client" $size "$(ftp 10.0.0.2 --disable-epsv)"
same "active, NAT of the client" $size "$(ftp 10.0.0.2 --disable-eprt -P -)"
same "TFTP, NAT of the client" 1400 "$(tftp 10.0.0.2)"
contains "source NAT" "$(ovs-appctl dpctl/dump-conntrack)" "dst=10.0.0.100,sport=21"

# With destination NAT.
rules ",nat(dst=10.0.0.2)" ,alg=ftp | load br0
forget
same "passive, NAT of the server" $size "$(ftp 10.0.0.200 --disable-epsv)"
same "active, NAT of the server" $size "$(ftp 10.0.0.200 --disable-eprt -P -)"
if ours; then
    same "extended passive, NAT of the server" $size "$(ftp 10.0.0.200)"
    same "extended active, NAT of the server" $size "$(ftp 10.0.0.200 -P -)"
fi
# Python's client, a longer session, with a file the other way.
on client $python - <<'P'
import ftplib, io
ftp = ftplib.FTP("10.0.0.200", "joe", "x", timeout=4)
for passive in (True, False, True, False):
    ftp.set_pasv(passive)
    ftp.storbinary("STOR file", io.BytesIO(b"from the client" * 1000))
    back = io.BytesIO()
    ftp.retrbinary("RETR file", back.write)
    assert back.getvalue() == b"from the client" * 1000, passive
ftp.quit()
P

# IPv6.
for name in client server; do
    on $name sh -c 'echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6'
done
ip -n client addr add fd00::1/64 dev eth0 nodad
ip -n server addr add fd00::2/64 dev eth0 nodad
ip -n client neigh replace fd00::2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
ip -n server neigh replace fd00::1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
ip -n server neigh replace fd00::1234 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
on server $python "$tests/hosts/ftp_server.py" fd00::2 21 &
eventually 5 on server grep -q ":0015 " /proc/net/tcp6
forget
rules "" ,alg=ftp | sed 's/\bip\b/ipv6/; s/\btcp,/tcp6,/; s/\budp,/udp6,/' | load br0
same "passive over IPv6" $size "$(ftp '[fd00::2]')"
same "active over IPv6" $size "$(ftp '[fd00::2]' -P -)"
forget
rules ",nat(src=fd00::1234)" ,alg=ftp | sed 's/\bip\b/ipv6/; s/\btcp,/tcp6,/; s/\budp,/udp6,/' | load br0
same "passive over IPv6, NAT of the client" $size "$(ftp '[fd00::2]')"
same "active over IPv6, NAT of the client" $size "$(ftp '[fd00::2]' -P -)"
