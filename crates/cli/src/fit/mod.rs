//! Whether a model fits this machine, and which of its quantisations fits best.

pub(crate) mod formats;
pub(crate) mod machine;

use std::cmp::Reverse;

use backend::readable_size as size;
use serde::Serialize;

/// Where a model runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Place {
    /// All layers are on GPUs.
    #[serde(rename = "gpu")]
    Gpu,
    #[serde(rename = "gpu+cpu")]
    GpuAndCpu,
    #[serde(rename = "cpu")]
    Cpu,
    #[serde(rename = "no")]
    Nowhere,
}

/// What a quantisation needs, and where it fits.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fit {
    /// Bytes that it takes on the CPU alone, weights in the file included.
    pub(crate) memory: u64,
    /// Bytes that it takes on one GPU alone; null without a GPU that can compute it.
    pub(crate) gpu_memory: Option<u64>,
    /// Null if the available memory is unknown.
    pub(crate) place: Option<Place>,
    pub(crate) gpu_layers: usize,
    pub(crate) layers: usize,
}

impl Fit {
    /// Whether it runs at all.
    pub(crate) fn fits(&self) -> Option<bool> {
        self.place.map(|place| place != Place::Nowhere)
    }

    /// As a word; without a GPU the answer is yes or no.
    pub(crate) fn in_words(&self, has_gpu: bool) -> String {
        match self.place {
            None => "?".to_owned(),
            Some(Place::Gpu) => "GPU".to_owned(),
            Some(Place::GpuAndCpu) => format!("GPU+CPU ({} of {} layers)", self.gpu_layers, self.layers),
            Some(Place::Cpu) => if has_gpu { "CPU" } else { "yes" }.to_owned(),
            Some(Place::Nowhere) => "no".to_owned(),
        }
    }
}

/// Heads of the columns of [`cells`].
pub(crate) const HEAD: [&str; 3] = ["MEMORY", "GPU MEMORY", "FITS"];

/// The row of a table; the second cell is for machines with a GPU.
pub(crate) fn cells(fit: Option<&Fit>, has_gpu: bool) -> [String; 3] {
    let unknown = || "?".to_owned();
    let Some(fit) = fit else { return [unknown(), unknown(), unknown()] };
    [size(fit.memory), fit.gpu_memory.map_or_else(unknown, size), fit.in_words(has_gpu)]
}

/// The rule of [`best`], in words.
pub(crate) fn rule(has_gpu: bool) -> &'static str {
    if has_gpu {
        "the largest with all layers on the GPU, or else the largest; unquantised ones last"
    } else {
        "the largest; unquantised ones last"
    }
}

/// A quantisation to choose from; without a known fit or size it is not chosen.
#[derive(Clone, Copy)]
pub(crate) struct Candidate<'a> {
    pub(crate) fit: Option<&'a Fit>,
    pub(crate) bytes: Option<u64>,
    pub(crate) quant: Option<&'a str>,
}

impl Candidate<'_> {
    /// Higher is better: the largest has the highest quality, on GPUs alone it is fastest, and without quantisation it is
    /// slower for no visible gain. `None` if it does not fit.
    fn rank(self) -> Option<(bool, bool, u64)> {
        let place = self.fit?.place.filter(|&place| place != Place::Nowhere)?;
        let is_float = |quant: &str| ["F32", "F16", "BF16"].iter().any(|float| quant.ends_with(float));
        Some((!self.quant.is_some_and(is_float), place == Place::Gpu, self.bytes?))
    }
}

/// The index of the quantisation to take.
pub(crate) fn best<'a>(candidates: impl IntoIterator<Item = Candidate<'a>>) -> Option<usize> {
    let ranked = candidates.into_iter().enumerate();
    let ranked = ranked.filter_map(|(at, candidate)| Some((candidate.rank()?, Reverse(at))));
    ranked.max().map(|(_, Reverse(at))| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(place: Place) -> Option<Fit> {
        Some(Fit { memory: 0, gpu_memory: None, place: Some(place), gpu_layers: 0, layers: 0 })
    }

    #[track_caller]
    fn check(expected: Option<usize>, candidates: &[(Option<Fit>, u64, &str)]) {
        let candidates = candidates.iter().map(|(fit, bytes, quant)| Candidate {
            fit: fit.as_ref(),
            bytes: Some(*bytes),
            quant: Some(quant),
        });
        assert_eq!(best(candidates), expected);
    }

    #[test]
    fn the_best_is_the_largest_in_the_fastest_place() {
        let [gpu, both, cpu, none] = [Place::Gpu, Place::GpuAndCpu, Place::Cpu, Place::Nowhere].map(fit);
        let (gpu, both, cpu, none) = (|| gpu.clone(), || both.clone(), || cpu.clone(), || none.clone());
        check(Some(1), &[(gpu(), 2, "Q2_K"), (gpu(), 4, "Q4_K_M"), (both(), 8, "Q8_0"), (none(), 16, "F16")]);
        check(Some(1), &[(cpu(), 4, "Q4_K_M"), (both(), 8, "Q8_0"), (none(), 16, "F16")]);
        check(Some(0), &[(cpu(), 8, "Q8_0"), (cpu(), 16, "BF16"), (cpu(), 16, "UD-F16")]);
        check(Some(0), &[(cpu(), 16, "BF16"), (None, 1, "Q2_K"), (none(), 2, "Q2_K")]);
        check(Some(0), &[(cpu(), 8, "Q8_0"), (cpu(), 8, "Q8_0")]);
        check(None, &[(none(), 4, "Q4_K_M")]);
    }
}
