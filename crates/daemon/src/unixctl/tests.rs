use super::clients::{CLIENTS, Clients};
use super::connection::{CallQueue, End, REQUEST_BYTES, serve};
use super::*;
use crate::listen_unix;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::{Semaphore, mpsc};

/// Number of reply parts that were generated.
static PARTS_MADE: AtomicU64 = AtomicU64::new(0);

/// A program whose state is the commands it received and a pending answer.
#[derive(Default)]
struct Program {
    told: Vec<String>,
    waiting: Vec<Answer>,
    exiting: Option<bool>,
}

fn commands() -> Commands<Program> {
    let mut commands = Commands::new("ovs-vswitchd (Open vSwitch) 3.1.0\n");
    commands.add("fdb/show", "bridge", 1, 1, |program: &mut Program, args| {
        program.told.extend_from_slice(args);
        Reply::Error("no such bridge".into())
    });
    commands.add_document("fdb/show", |_, args| Ok(serde_json::json!([args[0]])));
    commands.add("revalidator/wait", "", 0, 0, |program: &mut Program, _| {
        let (reply, answer) = Reply::later();
        program.waiting.push(answer);
        reply
    });
    commands.add("parts", "", 0, 0, |_, _| {
        let mut numbers = 0..100_000;
        Reply::parts(std::iter::from_fn(move || {
            let number = numbers.next()?;
            PARTS_MADE.store(number + 1, Ordering::Relaxed);
            Some(format!("{number} \"{}\"\n", "x".repeat(10_000)))
        }))
    });
    commands.add("big", "[size]", 0, 1, |_, args| {
        let size = args.first().and_then(|size| size.parse().ok()).unwrap_or(0);
        Ok("x".repeat(size))
    });
    add_exit(&mut commands, |program: &mut Program, cleanup| {
        program.exiting = Some(cleanup);
        Reply::done()
    });
    commands
}

fn run<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(Duration::from_secs(20), future).await };
    runtime.block_on(limited).expect("the test hangs")
}

/// Sends `input` in pieces of `piece` bytes and closes that direction. Returns what the server sent.
async fn exchange(input: &[u8], piece: usize) -> (String, End) {
    let (mut client, server) = UnixStream::pair().unwrap();
    let (sender, mut calls) = mpsc::channel(4);
    let queue = CallQueue { calls: sender, busy: Arc::new(Semaphore::new(4)) };
    let serving = tokio::spawn(async move {
        let place = Clients::default().enter().await;
        serve(server, queue, &place).await
    });
    let talking = async {
        for part in input.chunks(piece) {
            if client.write_all(part).await.is_err() {
                break;
            }
            tokio::task::yield_now().await;
        }
        let _ = client.shutdown().await;
        let mut reply = String::new();
        // Unread input resets the connection after the server has written its reply.
        let _ = client.read_to_string(&mut reply).await;
        reply
    };
    let answering = async {
        let (commands, mut program) = (commands(), Program::default());
        while let Some(call) = calls.recv().await {
            commands.answer(&mut program, call);
        }
    };
    let (reply, ()) = tokio::join!(talking, answering);
    (reply, serving.await.unwrap())
}

