//! The options of `ovs-vswitchd`, which `tidegate switch` also takes (ovs: vswitchd/ovs-vswitchd.c,
//! `parse_options`).

use super::Parsed;
use super::getopt::{Found, Getopt, Opt, Takes};
use crate::dummy::Dummy;
use crate::processors::Processors;
use crate::stream::NO_AUTHORITY;
use daemon::{DaemonOptions, Directories, PROGRAM};
use std::path::PathBuf;
use vlog::LogOption;

/// The parsed options of the switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwitchOptions {
    /// The source of the configuration.
    pub source: Source,
    /// `--unixctl`: the control socket, for [`daemon::unixctl::path`].
    pub unixctl: Option<String>,
    /// Options of the daemon.
    pub daemon: DaemonOptions,
    /// Logging options, in the order given.
    pub logging: Vec<LogOption>,
    /// Keys and certificates.
    pub tls: TlsOptions,
    /// `--mlockall`.
    pub mlockall: bool,
    /// `--enable-dummy`: dummy ports, for tests.
    pub dummy: Dummy,
    /// `--disable-system-route`: the kernel's routes are not used, for tests.
    pub disable_system_route: bool,
    /// `--dummy-numa`: simulated processors, for tests.
    pub processors: Processors,
}

/// The source of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A database server, such as `unix:/var/run/openvswitch/db.sock`.
    Database(String),
    /// A file.
    File {
        /// The file, absolute.
        path: PathBuf,
        /// Whether only to check the file.
        check: bool,
    },
}

/// The TLS options; paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// `-p`, `--private-key`.
    pub private_key: Option<PathBuf>,
    /// `-c`, `--certificate`.
    pub certificate: Option<PathBuf>,
    /// `-C`, `--ca-cert`, or `--bootstrap-ca-cert`.
    pub ca_cert: Option<PathBuf>,
    /// Whether a missing `ca_cert` is created from the peer's chain.
    pub bootstrap_ca_cert: bool,
    /// `--peer-ca-cert`: sent to peers together with the certificate.
    pub peer_ca_cert: Option<PathBuf>,
    /// `--ssl-protocols`, such as "TLSv1.2".
    pub protocols: Option<String>,
    /// `--ssl-ciphers`, of TLS 1.2.
    pub ciphers: Option<String>,
    /// `--ssl-ciphersuites`, of TLS 1.3.
    pub ciphersuites: Option<String>,
}

/// Identifiers of the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // The table says it.
pub enum Id {
    Help,
    Version,
    Mlockall,
    Unixctl,
    Detach,
    NoSelfConfinement,
    NoChdir,
    Pidfile,
    OverwritePidfile,
    Monitor,
    User,
    Verbose,
    LogFile,
    SyslogMethod,
    SyslogTarget,
    PrivateKey,
    Certificate,
    CaCert,
    SslProtocols,
    SslCiphers,
    SslCiphersuites,
    PeerCaCert,
    BootstrapCaCert,
    EnableDummy,
    DisableSystem,
    DisableSystemRoute,
    Dpdk,
    DummyNuma,
    Config,
    Check,
}

const fn opt(id: Id, long: &'static str, takes: Takes, help: &'static str) -> Opt<Id> {
    Opt { id, long, short: None, takes, help }
}

const fn letter(
    id: Id,
    short: char,
    long: &'static str,
    takes: Takes,
    help: &'static str,
) -> Opt<Id> {
    Opt { id, long, short: Some(short), takes, help }
}

