# TLS: which certificates, versions and ciphers are accepted, on both sides; the authority's certificate
# that the first peer shows; what del-ssl leaves.
ours || skip "Open vSwitch keeps the key after del-ssl, and has other words for its errors"

# authority NAME, certificate NAME AUTHORITY [OPTION OF OPENSSL CA...]: NAME.key and NAME.pem.
authority() {
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$1.key" -out "$1.pem" -days 2 -subj "/CN=$1" 2>/dev/null
}
certificate() {
    local name=$1 authority=$2
    shift 2
    openssl req -newkey rsa:2048 -nodes -keyout "$name.key" -out "$name.csr" -subj "/CN=$name" 2>/dev/null
    : >index.txt
    openssl ca -batch -config <(printf '%s\n' '[ca]' 'default_ca = it' '[it]' 'database = index.txt' \
        'rand_serial = yes' 'default_md = sha256' 'default_days = 2' 'policy = any' 'new_certs_dir = .' \
        'x509_extensions = extensions' '[any]' 'commonName = supplied' '[extensions]' \
        "subjectAltName = DNS:$name") -cert "$authority.pem" -keyfile "$authority.key" \
        -in "$name.csr" -out "$name.pem" -notext "$@" 2>/dev/null
}
# ask NAME AUTHORITY: the stock tool asks the switch, as NAME, who trusts AUTHORITY.
ask() { ovs-ofctl -t 5 -p "$1.key" -c "$1.pem" -C "$2.pem" show ssl:127.0.0.1:6656; }
# greets OPTION...: whether a client with these options may speak.
greets() {
    openssl s_client -connect 127.0.0.1:6656 -cert controller.pem -key controller.key -CAfile ca.pem "$@" \
        </dev/null >greeting 2>&1 && grep -q 'Verify return code: 0' greeting
}
controller() {
    $python "$tests/hosts/controller.py" listen ssl "$1" 4 "$2.pem" "$2.key" ca.pem >"$1.printed" 2>/dev/null &
    eventually 5 grep -q ready "$1.printed"
}
connected() { [ "$(vsctl --bare --columns=is_connected find controller)" = true ]; }
logged() { grep -q -- "$1" ovs-vswitchd.log; }

authority ca
authority stranger
certificate switch ca
certificate controller ca
certificate foreign stranger
certificate expired ca -startdate 20200101000000Z -enddate 20200102000000Z

start_switch
bridge br0

# Listening.
vsctl set-ssl $work/switch.key $work/switch.pem $work/ca.pem -- set-controller br0 pssl:6656:127.0.0.1
eventually 10 ask controller ca >/dev/null
must_fail ask foreign ca
must_fail ask expired ca
must_fail ask controller stranger
eventually 5 logged 'invalid peer certificate: UnknownIssuer'
eventually 5 logged 'invalid peer certificate.*[Ee]xpired'
greets -tls1_2
greets -tls1_3
# A certificate renewed in place counts for the next connection.
cp switch.pem was.pem
cp expired.pem switch.pem; cp switch.key was.key; cp expired.key switch.key
must_fail ask controller ca
cp was.pem switch.pem; cp was.key switch.key
ask controller ca >/dev/null
# A key that is no longer configured is not used.
vsctl del-ssl
eventually 5 never ask controller ca

# Connecting.
vsctl del-controller br0 -- set-ssl $work/switch.key $work/switch.pem $work/ca.pem
for who in 6660:foreign 6663:expired; do
    controller ${who%:*} ${who#*:}
    vsctl set-controller br0 ssl:127.0.0.1:${who%:*}
    eventually 10 logged "ssl:127.0.0.1:${who%:*}: connection failed (invalid peer certificate"
    never connected
    vsctl del-controller br0
done

# The first controller's authority is taken where there is none yet, and holds for all that follow.
vsctl -- --bootstrap set-ssl $work/switch.key $work/switch.pem $work/first.pem
cat controller.pem ca.pem >shown.pem; cp controller.key shown.key
controller 6661 shown
vsctl set-controller br0 ssl:127.0.0.1:6661
eventually 20 connected
same 'the stored authority' "$(openssl x509 -in ca.pem -fingerprint -noout)" \
    "$(openssl x509 -in first.pem -fingerprint -noout)"
same 'its mode' 444 "$(stat -c %a first.pem)"
vsctl del-controller br0
controller 6662 foreign
vsctl set-controller br0 ssl:127.0.0.1:6662
eventually 10 logged 'ssl:127.0.0.1:6662: connection failed (invalid peer certificate'
never connected
vsctl del-controller br0 -- del-ssl
stop_switch

# So does the command line's.
start_switch -p $work/switch.key -c $work/switch.pem --bootstrap-ca-cert=$work/second.pem
controller 6664 shown
vsctl set-controller br0 ssl:127.0.0.1:6664
eventually 20 connected
same 'the stored authority' "$(openssl x509 -in ca.pem -fingerprint -noout)" \
    "$(openssl x509 -in second.pem -fingerprint -noout)"
vsctl del-controller br0
stop_switch

# The command line: one version, one cipher, and the authority's certificate shown to peers.
start_switch -p $work/switch.key -c $work/switch.pem -C $work/ca.pem --peer-ca-cert=$work/ca.pem \
    --ssl-protocols=TLSv1.1,TLSv1.2 --ssl-ciphers=ECDHE-RSA-AES128-GCM-SHA256:NONSENSE
logged '--ssl-protocols: TLSv1.1 is not spoken; TLSv1.2 and TLSv1.3 are'
logged '--ssl-ciphers: no cipher NONSENSE; accepted are ECDHE-'
vsctl set-controller br0 pssl:6656:127.0.0.1
eventually 10 greets -tls1_2 -showcerts
contains 'what the switch shows' "$(cat greeting)" 's:CN = ca'
contains 'the cipher' "$(cat greeting)" 'Cipher is ECDHE-RSA-AES128-GCM-SHA256'
must_fail greets -tls1_3
must_fail greets -tls1_2 -cipher ECDHE-RSA-AES256-GCM-SHA384
stop_switch
start_switch -p $work/switch.key -c $work/switch.pem -C $work/ca.pem --ssl-protocols=TLSv1.3 \
    --ssl-ciphersuites=TLS_CHACHA20_POLY1305_SHA256
eventually 10 greets
contains 'the cipher' "$(cat greeting)" 'Cipher is TLS_CHACHA20_POLY1305_SHA256'
must_fail greets -tls1_2
