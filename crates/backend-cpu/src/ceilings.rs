//! The machine's roofline: peak multiply-add rates and memory bandwidth.
//!
//! All threads of a [`Pool`] run at once, as in the kernels. Other load can only slow a measurement down, so the rates are
//! measured alternately several times and the highest of each counts.

use std::hint::black_box;
use std::io;
use std::num::NonZero;
use std::time::{Duration, Instant};

use memmap2::MmapMut;

use crate::Isa;
use crate::lanes::scalar::Scalar;
use crate::lanes::{self, Lanes, WithSimd};
use crate::pool::Pool;

const TIME: Duration = Duration::from_millis(1200);

const ROUNDS_MIN: usize = 2 * MEMORY / WINDOW;

/// Iterations of a multiply-add loop: about 1 ms, less than a scheduler time slice.
#[cfg(target_arch = "x86_64")]
const ROUNDS: u64 = 300_000;

/// Bytes of memory; larger than any cache.
const MEMORY: usize = 512 << 20;

/// Bytes read per round; rounds read successive windows.
const WINDOW: usize = 64 << 20;

const PART: usize = 1 << 20;

/// Peak rates of some threads with an instruction set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// 8-bit integer multiply-adds per second, accumulated in 32 bits. AVX-512: 512-bit `vpdpbusd`. AVX2: `vpmaddubsw` and
    /// `vpaddw`, with `vpmaddwd` and `vpaddd` after every eight. `None` for scalar code, whose instructions the compiler
    /// chooses.
    pub int8_macs_per_second: Option<f64>,
    /// f32 fused multiply-adds per second at full vector width. `None` for scalar code.
    pub f32_macs_per_second: Option<f64>,
    /// Sequential read bandwidth in bytes per second, on 2 MB pages where available.
    pub read_bytes_per_second: f64,
}

impl Ceilings {
    /// The higher of each rate of two measurements.
    pub fn best(self, other: Ceilings) -> Ceilings {
        let higher = |a: Option<f64>, b: Option<f64>| a.map_or(b, |a| Some(b.map_or(a, |b| a.max(b))));
        Ceilings {
            int8_macs_per_second: higher(self.int8_macs_per_second, other.int8_macs_per_second),
            f32_macs_per_second: higher(self.f32_macs_per_second, other.f32_macs_per_second),
            read_bytes_per_second: self.read_bytes_per_second.max(other.read_bytes_per_second),
        }
    }
}

/// Measures for one to two seconds on `threads` threads with 512 MB of memory. Unsupported instruction sets give `None`.
///
/// # Errors
/// When the allocation fails.
pub fn ceilings(isa: Isa, threads: NonZero<usize>) -> io::Result<Ceilings> {
    let mut pool = Pool::new(threads.get());
    let memory = memory(&mut pool)?;
    let start = Instant::now();
    let mut windows = memory.chunks_exact(WINDOW).cycle();
    let mut measure = || {
        let [int8, f32] = multiply_adds(isa, &mut pool);
        let window = windows.next().unwrap_or_default();
        let read = WINDOW as f64 / seconds(|| read(isa, &mut pool, window));
        Ceilings { int8_macs_per_second: int8, f32_macs_per_second: f32, read_bytes_per_second: read }
    };
    let mut best = measure();
    let mut rounds = 1;
    while rounds < ROUNDS_MIN || start.elapsed() < TIME {
        best = best.best(measure());
        rounds += 1;
    }
    Ok(best)
}

