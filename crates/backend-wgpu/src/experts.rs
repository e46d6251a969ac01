//! Passes of mixture-of-experts layers: routing, and GEMVs with the selected experts.

use backend::{Error, Remedy};
use graph::{ValueId, WeightId};

use crate::compile::Compiler;
use crate::device::{Purpose, out_of_memory};
use crate::formats::CHUNK;
use crate::kernels::{self, Kernel};
use crate::launch::{BufferId, Cost, F32, Grid, LaunchPlan, Variant};
use crate::plan::Experts;
use crate::policy::{self, Algorithm, MatmulShape};
use crate::weights::Shard;

impl Compiler<'_> {
    /// Maximum experts used per row.
    fn used(&self, list: usize) -> usize {
        self.plan.lists[list].used
    }

    pub(crate) fn route(&mut self, logits: ValueId, list: usize, y: ValueId) -> Result<(), Error> {
        let launch = self.list(logits, list, Some(y))?;
        self.dispatch(y, vec![Variant::always(vec![launch])]);
        Ok(())
    }

    /// Builds the list of experts per row: with `y` by softmax of logits, otherwise from given routing weights.
    fn list(&self, x: ValueId, list: usize, y: Option<ValueId>) -> Result<LaunchPlan, Error> {
        let (experts, used) = (self.cols(x), self.used(list));
        if !policy::fits_route(experts, used) {
            let what = "the routing weights of a row, which must fit in workgroup memory";
            return Err(out_of_memory(what, (experts * F32) as u64, Remedy::UseCpu));
        }
        let params = [self.at(x), y.map_or([0; 2], |y| self.at(y))].as_flattened().to_vec();
        let mut buffers = vec![BufferId::Own(self.scratch.lists[list]), self.slot(x)];
        buffers.extend(y.map(|y| self.slot(y)));
        let kernel = Kernel::Route { experts, used, softmax: y.is_some() };
        let cost = Cost::row("route", 2 * experts * F32);
        Ok(self.launch(kernel, params, buffers, Grid::rows(1), cost))
    }

    /// Gate and up projections of each selected expert, then down projections summed over experts.
    pub(crate) fn experts(&mut self, pass: &Experts) -> Result<(), Error> {
        let Experts { x, norm, routes, list, gate, up, down, act, residual, y, .. } = *pass;
        let used = self.used(list);
        let mut launches = Vec::new();
        if pass.makes_list {
            launches.push(self.list(routes, list, None)?);
        }
        let model = self.model;
        let [gates, ups, downs] = [gate, up, down].map(|id| model.matrix(id));
        // Outputs of an expert's gate and up projection, padded to whole chunks.
        let (inner, padded) = (gates.rows, gates.rows.next_multiple_of(CHUNK));
        let bytes = self.max_rows_of(y).max(1) * used * padded * F32;
        let hidden = self.scratch_buffer(|own| &mut own.hidden, Purpose::Activations, bytes)?;
        let chosen = BufferId::Own(self.scratch.lists[list]);
        let scales = norm.map(|norm| self.vector(norm.weight)).transpose()?;

        let [x_at, x_stride] = self.at(x);
        let x_params = [x_at / 4, x_stride / 4, self.cols(x) as u32, self.row_count_word(y)];
        let eps = norm.map_or(0, |norm| norm.eps.to_bits());
        for (index, (gate_shard, up_shard)) in gates.shards.iter().zip(&ups.shards).enumerate() {
            let experts = expert_range(gate_shard, inner);
            let params = [
                gate_shard.layout.params(),
                up_shard.layout.params(),
                [used as u32, padded as u32, experts[0], experts[1]],
                [inner as u32, inner as u32, 0, 0],
                [0, 0, 0, padded as u32],
                x_params,
                [0, 0, eps, 0],
            ];
            let mut buffers = vec![self.slot(x), hidden];
            buffers.extend([gate, up].map(|id| BufferId::Weight(id, index)));
            buffers.extend(scales);
            buffers.push(chosen);
            let matmul = kernels::Matmul {
                parts: [gate_shard, up_shard].map(|shard| shard.layout.format.name()).to_vec(),
                norm: norm.is_some(),
                glu: true,
                act: act.name(),
                addend: false,
                ragged: !self.cols(x).is_multiple_of(CHUNK),
            };
            let cols = self.cols(x);
            let cost = self.cost([gate, up], used, [cols, 2 * inner], "experts in", &matmul.parts);
            launches.push(self.expert_rows(matmul, "in", params, buffers, padded, cost));
        }

        let [y_at, y_stride] = self.at(y);
        for (index, shard) in downs.shards.iter().enumerate() {
            // The first shard adds the residual; the others accumulate.
            let addend = residual.filter(|_| index == 0).map(|id| (self.slot(id), self.at(id)));
            let [addend_at, addend_stride] = addend.map_or([0, 0], |(_, at)| at);
            let experts = expert_range(shard, downs.rows);
            let params = [
                shard.layout.params(),
                [u32::from(index > 0), 0, 0, 0],
                [used as u32, 0, experts[0], experts[1]],
                [downs.rows as u32, 0, 0, 0],
                [y_at, 0, 0, y_stride],
                [0, (used * padded / 4) as u32, (used * padded) as u32, self.row_count_word(y)],
                [addend_at, addend_stride, 0, 0],
            ];
            let mut buffers = vec![hidden, self.slot(y), BufferId::Weight(down, index)];
            buffers.extend(addend.map(|(addend, _)| addend));
            buffers.push(chosen);
            let matmul = kernels::Matmul {
                parts: vec![shard.layout.format.name()],
                norm: false,
                glu: false,
                act: "",
                addend: addend.is_some(),
                ragged: false,
            };
            let cost = self.cost([down], used, [inner, downs.rows], "experts out", &matmul.parts);
            launches.push(self.expert_rows(matmul, "out", params, buffers, downs.rows, cost));
        }
        self.dispatch(y, vec![Variant::always(launches)]);
        Ok(())
    }

    /// Cost of a row with `used` experts, each of `cols` inputs and `outputs` outputs.
    fn cost<const N: usize>(
        &self,
        weights: [WeightId; N],
        used: usize,
        [cols, outputs]: [usize; 2],
        what: &str,
        parts: &[&str],
    ) -> Cost {
        let per_expert = |id| self.model.matrix(id).bytes() / self.bound.weight(id).count as u64;
        let bytes: u64 = weights.into_iter().map(per_expert).sum();
        Cost {
            what: format!("{what} {} {cols} to {outputs}", parts.join("+")),
            row_bytes: used as u64 * (bytes + ((cols + outputs) * F32) as u64),
            row_multiply_adds: (used * cols * outputs) as u64,
            ..Cost::default()
        }
    }

    /// A GEMV with the selected experts, one activation row at a time.
    fn expert_rows(
        &self,
        matmul: kernels::Matmul,
        experts: &'static str,
        params: [[u32; 4]; 7],
        buffers: Vec<BufferId>,
        outputs: usize,
        cost: Cost,
    ) -> LaunchPlan {
        let gates = if matmul.glu { 2 } else { 1 };
        let cols = params[5][2] as usize;
        let shapes = MatmulShape { rows: 1, cols, outputs, gates, fits_f16: false };
        let Algorithm::Gemv(tiles) = policy::matmul(shapes, self.device.caps) else {
            unreachable!("a single row is a GEMV");
        };
        let kernel = kernels::Gemv { matmul, tiles, experts };
        let groups = outputs.div_ceil(tiles.outputs * (tiles.threads / tiles.lanes));
        let experts_per_row = if experts == "in" { params[2][0] as usize } else { 1 };
        let params = params.as_flattened().to_vec();
        self.launch(Kernel::Gemv(kernel), params, buffers, Grid::rows(groups * experts_per_row), cost)
    }
}

/// First expert of a shard, and the number of experts in it.
fn expert_range(shard: &Shard, rows: usize) -> [u32; 2] {
    [shard.rows.start / rows, shard.rows.len() / rows].map(|n| n as u32)
}
