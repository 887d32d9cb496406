//! Which entries stay in the cache, and which packets they match.

use super::*;
use crate::flow_paths::FlowPathRef;
use base::PortNo;

fn headers(text: &str) -> Headers {
    let mut headers = Headers::none();
    assert!(headers.read(&wire::text::parse(text).unwrap(), PortNo(1)).is_some());
    headers
}

fn client(number: u32) -> Headers {
    headers(&format!("10.0.{}.{}:1000>10.0.0.2:80 udp", number >> 8, number & 0xff))
}

fn known(slot: u32) -> NewEntry {
    let path_id = PathId::path(FlowPathRef { slot, generation: 0 });
    NewEntry { path_id, ct_passes: None, nat_rewrite: None }
}

fn find(cache: &mut UnifiedCache, headers: &Headers) -> Option<PathId> {
    let mut found = [NOT_FOUND; BATCH_SIZE];
    cache.look_up(std::slice::from_ref(headers), |_| 0, &mut found, |_| ());
    cache.get(found[0]).map(|it| it.path_id)
}

#[test]
fn what_agrees_under_the_mask_is_found_and_nothing_else() {
    let mut cache = UnifiedCache::new(64, 1);
    let first = headers("10.0.0.1:1000>10.0.0.2:80 udp");
    assert!(cache.insert(&first, &first.tuple_mask(), &known(1)).is_some());
    let other_ttl = headers("10.0.0.1:1000>10.0.0.2:80 udp ttl=9");
    let other_port = headers("10.0.0.1:1001>10.0.0.2:80 udp");
    assert_eq!(find(&mut cache, &first), Some(known(1).path_id));
    assert_eq!(find(&mut cache, &other_ttl), Some(known(1).path_id));
    assert_eq!(find(&mut cache, &other_port), None);
    let wide = headers("[fd00::1]:1>[fd00::2]:2 udp");
    assert!(cache.insert(&wide, &wide.exact_mask(), &known(2)).is_some());
    assert_eq!(find(&mut cache, &wide), Some(known(2).path_id));
    assert_eq!(find(&mut cache, &headers("[fd00::1]:1>[fd00::3]:2 udp")), None);
    assert!(cache.insert(&first, &first.tuple_mask(), &known(3)).is_some());
    assert_eq!(find(&mut cache, &first), Some(known(3).path_id), "the later answer counts");
    cache.set_entries_max(0);
    assert!(!cache.is_on() && cache.insert(&first, &first.tuple_mask(), &known(1)).is_none());
    assert_eq!(find(&mut cache, &first), None);
}

#[test]
fn flows_of_one_packet_do_not_push_out_those_in_use() {
    let mut cache = UnifiedCache::new(256, 1);
    let mask = client(0).tuple_mask();
    for i in 0..64 {
        cache.insert(&client(i), &mask, &known(i));
    }
    let mut lost = 0;
    for passer_by in 0..20_000 {
        cache.insert(&client(1000 + passer_by), &mask, &known(9));
        let regular = passer_by % 64;
        if find(&mut cache, &client(regular)) != Some(known(regular).path_id) {
            lost += 1;
            cache.insert(&client(regular), &mask, &known(regular));
        }
    }
    // Each regular sender comes once per 64 others; without use bits most would be lost.
    assert!(lost < 4_000, "{lost} of 20000");
}

#[test]
fn a_cache_in_demand_grows_to_its_limit_at_a_tick() {
    let mut cache = UnifiedCache::new(1 << 20, 1);
    let mask = client(0).tuple_mask();
    assert_eq!(cache.room.entries.len(), ENTRIES_FIRST);
    for i in 0..ENTRIES_FIRST as u32 {
        cache.insert(&client(i), &mask, &known(i));
    }
    let wanted = cache.tick(false).expect("half of it is used");
    assert_eq!(cache.tick(false), None, "it has asked");
    assert_eq!(find(&mut cache, &client(7)), Some(known(7).path_id), "and knows what it knew");
    let _ = cache.take(wanted.prepare(|| ()));
    assert_eq!((cache.room.entries.len(), cache.occupied), (ENTRIES_FIRST * GROWTH, 0));
    cache.set_entries_max(5);
    assert_eq!(cache.room.entries.len(), 8);
    let _ = cache.take(wanted.prepare(|| ()));
    assert_eq!(cache.room.entries.len(), 8, "other settings came meanwhile");
}

