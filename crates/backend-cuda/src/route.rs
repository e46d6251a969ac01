//! Passes around the matmuls of mixture-of-experts layers: routing, rows grouped by experts, the sum of their outputs.

use backend::{Error, Remedy};
use graph::{Gating, Router, ValueId, WeightId};
use passes::{Cost, GROUP_ROWS, Variant, out_of_memory};

use crate::compile::{Compiler, ONE_BLOCK};
use crate::launch::{BufferId, F32, Grid, LaunchPlan};

/// Threads of `groups` and of `route_list` in `kernels/route.cu`.
const GROUPS_THREADS: u32 = 1024;
const LIST_THREADS: u32 = 32;

/// Static shared memory of `route` in bytes, at most.
const STATIC_SHARED: usize = 1024;

/// Columns of a block of `mix`.
const MIX_COLS: usize = 1024;

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
        let (experts, used) = (self.cols(logits), router.used);
        let [groups, used_groups] = router.groups.unwrap_or_default();
        let shared = (experts.next_multiple_of(4) + 2 * used + groups) * F32;
        if shared + STATIC_SHARED > self.device.limits.shared_of_block {
            let what = "the routing weights of a row, which must fit in shared memory";
            return Err(out_of_memory(what, (experts * F32) as u64, Remedy::UseCpu));
        }
        let gating = match router.gating {
            Gating::ChosenSoftmax => 0,
            Gating::Softmax => 1,
            Gating::Sigmoid => 2,
        };
        let buffers = vec![
            Some(BufferId::Own(self.scratch.lists[list])),
            Some(self.slot(logits)),
            Some(self.slot(y)),
            bias,
        ];
        let mut words = [self.at(logits), self.at(y)].as_flattened().to_vec();
        words.extend([router.scale.to_bits(), experts as u32, used as u32]);
        words.extend([gating, u32::from(router.renormalises), groups as u32, used_groups as u32]);
        let cost = Cost::row("route", 2 * experts * F32);
        let launch = self.launch("route/route", buffers, words, Grid::rows(1), cost);
        self.dispatch(y, vec![Variant::always(vec![LaunchPlan { shared, ..launch }])]);
        Ok(())
    }

    /// Lists the experts of given routing weights.
    pub(crate) fn list(&self, routes: ValueId, list: usize) -> LaunchPlan {
        let (experts, used) = (self.cols(routes), self.plan.lists[list].used);
        let chosen = BufferId::Own(self.scratch.lists[list]);
        let buffers = vec![Some(chosen), Some(self.slot(routes)), None, None];
        let mut words = self.at(routes).to_vec();
        words.extend([0, 0, 0, experts as u32, used as u32, 0, 0, 0, 0]);
        let cost = Cost::row("route", experts * F32);
        let launch = self.launch("route/route_list", buffers, words, Grid::rows(1), cost);
        LaunchPlan { threads: LIST_THREADS, ..launch }
    }

    /// Groups the rows of `y` by the experts of their lists. `entries` is the offset of the entries in `groups`, which has
    /// room for all tiles before them.
    pub(crate) fn groups(
        &self,
        y: ValueId,
        list: usize,
        groups: BufferId,
        entries: u32,
        experts: usize,
    ) -> LaunchPlan {
        let used = self.plan.lists[list].used;
        let buffers = vec![Some(groups), Some(BufferId::Own(self.scratch.lists[list]))];
        let words = vec![self.row_count_word(y), entries, experts as u32, used as u32, GROUP_ROWS as u32];
        let cost = Cost::row("groups", 4 * used * size_of::<u32>());
        let launch = self.launch("route/groups", buffers, words, ONE_BLOCK, cost);
        LaunchPlan { threads: GROUPS_THREADS, shared: experts * size_of::<u32>(), ..launch }
    }

    /// Sums the outputs `downs` of each row's experts, and the residual.
    pub(crate) fn mix(
        &self,
        y: ValueId,
        list: usize,
        downs: BufferId,
        residual: Option<ValueId>,
    ) -> LaunchPlan {
        let (cols, used) = (self.cols(y), self.plan.lists[list].used);
        let chosen = BufferId::Own(self.scratch.lists[list]);
        let buffers = vec![Some(self.slot(y)), Some(downs), Some(chosen), residual.map(|id| self.slot(id))];
        let mut words = [self.at(y), residual.map_or([0; 2], |id| self.at(id))].as_flattened().to_vec();
        words.extend([cols as u32, used as u32]);
        let cost = Cost::row("mix", (used + 2) * cols * F32);
        self.launch("route/mix", buffers, words, Grid::rows(cols.div_ceil(MIX_COLS)), cost)
    }
}
