# limit: 200
# Pipelines made by hand and 20 random ones, beside Open vSwitch's own daemon.
ours || skip "the switch under test is what it is compared with"
[ -x "${REFERENCE:-/usr/sbin/ovs-vswitchd}" ] || skip "there is no Open vSwitch to compare with"
"$tests/pipelines/run" cases 1..21