/// The options of `ovs-vswitchd` 3.1, in its order, which appears in getopt's messages; of later ones,
/// `--ssl-ciphersuites`.
#[rustfmt::skip]
pub const OPTIONS: &[Opt<Id>] = &[
    letter(Id::Help, 'h', "help", Takes::Nothing, "print this help"),
    letter(Id::Version, 'V', "version", Takes::Nothing, "print the version"),
    opt(Id::Mlockall, "mlockall", Takes::Nothing, "keep all memory of the switch from being swapped out"),
    opt(Id::Unixctl, "unixctl", Takes::Argument("SOCKET"), "the control socket; \"none\" for none"),
    opt(Id::Detach, "detach", Takes::Nothing, "run in the background; the command returns when the first configuration is in force"),
    opt(Id::NoSelfConfinement, "no-self-confinement", Takes::Nothing, "let the database name sockets outside the run directory"),
    opt(Id::NoChdir, "no-chdir", Takes::Nothing, "with --detach, stay in the current directory"),
    opt(Id::Pidfile, "pidfile", Takes::Maybe("FILE"), "write the process id to FILE and keep it locked"),
    opt(Id::OverwritePidfile, "overwrite-pidfile", Takes::Nothing, "with --pidfile, start even if FILE belongs to a running switch"),
    opt(Id::Monitor, "monitor", Takes::Nothing, "restart the switch when it crashes"),
    opt(Id::User, "user", Takes::Argument("USER[:GROUP]"), "run as USER, with only the capabilities that the switch needs"),
    letter(Id::Verbose, 'v', "verbose", Takes::Maybe("SPEC"), "log levels by module and destination, such as console:off or bridge:file:dbg; without SPEC, everything"),
    opt(Id::LogFile, "log-file", Takes::Maybe("FILE"), "log to FILE, too"),
    opt(Id::SyslogMethod, "syslog-method", Takes::Argument("METHOD"), "how to reach syslog: libc, unix:FILE, udp:HOST:PORT, or null for not at all"),
    opt(Id::SyslogTarget, "syslog-target", Takes::Argument("HOST:PORT"), "send syslog messages over UDP, too"),
    letter(Id::PrivateKey, 'p', "private-key", Takes::Argument("FILE"), "the private key of the switch, for ssl:"),
    letter(Id::Certificate, 'c', "certificate", Takes::Argument("FILE"), "the certificate for the private key"),
    letter(Id::CaCert, 'C', "ca-cert", Takes::Argument("FILE"), "the certificate of the authority that signed the peers' certificates"),
    opt(Id::SslProtocols, "ssl-protocols", Takes::Argument("LIST"), "the TLS versions to allow, such as TLSv1.2+"),
    opt(Id::SslCiphers, "ssl-ciphers", Takes::Argument("LIST"), "the ciphers of TLSv1.2 to allow, as OpenSSL calls them"),
    opt(Id::SslCiphersuites, "ssl-ciphersuites", Takes::Argument("LIST"), "the ciphers of TLSv1.3 to allow"),
    opt(Id::PeerCaCert, "peer-ca-cert", Takes::Argument("FILE"), "an authority's certificate to show to peers"),
    opt(Id::BootstrapCaCert, "bootstrap-ca-cert", Takes::Argument("FILE"), "as --ca-cert; if FILE is missing, it is written from the first connection"),
    opt(Id::EnableDummy, "enable-dummy", Takes::Maybe("ARG"), "for tests: ports of type dummy, which have no device; \"system\" makes system ports dummies too, \"override\" all ports"),
    opt(Id::DisableSystem, "disable-system", Takes::Nothing, "accepted: the kernel's datapath is never used"),
    opt(Id::DisableSystemRoute, "disable-system-route", Takes::Nothing, "for tests: tunnels use the routes that commands add, not the kernel's"),
    opt(Id::Dpdk, "dpdk", Takes::Maybe("ARG"), "not supported, as in Open vSwitch since 2.6"),
    opt(Id::DummyNuma, "dummy-numa", Takes::Argument("LIST"), "for tests: simulate processors on these NUMA nodes"),
];

/// The options that only `tidegate switch` has.
#[rustfmt::skip]
pub const OWN_OPTIONS: &[Opt<Id>] = &[
    opt(Id::Config, "config", Takes::Argument("FILE"), "read the configuration from a TOML file, without a database"),
    opt(Id::Check, "check", Takes::Nothing, "with --config, print the errors in FILE, and exit"),
];

/// Parses a command line. `program` is the program's name in error messages; `table` contains the options,
/// [`OPTIONS`] and possibly [`OWN_OPTIONS`]; `help` returns the output of `--help`.
///
/// # Errors
/// The text for standard error; the program then exits with status 1.
pub fn parse(
    program: &str,
    args: Vec<String>,
    table: &[Opt<Id>],
    help: &dyn Fn() -> String,
    directories: &Directories,
) -> Result<Parsed, String> {
    let mut reader = Reader::new(directories);
    let mut words = Vec::new();
    for found in Getopt::new(program, table, args) {
        match found? {
            Found::Word(word) => words.push(word),
            Found::Option(Id::Help, _) => return Ok(Parsed::Print(help())),
            Found::Option(Id::Version, _) => return Ok(Parsed::Print(super::version())),
            Found::Option(id, argument) => {
                reader.option(id, argument).map_err(|error| format!("{PROGRAM}: {error}"))?;
            }
        }
    }
    let options = reader.finish(words).map_err(|error| format!("{PROGRAM}: {error}"))?;
    Ok(Parsed::Switch(Box::new(options)))
}

/// Collects the options.
struct Reader<'a> {
    directories: &'a Directories,
    options: SwitchOptions,
    config: Option<PathBuf>,
    check: bool,
}

impl<'a> Reader<'a> {
    fn new(directories: &'a Directories) -> Self {
        let options = SwitchOptions {
            source: Source::Database(directories.database()),
            unixctl: None,
            daemon: DaemonOptions::default(),
            logging: Vec::new(),
            tls: TlsOptions::default(),
            mlockall: false,
            dummy: Dummy::Off,
            disable_system_route: false,
            processors: Processors::Machine,
        };
        Reader { directories, options, config: None, check: false }
    }

