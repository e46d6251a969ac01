//! Passes of mixture-of-experts layers: a GEMV per row and expert, or a GEMM over the rows of each expert.

use graph::{Activation, Hidden, WeightId};
use passes::{Experts, GROUP_ROWS, Purpose, When, max_groups, may_fit_f16, min_grouped_rows};

use crate::algorithm::{Algorithm, TensorCores, algorithms};
use crate::compile::Compiler;
use crate::launch::{BufferId, Each, F32, LaunchPlan};
use crate::matmul::{Beside, ExpertArgs, Matmul, Mode};

/// The matmuls of an experts pass.
struct Projections {
    into_hidden: Matmul,
    out_of_hidden: Matmul,
}

impl Compiler<'_> {
    /// Gate and up projections of each selected expert, then down projections summed over experts.
    pub(crate) fn experts(&mut self, pass: &Experts) {
        let Experts { routes, list, down, y, .. } = *pass;
        let experts = self.bound.weight(down).count;
        let used = self.plan.lists[list].used;
        let max_rows = self.max_rows_of(y);
        let list = pass.makes_list.then(|| self.list(routes, list));
        let Projections { into_hidden, out_of_hidden } = self.projections(pass);

        let mut launches: Vec<LaunchPlan> = list.clone().into_iter().collect();
        for matmul in [&into_hidden, &out_of_hidden] {
            let algorithm = self.row_algorithm(matmul);
            launches.extend(self.matmul_launches(matmul, algorithm, max_rows, Each::Rows(1)));
        }
        let min_rows = min_grouped_rows(experts, used);
        let mut variants = vec![When { max_rows: min_rows - 1, ..When::default() }.launches(launches)];
        if max_rows >= min_rows {
            let entries = (1 + 3 * max_groups(max_rows, experts, used)) as u32;
            let words = entries as usize + 2 * max_rows * used;
            let groups = self.scratch_buffer(|own| &mut own.groups, Purpose::Activations, words * F32);
            let bytes = max_rows * used * self.cols(y) * F32;
            let downs = self.scratch_buffer(|own| &mut own.downs, Purpose::Activations, bytes);
            let sort = self.groups(y, pass.list, groups, entries, experts);
            let mix = self.mix(y, pass.list, downs, pass.residual);
            let grouped = |matmul: &Matmul| Matmul {
                experts: ExpertArgs { groups: Some((groups, entries)), ..matmul.experts.clone() },
                ..matmul.clone()
            };
            let into_hidden = grouped(&into_hidden);
            let padded = out_of_hidden.x_segments[1];
            let out_of_hidden = Matmul {
                x: (out_of_hidden.x.0, [0, padded as u32]),
                x_segments: [1, 0],
                y: downs,
                y_stride: self.cols(y) as u32,
                parts: vec![(down, self.cols(y), 0)],
                addend: None,
                ..grouped(&out_of_hidden)
            };
            let is_f32 = self.device.f32_activations;
            let parts = into_hidden.parts.iter().chain(&out_of_hidden.parts);
            let weights: Vec<WeightId> = parts.map(|part| part.0).collect();
            let may_fit = weights.iter().all(|&id| may_fit_f16(self.model.matrix(id).layout.format));
            let mut methods = vec![Algorithm::GemmF32];
            if may_fit && !is_f32 {
                let is_wgmma = self.is_wgmma(&into_hidden);
                let tiles = if is_wgmma { Algorithm::Wgmma(GROUP_ROWS) } else { Algorithm::Gemm(GROUP_ROWS) };
                methods.insert(0, tiles);
            }
            for algorithm in methods {
                let mut launches: Vec<LaunchPlan> = list.iter().cloned().chain([sort.clone()]).collect();
                launches.extend(self.matmul_launches(&into_hidden, algorithm, max_rows, Each::Rows(1)));
                let rows = max_rows * used;
                launches.extend(self.matmul_launches(&out_of_hidden, algorithm, rows, Each::Entry(used)));
                launches.push(mix.clone());
                let is_f16 = algorithm != Algorithm::GemmF32;
                let f16_weights = if is_f16 { weights.clone() } else { Vec::new() };
                variants.push(When { f16_weights, ..When::default() }.launches(launches));
            }
        }
        self.dispatch(y, variants);
    }

    /// The GEMV kernel of one row.
    fn row_algorithm(&self, matmul: &Matmul) -> Algorithm {
        let format = self.model.matrix(matmul.parts[0].0).layout.format;
        let fits_q8 = |n: usize| n == 1 && matmul.fits_q8(self.device, format, n);
        algorithms(format, self.device.f32_activations, TensorCores::None, fits_q8)[0].0
    }

    fn projections(&mut self, pass: &Experts) -> Projections {
        let Experts { x, norm, down, scale, bias, residual, weighs_inputs, list, y, .. } = *pass;
        let (experts, inner) = (self.bound.weight(down).count, self.bound.weight(down).cols);
        let used = self.plan.lists[list].used;
        let padded = inner.next_multiple_of(4);
        let bytes = self.max_rows_of(y).max(1) * used * padded * F32;
        let hidden = self.scratch_buffer(|own| &mut own.hidden, Purpose::Activations, bytes);
        let vector = |id: WeightId| self.bound.weight(id).vector();
        // Biases of one weight after another, then the factors of products and outputs.
        let mut values: Vec<f32> = pass.hidden.biases().iter().flat_map(|&id| vector(id)).collect();
        let scales: Vec<Option<WeightId>> = pass.hidden.scales().iter().copied().chain([scale]).collect();
        let factors = scales.iter().any(Option::is_some).then_some(values.len());
        if factors.is_some() {
            values.extend(scales.iter().flat_map(|id| id.map_or_else(|| vec![1.0; experts], vector)));
        }
        let values: Vec<u32> = values.into_iter().map(f32::to_bits).collect();
        let of_hidden = if values.is_empty() { None } else { Some(self.constants(values)) };
        let of_down = bias.map(|bias| self.vector(bias));
        let (glu, act) = match pass.hidden {
            Hidden::Gated { glu, .. } => (Some(glu), Activation::Identity),
            Hidden::Plain { act, .. } => (None, act),
        };
        let args = ExpertArgs {
            chosen: Some(BufferId::Own(self.scratch.lists[list])),
            used,
            count: experts,
            weighs_inputs,
            ..ExpertArgs::NONE
        };
        let into_hidden = Matmul {
            x: (self.slot(x), self.at(x)),
            y: hidden,
            parts: pass.hidden.weights().iter().map(|&id| (id, inner, 0)).collect(),
            y_stride: padded as u32,
            norm: norm.map(|norm| (self.vector(norm.weight), norm.eps)),
            addend: None,
            cols: self.cols(x),
            x_segments: [1, 0],
            rows_word: self.row_count_word(y),
            glu,
            act,
            mode: Mode::IntoHidden,
            experts: ExpertArgs {
                biases: of_hidden,
                per_expert: pass.hidden.matrices_per_expert(),
                up: pass.hidden.matrix(1, 0),
                has_biases: !pass.hidden.biases().is_empty(),
                up_biases: experts * inner,
                factors,
                ..args.clone()
            },
            beside: Beside::default(),
        };
        let [y_at, y_stride] = self.at(y);
        let out_of_hidden = Matmul {
            x: (hidden, [0, (used * padded) as u32]),
            y: self.slot(y),
            parts: vec![(down, self.cols(y), y_at)],
            y_stride,
            norm: None,
            addend: residual.map(|id| (self.slot(id), self.at(id))),
            cols: inner,
            x_segments: [used, padded],
            rows_word: self.row_count_word(y),
            glu: None,
            act: Activation::Identity,
            mode: Mode::OutOfHidden,
            experts: ExpertArgs { biases: of_down, has_biases: of_down.is_some(), ..args },
            beside: Beside::default(),
        };
        Projections { into_hidden, out_of_hidden }
    }
}
