# A mirror's copies are counted in the database, and again from nothing when it is made anew.
client_and_server
static_neighbours
start_switch
bridge br0 client server
vsctl add-port br0 tap0 -- set interface tap0 type=internal
mirror() {
    vsctl -- --id=@c get port client -- --id=@t get port tap0 \
        -- --id=@m create mirror name=m select-src-port=@c output-port=@t -- set bridge br0 mirrors=@m >/dev/null
}
counted() { vsctl get mirror m statistics; }
mirror
eventually 12 reads "{tx_bytes=0, tx_packets=0}" counted
pings client 10.0.0.2
eventually 12 reads "{tx_bytes=196, tx_packets=2}" counted
vsctl clear bridge br0 mirrors
mirror
eventually 12 reads "{tx_bytes=0, tx_packets=0}" counted
