# Real guests behind vhost-user: Linux in QEMU, with two kinds of virtio devices, and with all if GUEST_VARIANTS=all.
# They come up, carry ping, TCP in both directions with segmentation offload, and survive that the switch is killed and
# started again.
# limit: 400
ours || skip "Open vSwitch's DPDK is another program"
command -v qemu-system-x86_64 >/dev/null || skip "there is no qemu-system-x86_64 (package qemu-system-x86)"
image=$tests/../target/guest
[ -e "$image/initrd.gz" ] && [ -e "$image/vmlinuz" ] ||
    skip "there is no kernel with a RAM disk for guests; scripts/guest-image makes it"
client_and_server
start_switch
bridge br0 client server
vsctl add-port br0 vhost0 -- set interface vhost0 type=dpdkvhostuserclient \
    options:vhost-server-path=$work/vhost0 mtu_request=9000
status() { vsctl get interface vhost0 "status:$1"; }
same "without a guest" "disconnected" "$(status status)"

# start_guest DEVICE_OPTIONS [NETDEV_OPTIONS]
start_guest() {
    rm -f $work/console
    # With vectors, QEMU 7.2 without KVM ends.
    qemu-system-x86_64 -M q35 -m 160 -display none -no-reboot -serial unix:$work/console,server=on,wait=off \
        -kernel "$image/vmlinuz" -initrd "$image/initrd.gz" -append "console=ttyS0 panic=1 quiet" \
        -object memory-backend-memfd,id=m,size=160M,share=on -numa node,memdev=m \
        -chardev socket,id=c,path=$work/vhost0,server=on,wait=off -netdev vhost-user,id=n,chardev=c${2:+,$2} \
        -device "virtio-net-pci,netdev=n,mac=02:00:00:00:00:09,vectors=0${1:+,$1}" >qemu.printed 2>&1 &
    GUEST_PID=$!
    eventually 5 test -S $work/console
}
stop_guest() {
    kill -9 "$GUEST_PID"
    wait "$GUEST_PID" || true
}
in_guest() { $python "$tests/hosts/guest_console.py" $work/console "$@"; }

mkdir -p www
dd if=/dev/urandom of=www/blob bs=1M count=4 2>/dev/null
sum=$(md5sum <www/blob)
ip netns exec client $python -m http.server -d www 8081 >/dev/null 2>&1 &
# The guest sends the same bytes back.
cat >upload.py <<'P'
import hashlib, socket, sys
server = socket.create_server(("10.0.0.1", 9000))
while True:
    it, digest, left = server.accept()[0], hashlib.md5(), 4 << 20
    while left and (piece := it.recv(65536)):
        digest.update(piece)
        left -= len(piece)
    it.close()
    print(digest.hexdigest() + "  -", flush=True)
P
ip netns exec client $python upload.py >uploads &
uploads() { [ "$(wc -l <uploads)" -ge "$1" ]; }

variants='default - -
packed packed=on -'
[ "${GUEST_VARIANTS:-}" != all ] || variants+='
no-mergeable mrg_rxbuf=off -
no-indirect indirect_desc=off -
no-events event_idx=off -
legacy disable-modern=on,disable-legacy=off -
plain csum=off,guest_csum=off,gso=off,mrg_rxbuf=off,indirect_desc=off,event_idx=off -
two-queues mq=on queues=2
large-mtu host_mtu=9000 -'
count=0
while read -r name device netdev; do
    start_guest "${device#-}" "${netdev#-}"
    in_guest "ip addr add 10.0.0.9/24 dev eth0" "ip link set eth0 up" >printed || fail "$name: $(tail -3 printed) $(tail -1 qemu.printed)"
    eventually 5 pings client 10.0.0.9
    same "$name: status" connected "$(status status)"
    same "$name: downloaded" "$sum" "$(in_guest "wget -q -O /blob http://10.0.0.1:8081/blob; md5sum </blob")"
    in_guest "nc 10.0.0.1 9000 </blob" >printed
    count=$((count + 1))
    eventually 10 uploads $count
    same "$name: uploaded" "$sum" "$(tail -1 uploads)"
    same "$name: error" "[]" "$(vsctl get interface vhost0 error)"
    # Large frames in both directions.
    segmented() { [ "$(vsctl get interface vhost0 "statistics:$1_1523_to_max_packets")" -gt 50 ]; }
    if [ "$name" = default ]; then
        eventually 8 segmented rx
        eventually 8 segmented tx
        # The switch is killed; the guest is there again soon.
        kill -9 "$SWITCH_PID"
        wait "$SWITCH_PID" || true
        start_switch
        eventually 5 pings client 10.0.0.9
        same "after the restart" "$sum" "$(in_guest "wget -q -O - http://10.0.0.1:8081/blob | md5sum")"
    fi
    stop_guest
    eventually 3 reads disconnected status status
    printf '%s\n' "$name" >>passed
done <<<"$variants"
same "variants" "$(wc -l <<<"$variants")" "$(wc -l <passed)"
