//! Passes of mixture-of-experts layers: routing, then a GEMV per row and expert or a GEMM over the rows of each expert.

use backend::{Error, Remedy};
use gpu::{
    BufferId, CHUNK, Cost, Each, Experts, F32, GROUP_ROWS, Grid, MatrixLayout as _, Purpose, Scratch,
    Variant, When, kernel_name, max_groups, min_grouped_rows, out_of_memory,
};
use graph::{Gating, Hidden, Router, ValueId, WeightId};

use crate::compile::{Compiler, LaunchPlan};
use crate::kernels::{self, Kernel, Matrices};
use crate::policy::{self, Algorithm, MatmulShape};
use crate::weights::{MatrixLayout, Shard};

#[derive(Clone, Copy)]
enum Method {
    Rows,
    /// A GEMM for each expert's rows, with the offset of their list in the buffer of groups.
    Groups {
        groups: BufferId,
        entries: u32,
        downs: BufferId,
    },
}

/// What both projections of an experts pass have in common.
#[derive(Clone, Copy)]
struct Shared<'a> {
    pass: &'a Experts,
    used: usize,
    /// Hidden values of an expert, and the same padded to whole chunks.
    inner: usize,
    padded: usize,
    hidden: BufferId,
    chosen: BufferId,
    /// Those of the hidden values, one weight after another, then the scales; and the biases of the outputs.
    biases: [Option<BufferId>; 2],
    /// Offset of the scales, if any.
    factors_at: Option<usize>,
    scales: Option<BufferId>,
}

