//! Inputs for the bodies where no fuzzer runs: pieces of a corpus, put together and changed at random.

use std::time::{Duration, Instant};

/// Bytes that mean something in templates and vocabularies.
const MARKS: &[u8] = b"\0{}%#'\"()[]~*+-|.,: \n";

/// Runs `body` on inputs made of `corpus` for some seconds, always the same inputs in the same order.
pub(crate) fn run(corpus: &[Vec<u8>], time: Duration, body: fn(&[u8])) {
    corpus.iter().for_each(|input| body(input));
    let started = Instant::now();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut inputs = 0;
    while inputs < 100 || started.elapsed() < time {
        body(&mutated(corpus, &mut random));
        inputs += 1;
    }
    println!("{inputs} inputs");
}

fn mutated(corpus: &[Vec<u8>], random: &mut Random) -> Vec<u8> {
    let mut input = Vec::new();
    for _ in 0..1 + random.below(3) {
        let piece = &corpus[random.below(corpus.len())];
        let (a, b) = (random.below(piece.len() + 1), random.below(piece.len() + 1));
        let range = if random.below(2) == 0 { 0..piece.len() } else { a.min(b)..a.max(b) };
        let at = random.below(input.len() + 1);
        input.splice(at..at, piece[range].iter().copied());
    }
    for _ in 0..random.below(6) {
        let (start, length) = (random.below(input.len() + 1), random.below(12));
        let end = (start + length).min(input.len());
        match random.below(4) {
            0 => drop(input.drain(start..end)),
            1 => {
                let copy = input[start..end].repeat(1 + random.below(40));
                input.splice(start..start, copy);
            }
            2 => input.insert(start, MARKS[random.below(MARKS.len())]),
            _ => input.insert(start, random.below(256) as u8),
        }
    }
    input
}

/// Xorshift: good enough to choose by.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end.max(1)
    }
}
