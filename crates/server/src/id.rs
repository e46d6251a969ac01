//! Ids of answers.

use std::hash::{BuildHasher, Hasher, RandomState};

/// `prefix` and 24 unpredictable letters and digits.
pub(crate) fn new(prefix: &str) -> String {
    const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
    let mut id = prefix.to_owned();
    for _ in 0..2 {
        // Each `RandomState` is keyed with system entropy.
        let mut number = RandomState::new().build_hasher().finish();
        for _ in 0..12 {
            id.push(char::from(DIGITS[(number % 36) as usize]));
            number /= 36;
        }
    }
    id
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}
