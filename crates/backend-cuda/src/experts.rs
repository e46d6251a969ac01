//! Passes of mixture-of-experts layers: a GEMV per row and expert, or a GEMM over the rows of each expert.

use gpu::{CHUNK, Each, Experts, F32, GROUP_ROWS, Scratch, When, max_groups, may_fit_f16, min_grouped_rows};
use graph::{Hidden, WeightId};

use crate::algorithm::{Algorithm, TensorCores, algorithms};
use crate::arguments::{MatmulArgs, Pointer};
use crate::compile::Compiler;
use crate::launch::LaunchPlan;
use crate::matmul::{Matmul, Mode};

impl Compiler<'_> {
    /// Gate and up projections of each selected expert, then down projections summed over experts.
    pub(crate) fn experts(&mut self, pass: &Experts) {
        let Experts { routes, list, down, y, .. } = *pass;
        let experts = self.bound.weight(down).count;
        let used = self.plan.lists[list].used;
        let max_rows = self.max_rows(y);
        let list = pass.makes_list.then(|| self.list_experts(routes, list));
        let [into_hidden, out_of_hidden] = self.projections(pass);

        let mut launches: Vec<LaunchPlan> = list.clone().into_iter().collect();
        for matmul in [&into_hidden, &out_of_hidden] {
            let algorithm = self.row_algorithm(matmul);
            launches.extend(self.matmul_launches(matmul, algorithm, max_rows, Each::Rows(1)));
        }
        let min_rows = min_grouped_rows(experts, used);
        let mut variants = vec![When { max_rows: Some(min_rows - 1), ..When::default() }.launches(launches)];
        if max_rows >= min_rows {
            let entries = (1 + 3 * max_groups(max_rows, experts, used)) as u32;
            let words = entries as usize + 2 * max_rows * used;
            let groups = self.scratch(Scratch::Groups, words * F32);
            let bytes = max_rows * used * self.cols(y) * F32;
            let downs = self.scratch(Scratch::Downs, bytes);
            let sort = self.groups(y, pass.list, groups, entries, experts);
            let mix = self.mix(y, pass.list, downs, pass.residual);
            let groups = groups.into();
            let (hidden, out) = (&into_hidden, &out_of_hidden.args);
            let into_hidden =
                Matmul { args: MatmulArgs { groups, entries, ..hidden.args }, ..hidden.clone() };
            let args = MatmulArgs {
                y: downs.into(),
                r: Pointer::Null,
                groups,
                entries,
                x_at: [0, out.x_segment],
                x_segments: 1,
                x_segment: 0,
                y_stride: self.cols(y) as u32,
                r_at: [0, 0],
                ..*out
            };
            let out_of_hidden = self.matmul(Mode::OutOfHidden, &[(down, self.cols(y), 0)], args);
            let is_f32 = self.device.f32_activations;
            let weights: Vec<WeightId> = into_hidden.weights().chain(out_of_hidden.weights()).collect();
            let may_fit = weights.iter().all(|&id| may_fit_f16(self.model.matrix(id).layout.format));
            let is_wgmma = self.is_wgmma(&into_hidden);
            let tiles = if is_wgmma { Algorithm::Wgmma(GROUP_ROWS) } else { Algorithm::Gemm(GROUP_ROWS) };
            let tiles = Some(tiles).filter(|_| may_fit && !is_f32);
            for algorithm in tiles.into_iter().chain([Algorithm::GemmF32]) {
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

    fn row_algorithm(&self, matmul: &Matmul) -> Algorithm {
        let weight = matmul.weights().next().expect("a weight");
        let format = self.model.matrix(weight).layout.format;
        let fits_q8 = |n: usize| n == 1 && matmul.fits_q8(self.device, format, n);
        algorithms(format, self.device.f32_activations, TensorCores::None, fits_q8)[0].0
    }

    /// The matmuls into the hidden values and out of them.
    fn projections(&mut self, pass: &Experts) -> [Matmul; 2] {
        let Experts { x, norm, down, bias, residual, weighs_inputs, list, y, .. } = *pass;
        let (experts, inner) = (self.bound.weight(down).count, self.bound.weight(down).cols);
        let used = self.plan.lists[list].used;
        let padded = inner.next_multiple_of(4);
        let bytes = self.max_rows(y).max(1) * used * padded * F32;
        let hidden = self.scratch(Scratch::Hidden, bytes);
        let (biases, factors) = self.expert_vectors(pass);
        let mut args = self.matmul_args(self.operand(x), self.cols(x), norm, y);
        args.chosen = self.list(list).into();
        (args.used, args.experts) = (used as u32, experts as u32);
        args.weighs_inputs = u32::from(weighs_inputs);
        let hidden_args = MatmulArgs {
            y: hidden.into(),
            biases: biases.into(),
            y_stride: padded as u32,
            per_expert: pass.hidden.matrices_per_expert() as u32,
            up: pass.hidden.matrix(1, 0) as u32,
            has_biases: u32::from(!pass.hidden.biases().is_empty()),
            up_biases: (experts * inner) as u32,
            factors: factors.map_or(u32::MAX, |at| at as u32),
            ..args
        };
        let hidden_args = match pass.hidden {
            Hidden::Gated { glu, .. } => hidden_args.with_glu(glu),
            Hidden::Plain { act, .. } => MatmulArgs { act: act as u32, ..hidden_args },
        };
        let parts: Vec<_> = pass.hidden.weights().iter().map(|&id| (id, inner, 0)).collect();
        let into_hidden = self.matmul(Mode::IntoHidden, &parts, hidden_args);
        let args = MatmulArgs {
            x: hidden.into(),
            g: Pointer::Null,
            r: residual.map(|id| self.slot(id)).into(),
            biases: bias.map(|bias| self.vector(bias)).into(),
            x_at: [0, (used * padded) as u32],
            cols: inner as u32,
            chunks: inner.div_ceil(CHUNK) as u32,
            x_segments: used as u32,
            x_segment: padded as u32,
            r_at: residual.map_or([0, 0], |id| self.at(id)),
            eps: 0.0,
            has_biases: u32::from(bias.is_some()),
            ..args
        };
        let part = (down, self.cols(y), self.at(y)[0]);
        [into_hidden, self.matmul(Mode::OutOfHidden, &[part], args)]
    }
}