    fn option(&mut self, id: Id, argument: Option<String>) -> Result<(), String> {
        let options = &mut self.options;
        let file = || argument.as_ref().map(absolute);
        let text = || argument.clone().unwrap_or_default();
        match id {
            Id::Help | Id::Version => {}
            Id::Mlockall => options.mlockall = true,
            Id::Unixctl => options.unixctl = argument,
            Id::Detach => options.daemon.detach = true,
            Id::NoSelfConfinement => options.daemon.no_self_confinement = true,
            Id::NoChdir => options.daemon.no_chdir = true,
            Id::Pidfile => {
                let name = argument.as_ref().map(std::path::Path::new);
                options.daemon.pidfile = Some(absolute(self.directories.pidfile(name, PROGRAM)));
            }
            Id::OverwritePidfile => options.daemon.overwrite_pidfile = true,
            Id::Monitor => options.daemon.monitor = true,
            Id::User => options.daemon.user = argument,
            Id::Verbose => options.logging.push(LogOption::Verbose(argument)),
            Id::LogFile => options.logging.push(LogOption::LogFile(file())),
            Id::SyslogMethod => options.logging.push(LogOption::SyslogMethod(text())),
            Id::SyslogTarget => options.logging.push(LogOption::SyslogTarget(text())),
            Id::PrivateKey => options.tls.private_key = file(),
            Id::Certificate => options.tls.certificate = file(),
            Id::CaCert | Id::BootstrapCaCert => {
                let is_none = argument.as_deref() == Some(NO_AUTHORITY);
                options.tls.ca_cert = if is_none { Some(NO_AUTHORITY.into()) } else { file() };
                options.tls.bootstrap_ca_cert = id == Id::BootstrapCaCert;
            }
            Id::PeerCaCert => options.tls.peer_ca_cert = file(),
            Id::SslProtocols => options.tls.protocols = argument,
            Id::SslCiphers => options.tls.ciphers = argument,
            Id::SslCiphersuites => options.tls.ciphersuites = argument,
            // There is no kernel datapath.
            Id::DisableSystem => {}
            Id::DisableSystemRoute => options.disable_system_route = true,
            Id::Config => self.config = file(),
            Id::Check => self.check = true,
            Id::Dpdk => return Err("Using --dpdk to configure DPDK is not supported.".into()),
            Id::EnableDummy => options.dummy = Dummy::from_argument(argument.as_deref()),
            Id::DummyNuma => options.processors = Processors::made_up(&text()),
        }
        Ok(())
    }

    fn finish(self, words: Vec<String>) -> Result<SwitchOptions, String> {
        let Reader { mut options, config, check, .. } = self;
        match (config, words.as_slice()) {
            (_, [_, _, ..]) => {
                let text = "at most one non-option argument accepted; use --help for usage";
                return Err(text.into());
            }
            (Some(_), [database]) => {
                return Err(format!(
                    "--config and the database {database} exclude each other; use one of them"
                ));
            }
            (None, _) if check => return Err("--check needs --config FILE".into()),
            (Some(path), []) => options.source = Source::File { path, check },
            (None, [database]) => options.source = Source::Database(database.clone()),
            (None, []) => {}
        }
        Ok(options)
    }
}

