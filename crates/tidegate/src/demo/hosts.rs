//! The client and the server: network namespaces with one device each, and their programs.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Child;
use std::thread::sleep;
use std::time::Duration;

use testbed::Check;
use testbed::TestbedError;
use testbed::namespaces::FOLDER;
use testbed::stock::{Stock, end_of};

/// The client's address.
pub const CLIENT: &str = "10.0.0.1";
/// The server's address.
pub const SERVER: &str = "10.0.0.2";
/// The answer of both web servers, as in the published nginx configuration.
const HELLO: &str = "hello";
/// The client's listening port, to which the server tries to connect.
const CLIENT_PORT: u16 = 8080;
/// Timeout of the server's attempt to connect to the client, in seconds.
const TRY_S: u32 = 2;

/// Creates both hosts, each connected to the switch's namespace by a veth pair. The switch's end has the
/// host's name.
pub fn build(offloads: bool) -> Result<(), TestbedError> {
    Stock::new("ip link set lo up").run()?;
    for (host, address, mac) in
        [("client", CLIENT, "02:00:00:00:00:01"), ("server", SERVER, "02:00:00:00:00:02")]
    {
        Stock::new(&format!("ip netns add {host}")).run()?;
        Stock::new(&format!("ip link add {host} type veth peer name eth0 netns {host}")).run()?;
        // Neighbour discovery would only add drops that are not the demo's.
        quiet_ipv6(host)?;
        Stock::new(&format!("ip link set {host} up")).run()?;
        let inside = |line: &str| Stock::new(&format!("ip -n {host} {line}")).run();
        inside("link set lo up")?;
        inside(&format!("link set eth0 address {mac} up"))?;
        inside(&format!("addr add {address}/24 dev eth0"))?;
        if !offloads {
            Stock::new("ethtool -K eth0 tx off tso off gso off").on(host).run()?;
        }
    }
    let ports = "echo 1024 65535 >/proc/sys/net/ipv4/ip_local_port_range";
    Stock::new("sh -c").word(ports).on("client").run().map(drop)
}

fn quiet_ipv6(host: &str) -> Result<(), TestbedError> {
    let off = "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do \
               if [ -e $f ]; then echo 1 >$f; fi; done";
    Stock::new("sh -c").word(off).run()?;
    Stock::new("sh -c").word(off).on(host).run().map(drop)
}

/// The web servers, which end with the namespaces.
#[derive(Debug)]
pub struct Servers {
    status: String,
    _processes: Vec<Child>,
}

impl Servers {
    /// Returns the number of connections that the server's nginx has accepted, the demo's own requests for
    /// its status included.
    pub fn accepted(&self) -> Result<u64, TestbedError> {
        let text =
            ask_status(&self.status).map_err(TestbedError::io("ask nginx for its status"))?;
        accepted_in(&text).ok_or_else(|| TestbedError::Unreadable {
            line: format!("nginx status at {}", self.status),
            answer: text.chars().take(200).collect(),
        })
    }
}

/// Parses the third line of the status page: accepted connections, handled connections, requests.
fn accepted_in(page: &str) -> Option<u64> {
    let (_, counts) = page.split_once("server accepts handled requests")?;
    counts.split_whitespace().next()?.parse().ok()
}

fn ask_status(socket: &str) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut page = String::new();
    stream.read_to_string(&mut page)?;
    Ok(page)
}

/// Starts nginx on the server, and one on the client to which the server must not be able to connect.
pub fn start_servers() -> Result<Servers, TestbedError> {
    let status = format!("{FOLDER}/server/status.sock");
    let processes = vec![start_nginx("server", 80)?, start_nginx("client", CLIENT_PORT)?];
    for (host, port) in [("server", 80), ("client", CLIENT_PORT)] {
        wait_until_it_answers(host, port)?;
    }
    Ok(Servers { status, _processes: processes })
}

