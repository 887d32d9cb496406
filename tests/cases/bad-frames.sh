# Truncated, malformed and random frames do no harm, and other traffic continues.
client_and_server
start_switch
bridge br0 client server
{ seed1_rules; echo "priority=2,arp actions=normal"; } | load br0
pings client 10.0.0.2
$python - >frames <<'P'
import random
random.seed(1)
ethernet = "020000000002020000000001"
ip = "4500003c000040004006aaaa0a0000010a000002"
tcp = "100000500000000100000000a0027d7800000000020405b40402080a0000000100000000"
whole = bytes.fromhex(ethernet + "0800" + ip + tcp)
for length in range(14, len(whole)):
    print(whole[:length].hex())
for _ in range(300):
    bad = bytearray(whole)
    for _ in range(random.randint(1, 6)):
        bad[random.randrange(12, len(bad))] = random.randrange(256)
    print(bad.hex())
for kind in ("86dd", "0806", "8100", "88a8", "8847", "0800", "894f", "0005"):
    for _ in range(40):
        print(ethernet + kind + random.randbytes(random.randint(0, 120)).hex())
P
# The kernel of the sender refuses to send some of these frames.
xargs -n 100 ip netns exec client $python "$tests/hosts/frames.py" raw <frames
pings client 10.0.0.2
contains "switch" "$(ovs-appctl version)" "Open vSwitch"
ovs-appctl coverage/show >/dev/null
serve server
same "page" hello "$(fetch client http://10.0.0.2/)"
