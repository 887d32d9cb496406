//! The daemon from start to end.

use super::{Settings, Shared, Switch};
use super::{
    commands, devices, flow_file, link_task, offload, ovsdb_task, route_task, worker_task,
};
use crate::command_line::{Source, SwitchOptions, TlsOptions, ovs_version};
use crate::stream::{Target, TlsPolicy, TlsSettings};
use control::{Desired, FileError};
use daemon::bounded;
use daemon::unixctl::{self, Commands, Reply, Server};
use daemon::{Daemon, DaemonError, Directories, FatalSignals, PROGRAM, utc_offset_s};
use port::PortError;
use port_linux::{LinkMonitor, RouteMonitor};
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::LocalSet;
use vlog::{self, LogError, Vlog};

/// Interval of periodic work.
const TICK: Duration = Duration::from_millis(200);
/// Expired connections removed at once, and the pause between; the number rises up to a maximum if it is too
/// low.
const EXPIRED_AT_ONCE: usize = 512;
const EXPIRE_PAUSE: Duration = Duration::from_millis(1);
const EXPIRED_MAX: usize = 16 * 1024;
/// The default port of a database server (IANA).
const OVSDB_PORT: u16 = 6640;

/// Why the daemon did not start.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("{0}")]
    Log(#[from] LogError),
    #[error("{0}")]
    Daemon(#[from] DaemonError),
    #[error("{0}")]
    Port(#[from] PortError),
    #[error("{what}: {source}")]
    System { what: String, source: std::io::Error },
    #[error("{0}")]
    Target(#[from] crate::stream::TargetError),
    #[error("{}", list(.0))]
    File(Vec<FileError>),
    #[error("{}", .0.join("\n"))]
    Flows(Vec<String>),
}

fn list(errors: &[FileError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// A request to exit.
#[derive(Clone, Copy)]
pub(crate) struct Exit {
    cleanup: bool,
}

/// Runs the daemon, or only checks its configuration file. Returns the exit status.
pub fn run(options: &SwitchOptions, directories: &Directories) -> ExitCode {
    if let Source::File { path, check: true } = &options.source {
        return check(path);
    }
    let vlog = vlog::install(PROGRAM, directories.log_file(PROGRAM), utc_offset_s);
    match try_run(options, directories, vlog) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            vlog.fatal("daemon_unix", &error.to_string());
            ExitCode::FAILURE
        }
    }
}

/// Prints the errors in a configuration file.
fn check(file: &Path) -> ExitCode {
    match load(file) {
        Ok(desired) => {
            let ports: usize = desired.bridges.values().map(|bridge| bridge.ports.len()).sum();
            println!("{}: good: {} bridges, {ports} ports", file.display(), desired.bridges.len());
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn try_run(
    options: &SwitchOptions,
    directories: &Directories,
    vlog: &'static Vlog,
) -> Result<(), StartError> {
    vlog.apply(&options.logging)?;
    daemon::abort_on_panic();
    daemon::memory::keep();
    // An invalid file is reported before the parent process exits.
    let desired = match &options.source {
        Source::Database(_) => None,
        Source::File { path, .. } => Some(load(path)?),
    };
    let mut daemon = Daemon::start(&options.daemon)?;
    if options.mlockall {
        daemon::lock_memory();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|source| StartError::System { what: "start the runtime".to_owned(), source })?;
    let tasks = LocalSet::new();
    let ended = tasks.block_on(&runtime, serve(options, directories, vlog, desired, &mut daemon));
    drop(tasks);
    ended
}

fn load(file: &Path) -> Result<Desired, StartError> {
    let name = file.display().to_string();
    let text = bounded::read_text(file)
        .map_err(|source| StartError::System { what: name.clone(), source })?;
    let mut desired = Desired::from_toml(&text, &name).map_err(StartError::File)?;
    // Paths of flow and packet files are relative to the configuration file.
    let folder = file.parent().unwrap_or(Path::new(""));
    for bridge in desired.bridges.values_mut() {
        for flows in &mut bridge.settings.flow_files {
            *flows = folder.join(&*flows);
        }
        let interfaces = bridge.ports.values_mut().flat_map(|port| &mut port.interfaces);
        for interface in interfaces.filter(|i| i.kind == control::InterfaceKind::Pcap) {
            for option in ["rx_pcap", "tx_pcap"] {
                if let Some(path) = interface.options.get_mut(option) {
                    *path = folder.join(&*path).display().to_string();
                }
            }
        }
    }
    let bridges = desired.bridges.values();
    let wrong_options = bridges.clone().flat_map(devices::check_options);
    let wrong: Vec<String> = bridges.flat_map(flow_file::check).chain(wrong_options).collect();
    if wrong.is_empty() { Ok(desired) } else { Err(StartError::Flows(wrong)) }
}

/// Runs all tasks of the control thread.
async fn serve(
    options: &SwitchOptions,
    directories: &Directories,
    vlog: &'static Vlog,
    desired: Option<Desired>,
    daemon: &mut Daemon,
) -> Result<(), StartError> {
    let mut signals = FatalSignals::listen()
        .map_err(|source| StartError::System { what: "listen to signals".to_owned(), source })?;
    let wanted = desired.as_ref().and_then(|desired| desired.options.run_dir.clone());
    let run_dir = wanted.unwrap_or_else(|| directories.run.clone());
    let is_confined = !options.daemon.no_self_confinement;
    let dummy = options.dummy;
    let processors = options.processors.clone();
    processors.announce();
    let tls = tls_settings(&options.tls);
    let settings = Settings { run_dir, is_confined, tls, dummy, processors };
    let shared = Switch::start(settings)?;
    let exit: Rc<RefCell<Option<Exit>>> = Rc::default();
    let (mut commands, ended) = switch_commands(vlog, &exit);
    if dummy.is_enabled() {
        commands::add_dummy(&mut commands);
    }
    let socket = control_socket(options, directories, desired.as_ref());
    let mut server =
        match &socket {
            Some(path) => Some(Server::bind(path).map_err(|source| StartError::System {
                what: path.display().to_string(),
                source,
            })?),
            None => None,
        };
    tokio::task::spawn_local(worker_task::serve_workers(Rc::clone(&shared)));
    tokio::task::spawn_local(tick(Rc::clone(&shared)));
    tokio::task::spawn_local(expire(Rc::clone(&shared)));
    tokio::task::spawn_local(keep_up(Rc::clone(&shared)));
    tokio::task::spawn_local(offload::run(Rc::clone(&shared)));
    tokio::task::spawn_local(watch_links(Rc::clone(&shared), LinkMonitor::open()?));
    if !options.disable_system_route {
        tokio::task::spawn_local(watch_routes(Rc::clone(&shared), RouteMonitor::open()?));
    }
    start_source(options, desired, &shared)?;
    let ready = Rc::clone(&shared.borrow().ready);
    let ends_by = loop {
        tokio::select! {
            signal = signals.next() => break Some(signal),
            () = ended.notified() => break None,
            () = ready.notified() => daemon.ready()?,
            call = next_call(&mut server) => {
                let mut switch = shared.borrow_mut();
                switch.catch_up();
                commands.answer(&mut switch, call);
            }
        }
    };
    let cleanup = exit.borrow().is_some_and(|exit| exit.cleanup);
    let ending = shared.borrow_mut().shut_down(cleanup);
    for task in ending {
        // The task was aborted; its result is not needed.
        let _ = task.await;
    }
    if let Some(server) = server {
        server.close().await;
    }
    match ends_by {
        Some(signal) => daemon::die_of(signal),
        None => Ok(()),
    }
}

/// Returns the TLS settings of the command line. As in Open vSwitch, invalid ones are logged.
fn tls_settings(options: &TlsOptions) -> TlsSettings {
    let (policy, wrong) = TlsPolicy::from_options(
        options.protocols.as_deref(),
        options.ciphers.as_deref(),
        options.ciphersuites.as_deref(),
    );
    for words in wrong {
        log::error!(target: "stream_ssl", "{words}");
    }
    let options = options.clone();
    let settings = TlsSettings {
        private_key: options.private_key,
        certificate: options.certificate,
        ca_cert: options.ca_cert,
        bootstrap_ca_cert: options.bootstrap_ca_cert,
        peer_ca_cert: options.peer_ca_cert,
        policy,
    };
    settings.warn();
    settings
}

/// Starts to take the configuration from its source.
fn start_source(
    options: &SwitchOptions,
    desired: Option<Desired>,
    shared: &Shared,
) -> Result<(), StartError> {
    match (&options.source, desired) {
        (Source::Database(target), _) => {
            let target = Target::parse(target, OVSDB_PORT)?;
            shared.borrow_mut().use_database();
            tokio::task::spawn_local(ovsdb_task::run(Rc::clone(shared), target));
        }
        (Source::File { .. }, desired) => {
            let mut switch = shared.borrow_mut();
            switch.configure(desired.unwrap_or_default());
            switch.ready.notify_one();
        }
    }
    Ok(())
}

fn control_socket(
    options: &SwitchOptions,
    directories: &Directories,
    desired: Option<&Desired>,
) -> Option<PathBuf> {
    let in_file = desired.and_then(|desired| desired.options.unixctl.clone());
    match (in_file, &options.unixctl) {
        (Some(path), None) => Some(path),
        (_, option) => unixctl::path(option.as_deref(), directories, PROGRAM),
    }
}

/// Returns all commands, and what is notified by `exit`.
pub(crate) fn switch_commands(
    vlog: &'static Vlog,
    exit: &Rc<RefCell<Option<Exit>>>,
) -> (Commands<Switch>, Rc<tokio::sync::Notify>) {
    let mut commands = Commands::new(&ovs_version());
    let ended = Rc::new(tokio::sync::Notify::new());
    commands::add_all(&mut commands);
    unixctl::add_vlog_commands(&mut commands, vlog);
    let (asked, notify) = (Rc::clone(exit), Rc::clone(&ended));
    unixctl::add_exit(&mut commands, move |_, cleanup| {
        *asked.borrow_mut() = Some(Exit { cleanup });
        notify.notify_one();
        Reply::done()
    });
    (commands, ended)
}

async fn next_call(server: &mut Option<Server>) -> unixctl::Call {
    match server {
        Some(server) => server.next_call().await,
        None => std::future::pending().await,
    }
}

async fn tick(shared: Shared) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        shared.borrow_mut().tick();
    }
}

/// Removes expired connections of workers that sleep or are gone, a few at a time; polling workers remove
/// their own. If a worker polls on the same processor, packets wait meanwhile in rings that are full after a
/// millisecond.
async fn expire(shared: Shared) {
    let mut at_most = EXPIRED_AT_ONCE;
    loop {
        let is_behind = shared.borrow().expire(at_most);
        if !is_behind {
            at_most = EXPIRED_AT_ONCE;
            tokio::time::sleep(TICK).await;
        } else {
            // A task that falls behind must remove more at once.
            at_most = (at_most + EXPIRED_AT_ONCE / 32).min(EXPIRED_MAX);
            tokio::time::sleep(EXPIRE_PAUSE).await;
        }
    }
}

/// Continues work on many flows part by part, so that other tasks run in between.
async fn keep_up(shared: Shared) {
    let wake = Rc::clone(&shared.borrow().upkeep_wake);
    loop {
        wake.notified().await;
        shared.borrow_mut().keep_up();
        tokio::task::yield_now().await;
    }
}

async fn watch_links(shared: Shared, monitor: LinkMonitor) {
    if let Err(error) = link_task::run(shared, monitor).await {
        log::error!(target: "netdev_linux", "{error}");
    }
}

async fn watch_routes(shared: Shared, monitor: RouteMonitor) {
    if let Err(error) = route_task::run(shared, monitor).await {
        log::error!(target: "route_table", "{error}");
    }
}
