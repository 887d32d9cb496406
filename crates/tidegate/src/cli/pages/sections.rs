//! Sections of the manual pages that are not part of the option definitions, by verb.

/// Terms and explanations.
type Terms = &'static [(&'static str, &'static str)];

/// Additional sections of a page.
pub struct Sections {
    pub exit_status: Terms,
    pub files: Terms,
    pub environment: Terms,
}

const NO_COLOR: (&str, &str) =
    ("NO_COLOR", "If it is not empty, the output to a terminal has no colours.");
const INVALID_OPTIONS: (&str, &str) = ("2", "An option or argument is invalid.");

/// Sections of the program itself.
const PROGRAM: Sections = Sections {
    exit_status: &[
        ("0", "The verb succeeded."),
        ("1", "The verb failed; its own page says how."),
        INVALID_OPTIONS,
    ],
    files: &[],
    environment: &[],
};

const SWITCH: Sections = Sections {
    exit_status: &[
        (
            "0",
            "The switch was told to exit. With --detach: the first configuration is in force. With \
             --check: the file is valid.",
        ),
        (
            "1",
            "An option is invalid, or the switch could not start; standard error says why. With \
             --check: the file is invalid or could not be read.",
        ),
    ],
    files: &[
        ("/var/run/openvswitch/db.sock", "The database's socket, if DATABASE is not given."),
        ("/var/run/openvswitch/ovs-vswitchd.pid", "The process id, with --pidfile."),
        ("/var/run/openvswitch/ovs-vswitchd.PID.ctl", "The socket of ovs-appctl(8)."),
        ("/var/run/openvswitch/BRIDGE.mgmt", "The socket of ovs-ofctl(8) for a bridge."),
        ("/var/log/openvswitch/ovs-vswitchd.log", "The log, with --log-file."),
    ],
    environment: &[
        ("OVS_RUNDIR", "In place of /var/run/openvswitch."),
        ("OVS_LOGDIR", "In place of /var/log/openvswitch."),
        ("OVS_DBDIR", "In place of /etc/openvswitch."),
        ("OVS_SYSCONFDIR", "In place of /etc."),
        ("OVS_SYSLOG_METHOD", "How the log reaches syslog, if --syslog-method is not given."),
    ],
};

/// Sections of the verbs that query a running switch.
const ASKING: Sections = Sections {
    exit_status: &[
        ("0", "The switch answered."),
        ("1", "No switch answered, or it answered with an error."),
        INVALID_OPTIONS,
    ],
    files: &[
        ("/var/run/openvswitch/ovs-vswitchd.pid", "The process id of the switch that answers."),
        ("/var/run/openvswitch/ovs-vswitchd.PID.ctl", "The control socket of that switch."),
    ],
    environment: &[("OVS_RUNDIR", "In place of /var/run/openvswitch.")],
};

const TRACING: Sections = Sections {
    exit_status: &[
        ("0", "At least one packet was shown."),
        (
            "1",
            "No packet matched the filter within --timeout, no switch answered, or it answered with an \
             error.",
        ),
        INVALID_OPTIONS,
    ],
    ..ASKING
};

/// Sections of the verbs that run checks in a testbed.
const SHOWING: Sections = Sections {
    exit_status: &[
        ("0", "Every check passed."),
        ("1", "A check failed, or the testbed could not be built."),
        INVALID_OPTIONS,
    ],
    files: &[],
    environment: &[NO_COLOR],
};

const GENERATING: Sections = Sections {
    exit_status: &[
        ("0", "The rate passed; without a rate, no connection failed."),
        ("1", "The device did not carry the rate; without a rate, connections failed."),
        ("2", "An option or the profile is invalid."),
        ("3", "Nothing could be measured, or the generator did not send the requested load."),
        ("130", "It was interrupted; the printed figures are not a result."),
    ],
    files: &[],
    environment: &[NO_COLOR],
};

const SEARCHING: Sections = Sections {
    exit_status: &[
        ("0", "There is an answer."),
        ("1", "No rate passed."),
        ("2", "An option or the profile is invalid."),
        ("3", "Samples were invalid, or nothing could be measured."),
        ("130", "It was interrupted; the printed figures are not a result."),
    ],
    files: &[],
    environment: &[NO_COLOR],
};

const MEASURING: Sections = Sections {
    exit_status: &[
        ("0", "Everything was measured."),
        ("1", "Something was not measured; standard error says why."),
        INVALID_OPTIONS,
    ],
    files: &[],
    environment: &[],
};

const WRITING: Sections = Sections {
    exit_status: &[
        ("0", "Everything was written."),
        ("1", "A file could not be read or written."),
        INVALID_OPTIONS,
    ],
    files: &[],
    environment: &[],
};

const REPORT: Sections = Sections {
    files: &[
        ("DIR/*.json", "The results that are read."),
        ("DIR/report.html", "The page, if -o is not given."),
    ],
    ..WRITING
};

impl Sections {
    /// Returns the sections of the page with this name.
    pub fn of(name: &str) -> Sections {
        match name {
            "tidegate-switch" => SWITCH,
            "tidegate-demo" | "tidegate-lab" => SHOWING,
            "tidegate-generate" => GENERATING,
            "tidegate-cps-ndr" => SEARCHING,
            "tidegate-report" => REPORT,
            "tidegate-conntrack" | "tidegate-latency" | "tidegate-why-not-offloaded" => ASKING,
            "tidegate-trace" => TRACING,
            "tidegate-completion" | "tidegate-man" => WRITING,
            "tidegate" => PROGRAM,
            // `tidegate bench` and its subcommands.
            _ => MEASURING,
        }
    }
}
