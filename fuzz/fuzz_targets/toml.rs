//! Any text as a configuration file: a switch that can be told from others, or errors with places.

#![no_main]

use control::{Desired, difference};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use tidegate_fuzz::configuration::mutate;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutate(data, (size, max_size), seed, fuzzer_mutate)
});

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Desired::from_toml(text, "fuzz.toml") {
        Ok(desired) => {
            assert!(difference(&desired, &desired).is_empty());
            let from_nothing = difference(&Desired::default(), &desired);
            let to_nothing = difference(&desired, &Desired::default());
            assert_eq!(from_nothing.is_empty(), to_nothing.is_empty());
        }
        Err(errors) => {
            assert!(!errors.is_empty());
            // A file that ends in a line feed is wrong behind it at the latest.
            let lines = text.split('\n').count();
            for error in errors {
                assert!((1..=lines).contains(&error.line) && error.column > 0, "{error}");
                assert!(!error.message.is_empty());
            }
        }
    }
});
