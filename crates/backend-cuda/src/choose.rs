//! Chooses from the logits of output rows: greedy tokens, drawn tokens, or the best candidates. The next step can take the tokens
//! (`embed`).

use backend::{MAX_CANDIDATES, Transfer};
use gpu::{BufferId, Cost, Draws, F32, Grid, Purpose, Variant, When};
use graph::ValueId;

use crate::arguments::{AdjustArgs, ArgMaxArgs, DrawArgs, MergeArgs, PartArgs, Pointer, VocabularyArgs};
use crate::compile::Compiler;
use crate::launch::LaunchPlan;

const VOCABULARY_THREADS: u32 = 1024;

/// Columns of which a block of `arg_max` and of `candidates_of_parts` finds the best.
const PART: usize = 4096;

/// In place of the word of the step inputs with the offset of draws (`NO_DRAWS` in `kernels/rows.cu`).
const NO_DRAWS: u32 = u32::MAX;

/// Bytes of a candidate's rank.
const RANK: usize = size_of::<u64>();

impl Compiler<'_> {
    /// What a step chooses from its logits, unless it requests all of them.
    pub(crate) fn choose_tokens(&mut self, output: ValueId) {
        let (rows, cols) = (self.bound.bucket().outputs, self.cols(output));
        let parts = cols.div_ceil(PART);
        let mut buffer = |bytes| Pointer::from(BufferId::Own(self.buffer(Purpose::Activations, bytes)));
        let ranks = buffer(rows * parts * MAX_CANDIDATES * RANK);
        let (best, counters) = (buffer(rows * parts * RANK), buffer(rows * size_of::<u32>()));
        let (chosen, x, x_at) = (Pointer::Chosen, Pointer::from(self.slot(output)), self.at(output));
        let (n_cols, n_parts, draws) = (cols as u32, parts as u32, self.inputs.draws());
        let largest = ArgMaxArgs { tokens: chosen, x, best, counters, x_at, cols: n_cols, draws };
        let arg_max =
            |args| self.launch("rows/arg_max", args, Grid::rows(parts), Cost::row("arg_max", cols * F32));
        let biased_arg_max = arg_max(largest);
        let arg_max = arg_max(ArgMaxArgs { draws: NO_DRAWS, ..largest });
        // Adds biases to the logits, and subtracts penalties, in place: a step that draws returns no logits, and a tapped output has
        // been copied before.
        let (tokens, outputs) = (self.inputs.tokens as u32, self.inputs.outputs as u32);
        let args = AdjustArgs { x, x_at, cols: n_cols, tokens, outputs, draws };
        let cost = Cost::row("adjust_logits", 0);
        let adjust = self.launch("candidates/adjust_logits", args, Grid::rows(1), cost);
        // The ranks of the best candidates of each part of a row, then the best candidates of each row.
        let args = PartArgs { ranks, x, x_at, cols: n_cols };
        let cost = Cost::row("candidates_of_parts", cols * F32);
        let rank_parts = self.launch("candidates/candidates_of_parts", args, Grid::rows(parts), cost);
        let merged = |name| Cost::row(name, parts * MAX_CANDIDATES * RANK);
        let args = MergeArgs { candidates: chosen, ranks, x, x_at, parts: n_parts };
        let cost = merged("candidates_of_row");
        let merge = self.launch("candidates/candidates_of_row", args, Grid::rows(1), cost);
        // A token of the best candidates, if they are all that the row's draw considers.
        let args = DrawArgs { tokens: chosen, ranks, parts: n_parts, draws };
        let draw_best = self.launch("candidates/draw_of_row", args, Grid::rows(1), merged("draw_of_row"));
        // A token of the whole vocabulary, otherwise.
        let args = VocabularyArgs { tokens: chosen, x, x_at, cols: n_cols, draws };
        let cost = Cost::row("draw_of_vocabulary", cols * F32);
        let draw_any = self.launch("draw/draw_of_vocabulary", args, Grid::rows(1), cost);
        let draw_any = LaunchPlan { threads: VOCABULARY_THREADS, ..draw_any };

        let returned = |transfer| When { transfer: Some(transfer), ..When::default() };
        let drawn = |draws| When { draws, ..returned(Transfer::Drawn) };
        let [is_adjusted, best, largest, all] = [true; 4];
        let adjusted = drawn(Draws { is_adjusted, ..Draws::default() }).launches(vec![adjust]);
        let adjusted_largest = drawn(Draws { largest, is_adjusted, ..Draws::default() });
        let largest = drawn(Draws { largest, ..Draws::default() });
        let best = drawn(Draws { best, ..Draws::default() });
        let any = drawn(Draws { all, ..Draws::default() }).launches(vec![draw_any]);
        let choices = vec![
            returned(Transfer::Tokens).launches(vec![arg_max.clone()]),
            adjusted_largest.launches(vec![arg_max]),
            largest.launches(vec![biased_arg_max]),
            best.launches(vec![rank_parts.clone(), draw_best]),
            returned(Transfer::Candidates).launches(vec![rank_parts, merge]),
            Variant::nothing(),
        ];
        self.dispatch(output, vec![adjusted, Variant::nothing()]);
        self.dispatch(output, choices);
        // Last: it changes logits of its rows.
        self.dispatch(output, vec![any, Variant::nothing()]);
    }
}
