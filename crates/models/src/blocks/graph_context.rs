//! A graph in the making: embedding, norms, linear layers with the biases that the file has, logits.

use std::collections::HashMap;

use graph::{Builder, Graph, ValueId, ValueName, WeightId};

use crate::{Config, Tensors};

/// The builder, and what every block needs to know.
pub(crate) struct GraphContext<'a> {
    pub(crate) g: Builder,
    c: &'a Config,
    /// What RMSNorm adds under its root.
    eps: f32,
    has: Tensors<'a>,
    /// Whether any layer has a tensor, such as `attn_q.bias`.
    in_layers: HashMap<String, bool>,
    token_embd: Option<WeightId>,
}

/// A linear layer, which has a bias if the file has one.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Its tensors' name, without `.weight` and `.bias`.
    pub(crate) tensor: &'static str,
    /// The name of its value where there is no bias.
    pub(crate) name: &'static str,
    /// The names of the product and of its sum with the bias.
    pub(crate) biased: [&'static str; 2],
}

impl<'a> GraphContext<'a> {
    /// An empty graph.
    pub(crate) fn new(c: &'a Config, eps: f32, has: Tensors<'a>) -> GraphContext<'a> {
        GraphContext { g: Builder::new(), c, eps, has, in_layers: HashMap::new(), token_embd: None }
    }

    /// Columns of the residual stream.
    pub(crate) fn hidden(&self) -> usize {
        self.c.embedding_length
    }

    /// Whether the file has the tensor.
    pub(crate) fn has(&self, name: &str) -> bool {
        (self.has)(name)
    }

    /// Whether any layer has `blk.N.{tensor}`: what one layer has, all must have.
    pub(crate) fn in_layers(&mut self, tensor: &str) -> bool {
        let (has, layers) = (self.has, self.c.block_count);
        let any = || (0..layers).any(|il| has(&format!("blk.{il}.{tensor}")));
        match self.in_layers.get(tensor) {
            Some(&known) => known,
            None => *self.in_layers.entry(tensor.to_owned()).or_insert(any()),
        }
    }

    /// The embeddings of the step's tokens: `[rows, hidden]`.
    #[track_caller]
    pub(crate) fn embed(&mut self, name: &'static str) -> ValueId {
        let table = self.g.weight("token_embd.weight", self.c.vocab_size, self.c.embedding_length);
        self.token_embd = Some(table);
        self.g.embed(name, table)
    }

    /// Divisors of RoPE's angles for so many columns, if the file has them.
    pub(crate) fn rope_factors(&mut self, dims: usize) -> Option<WeightId> {
        let name = "rope_freqs.weight";
        self.has(name).then(|| self.g.weight(name, 1, dims / 2))
    }

    /// RMSNorm of rows, by `blk.N.{tensor}.weight`: `[rows, hidden]`.
    #[track_caller]
    pub(crate) fn norm(&mut self, (name, il): (&'static str, usize), x: ValueId, tensor: &str) -> ValueId {
        self.head_norm((name, il), x, tensor, self.c.embedding_length)
    }

    /// RMSNorm of groups of `cols` columns.
    #[track_caller]
    pub(crate) fn head_norm(
        &mut self,
        (name, il): (&'static str, usize),
        x: ValueId,
        tensor: &str,
        cols: usize,
    ) -> ValueId {
        let weight = self.g.weight(format!("blk.{il}.{tensor}.weight"), 1, cols);
        self.g.rms_norm((name, il), x, weight, self.eps)
    }

    /// `x` times a matrix of `outputs` rows of `inputs` values, plus the bias if there is one: `[rows, outputs]`.
    #[track_caller]
    pub(crate) fn project(
        &mut self,
        linear: &Linear,
        il: usize,
        x: ValueId,
        [inputs, outputs]: [usize; 2],
    ) -> ValueId {
        let weight = self.g.weight(format!("blk.{il}.{}.weight", linear.tensor), outputs, inputs);
        self.multiply(linear, il, x, weight, outputs)
    }

    /// `x` times `weight`, which has `outputs` rows, plus the bias if there is one: `[rows, outputs]`.
    #[track_caller]
    pub(crate) fn multiply(
        &mut self,
        linear: &Linear,
        il: usize,
        x: ValueId,
        weight: WeightId,
        outputs: usize,
    ) -> ValueId {
        let bias = format!("{}.bias", linear.tensor);
        if !self.in_layers(&bias) {
            return self.g.linear((linear.name, il), x, weight);
        }
        let [product, sum] = linear.biased;
        let bias = self.g.weight(format!("blk.{il}.{bias}"), 1, outputs);
        let x = self.g.linear((product, il), x, weight);
        self.g.add_bias((sum, il), x, bias)
    }

    /// What attention made and the residual stream; behind the last layer's attention, which needs every row, only their
    /// output rows.
    #[track_caller]
    pub(crate) fn keep_outputs(&mut self, il: usize, a: ValueId, x: ValueId) -> (ValueId, ValueId) {
        if il + 1 < self.c.block_count {
            return (a, x);
        }
        (self.g.output_rows("kqv_out_outputs", a), self.g.output_rows("l_inp_outputs", x))
    }

    /// The graph up to the logits, `[outputs, vocab]`, by `output.weight`, or by the embeddings where there is none.
    #[track_caller]
    pub(crate) fn logits(mut self, x: ValueId) -> Graph {
        let (vocab, hidden) = (self.c.vocab_size, self.c.embedding_length);
        let norm = self.g.weight("output_norm.weight", 1, hidden);
        let x = self.g.rms_norm(ValueName::from("result_norm"), x, norm, self.eps); // [outputs, hidden]
        let output = match self.token_embd {
            Some(table) if !self.has("output.weight") => table,
            _ => self.g.weight("output.weight", vocab, hidden),
        };
        let logits = self.g.linear("result_output", x, output); // [outputs, vocab]
        self.g.finish(logits)
    }
}
