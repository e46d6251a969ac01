//! Chooses from the logits of output rows: greedy tokens, drawn tokens, or the best candidates. The next step can take the tokens
//! (`embed`).

use backend::{MAX_CANDIDATES, Transfer};
use graph::ValueId;
use passes::{Cost, Purpose, Variant, When};

use crate::compile::Compiler;
use crate::launch::{BufferId, F32, Grid, LaunchPlan};

/// Threads of `draw_of_vocabulary`.
const VOCABULARY_THREADS: u32 = 1024;

/// Columns of which a block of `arg_max` and of `candidates_of_parts` finds the best.
const PART: usize = 4096;

/// In place of the word of the step inputs with the offset of draws (`NO_DRAWS` in `kernels/rows.cu`).
const NO_DRAWS: u32 = u32::MAX;

/// Bytes of a candidate's rank.
const RANK: usize = size_of::<u64>();

impl Compiler<'_> {
    /// What a step chooses from its logits, unless it requests all of them.
    pub(crate) fn choose(&mut self, output: ValueId) {
        let chosen = BufferId::Chosen;
        let rows = self.bound.bucket().outputs;
        let parts = self.cols(output).div_ceil(PART);
        let ranks = BufferId::Own(self.buffer(Purpose::Activations, rows * parts * MAX_CANDIDATES * RANK));

        let best = BufferId::Own(self.buffer(Purpose::Activations, rows * parts * RANK));
        let counters = BufferId::Own(self.buffer(Purpose::Activations, rows * size_of::<u32>()));
        let of_largest = [chosen, best, counters];
        let arg_max = self.arg_max(output, parts, of_largest, NO_DRAWS);
        let arg_max_biased = self.arg_max(output, parts, of_largest, self.inputs.draws());
        let adjust = self.adjust(output);
        let of_parts = self.candidates_of_parts(output, parts, ranks);
        let of_row = self.candidates_of_row(output, parts, ranks, chosen);
        let draw = self.draw_of_row(parts, ranks, chosen);
        let draw_of_all = self.draw_of_vocabulary(output, chosen);
        let of = |transfer| When { transfer: Some(transfer), ..When::default() };
        let adjusted = When { is_adjusted: true, ..of(Transfer::Drawn) }.launches(vec![adjust]);
        self.dispatch(output, vec![adjusted, Variant::default()]);
        let of_adjusted = When { draws_largest: true, is_adjusted: true, ..of(Transfer::Drawn) };
        let largest = When { draws_largest: true, ..of(Transfer::Drawn) };
        let of_best = When { draws_of_best: true, ..of(Transfer::Drawn) };
        self.dispatch(
            output,
            vec![
                of(Transfer::Tokens).launches(vec![arg_max.clone()]),
                of_adjusted.launches(vec![arg_max]),
                largest.launches(vec![arg_max_biased]),
                of_best.launches(vec![of_parts.clone(), draw]),
                of(Transfer::Candidates).launches(vec![of_parts, of_row]),
                Variant::default(),
            ],
        );
        // Last: it changes logits of its rows.
        let of_all = When { draws_of_all: true, ..of(Transfer::Drawn) }.launches(vec![draw_of_all]);
        self.dispatch(output, vec![of_all, Variant::default()]);
    }

    /// Writes the argmax of each row of `x`, by blocks of `parts` of it, to the first of the buffers; the others are its own.
    fn arg_max(
        &self,
        x: ValueId,
        parts: usize,
        [tokens, best, counters]: [BufferId; 3],
        draws: u32,
    ) -> LaunchPlan {
        let cols = self.cols(x);
        let (from, [at, stride]) = self.operand(x);
        self.launch(
            "rows/arg_max",
            [tokens, from, best, counters].map(Some).into(),
            vec![at, stride, cols as u32, draws],
            Grid::rows(parts),
            Cost::row("arg_max", cols * F32),
        )
    }

    /// Adds biases to the logits `x`, and subtracts penalties, in place: a step that draws returns no logits, and a tapped output
    /// has been copied before.
    fn adjust(&self, x: ValueId) -> LaunchPlan {
        let (logits, [at, stride]) = self.operand(x);
        let inputs = [self.inputs.tokens as u32, self.inputs.outputs as u32, self.inputs.draws()];
        let mut words = vec![at, stride, self.cols(x) as u32];
        words.extend(inputs);
        let cost = Cost::row("adjust_logits", 0);
        self.launch("candidates/adjust_logits", vec![Some(logits)], words, Grid::rows(1), cost)
    }

    /// Writes the ranks of the best candidates of each part of each row of `x` to `ranks`.
    fn candidates_of_parts(&self, x: ValueId, parts: usize, ranks: BufferId) -> LaunchPlan {
        let cols = self.cols(x);
        let (from, [at, stride]) = self.operand(x);
        self.launch(
            "candidates/candidates_of_parts",
            vec![Some(ranks), Some(from)],
            vec![at, stride, cols as u32],
            Grid::rows(parts),
            Cost::row("candidates_of_parts", cols * F32),
        )
    }

    /// Writes the best candidates of each row of `x` to `candidates`.
    fn candidates_of_row(
        &self,
        x: ValueId,
        parts: usize,
        ranks: BufferId,
        candidates: BufferId,
    ) -> LaunchPlan {
        let (from, [at, stride]) = self.operand(x);
        self.launch(
            "candidates/candidates_of_row",
            vec![Some(candidates), Some(ranks), Some(from)],
            vec![at, stride, parts as u32],
            Grid::rows(1),
            Cost::row("candidates_of_row", parts * MAX_CANDIDATES * RANK),
        )
    }

    /// Draws the token of each row of `x` from the whole vocabulary, if its best candidates are not all that its draw considers.
    fn draw_of_vocabulary(&self, x: ValueId, tokens: BufferId) -> LaunchPlan {
        let cols = self.cols(x);
        let (logits, [at, stride]) = self.operand(x);
        let launch = self.launch(
            "draw/draw_of_vocabulary",
            vec![Some(tokens), Some(logits)],
            vec![at, stride, cols as u32, self.inputs.draws()],
            Grid::rows(1),
            Cost::row("draw_of_vocabulary", cols * F32),
        );
        LaunchPlan { threads: VOCABULARY_THREADS, ..launch }
    }

    /// Draws the token of each row from its best candidates, if they are all that its draw considers.
    fn draw_of_row(&self, parts: usize, ranks: BufferId, tokens: BufferId) -> LaunchPlan {
        self.launch(
            "candidates/draw_of_row",
            vec![Some(tokens), Some(ranks)],
            vec![parts as u32, self.inputs.draws()],
            Grid::rows(1),
            Cost::row("draw_of_row", parts * MAX_CANDIDATES * RANK),
        )
    }
}