/// Returns a path that stays valid when the daemon changes its directory.
fn absolute<P: AsRef<std::path::Path>>(path: P) -> PathBuf {
    std::path::absolute(path.as_ref()).unwrap_or_else(|_| path.as_ref().to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories() -> Directories {
        Directories { run: "/r".into(), log: "/l".into(), ..Directories::from_environment() }
    }

    /// Parses like `ovs-vswitchd`, or like `tidegate switch` if the line contains one of its own options.
    fn read(line: &str) -> Result<Parsed, String> {
        let args = line.split_whitespace().map(String::from).collect();
        let own = line.contains("--con") || line.contains("--check");
        let table = [OPTIONS, if own { OWN_OPTIONS } else { &[] }].concat();
        parse("ovs-vswitchd", args, &table, &|| "usage".to_owned(), &directories())
    }

    fn options(line: &str) -> SwitchOptions {
        match read(line) {
            Ok(Parsed::Switch(options)) => *options,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// The command lines of Debian's ovs-ctl and of Open vSwitch's own tests.
    #[test]
    fn the_usual_command_lines() {
        let found = options(
            "unix:/x/db.sock -vconsole:emer -vsyslog:err -vfile:info --mlockall \
             --no-chdir --log-file=/l/x.log --pidfile=/r/x.pid --detach --monitor",
        );
        assert_eq!(found.source, Source::Database("unix:/x/db.sock".into()));
        let verbose = |spec: &str| LogOption::Verbose(Some(spec.into()));
        let file = LogOption::LogFile(Some("/l/x.log".into()));
        let logging =
            vec![verbose("console:emer"), verbose("syslog:err"), verbose("file:info"), file];
        assert_eq!(found.logging, logging);
        assert!(found.mlockall);
        let daemon = DaemonOptions {
            detach: true,
            monitor: true,
            no_chdir: true,
            pidfile: Some("/r/x.pid".into()),
            ..DaemonOptions::default()
        };
        assert_eq!(found.daemon, daemon);

        let found = options(
            "--disable-system --detach --no-chdir --pidfile --log-file -vvconn \
             -v --verbose --disable-system-route --no-self-confinement --overwrite-pidfile",
        );
        assert_eq!(found.source, Source::Database("unix:/r/db.sock".into()));
        assert_eq!(found.daemon.pidfile, Some("/r/ovs-vswitchd.pid".into()));
        let logging = [LogOption::LogFile(None), verbose("vconn"), LogOption::Verbose(None)];
        assert_eq!(found.logging[..3], logging);
    }

    #[test]
    fn the_rest() {
        let found = options(
            "-p k -c=c --bootstrap-ca-cert ca --peer /p --ssl-prot TLSv1.2 \
             --ssl-ciphers=HIGH --ssl-ciphersuites TLS_X --unixctl x.ctl --user openvswitch:hugetlbfs --syslog-m null \
             --syslog-t 1.2.3.4:514 --pidfile=x.pid",
        );
        let here = std::env::current_dir().unwrap();
        assert_eq!(found.tls.private_key, Some(here.join("k")));
        assert_eq!(found.tls.certificate, Some(here.join("=c")));
        assert_eq!(found.tls.ca_cert, Some(here.join("ca")));
        assert!(found.tls.bootstrap_ca_cert);
        assert_eq!(found.tls.peer_ca_cert, Some("/p".into()));
        assert_eq!(found.tls.protocols.as_deref(), Some("TLSv1.2"));
        assert_eq!(found.tls.ciphers.as_deref(), Some("HIGH"));
        assert_eq!(found.tls.ciphersuites.as_deref(), Some("TLS_X"));
        assert_eq!(options("-C none").tls.ca_cert, Some("none".into()));
        assert_eq!(found.unixctl.as_deref(), Some("x.ctl"));
        assert_eq!(found.daemon.user.as_deref(), Some("openvswitch:hugetlbfs"));
        assert_eq!(found.daemon.pidfile, Some("/r/x.pid".into()));
        assert!(!options("-C ca").tls.bootstrap_ca_cert);
        let made_up = options("--dummy-numa=0,1").processors;
        assert_eq!(made_up, Processors::MadeUp(vec![0, 1]));
        let file = Source::File { path: here.join("t.toml"), check: true };
        assert_eq!(options("--config t.toml --check").source, file);
    }

    #[test]
    fn errors_say_what_was_wrong() {
        for (line, expect) in [
            ("--nosuch", "unrecognized option '--nosuch'"),
            ("--p", "option '--p' is ambiguous; possibilities: '--pidfile' '--private-key'"),
            ("a b", "at most one non-option argument accepted; use --help for usage"),
            ("--dpdk", "Using --dpdk to configure DPDK is not supported."),
            ("--unixctl", "option '--unixctl' requires an argument"),
            ("--check", "--check needs --config FILE"),
            ("--config x unix:y", "--config and the database unix:y exclude each other"),
            ("--con=x --nosuch", "unrecognized option '--nosuch'"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.starts_with(&format!("ovs-vswitchd: {expect}")), "{error}");
        }
    }

    #[test]
    fn what_ovs_vswitchd_does_not_have_it_does_not_take() {
        let parse = |word: &str| {
            parse("x", vec![word.into()], OPTIONS, &|| "usage".to_owned(), &directories())
        };
        assert_eq!(parse("--config=t").unwrap_err(), "x: unrecognized option '--config'");
    }

    /// ovs-ctl takes the last word of the line with "Open vSwitch" as the version.
    #[test]
    fn versions_and_help_are_printed() {
        let Ok(Parsed::Print(version)) = read("-V --nosuch") else { panic!() };
        assert!(version.starts_with("ovs-vswitchd (Open vSwitch) 3.1.0\n"), "{version}");
        let words = ["ovs-vswitchd", "x", "-h"].map(std::ffi::OsString::from);
        let Ok(Parsed::Print(help)) = crate::command_line::read(words, &directories()) else {
            panic!()
        };
        for option in OPTIONS {
            assert!(help.contains(&format!("--{}", option.long)), "{}", option.long);
        }
        assert!(help.contains("/r/ovs-vswitchd.pid") && help.contains("/l/ovs-vswitchd.log"));
    }
}