#[test]
fn what_is_forgotten_is_not_found_in_the_same_room() {
    let mut cache = UnifiedCache::new(256, 1);
    let mask = client(0).tuple_mask();
    cache.insert(&client(1), &mask, &known(1));
    cache.forget();
    assert_eq!(find(&mut cache, &client(1)), None);
    cache.insert(&client(2), &mask, &known(2));
    assert_eq!(find(&mut cache, &client(1)), None, "under the same mask, anew");
    assert_eq!(find(&mut cache, &client(2)), Some(known(2).path_id));
}

#[test]
fn when_serials_begin_again_no_two_masks_share_one() {
    let mut cache = UnifiedCache::new(256, 1);
    let (narrow, wide) = (client(1), headers("[fd00::1]:1>[fd00::2]:2 udp"));
    assert!(cache.insert(&narrow, &narrow.tuple_mask(), &known(1)).is_some());
    // The largest value.
    cache.serial = !0;
    for mask in [wide.tuple_mask(), wide.exact_mask(), narrow.exact_mask()] {
        assert!(cache.insert(&wide, &mask, &known(2)).is_some());
        let serials: Vec<_> = cache.masks.iter().map(|mask| mask.serial).collect();
        let distinct: std::collections::BTreeSet<_> = serials.iter().collect();
        assert!(distinct.len() == serials.len() && !serials.contains(&0), "{serials:?}");
    }
    assert_eq!(find(&mut cache, &narrow), None, "what was known before is forgotten");
    assert_eq!(find(&mut cache, &wide), Some(known(2).path_id));
}

#[test]
fn a_mark_finds_its_entry_and_one_that_is_wrong_finds_nothing_else() {
    let mut cache = UnifiedCache::new(256, 1);
    let mask = client(0).tuple_mask();
    let wide = headers("[fd00::1]:1>[fd00::2]:2 udp");
    let tcp = headers("10.0.0.1:1000>10.0.0.2:80 .");
    let all = [client(1), client(2), wide, tcp];
    let masks = [mask, mask, wide.tuple_mask(), tcp.tuple_mask()];
    let inserted = (0u32..).zip(all.iter().zip(&masks));
    let marks: Vec<u32> = inserted
        .map(|(nth, (one, mask))| mark_of(cache.insert(one, mask, &known(nth)).unwrap()).unwrap())
        .collect();
    let unknown = headers("10.9.9.9:1000>10.0.0.2:80 udp");
    let reset = headers("10.0.0.1:1000>10.0.0.2:80 R");
    let mut check = |packets: &[(Headers, u32)], expect: &[Option<u32>]| {
        let headers: Vec<Headers> = packets.iter().map(|it| it.0).collect();
        let mut found = [NOT_FOUND; BATCH_SIZE];
        cache.look_up(&headers, |at| packets[at].1, &mut found, |_| ());
        let found = found[..packets.len()].iter().map(|at| cache.get(*at).map(|it| it.path_id));
        let expect = expect.iter().map(|nth| nth.map(|nth| known(nth).path_id));
        assert_eq!(found.collect::<Vec<_>>(), expect.collect::<Vec<_>>());
    };
    // By its own mark, without one, by another's mark, and by a mark without a place.
    for shift in 0..4 {
        let packets: Vec<_> = (0..4).map(|at| (all[at], marks[(at + shift) % 4])).collect();
        check(&packets, &[Some(0), Some(1), Some(2), Some(3)]);
    }
    for mark in [0, 257, u32::MAX] {
        check(&all.map(|it| (it, mark)), &[Some(0), Some(1), Some(2), Some(3)]);
    }
    check(&[(unknown, marks[0]), (all[0], marks[0]), (unknown, 0)], &[None, Some(0), None]);
    // The mask is removed, and with it the marked entry.
    cache.forget();
    let mut found = [NOT_FOUND; BATCH_SIZE];
    cache.look_up(&all, |at| marks[at], &mut found, |_| ());
    assert!(found.iter().all(|at| *at == NOT_FOUND));
    assert!(cache.insert(&unknown, &mask, &known(9)).is_some());
    cache.look_up(&[all[0], reset], |_| marks[0], &mut found, |_| ());
    assert_eq!(found[..2], [NOT_FOUND; 2]);
    assert_eq!((mark_of(0), mark_of(0xff_0000)), (Some(1), None));
}
