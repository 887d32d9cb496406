# A TCP transfer of 100 MB through connection tracking, with the kernel's offloads enabled if the
# switch supports them.
client_and_server
start_switch
bridge br0 client server
{ seed1_rules; echo "priority=2,arp actions=normal"; } | load br0
mkdir www
head -c 100000000 /dev/urandom >www/big
serve server
if ours; then
    contains "offloads" "$(on server ethtool -k eth0)" "tcp-segmentation-offload: on"
    contains "offloads" "$(on client ethtool -k eth0)" "tx-checksumming: on"
fi
fetch client -o fetched http://10.0.0.2/big
cmp www/big fetched
# In the other direction.
on server bash -c "nc -l -N 10.0.0.2 9000 >uploaded" &
eventually 3 on server grep -q ":2328 " /proc/net/tcp
on client nc -N 10.0.0.2 9000 <www/big
wait $!
cmp www/big uploaded
