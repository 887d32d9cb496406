//! The hosts of a run: as many workers as a place has pairs of queues, each with its own.

use super::steer::steer;
use super::{HostOptions, hosts};
use crate::dut::{Device, Place};
use crate::endpoints::{Endpoint, Endpoints, Workers};
use crate::error::LoadError;
use crate::link::Link;
use generator::{Host, Profile, Role, Shares};

/// Creates the hosts at all ports of a place, each worker's at its own, and the device between them.
pub fn endpoints_of(
    profile: &Profile,
    options: &HostOptions,
    capacity: usize,
    known: bool,
    place: Place,
) -> Result<(Box<dyn Device>, Endpoints), LoadError> {
    let Place { device, client, server, more, cores, queue_packets } = place;
    let shares = Shares::new(profile, 1 + more.len(), options.vlan);
    let room = capacity.div_ceil(shares.workers());
    let (to, from): (Vec<Link>, Vec<Link>) = more.into_iter().unzip();
    let mut to = steer(client.into_iter().chain(to).collect(), shares, Role::Client).into_iter();
    let mut from =
        steer(server.into_iter().chain(from).collect(), shares, Role::Server).into_iter();
    let mut endpoint = |worker: usize| -> Result<(Option<Endpoint>, Option<Endpoint>), LoadError> {
        let (clients, profile) = (profile.clients, shares.profile(profile, worker));
        let options = HostOptions { seed: options.seed + worker as u64, ..options.clone() };
        let (client, mut server) = hosts(&profile, &options, room, known)?;
        // ARP and ND requests for a server's address may arrive at any worker.
        server.set_peers(clients);
        let at = |host: Host, link: Option<Link>| link.map(|link| Endpoint::new(host, link));
        Ok((at(client, to.next()), at(server, from.next())))
    };
    let (client, server) = endpoint(0)?;
    let mut others = Vec::new();
    for worker in 1..shares.workers() {
        let (client, server) = endpoint(worker)?;
        others.push(Endpoints::new(client, server));
    }
    let workers = Workers::start(others, &cores)?;
    cores.pin_generator(0);
    let mut endpoints = Endpoints::with(client, server, workers);
    endpoints.queue_packets = queue_packets;
    Ok((device, endpoints))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dut::memory_cable;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        hosts: HostOptions,
    }

    #[test]
    fn nobody_begins_before_the_first_and_everything_adds_up() {
        let profile = Profile { connections_at_once: 300, time_wait_ms: 0, ..Profile::default() };
        let options = Line::parse_from(["workers"]).hosts;
        let (_device, mut endpoints) =
            endpoints_of(&profile, &options, 1000, true, memory_cable(3)).unwrap();
        assert_eq!(endpoints.workers(), 3);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_eq!(endpoints.counted().client.opened, 0);
        endpoints.open_at(3000, 0, clock::now());
        let start = clock::now();
        while clock::now() - start < std::time::Duration::from_millis(300) {
            endpoints.iterate_and_rest(clock::now()).unwrap();
        }
        endpoints.stop_opening();
        let time = clock::now() - start;
        let opened = endpoints.counted().client.opened;
        while endpoints.alive() > 0 && clock::now() - start < std::time::Duration::from_secs(20) {
            endpoints.iterate_and_rest(clock::now()).unwrap();
        }
        endpoints.check().unwrap();
        let all = endpoints.counted();
        // At most 3,000 per second, and one more with which each worker begins.
        let most = time.as_millis() as u64 * 3 + 6;
        assert!((3..=most).contains(&opened), "{opened} in {time:?}");
        assert_eq!((all.client.opened, all.client.completed), (opened, opened));
        assert_eq!(all.client.tx_packets, all.server.rx_packets);
        assert_eq!(all.server.tx_packets, all.client.rx_packets);
        assert_eq!(all.client.failed.total(), 0);
    }
}
