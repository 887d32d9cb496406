//! Classes of outer packets of tunnels.
//!
//! Outer packets with the same value in every bit that decides their decapsulation, and in every tunnel
//! field that flows for the inner packet match, are a [class](Class). The key of an inner packet's entry in
//! the unified cache has the class's number in the place of the port. One entry thus stands for the whole
//! flow path, and the masks of the outer and of the inner packet stay apart.
//!
//! A class never becomes stale, since it states only bits of a packet. Whether the flows of the path are
//! still installed is checked when the entry is used.

use arrayvec::ArrayVec;
use base::PortNo;
use flow::{Headers, TunnelKind};
use hashbrown::HashTable;
use tunnel::Envelope;
use wire::geneve;

/// Maximum number of classes. Packets of others walk.
const CLASSES: usize = 4096;
/// Maximum number of shapes.
const SHAPES: usize = 8;
/// Port numbers with this bit are class numbers.
const IS_CLASS: u32 = 1 << 31;
/// The lowest bits of all class numbers are equal, because the kind of a packet is derived from the low bits
/// of its port.
const SERIAL_SHIFT: u32 = 6;
const SERIAL_END: u32 = 1 << (31 - SERIAL_SHIFT);

/// The outer packet's part of a path trace.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub kind: TunnelKind,
    /// The tunnel's port.
    pub port: PortNo,
    pub word: u64,
    pub has_checksum: bool,
    pub options: ArrayVec<u8, { geneve::OPTIONS_LEN_MAX }>,
    /// Bytes in front of the inner frame.
    pub header_len: usize,
}

/// The mask of classes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    kind: TunnelKind,
    /// Bits matched by the flow that decapsulates.
    opened: Headers,
    /// Those bits, and the bits that flows for inner packets match.
    pub mask: Headers,
    /// Bits of [`Envelope::word`].
    pub word: u64,
}

/// A class: outer packets that agree in the bits of a shape.
struct Class {
    /// Masked.
    headers: Headers,
    word: u64,
    has_checksum: bool,
    options: Box<[u8]>,
    shape: u8,
    number: PortNo,
    /// The tunnel's port.
    port: PortNo,
    /// It was hit since the last tick.
    is_used: bool,
}

/// The class of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    /// The class number, used in place of the packet's port.
    pub number: PortNo,
    /// The tunnel's port.
    pub port: PortNo,
    pub envelope: Envelope<'a>,
}

/// The classes of one worker.
pub(crate) struct Outers {
    shapes: ArrayVec<Shape, SHAPES>,
    classes: Vec<Class>,
    index: HashTable<u32>,
    /// The class of the previous packet.
    last: usize,
    serial: u32,
    seed: u64,
}

impl Seen {
    pub fn new(kind: TunnelKind, port: PortNo, envelope: &Envelope<'_>) -> Option<Seen> {
        let Envelope { word, has_checksum, options, len: header_len, .. } = *envelope;
        let options = options.try_into().ok()?;
        Some(Seen { kind, port, word, has_checksum, options, header_len })
    }
}

impl Shape {
    /// `opened` are the outer header bits matched by the decapsulating flow, `tunnel` those matched by flows
    /// for the inner packet, and `key` bits of the tunnel key.
    pub fn new(kind: TunnelKind, opened: Headers, tunnel: &Headers, key: u64) -> Shape {
        let mask = opened.union(tunnel);
        Shape { kind, opened, mask, word: Envelope::word_mask(kind, key) }
    }

    /// The union of both shapes, if the same flow decapsulates: flows for inner packets that match different
    /// bits then share one shape. Otherwise the shape itself.
    fn with(mut self, other: &Shape) -> Shape {
        if (self.kind, self.opened) == (other.kind, other.opened) {
            self.mask = self.mask.union(&other.mask);
            self.word |= other.word;
        }
        self
    }
}

impl Class {
    #[inline]
    fn is_for(&self, shape: &Shape, headers: &Headers, envelope: &Envelope<'_>) -> bool {
        (self.word ^ envelope.word & shape.word) == 0
            && headers.agrees(&self.headers, &shape.mask)
            && self.has_checksum == envelope.has_checksum
            && are_equal(&self.options, envelope.options)
    }
}

/// Compares options. Most tunnels have none, and then `memcmp` is not called: with AVX-512 it reads even no bytes, by
/// a load with an empty mask, which takes 40 ns at the address of an empty `Box`, where no memory is.
#[inline]
fn are_equal(ours: &[u8], theirs: &[u8]) -> bool {
    ours.len() == theirs.len() && (ours.is_empty() || ours == theirs)
}

impl Outers {
    /// No classes. `seed` should be random.
    pub fn new(seed: u64) -> Outers {
        Outers {
            shapes: ArrayVec::new(),
            classes: Vec::new(),
            index: HashTable::new(),
            last: 0,
            serial: 0,
            seed,
        }
    }

