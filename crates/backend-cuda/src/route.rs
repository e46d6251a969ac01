//! Passes around the matmuls of mixture-of-experts layers: routing, rows grouped by experts, the sum of their outputs.

use backend::{Error, Remedy};
use gpu::{BufferId, Cost, Each, F32, GROUP_ROWS, Grid, out_of_memory};
use graph::{Router, ValueId, WeightId};

use crate::arguments::{GroupsArgs, MixArgs, RouteArgs};
use crate::compile::Compiler;
use crate::launch::LaunchPlan;

/// Threads of `groups` and of `route_list` in `kernels/route.cu`.
const GROUPS_THREADS: u32 = 1024;
const LIST_THREADS: u32 = 32;

/// Upper bound of the static shared memory of `route`, in bytes.
const STATIC_SHARED: usize = 1024;

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
        if shared + STATIC_SHARED > self.device.limits.block_shared {
            let what = "the routing weights of a row, which must fit in shared memory";
            return Err(out_of_memory(what, (experts * F32) as u64, Remedy::UseCpu));
        }
        let args = RouteArgs {
            chosen: self.list(list).into(),
            x: self.slot(logits).into(),
            y: self.slot(y).into(),
            bias: bias.into(),
            x_at: self.at(logits),
            y_at: self.at(y),
            scale: router.scale,
            experts: experts as u32,
            used: used as u32,
            gating: router.gating as u32,
            renormalises: u32::from(router.renormalises),
            groups: groups as u32,
            used_groups: used_groups as u32,
        };
        let cost = Cost::row("route", 2 * experts * F32);
        let launch = self.launch("route/route", args, Grid::rows(1), cost);
        self.dispatch_always(y, LaunchPlan { shared, ..launch });
        Ok(())
    }

    /// Lists the experts whose routing weights are an input of the step.
    pub(crate) fn list_experts(&self, routes: ValueId, list: usize) -> LaunchPlan {
        let (experts, used) = (self.cols(routes), self.plan.lists[list].used);
        let args = RouteArgs {
            chosen: self.list(list).into(),
            x: self.slot(routes).into(),
            x_at: self.at(routes),
            experts: experts as u32,
            used: used as u32,
            ..RouteArgs::default()
        };
        let cost = Cost::row("route", experts * F32);
        let launch = self.launch("route/route_list", args, Grid::rows(1), cost);
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
        let args = GroupsArgs {
            groups: groups.into(),
            chosen: self.list(list).into(),
            rows: self.row_count_word(y),
            entries,
            experts: experts as u32,
            used: used as u32,
            tile: GROUP_ROWS as u32,
        };
        let cost = Cost::row("groups", 4 * used * size_of::<u32>());
        let launch = self.launch("route/groups", args, Grid { groups: 1, each: Each::Step }, cost);
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
        let args = MixArgs {
            y: self.slot(y).into(),
            x: downs.into(),
            chosen: self.list(list).into(),
            r: residual.map(|id| self.slot(id)).into(),
            y_at: self.at(y),
            r_at: residual.map_or([0; 2], |id| self.at(id)),
            cols: cols as u32,
            used: used as u32,
        };
        let cost = Cost::row("mix", (used + 2) * cols * F32);
        self.launch("route/mix", args, Grid::rows(cols.div_ceil(MIX_COLS)), cost)
    }
}
