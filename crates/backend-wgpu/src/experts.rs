//! Passes of experts: which ones rows use, and the products with their matrices.

use backend::{Error, MemoryKind, Remedy};
use graph::{ValueId, WeightId};

use crate::compile::Compiler;
use crate::device::Purpose;
use crate::formats::CHUNK;
use crate::kernels::{self, Kernel};
use crate::launch::{BufferId, Cost, F32, Grid, LaunchPlan, Variant};
use crate::plan::Experts;
use crate::policy::{self, Product, Shapes};
use crate::weights::Shard;

impl Compiler<'_> {
    /// Experts that the rows of a list use at most.
    fn used(&self, list: usize) -> usize {
        self.plan.lists[list].used
    }

    pub(crate) fn route(
        &mut self,
        logits: ValueId,
        used: usize,
        list: usize,
        y: ValueId,
    ) -> Result<(), Error> {
        assert_eq!(used, self.used(list), "a list is as long as its route");
        let launch = self.list(logits, list, Some(y))?;
        self.dispatch(y, vec![Variant::always(vec![launch])]);
        Ok(())
    }

    /// What makes a list of experts: from logits, with how much each counts as `y`, or from how much they count.
    fn list(&self, x: ValueId, list: usize, y: Option<ValueId>) -> Result<LaunchPlan, Error> {
        let (experts, used) = (self.cols(x), self.used(list));
        if !policy::fits_route(experts, used) {
            return Err(Error::OutOfMemory {
                what: "the experts of a layer",
                bytes: (experts * F32) as u64,
                memory: MemoryKind::Device,
                remedy: Remedy::UseCpu,
            });
        }
        let params = [self.at(x), y.map_or([0; 2], |y| self.at(y))].as_flattened().to_vec();
        let mut buffers = vec![BufferId::Own(self.scratch.lists[list]), self.slot(x)];
        buffers.extend(y.map(|y| self.slot(y)));
        let kernel = Kernel::Route(kernels::Route { experts, used, softmax: y.is_some() });
        let cost = Cost::row("route", 2 * experts * F32);
        Ok(self.launch(kernel, params, buffers, Grid::rows(1), cost))
    }

    /// Each row with the matrices that it uses: gates and ups to a row an expert, then downs to their sum.
    pub(crate) fn experts(&mut self, pass: &Experts) -> Result<(), Error> {
        let Experts { x, norm, routes, list, gate, up, down, act, residual, y, .. } = *pass;
        let used = self.used(list);
        let mut launches = Vec::new();
        if pass.makes_list {
            launches.push(self.list(routes, list, None)?);
        }
        let model = self.model;
        let [gates, ups, downs] = [gate, up, down].map(|id| model.matrix(id));
        // Rows of an expert's matrix, filled up to whole chunks.
        let (inner, padded) = (gates.rows, gates.rows.next_multiple_of(CHUNK));
        let bytes = self.most_rows(y).max(1) * used * padded * F32;
        let hidden = self.room_in(|own| &mut own.hidden, Purpose::Activations, bytes)?;
        let chosen = BufferId::Own(self.scratch.lists[list]);
        let scales = norm.map(|norm| self.vector(norm.weight)).transpose()?;

        let [x_at, x_stride] = self.at(x);
        let of_x = [x_at / 4, x_stride / 4, self.cols(x) as u32, self.word_of_rows(y)];
        let eps = norm.map_or(0, |norm| norm.eps.to_bits());
        for (number, (gate_shard, up_shard)) in gates.shards.iter().zip(&ups.shards).enumerate() {
            let own = of_experts(gate_shard, inner);
            let params = [
                gate_shard.layout.numbers(),
                up_shard.layout.numbers(),
                [used as u32, padded as u32, own[0], own[1]],
                [inner as u32, inner as u32, 0, 0],
                [0, 0, 0, padded as u32],
                of_x,
                [0, 0, eps, 0],
            ];
            let mut buffers = vec![self.slot(x), hidden];
            buffers.extend([gate, up].map(|id| BufferId::Weight(id, number)));
            buffers.extend(scales);
            buffers.push(chosen);
            let products = kernels::Products {
                parts: [gate_shard, up_shard].map(|shard| shard.layout.format.name()).to_vec(),
                norm: norm.is_some(),
                glu: true,
                act: act.name(),
                rest: false,
                ragged: !self.cols(x).is_multiple_of(CHUNK),
            };
            let cols = self.cols(x);
            let cost = self.cost([gate, up], used, [cols, 2 * inner], "experts in", &products.parts);
            launches.push(self.expert_rows(products, "in", params, buffers, padded, cost));
        }

        let [y_at, y_stride] = self.at(y);
        for (number, shard) in downs.shards.iter().enumerate() {
            // The first shard begins the sum, which the others go on with.
            let rest = residual.filter(|_| number == 0).map(|id| (self.slot(id), self.at(id)));
            let [rest_at, rest_stride] = rest.map_or([0, 0], |(_, at)| at);
            let own = of_experts(shard, downs.rows);
            let params = [
                shard.layout.numbers(),
                [u32::from(number > 0), 0, 0, 0],
                [used as u32, 0, own[0], own[1]],
                [downs.rows as u32, 0, 0, 0],
                [y_at, 0, 0, y_stride],
                [0, (used * padded / 4) as u32, (used * padded) as u32, self.word_of_rows(y)],
                [rest_at, rest_stride, 0, 0],
            ];
            let mut buffers = vec![hidden, self.slot(y), BufferId::Weight(down, number)];
            buffers.extend(rest.map(|(rest, _)| rest));
            buffers.push(chosen);
            let products = kernels::Products {
                parts: vec![shard.layout.format.name()],
                norm: false,
                glu: false,
                act: "",
                rest: rest.is_some(),
                ragged: false,
            };
            let cost = self.cost([down], used, [inner, downs.rows], "experts out", &products.parts);
            launches.push(self.expert_rows(products, "out", params, buffers, downs.rows, cost));
        }
        self.dispatch(y, vec![Variant::always(launches)]);
        Ok(())
    }

    /// What a row takes, with the matrices that it uses: `cols` inputs and outputs of each expert.
    fn cost<const N: usize>(
        &self,
        weights: [WeightId; N],
        used: usize,
        [cols, outputs]: [usize; 2],
        what: &str,
        parts: &[&str],
    ) -> Cost {
        let of_one = |id: WeightId| {
            let matrix = self.model.matrix(id);
            matrix.bytes() / self.bound.weight(id).count as u64
        };
        let bytes: u64 = weights.into_iter().map(of_one).sum();
        Cost {
            what: format!("{what} {} {cols} to {outputs}", parts.join("+")),
            row_bytes: used as u64 * (bytes + ((cols + outputs) * F32) as u64),
            row_multiply_adds: (used * cols * outputs) as u64,
            ..Cost::default()
        }
    }

    /// One row of activations at a time, with the matrices that it uses.
    fn expert_rows(
        &self,
        products: kernels::Products,
        experts: &'static str,
        params: [[u32; 4]; 7],
        buffers: Vec<BufferId>,
        outputs: usize,
        cost: Cost,
    ) -> LaunchPlan {
        let gates = if products.glu { 2 } else { 1 };
        let cols = params[5][2] as usize;
        let shapes = Shapes { rows: 1, cols, outputs, gates, fits_f16: false };
        let Product::Few { columns, outputs: together, lanes, threads, subgroups } =
            policy::product(shapes, self.device.abilities)
        else {
            unreachable!("one row is few");
        };
        let kernel =
            kernels::Linear { products, columns, outputs: together, lanes, threads, subgroups, experts };
        let groups = outputs.div_ceil(together * (threads / lanes));
        let times = if experts == "in" { params[2][0] as usize } else { 1 };
        let params = params.as_flattened().to_vec();
        self.launch(Kernel::Linear(kernel), params, buffers, Grid::rows(groups * times), cost)
    }
}

/// The first expert of a shard, and how many it has.
fn of_experts(shard: &Shard, rows: usize) -> [u32; 2] {
    [shard.rows.start / rows, shard.rows.len() / rows].map(|number| number as u32)
}
