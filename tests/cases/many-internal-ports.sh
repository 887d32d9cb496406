# Hundreds of internal ports go as fast as they come: their devices are removed together.
ours || skip "Open vSwitch removes them one by one"
start_switch
bridge br0
# milliseconds COMMAND...: how long it took.
milliseconds() {
    local began
    began=$(date +%s%3N)
    "$@" >/dev/null
    echo $(($(date +%s%3N) - began))
}
ports() {
    local n
    for n in {1..400}; do printf -- '-- %s ' "${1//N/$n}"; done
}
internal_devices() { ip -brief link | grep -c '^v[0-9]'; }
# shellcheck disable=SC2046 # Words are wanted.
added=$(milliseconds vsctl $(ports 'add-port br0 vN -- set interface vN type=internal'))
same "devices" 400 "$(internal_devices)"
# shellcheck disable=SC2046
deleted=$(milliseconds vsctl $(ports 'del-port br0 vN'))
same "devices afterwards" 0 "$(internal_devices || true)"
printf 'added in %d ms, deleted in %d ms\n' "$added" "$deleted"
[ "$deleted" -le $((added + 2000)) ] || fail "to add 400 ports took $added ms, to delete them $deleted ms"
# Names can be used again.
vsctl add-port br0 v1 -- set interface v1 type=internal
vsctl del-port br0 v1
same "devices at the end" 0 "$(internal_devices || true)"
