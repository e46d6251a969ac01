//! A graph under construction: embedding, norms, linear layers with optional biases, logits.

use std::collections::HashMap;

use graph::{Builder, Graph, ValueId, ValueName, WeightId};

use crate::{Config, Tensors};

pub(crate) struct GraphContext<'a> {
    pub(crate) g: Builder,
    c: &'a Config,
    eps: f32,
    has: Tensors<'a>,
    /// Whether any layer has a tensor, such as `attn_q.bias`; cached.
    in_layers: HashMap<String, bool>,
    token_embd: Option<WeightId>,
}

/// A linear layer, with a bias if the file has one.
#[derive(Debug)]
pub(crate) struct Linear {
    /// Tensor name, without `.weight` and `.bias`.
    pub(crate) tensor: &'static str,
    /// Name of the value without a bias.
    pub(crate) name: &'static str,
    /// Names of the values before and after adding the bias.
    pub(crate) biased: [&'static str; 2],
}

impl<'a> GraphContext<'a> {
    pub(crate) fn new(c: &'a Config, eps: f32, has: Tensors<'a>) -> GraphContext<'a> {
        GraphContext { g: Builder::new(), c, eps, has, in_layers: HashMap::new(), token_embd: None }
    }

    /// Columns of the residual stream.
    pub(crate) fn hidden(&self) -> usize {
        self.c.embedding_length
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        (self.has)(name)
    }

    /// Whether any layer has `blk.N.{tensor}`; if one layer has it, all must.
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

    /// RMS norm of rows with weight `blk.N.{tensor}.weight`: `[rows, hidden]`.
    #[track_caller]
    pub(crate) fn norm(&mut self, (name, il): (&'static str, usize), x: ValueId, tensor: &str) -> ValueId {
        self.head_norm((name, il), x, tensor, self.c.embedding_length)
    }

    /// RMS norm of groups of `cols` columns.
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

    /// Linear layer with a matrix `[outputs, inputs]`, and a bias if the file has one: `[rows, outputs]`.
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

    /// Linear layer with a declared `weight` of `outputs` rows, and a bias if the file has one: `[rows, outputs]`.
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
        let [matmul, sum] = linear.biased;
        let bias = self.g.weight(format!("blk.{il}.{bias}"), 1, outputs);
        let x = self.g.linear((matmul, il), x, weight);
        self.g.add_bias((sum, il), x, bias)
    }

    /// In the last layer, reduces the attention output and the residual stream to the output rows; attention itself
    /// needs every row.
    #[track_caller]
    pub(crate) fn keep_outputs(&mut self, il: usize, a: ValueId, x: ValueId) -> (ValueId, ValueId) {
        if il + 1 < self.c.block_count {
            return (a, x);
        }
        (self.g.output_rows("kqv_out_outputs", a), self.g.output_rows("l_inp_outputs", x))
    }

    /// Finishes the graph with the logits, `[outputs, vocab]`, by `output.weight` or by tied embeddings.
    #[track_caller]
    pub(crate) fn logits(mut self, x: ValueId) -> Graph {
        let logits = self.unembed("result_output", x);
        self.g.finish(logits)
    }

    /// The same, multiplied by `factor`.
    #[track_caller]
    pub(crate) fn scaled_logits(mut self, x: ValueId, factor: f32) -> Graph {
        let logits = self.unembed("result_output_mm", x);
        let logits = self.g.scale("result_output", logits, factor);
        self.g.finish(logits)
    }

    #[track_caller]
    fn unembed(&mut self, name: &'static str, x: ValueId) -> ValueId {
        let (vocab, hidden) = (self.c.vocab_size, self.c.embedding_length);
        let norm = self.g.weight("output_norm.weight", 1, hidden);
        let x = self.g.rms_norm(ValueName::from("result_norm"), x, norm, self.eps); // [outputs, hidden]
        let output = match self.token_embd {
            Some(table) if !self.has("output.weight") => table,
            _ => self.g.weight("output.weight", vocab, hidden),
        };
        self.g.linear(name, x, output) // [outputs, vocab]
    }
}