    /// The class of a packet, if its checksums are correct. With `trusted`, transport checksums are not
    /// verified.
    #[inline]
    pub fn find<'a>(
        &mut self,
        headers: &Headers,
        frame: &'a [u8],
        trusted: bool,
    ) -> Option<Found<'a>> {
        let class = self.classes.get_mut(self.last)?;
        let shape = &self.shapes[usize::from(class.shape)];
        let read = Envelope::read(shape.kind, frame);
        let Some(envelope) = read.filter(|it| class.is_for(shape, headers, it)) else {
            return self.find_other(headers, frame, trusted);
        };
        class.is_used = true;
        let (number, port) = (class.number, class.port);
        envelope.is_right(frame, trusted).then_some(Found { number, port, envelope })
    }

    #[inline(never)]
    fn find_other<'a>(
        &mut self,
        headers: &Headers,
        frame: &'a [u8],
        trusted: bool,
    ) -> Option<Found<'a>> {
        for (number, shape) in (0u8..).zip(&self.shapes) {
            let Some(envelope) = Envelope::read(shape.kind, frame) else { continue };
            let hash = self.hash(number, &headers.masked(&shape.mask), &envelope);
            let classes = &self.classes;
            let is_it = |&at: &u32| {
                let class = &classes[at as usize];
                class.shape == number && class.is_for(shape, headers, &envelope)
            };
            let Some(&at) = self.index.find(hash, is_it) else { continue };
            self.last = at as usize;
            let class = &mut self.classes[self.last];
            class.is_used = true;
            let (number, port) = (class.number, class.port);
            return envelope.is_right(frame, trusted).then_some(Found { number, port, envelope });
        }
        None
    }

    /// Adds the class of a packet that walked, and returns its number; `None` if there is no room. `before`
    /// is the class of its lookup; it is removed if the class differs now.
    pub fn learn(
        &mut self,
        headers: &Headers,
        shape: &Shape,
        seen: &Seen,
        before: Option<PortNo>,
    ) -> Option<PortNo> {
        let before =
            before.and_then(|number| self.classes.iter().position(|it| it.number == number));
        let shape = match before {
            Some(at) => shape.with(&self.shapes[usize::from(self.classes[at].shape)]),
            None => *shape,
        };
        if let Some(at) = before {
            if self.shapes[usize::from(self.classes[at].shape)] == shape {
                return Some(self.classes[at].number);
            }
            self.remove(at);
        }
        let number = self.shape_number(&shape)?;
        let Seen { word, has_checksum, ref options, port, .. } = *seen;
        let class = Class {
            headers: headers.masked(&shape.mask),
            word: word & shape.word,
            has_checksum,
            options: options.as_slice().into(),
            shape: number,
            number: PortNo(IS_CLASS | self.serial << SERIAL_SHIFT),
            port,
            is_used: true,
        };
        let hash = self.hash_of(&class);
        let classes = &self.classes;
        let is_same = |&at: &u32| {
            let it = &classes[at as usize];
            let parts = |it: &Class| (it.shape, it.headers, it.word, it.has_checksum, it.port);
            parts(it) == parts(&class) && it.options == class.options
        };
        if let Some(&at) = self.index.find(hash, is_same) {
            return Some(self.classes[at as usize].number);
        }
        if self.classes.len() == CLASSES || self.serial + 1 == SERIAL_END {
            return None;
        }
        self.serial += 1;
        let number = class.number;
        self.classes.push(class);
        self.insert(self.classes.len() - 1);
        Some(number)
    }

    /// Called periodically: removes unused classes when room is scarce.
    pub fn tick(&mut self) {
        if self.classes.len() > CLASSES / 2 || self.shapes.is_full() {
            self.classes.retain(|class| class.is_used);
            let is_used = |number: u8| self.classes.iter().any(|it| it.shape == number);
            if self.shapes.is_full() && !(0..SHAPES as u8).all(is_used) {
                // Classes refer to shapes by index, so both are cleared.
                (self.classes, self.shapes) = (Vec::new(), ArrayVec::new());
            }
            self.index.clear();
            self.last = 0;
            (0..self.classes.len()).for_each(|at| self.insert(at));
        }
        self.classes.iter_mut().for_each(|class| class.is_used = false);
    }

    fn remove(&mut self, at: usize) {
        self.classes.swap_remove(at);
        self.index.clear();
        self.last = 0;
        (0..self.classes.len()).for_each(|at| self.insert(at));
    }

    fn insert(&mut self, at: usize) {
        let hash = self.hash_of(&self.classes[at]);
        let Outers { index, classes, seed, .. } = self;
        index.insert_unique(hash, at as u32, |&at| hash_class(*seed, &classes[at as usize]));
    }

    fn shape_number(&mut self, shape: &Shape) -> Option<u8> {
        if let Some(number) = self.shapes.iter().position(|it| it == shape) {
            return Some(number as u8);
        }
        self.shapes.try_push(*shape).ok()?;
        Some(self.shapes.len() as u8 - 1)
    }

    fn hash(&self, shape: u8, masked: &Headers, envelope: &Envelope<'_>) -> u64 {
        let word = envelope.word & self.shapes[usize::from(shape)].word;
        hash(self.seed, shape, masked, word, envelope.options)
    }

    fn hash_of(&self, class: &Class) -> u64 {
        hash_class(self.seed, class)
    }
}

fn hash_class(seed: u64, class: &Class) -> u64 {
    hash(seed, class.shape, &class.headers, class.word, &class.options)
}

fn hash(seed: u64, shape: u8, masked: &Headers, word: u64, options: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        (product >> 64) as u64 ^ product as u64
    };
    let words = masked.words().iter().copied().chain([word, shape.into()]);
    let (quads, _) = options.as_chunks::<4>();
    let options = quads.iter().map(|it| u32::from_ne_bytes(*it).into());
    words.chain(options).fold(seed | 1, mix)
}

#[cfg(test)]
mod tests;