impl Compiler<'_> {
    pub(crate) fn route(
        &mut self,
        logits: ValueId,
        bias: Option<WeightId>,
        router: Router,
        list: usize,
        y: ValueId,
    ) -> Result<(), Error> {
        let bias = bias.map(|bias| self.vector(bias));
        let (experts, [groups, used_groups]) = (self.cols(logits), router.groups.unwrap_or_default());
        if !policy::fits_route(experts, router.used, groups) {
            let what = "the routing weights of a row, which must fit in workgroup memory";
            return Err(out_of_memory(what, (experts * F32) as u64, Remedy::UseCpu));
        }
        let gating = match router.gating {
            Gating::ChosenSoftmax => "chosen_softmax",
            Gating::Softmax => "softmax",
            Gating::Sigmoid => "sigmoid",
        };
        let kernel = kernels::Route {
            experts,
            used: router.used,
            gating,
            biased: bias.is_some(),
            renormalises: router.renormalises,
            groups,
            used_groups,
        };
        let mut params = [self.at(logits), self.at(y)].as_flattened().to_vec();
        params.extend([router.scale.to_bits(), 0, 0, 0]);
        let mut buffers = vec![self.list(list), self.slot(logits), self.slot(y)];
        buffers.extend(bias);
        let cost = Cost::row("route", 2 * experts * F32);
        let launch = self.launch(Kernel::Route(kernel), params, buffers, Grid::rows(1), cost);
        self.dispatch_always(y, launch);
        Ok(())
    }

    /// Lists the experts of given routing weights.
    fn list_experts(&self, routes: ValueId, list: usize) -> LaunchPlan {
        let (experts, used) = (self.cols(routes), self.plan.lists[list].used);
        let [at, stride] = self.at(routes);
        let kernel = kernels::Route { experts, used, ..Default::default() };
        let buffers = vec![self.list(list), self.slot(routes)];
        let cost = Cost::row("route", experts * F32);
        let params = vec![at, stride, 0, 0, 0, 0, 0, 0];
        self.launch(Kernel::Route(kernel), params, buffers, Grid::rows(1), cost)
    }

    /// Gate and up projections of each selected expert, then down projections summed over experts.
    pub(crate) fn experts(&mut self, pass: &Experts) {
        let Experts { norm, routes, list, down, bias, y, .. } = *pass;
        let experts = self.bound.weight(down).count;
        let used = self.plan.lists[list].used;
        let inner = self.bound.weight(down).cols;
        let padded = inner.next_multiple_of(CHUNK);
        let bytes = self.max_rows(y).max(1) * used * padded * F32;
        let hidden = self.scratch(Scratch::Hidden, bytes);
        let (hidden_biases, factors_at) = self.expert_vectors(pass);
        let biases = [hidden_biases, bias.map(|bias| self.vector(bias))];
        let scales = norm.map(|norm| self.vector(norm.weight));
        let chosen = self.list(list);
        let shared = Shared { pass, used, inner, padded, hidden, chosen, biases, factors_at, scales };
        let list = pass.makes_list.then(|| self.list_experts(routes, list));
        let groups = self.groups(&shared);

        let mut launches: Vec<LaunchPlan> = list.clone().into_iter().collect();
        launches.extend(self.hidden(shared, Method::Rows));
        launches.extend(self.down(shared, Method::Rows));
        let Some((sort, method)) = groups else {
            return self.dispatch(y, vec![Variant::always(launches)]);
        };
        let max_rows = min_grouped_rows(experts, used) - 1;
        let rows = When { max_rows: Some(max_rows), ..When::default() }.launches(launches);
        let mut launches: Vec<LaunchPlan> = list.into_iter().chain([sort]).collect();
        launches.extend(self.hidden(shared, method));
        launches.extend(self.down(shared, method));
        launches.push(self.mix(shared, method));
        self.dispatch(y, vec![rows, Variant::always(launches)]);
    }

    /// The launch that groups rows by experts, if steps have enough rows for it and if its buffers fit.
    fn groups(&mut self, shared: &Shared<'_>) -> Option<(LaunchPlan, Method)> {
        let &Shared { pass: &Experts { down, y, .. }, used, chosen, .. } = shared;
        let (experts, rows) = (self.bound.weight(down).count, self.max_rows(y));
        let tiles = max_groups(rows, experts, used);
        let downs = rows * used * self.cols(y) * F32;
        if rows < min_grouped_rows(experts, used)
            || !policy::fits_route(experts, used, 0)
            || tiles > self.device.limits.max_compute_workgroups_per_dimension as usize
            || self.device.check_size(Purpose::Activations, downs as u64).is_err()
        {
            return None;
        }
        let entries = 1 + 3 * tiles;
        let words = entries + 2 * rows * used;
        let groups = self.scratch(Scratch::Groups, words * F32);
        let downs = self.scratch(Scratch::Downs, downs);
        let entries = entries as u32;
        let kernel = Kernel::Groups { experts, used, tile: GROUP_ROWS };
        let params = vec![self.row_count_word(y), entries, 0, 0];
        let cost = Cost::row("groups", 4 * used * size_of::<u32>());
        let grid = Grid { groups: 1, each: Each::Rows(usize::MAX) };
        let launch = self.launch(kernel, params, vec![groups, chosen], grid, cost);
        Some((launch, Method::Groups { groups, entries, downs }))
    }

    fn hidden(&self, shared: Shared<'_>, method: Method) -> Vec<LaunchPlan> {
        let Shared { pass, used, inner, padded, hidden, .. } = shared;
        let Experts { x, norm, y, .. } = *pass;
        let ids = pass.hidden.weights();
        let weights: Vec<&MatrixLayout> = ids.iter().map(|&id| self.model.matrix(id)).collect();
        let (per_expert, first_up) = (pass.hidden.matrices_per_expert(), pass.hidden.matrix(1, 0));
        let (act, limit) = match pass.hidden {
            Hidden::Gated { glu, .. } => (glu.act, glu.limit),
            Hidden::Plain { act, .. } => (act, None),
        };
        let (cols, experts) = (self.cols(x), self.bound.weight(pass.down).count);
        let [x_at, x_stride] = self.at(x);
        let eps = norm.map_or(0, |norm| norm.eps.to_bits());
        let entries = if let Method::Groups { entries, .. } = method { entries } else { 0 };
        // Weights of equal shapes have equal shards.
        let launch = |index: usize| {
            let shards: Vec<&Shard> = weights.iter().map(|weight| &weight.shards[index]).collect();
            let [first, count] = matrices_of(shards[0], inner).map(|n| (n / per_expert) as u32);
            let params = [
                shards[0].layout.params(),
                shards.get(1).map_or([0; 4], |up| up.layout.params()),
                [used as u32, padded as u32, first, count],
                [inner as u32, inner as u32, per_expert as u32, first_up as u32],
                [0, shared.factors_at.unwrap_or(0) as u32, experts as u32, padded as u32],
                [x_at / 4, x_stride / 4, cols as u32, self.row_count_word(y)],
                [entries, (experts * inner) as u32, eps, limit.map_or(0, f32::to_bits)],
            ];
            let mut buffers = vec![self.slot(x), hidden];
            buffers.extend(ids.iter().map(|&id| BufferId::Weight(id, index)));
            buffers.extend(shared.scales);
            let matmul = kernels::Matmul {
                parts: shards.iter().map(|shard| kernel_name(shard.layout.format)).collect(),
                norm: norm.is_some(),
                glu: matches!(pass.hidden, Hidden::Gated { .. }),
                act: act.name(),
                limited: limit.is_some(),
                ragged: !cols.is_multiple_of(CHUNK),
                ..Default::default()
            };
            let outputs = ids.len() * inner;
            let cost = self.cost(ids, used, [cols, outputs], "experts in", &matmul.parts);
            let matrices = Matrices {
                experts: "in",
                weighs_inputs: pass.weighs_inputs,
                biases: !pass.hidden.biases().is_empty(),
                scales: shared.factors_at.is_some(),
                ..Matrices::default()
            };
            let biases = shared.biases[0];
            self.projection(shared, method, matmul, matrices, params, (buffers, biases), padded, cost)
        };
        (0..weights[0].shards.len()).map(launch).collect()
    }

    fn down(&self, shared: Shared<'_>, method: Method) -> Vec<LaunchPlan> {
        let Shared { pass, used, inner, padded, hidden, .. } = shared;
        let Experts { down, residual, y, .. } = *pass;
        let downs = self.model.matrix(down);
        let launch = |(index, shard): (usize, &Shard)| {
            let [first, count] = matrices_of(shard, downs.rows).map(|n| n as u32);
            // In a GEMV a row is those of its experts together. Its first shard adds residual and biases; the others
            // accumulate.
            let is_first = index == 0;
            let (y_buffer, [y_at, y_stride], row_cols, addend, has_biases) = match method {
                Method::Rows => {
                    (self.slot(y), self.at(y), used * padded, residual.filter(|_| is_first), is_first)
                }
                Method::Groups { downs: to, .. } => (to, [0, downs.rows as u32], padded, None, true),
            };
            let addend = addend.map(|id| self.operand(id));
            let biases = shared.biases[1].filter(|_| has_biases);
            let [r_at, r_stride] = match method {
                Method::Rows => addend.map_or([0, 0], |(_, at)| at),
                Method::Groups { entries, .. } => [entries, 0],
            };
            let params = [
                shard.layout.params(),
                [u32::from(!is_first), 0, 0, 0],
                [used as u32, 0, first, count],
                [downs.rows as u32, 0, 0, 0],
                [y_at, 0, 0, y_stride],
                [0, (row_cols / 4) as u32, row_cols as u32, self.row_count_word(y)],
                [r_at, r_stride, 0, 0],
            ];
            let mut buffers = vec![hidden, y_buffer, BufferId::Weight(down, index)];
            buffers.extend(addend.map(|(addend, _)| addend));
            let parts = vec![kernel_name(shard.layout.format)];
            let matmul = kernels::Matmul { parts, addend: addend.is_some(), ..Default::default() };
            let matrices = Matrices {
                experts: "out",
                weighs_inputs: pass.weighs_inputs,
                biases: biases.is_some(),
                ..Matrices::default()
            };
            let cost = self.cost(&[down], used, [inner, downs.rows], "experts out", &matmul.parts);
            self.projection(shared, method, matmul, matrices, params, (buffers, biases), downs.rows, cost)
        };
        downs.shards.iter().enumerate().map(launch).collect()
    }

    fn mix(&self, shared: Shared<'_>, method: Method) -> LaunchPlan {
        let (&Experts { residual, y, .. }, Method::Groups { downs, .. }) = (shared.pass, method) else {
            unreachable!("only groups are summed on their own")
        };
        let addend = residual.map(|id| self.operand(id));
        let mut params = [self.at(y), addend.map_or([0; 2], |(_, at)| at)].as_flattened().to_vec();
        params.extend([self.cols(y) as u32, shared.used as u32]);
        let mut buffers = vec![self.slot(y), downs, shared.chosen];
        buffers.extend(addend.map(|(addend, _)| addend));
        let grid = Grid::rows(self.cols(y).div_ceil(128));
        let cost = Cost::row("mix", (shared.used + 2) * self.cols(y) * F32);
        self.launch(Kernel::Mix { addend: residual.is_some() }, params, buffers, grid, cost)
    }

    /// Cost of a row with `used` experts, each of `cols` inputs and `outputs` outputs.
    fn cost(
        &self,
        weights: &[WeightId],
        used: usize,
        [cols, outputs]: [usize; 2],
        what: &str,
        parts: &[&str],
    ) -> Cost {
        let per_matrix = |&id: &WeightId| self.model.matrix(id).bytes() / self.bound.weight(id).count as u64;
        let bytes: u64 = weights.iter().map(per_matrix).sum();
        Cost {
            what: format!("{what} {} {cols} to {outputs}", parts.join("+")),
            row_bytes: used as u64 * (bytes + ((cols + outputs) * F32) as u64),
            row_multiply_adds: (used * cols * outputs) as u64,
            ..Cost::default()
        }
    }

    /// A matmul with the selected experts of one shard, `outputs` wide.
    #[expect(clippy::too_many_arguments, reason = "what differs between both projections")]
    fn projection(
        &self,
        shared: Shared<'_>,
        method: Method,
        matmul: kernels::Matmul,
        matrices: Matrices,
        params: [[u32; 4]; 7],
        (mut buffers, biases): (Vec<BufferId>, Option<BufferId>),
        outputs: usize,
        cost: Cost,
    ) -> LaunchPlan {
        let gates = if matmul.glu { 2 } else { 1 };
        let shapes = MatmulShape { rows: 1, cols: params[5][2] as usize, outputs, gates, fits_f16: false };
        let (kernel, grid) = match method {
            Method::Rows => {
                let Algorithm::Gemv(tiles) = policy::matmul(shapes, self.device.caps) else {
                    unreachable!("a single row is a GEMV");
                };
                buffers.push(shared.chosen);
                let groups = outputs.div_ceil(tiles.outputs * (tiles.threads / tiles.lanes));
                let experts_per_row = if matrices.experts == "in" { shared.used } else { 1 };
                let kernel = Kernel::Gemv(kernels::Gemv { matmul, tiles, matrices });
                (kernel, Grid::rows(groups * experts_per_row))
            }
            Method::Groups { groups: list, .. } => {
                buffers.push(list);
                let groups = outputs.div_ceil(Algorithm::Gemm.tile(gates).0);
                let experts = self.bound.weight(shared.pass.down).count;
                let each = Each::Group { experts, used: shared.used };
                (Kernel::Gemm(kernels::Gemm { matmul, matrices }), Grid { groups, each })
            }
        };
        buffers.extend(biases);
        self.launch(kernel, params.as_flattened().to_vec(), buffers, grid, cost)
    }
}

/// First matrix of a shard, and the number of matrices in it, of `rows` rows each.
pub(crate) fn matrices_of(shard: &Shard, rows: usize) -> [usize; 2] {
    [shard.rows.start / rows, shard.rows.len() / rows]
}
