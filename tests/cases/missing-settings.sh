# Settings without which traffic may stop, and that the switch does not have, are told in the database, too: a user who asks
# for a spanning tree sees why a ring of bridges fails.
client_and_server
start_switch
bridge br0 client server
# tells TABLE ROW SETTING VALUE NEUTRAL SEEN...: the setting is in the column that SEEN gets, until it has the neutral value.
tells() {
    vsctl set "$1" "$2" "$3=$4"
    eventually 5 reads "$3: there is no" "${@:6}"
    contains "$3" "$("${@:6}")" "; ignored"
    pings client 10.0.0.2
    vsctl "${5%% *}" "$1" "$2" "${5#* }"
    eventually 5 is_empty "${@:6}"
}
is_empty() { case $("$@") in '{}' | '[]') ;; *) return 1 ;; esac }
tells bridge br0 stp_enable true "set stp_enable=false" vsctl get bridge br0 status
tells bridge br0 rstp_enable true "set rstp_enable=false" vsctl get bridge br0 status
tells port client lacp active "clear lacp" vsctl get interface client error
tells interface client cfm_mpid 5 "clear cfm_mpid" vsctl get interface client error
