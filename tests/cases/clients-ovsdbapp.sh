# limit: 120
# ovsdbapp's own functional tests of the schema Open_vSwitch, which start a database and `ovs-vswitchd` with dummy ports.
clients_of ovsdbapp
mkdir -p programs
cat >programs/ovs-vswitchd <<P
#!/bin/sh
exec "$(dirname "$TIDEGATE_SWITCH")/ovs-vswitchd" "\$@"
P
chmod +x programs/ovs-vswitchd
[ -x "$(dirname "$TIDEGATE_SWITCH")/ovs-vswitchd" ] || skip "there is no ovs-vswitchd beside $TIDEGATE_SWITCH"
# The fixture of all its tests also wants OVN's databases; these tests do not.
cat >run.py <<'P'
import sys, unittest
from ovsdbapp import venv
from ovsdbapp.tests.functional import base
from ovsdbapp.tests.functional.schema.open_vswitch import test_common_db, test_impl_idl
class Fixture(venv.OvsVenvFixture):
    ovnnb_connection = ovnsb_connection = None
base.FunctionalTestCase.fixture_class = Fixture
suite = unittest.TestSuite(map(unittest.defaultTestLoader.loadTestsFromModule, [test_impl_idl, test_common_db]))
result = unittest.TextTestRunner(verbosity=2).run(suite)
sys.exit(not result.wasSuccessful() or result.testsRun < 36 or bool(result.skipped))
P
PATH=$work/programs:$PATH "${client_python[@]}" run.py
