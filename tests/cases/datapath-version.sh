# datapath_version comes in an update of its own, after the numbers of ports: a client whose model lacks the column
# (libovsdb) drops the whole update.
start_switch
bridge br0
vsctl add-port br0 int0 -- set interface int0 type=internal
version() { vsctl get bridge br0 datapath_version; }
eventually 5 reads built-in version
# Each record of the database's file is a transaction.
sed -n '/^{/p' $work/conf.db >records
same "with datapath_version" '{"Bridge":{"datapath_version":"<built-in>"}}' "$($python - <<'P'
import json
for record in map(json.loads, open("records")):
    tables = {table: list(rows.values()) for table, rows in record.items() if isinstance(rows, dict)}
    if any((row or {}).get("datapath_version") for row in tables.get("Bridge", [])):
        print(json.dumps({table: row for table, rows in tables.items() for row in rows}, separators=(",", ":")))
P
)"
contains "transactions before it" "$(sed '/datapath_version":"</,$d' records)" '"ofport":65534'