/// Multiply-adds per second: int8 and f32.
#[cfg(target_arch = "x86_64")]
fn multiply_adds(isa: Isa, pool: &mut Pool) -> [Option<f64>; 2] {
    use lanes::avx2::Avx2;
    use lanes::avx512::Avx512;

    let loops = match isa {
        Isa::Scalar => None,
        Isa::Avx2 => Avx2::detect().map(|lanes| [lanes.int8(), lanes.f32()]),
        Isa::Avx512 => Avx512::detect().map(|lanes| [lanes.int8(), lanes.f32()]),
    };
    let mut rate = |spin: lanes::rates::Spin| {
        let threads = pool.threads();
        let seconds = seconds(|| pool.run(threads, &|_| spin.run(ROUNDS)));
        (threads as u64 * ROUNDS * spin.macs) as f64 / seconds
    };
    match loops {
        Some([int8, f32]) => [Some(rate(int8)), Some(rate(f32))],
        None => [None; 2],
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn multiply_adds(_: Isa, _: &mut Pool) -> [Option<f64>; 2] {
    [None; 2]
}

/// Memory that has been written: untouched pages would all map to the zero page.
fn memory(pool: &mut Pool) -> io::Result<MmapMut> {
    let mut map = MmapMut::map_anon(MEMORY)?;
    #[cfg(target_os = "linux")]
    let _ = map.advise(memmap2::Advice::HugePage);
    pool.tiles(&mut map, PART, (1, PART), |mut tile| {
        let part = tile.rows().start;
        tile.row(part).fill(part as u8);
    });
    Ok(map)
}

/// Reads all of `window` on all threads.
fn read(isa: Isa, pool: &mut Pool, window: &[u8]) {
    let parts: Vec<&[u8]> = window.chunks(PART).collect();
    pool.run(parts.len(), &|part| {
        let work = Sum(bytemuck::cast_slice(parts[part]));
        match isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => run(lanes::avx512::Avx512::detect(), work),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => run(lanes::avx2::Avx2::detect(), work),
            _ => run(Some(Scalar), work),
        }
    });
}

fn run<L: Lanes>(lanes: Option<L>, work: impl WithSimd) {
    match lanes {
        Some(lanes) => lanes.run(work),
        None => Scalar.run(work),
    }
}

/// Sums values in four streams, which hardware prefetchers handle better than one.
struct Sum<'a>(&'a [u64]);

impl WithSimd for Sum<'_> {
    #[inline(always)]
    fn with_simd<L: Lanes>(self, _: L) {
        let quarter = self.0.len() / 4;
        let streams: [&[[u64; 32]]; 4] =
            std::array::from_fn(|at| self.0[at * quarter..][..quarter].as_chunks().0);
        let mut sums = [0u64; 32];
        for at in 0..streams[0].len() {
            for values in streams.iter().filter_map(|stream| stream.get(at)) {
                for (sum, number) in sums.iter_mut().zip(values) {
                    *sum = sum.wrapping_add(*number);
                }
            }
        }
        black_box(sums);
    }
}

fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_that_is_here_has_ceilings() {
        for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
            let Ceilings { int8_macs_per_second, f32_macs_per_second, read_bytes_per_second } =
                ceilings(isa, NonZero::<usize>::MIN).expect("enough memory");
            for rate in [int8_macs_per_second, f32_macs_per_second] {
                assert_eq!(rate.is_some(), isa != Isa::Scalar, "{isa:?}");
                assert!(rate.is_none_or(|rate| rate.is_finite() && rate > 0.0), "{isa:?}: {rate:?}");
            }
            assert!(read_bytes_per_second.is_finite() && read_bytes_per_second > 0.0, "{isa:?}");
        }
    }

    #[test]
    fn the_best_of_two_is_the_best_of_each_rate() {
        let [a, b] = [(Some(1.0), None, 3.0), (Some(2.0), Some(4.0), 2.0)].map(|(int8, f32, read)| {
            Ceilings { int8_macs_per_second: int8, f32_macs_per_second: f32, read_bytes_per_second: read }
        });
        let best = a.best(b);
        assert_eq!(best, b.best(a));
        assert_eq!((best.int8_macs_per_second, best.f32_macs_per_second), (Some(2.0), Some(4.0)));
        assert_eq!(best.read_bytes_per_second, 3.0);
    }
}