/// Exchanges recorded with `ovs-vswitchd` 3.1.
#[test]
fn replies_are_those_of_open_vswitch() {
    let version = r#""result":"ovs-vswitchd (Open vSwitch) 3.1.0\n","error":null}"#;
    let cases = [
        (r#"{"id":0,"method":"version","params":[]}"#, format!(r#"{{"id":0,{version}"#)),
        (
            r#"{"id":1,"method":"nosuch","params":[]}"#,
            r#"{"id":1,"error":"\"nosuch\" is not a valid command (use \"list-commands\" to see a list of valid commands)\n"}"#.into(),
        ),
        (
            r#"{"id":2,"method":"fdb/show","params":[]}"#,
            r#"{"id":2,"error":"\"fdb/show\" command requires at least 1 arguments\n"}"#.into(),
        ),
        (
            r#"{"id":3,"method":"fdb/show","params":["a","b","c"]}"#,
            r#"{"id":3,"error":"\"fdb/show\" command takes at most 1 arguments\n"}"#.into(),
        ),
        (
            r#"{"id":4,"method":"fdb/show","params":["nobr"]}"#,
            r#"{"id":4,"error":"no such bridge\n"}"#.into(),
        ),
        (
            r#"{"id":5,"method":"fdb/show","params":[5]}"#,
            r#"{"id":5,"error":"\"fdb/show\" command has non-string argument\n"}"#.into(),
        ),
        (r#"{"id":6,"method":"version"}"#, String::new()),
        (r#"{"id":"x","method":"version","params":[]}"#, format!(r#"{{"id":"x",{version}"#)),
        (r#"{"id":null,"method":"version","params":[]}"#, String::new()),
        (
            r#"{"id":7,"method":"version","params":[]}{"id":8,"method":"big","params":[]}"#,
            format!(r#"{{"id":7,{version}{{"id":8,"result":"","error":null}}"#),
        ),
        (r#"{"id":9,"method":,}"#, String::new()),
        (r#"{"hello":1}"#, String::new()),
        ("[1,2]", String::new()),
        (r#"{"id":1,"result":"x","error":null}"#, String::new()),
        (r#"{"id":1,"method":"version","params":["#, String::new()),
        ("GET / HTTP/1.0\r\n\r\n", String::new()),
        ("", String::new()),
    ];
    run(async {
        for (input, expect) in cases {
            for piece in [1, 7, 10_000] {
                assert_eq!(exchange(input.as_bytes(), piece).await.0, expect, "{input}");
            }
        }
    });
}

/// The form that a client asks for holds for its later commands (ovs: `lib/unixctl.c`).
#[test]
fn answers_are_documents_where_a_client_asks_for_them() {
    let set = |args: &str| format!(r#"{{"id":0,"method":"set-options","params":[{args}]}}"#);
    let fdb = r#"{"id":1,"method":"fdb/show","params":["br0"]}"#;
    let version = r#"{"id":2,"method":"version","params":[]}"#;
    let done = r#"{"id":0,"result":"","error":null}"#;
    let wrapped_done = r#"{"id":0,"result":{"reply-format":"plain","reply":""},"error":null}"#;
    let text = r#"{"id":1,"error":"no such bridge\n"}"#;
    let document = r#"{"id":1,"result":["br0"],"error":null}"#;
    let wrapped = concat!(
        r#"{"id":2,"result":{"reply-format":"plain","#,
        r#""reply":"ovs-vswitchd (Open vSwitch) 3.1.0"},"error":null}"#
    );
    let refused = |what: &str| format!(r#"{{"id":0,"error":"{what}\n"}}"#);
    let check = |input: String, expect: String| {
        assert_eq!(run(exchange(input.as_bytes(), 9)).0, expect, "{input}");
    };
    let json = set(r#""--format","json""#);
    check(format!("{fdb}{json}{fdb}"), format!("{text}{wrapped_done}{document}"));
    check(format!("{json}{version}"), format!("{wrapped_done}{wrapped}"));
    check(set(r#""--format=json""#), wrapped_done.to_owned());
    check(
        format!("{json}{}{fdb}", set(r#""--format=text""#)),
        format!("{wrapped_done}{done}{text}"),
    );
    check(set(r#""--format","xml""#), refused("option format has invalid value xml"));
    check(set(r#""--format""#), refused("option '--format' requires an argument"));
    check(set(r#""--pretty""#), refused("unrecognized option '--pretty'"));
    check(set(""), refused(r#"\"set-options\" command requires at least 1 arguments"#));
}

#[test]
fn requests_and_replies_may_be_large_but_not_endless() {
    run(async {
        let (reply, _) = exchange(br#"{"id":1,"method":"big","params":["5000000"]}"#, 100).await;
        assert_eq!(reply.len(), 5_000_000 + r#"{"id":1,"result":"\n","error":null}"#.len());

        let mut endless = Vec::from(r#"{"id":1,"method":"big","params":[""#);
        endless.resize(REQUEST_BYTES + 100_000, b'x');
        let (reply, end) = exchange(&endless, 65_536).await;
        assert!(reply.is_empty());
        assert!(matches!(end, End::Malformed(ovsdb::Error::MessageTooLong { .. })), "{end}");

        let (_, end) = exchange(&[b'['; 5000], 100).await;
        assert!(matches!(end, End::Malformed(ovsdb::Error::MessageTooDeep { .. })), "{end}");
    });
}

#[test]
fn answers_may_come_later_and_others_do_not_wait() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ctl");
        let mut server = Server::bind(&path).unwrap();
        let (commands, mut program) = (commands(), Program::default());
        let ask = |text: &'static str| {
            let path = path.clone();
            async move {
                let mut client = UnixStream::connect(path).await.unwrap();
                client.write_all(text.as_bytes()).await.unwrap();
                client.shutdown().await.unwrap();
                let mut reply = String::new();
                client.read_to_string(&mut reply).await.unwrap();
                reply
            }
        };
        let waiting = r#"{"id":1,"method":"revalidator/wait","params":[]}"#;
        let slow = tokio::spawn(ask(waiting));
        let abandoned = tokio::spawn(ask(waiting));
        while program.waiting.len() < 2 {
            commands.answer(&mut program, server.next_call().await);
        }
        let quick = tokio::spawn(ask(r#"{"id":2,"method":"version","params":[]}"#));
        commands.answer(&mut program, server.next_call().await);
        assert!(quick.await.unwrap().contains("3.1.0"));
        assert!(!slow.is_finished() && !abandoned.is_finished());

        program.waiting.remove(0).give(Ok("done".into()));
        program.waiting.clear();
        let mut replies = [slow.await.unwrap(), abandoned.await.unwrap()];
        replies.sort();
        assert_eq!(replies[0], r#"{"id":1,"error":"the command was abandoned\n"}"#);
        assert_eq!(replies[1], r#"{"id":1,"result":"done\n","error":null}"#);

        // The reply to `exit` is sent although nothing runs after it.
        let exit = tokio::spawn(ask(r#"{"id":2,"method":"exit","params":["--cleanup"]}"#));
        commands.answer(&mut program, server.next_call().await);
        assert_eq!(program.exiting, Some(true));
        server.close().await;
        assert!(!path.exists());
        assert_eq!(exit.await.unwrap(), r#"{"id":2,"result":"","error":null}"#);
    });
}

#[test]
fn clients_that_vanish_or_hold_still_harm_nobody() {
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ctl");
        let mut server = Server::bind(&path).unwrap();
        let (commands, mut program) = (commands(), Program::default());
        let mut idle = Vec::new();
        for _ in 0..50 {
            let mut client = UnixStream::connect(&path).await.unwrap();
            client.write_all(b"{\"id\":1,").await.unwrap();
            idle.push(client);
            // This client sends many requests and leaves before the answers.
            let mut client = UnixStream::connect(&path).await.unwrap();
            client.write_all(br#"{"id":1,"method":"big","params":["300000"]}"#).await.unwrap();
        }
        let mut client = UnixStream::connect(&path).await.unwrap();
        client.write_all(br#"{"id":1,"method":"big","params":["1"]}"#).await.unwrap();
        let mut reply = [0; 100];
        let length = loop {
            tokio::select! {
                call = server.next_call() => commands.answer(&mut program, call),
                length = client.read(&mut reply) => break length.unwrap(),
            }
        };
        assert_eq!(&reply[..length], br#"{"id":1,"result":"x\n","error":null}"#);
    });
}

#[test]
fn sockets_are_for_owner_and_group_and_long_paths_work() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let deep = folder.path().join("d".repeat(120));
    std::fs::create_dir(&deep).unwrap();
    let path = deep.join("x.ctl");
    for _ in 0..2 {
        listen_unix(&path, 0o770).unwrap();
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o007, 0, "{mode:o}");
        assert_eq!(mode & 0o700, 0o700, "{mode:o}");
    }
    assert!(listen_unix(&folder.path().join("no/such"), 0o770).is_err());
}

/// Commands sent and answers printed by the real `ovs-appctl`.
#[test]
fn the_real_ovs_appctl_understands() {
    if std::process::Command::new("ovs-appctl").arg("--version").output().is_err() {
        println!("SKIPPED: the real ovs-appctl: not installed (openvswitch-common)");
        return;
    }
    run(async {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.ctl");
        let mut server = Server::bind(&path).unwrap();
        let (commands, mut program) = (commands(), Program::default());
        let expect_list = concat!(
            "The available commands are:\n",
            "  big                     [size]\n",
            "  exit                    [--cleanup]\n",
            "  fdb/show                bridge\n",
            "  list-commands           \n",
            "  parts                   \n",
            "  revalidator/wait        \n",
            "  set-options             [--format text|json]\n",
            "  version                 \n",
        );
        let expect_error =
            format!("no such bridge\novs-appctl: {}: server returned an error\n", path.display());
        let cases: [(&[&str], &str, &str, i32); 3] = [
            (&["list-commands"], expect_list, "", 0),
            (&["version"], "ovs-vswitchd (Open vSwitch) 3.1.0\n", "", 0),
            (&["fdb/show", "br \"0\"\té"], "", &expect_error, 2),
        ];
        for (args, stdout, stderr, status) in cases {
            let mut client = tokio::task::spawn_blocking({
                let (path, args) =
                    (path.clone(), args.iter().map(|a| (*a).to_owned()).collect::<Vec<_>>());
                move || {
                    std::process::Command::new("ovs-appctl").arg("-t").arg(path).args(args).output()
                }
            });
            let output = loop {
                tokio::select! {
                    call = server.next_call() => commands.answer(&mut program, call),
                    output = &mut client => break output.unwrap().unwrap(),
                }
            };
            assert_eq!(String::from_utf8_lossy(&output.stdout), stdout);
            assert_eq!(String::from_utf8_lossy(&output.stderr), stderr);
            assert_eq!(output.status.code(), Some(status));
        }
        assert_eq!(program.told, ["br \"0\"\té"]);
    });
}

/// Runs a server and the client `talk`.
fn served<F: Future<Output = ()>>(talk: impl FnOnce(std::path::PathBuf) -> F) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.ctl");
    run(async {
        let mut server = Server::bind(&path).unwrap();
        let (commands, mut program) = (commands(), Program::default());
        let talking = talk(path.clone());
        tokio::pin!(talking);
        loop {
            tokio::select! {
                call = server.next_call() => commands.answer(&mut program, call),
                () = &mut talking => break,
            }
        }
    });
}

const ASK_VERSION: &[u8] = br#"{"id":0,"method":"version","params":[]}"#;

async fn ask_version(client: &mut UnixStream) -> String {
    client.write_all(ASK_VERSION).await.unwrap();
    let mut buffer = [0; 200];
    let length = client.read(&mut buffer).await.unwrap();
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

#[test]
fn the_client_that_asked_nothing_for_longest_gives_way() {
    served(async |path| {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = UnixStream::connect(&path).await.unwrap();
            assert!(ask_version(&mut client).await.contains("Open vSwitch"));
            clients.push(client);
        }
        // The first client sends another request, so that the second has been idle longest.
        ask_version(&mut clients[0]).await;
        let mut one_more = UnixStream::connect(&path).await.unwrap();
        assert!(ask_version(&mut one_more).await.contains("Open vSwitch"));
        assert_eq!(clients[1].read(&mut [0; 8]).await.unwrap(), 0, "it was closed");
        ask_version(&mut clients[0]).await;
        ask_version(&mut clients[2]).await;
    });
}

#[test]
fn clients_that_wait_for_answers_keep_their_places() {
    served(async |path| {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = UnixStream::connect(&path).await.unwrap();
            let wait = br#"{"id":0,"method":"revalidator/wait","params":[]}"#;
            client.write_all(wait).await.unwrap();
            clients.push(client);
        }
        let mut one_more = UnixStream::connect(&path).await.unwrap();
        one_more.write_all(ASK_VERSION).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(200), one_more.readable()).await;
        assert!(early.is_err(), "there is no place for it");
    });
}

#[test]
fn parts_are_made_as_they_are_read() {
    served(async |path| {
        let mut client = UnixStream::connect(&path).await.unwrap();
        client.write_all(br#"{"id":0,"method":"parts","params":[]}"#).await.unwrap();
        let mut buffer = vec![0; 4096];
        client.read_exact(&mut buffer).await.unwrap();
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Of a gigabyte, only as much was generated as the socket's buffers hold.
        let made = PARTS_MADE.load(Ordering::Relaxed);
        assert!((1..2000).contains(&made), "{made}");
        assert!(buffer.starts_with(br#"{"id":0,"result":"0 \"xxx"#));
    });
}

#[test]
fn clients_that_do_not_read_lose_their_places() {
    served(async |path| {
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let mut client = UnixStream::connect(&path).await.unwrap();
            client.write_all(br#"{"id":0,"method":"parts","params":[]}"#).await.unwrap();
            clients.push(client);
        }
        let began = std::time::Instant::now();
        let mut one_more = UnixStream::connect(&path).await.unwrap();
        assert!(ask_version(&mut one_more).await.contains("Open vSwitch"));
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    });
}