fn start_nginx(host: &str, port: u16) -> Result<Child, TestbedError> {
    let folder = format!("{FOLDER}/{host}");
    fs::create_dir_all(&folder).map_err(TestbedError::io(format!("create {folder}")))?;
    // One process suffices for one core, and needs no second user, which a user namespace does not have. The
    // status page is served on a Unix socket, so that requests for it do not pass the switch.
    let text = format!(
        "user root; daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
events {{ worker_connections 900; }}
http {{
  access_log off; keepalive_timeout 65;
  client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen {port} backlog=8192 reuseport; location / {{ return 200 \"{HELLO}\"; }} }}
  server {{ listen unix:{folder}/status.sock; location / {{ stub_status; }} }}
}}
"
    );
    let file = format!("{folder}/nginx.conf");
    fs::write(&file, text).map_err(TestbedError::io(format!("write {file}")))?;
    Stock::new(&format!("nginx -p {folder} -e {folder}/error.log -c {file}"))
        .on(host)
        .start(&format!("{folder}/printed"))
}

fn wait_until_it_answers(host: &str, port: u16) -> Result<(), TestbedError> {
    for _ in 0..50 {
        if fetch(host, "127.0.0.1", port, 1)?.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(100));
    }
    Err(TestbedError::Daemon {
        what: format!("nginx on the {host} does not answer"),
        log: end_of(&format!("{FOLDER}/{host}/error.log")),
    })
}

/// Fetches the page on a host. The inner result is the page's text or curl's error.
fn fetch(
    host: &str,
    address: &str,
    port: u16,
    limit_s: u32,
) -> Result<Result<String, String>, TestbedError> {
    let curl = format!("curl -sS --noproxy * --connect-timeout {limit_s} -m {}", limit_s + 2);
    let answer = Stock::new(&format!("{curl} http://{address}:{port}/")).on(host).ask()?;
    if answer.ok() {
        return Ok(Ok(answer.stdout));
    }
    let code = answer.code().map_or_else(|| "by a signal".to_owned(), |code| format!("{code}"));
    Ok(Err(format!("curl ended {code}: {}", answer.stderr.trim())))
}

/// Checks that the client's ping is answered.
pub fn ping_from_client() -> Result<Check, TestbedError> {
    let answer = ping("client", SERVER)?;
    let ok = answer == Some(3);
    let text = format!("ping client -> server: {} of 3 answered", shown(answer));
    Ok(Check::new("ping_client_to_server", ok, text))
}

/// Checks that the server's ping is not answered.
pub fn ping_from_server() -> Result<Check, TestbedError> {
    let answer = ping("server", CLIENT)?;
    let ok = answer == Some(0);
    let text = format!("ping server -> client: {} of 3 answered", shown(answer));
    Ok(Check::new("ping_server_to_client_refused", ok, text))
}

fn shown(answered: Option<u32>) -> String {
    answered.map_or_else(|| "?".to_owned(), |n| n.to_string())
}

/// Returns how many of three echo requests were answered.
fn ping(host: &str, address: &str) -> Result<Option<u32>, TestbedError> {
    let answer = Stock::new(&format!("ping -n -c 3 -i 0.3 -W 1 {address}")).on(host).ask()?;
    Ok(received_in(&answer.stdout))
}

/// `3 packets transmitted, 3 received, 0% packet loss, time 401ms`
fn received_in(text: &str) -> Option<u32> {
    let (before, _) = text.split_once(" received,")?;
    before.rsplit(' ').next()?.parse().ok()
}

/// Checks that the client can fetch the server's page.
pub fn fetch_from_client() -> Result<Check, TestbedError> {
    let page = fetch("client", SERVER, 80, 3)?;
    let ok = page.as_deref() == Ok(HELLO);
    let text = match page {
        Ok(page) => format!("curl client -> server: http://{SERVER}/ says {page:?}"),
        Err(why) => format!("curl client -> server: {why}"),
    };
    Ok(Check::new("http_client_to_server", ok, text))
}

/// Checks that a server listens on the client: otherwise a failed connection would prove nothing.
pub fn client_listens() -> Result<Check, TestbedError> {
    let page = fetch("client", CLIENT, CLIENT_PORT, 1)?;
    let ok = page.as_deref() == Ok(HELLO);
    let text = format!("nginx on the client answers the client itself, on port {CLIENT_PORT}");
    Ok(Check::new("client_listens", ok, text))
}

/// Checks that the server cannot connect to it. 28 is curl's status for a timeout: the switch drops the SYN
/// and sends no RST.
pub fn connect_from_server() -> Result<Check, TestbedError> {
    let page = fetch("server", CLIENT, CLIENT_PORT, TRY_S)?;
    let text = match &page {
        Ok(_) => "curl server -> client: was answered".to_owned(),
        Err(why) => format!("curl server -> client: {why}"),
    };
    let ok = page.is_err_and(|why| why.starts_with("curl ended 28"));
    Ok(Check::new("unsolicited_refused", ok, text))
}

#[cfg(test)]
mod tests {
    use super::{accepted_in, received_in};

    #[test]
    fn reads_what_ping_says() {
        let check = |text: &str, expect| assert_eq!(received_in(text), expect, "{text}");
        check("3 packets transmitted, 3 received, 0% packet loss, time 401ms", Some(3));
        check("3 packets transmitted, 0 received, +3 errors, 100% packet loss", Some(0));
        check("ping: connect: Network is unreachable", None);
        check("", None);
    }

    #[test]
    fn reads_the_status_page() {
        let page = "HTTP/1.1 200 OK\r\n\r\nActive connections: 1 \nserver accepts handled requests\n \
                    41 41 40 \nReading: 0 Writing: 1 Waiting: 0 \n";
        assert_eq!(accepted_in(page), Some(41));
        assert_eq!(accepted_in("HTTP/1.1 404 Not Found\r\n\r\n"), None);
        assert_eq!(accepted_in("server accepts handled requests\n x"), None);
    }
}
