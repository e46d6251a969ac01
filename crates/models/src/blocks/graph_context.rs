//! A graph under construction: embedding, norms, linear layers with optional biases, logits.

use std::collections::HashMap;

use graph::{Activation, Builder, Graph, Map, NormKind, Op, Pool, ValueId, ValueName, WeightId};

use crate::{Config, Tensors};

pub(crate) struct GraphContext<'a> {
    pub(crate) g: Builder,
    pub(super) c: &'a Config,
    norm: (NormKind, f32),
    has: Tensors<'a>,
    /// Whether any layer has a tensor, such as `attn_q.bias`; cached.
    in_layers: HashMap<String, bool>,
    token_embd: Option<WeightId>,
    pub(crate) output_norm: &'static str,
    pub(crate) rank_pool: Pool,
    pub(crate) labels: usize,
    /// The matrices after pooling, and their rows.
    pub(crate) dense: Vec<(&'static str, usize)>,
}

/// Gemma 4 multiplies its router's input with a vector of this name.
const ROUTER_SCALE: &str = ".ffn_gate_inp.scale";

#[derive(Debug)]
pub(crate) struct Linear {
    /// Tensor name, without `.weight` and `.bias`.
    pub(crate) tensor: &'static str,
    pub(crate) name: &'static str,
    /// Names of the values before and after adding the bias.
    pub(crate) biased: [&'static str; 2],
}

impl<'a> GraphContext<'a> {
    pub(crate) fn new(c: &'a Config, eps: f32, has: Tensors<'a>) -> GraphContext<'a> {
        GraphContext {
            g: Builder::new(),
            c,
            norm: (NormKind::Rms, eps),
            has,
            in_layers: HashMap::new(),
            token_embd: None,
            output_norm: "output_norm",
            rank_pool: Pool::First,
            labels: 1,
            dense: Vec::new(),
        }
    }

    pub(crate) fn with_layer_norms(c: &'a Config, eps: f32, has: Tensors<'a>) -> GraphContext<'a> {
        GraphContext { norm: (NormKind::Layer, eps), ..GraphContext::new(c, eps, has) }
    }

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

    #[track_caller]
    pub(crate) fn embed(&mut self, name: &'static str) -> ValueId {
        let table = self.g.weight("token_embd.weight", self.c.vocab_size, self.c.embedding_length);
        self.token_embd = Some(table);
        self.g.embed(name, table)
    }

    /// Norm of rows with weight `blk.N.{tensor}.weight`, and a bias if the file has one: `[rows, hidden]`.
    #[track_caller]
    pub(crate) fn norm(&mut self, (name, il): (&'static str, usize), x: ValueId, tensor: &str) -> ValueId {
        if self.in_layers(&format!("{tensor}.bias")) {
            return self.biased_norm(ValueName(name, Some(il)), x, &format!("blk.{il}.{tensor}"));
        }
        self.head_norm((name, il), x, tensor, self.c.embedding_length)
    }

    /// Norm of rows with weight `{tensor}.weight`, and a bias if the file has one: `[rows, hidden]`.
    #[track_caller]
    pub(crate) fn global_norm(&mut self, name: &'static str, x: ValueId, tensor: &str) -> ValueId {
        if self.has(&format!("{tensor}.bias")) {
            return self.biased_norm(name.into(), x, tensor);
        }
        self.norm_by(name, x, &format!("{tensor}.weight"), self.c.embedding_length)
    }

    #[track_caller]
    fn biased_norm(&mut self, name: ValueName, x: ValueId, tensor: &str) -> ValueId {
        let hidden = self.c.embedding_length;
        let weight = self.g.weight(format!("{tensor}.weight"), 1, hidden);
        let bias = self.g.weight(format!("{tensor}.bias"), 1, hidden);
        let before = match name.0 {
            "attn_norm" => "attn_norm_w",
            "ffn_norm" => "ffn_norm_w",
            "inp_norm" => "inp_norm_w",
            "attn_out_norm" => "attn_out_norm_w",
            "attn_norm_2" => "attn_norm_2_w",
            "layer_out_norm" => "layer_out_norm_w",
            _ => "result_norm_w",
        };
        let x = self.group_norm(ValueName(before, name.1), x, hidden, Some(weight));
        self.g.add_bias(name, x, bias)
    }

    /// Norm of groups of as many columns as the vector `tensor` has.
    #[track_caller]
    pub(crate) fn norm_by(
        &mut self,
        name: impl Into<ValueName>,
        x: ValueId,
        tensor: &str,
        cols: usize,
    ) -> ValueId {
        let weight = self.g.weight(tensor, 1, cols);
        self.group_norm(name, x, cols, Some(weight))
    }

    /// Norm of groups of `cols` columns with weight `blk.N.{tensor}.weight`.
    #[track_caller]
    pub(crate) fn head_norm(
        &mut self,
        name: (&'static str, usize),
        x: ValueId,
        tensor: &str,
        cols: usize,
    ) -> ValueId {
        self.norm_by(name, x, &format!("blk.{}.{tensor}.weight", name.1), cols)
    }

    /// Norm of groups of `cols` columns.
    #[track_caller]
    pub(crate) fn group_norm(
        &mut self,
        name: impl Into<ValueName>,
        x: ValueId,
        cols: usize,
        weight: Option<WeightId>,
    ) -> ValueId {
        let (kind, eps) = self.norm;
        self.g.norm(name, x, kind, cols, weight, eps)
    }

    /// `x` times the transpose of `weight`, and times its number `.scale` in files in NVFP4: `[rows, weight.rows]`.
    #[track_caller]
    pub(crate) fn linear(&mut self, name: impl Into<ValueName>, x: ValueId, weight: WeightId) -> ValueId {
        let scale =
            self.g.declared(weight).tensor.strip_suffix(".weight").map(|name| format!("{name}.scale"));
        match scale.filter(|scale| !scale.ends_with(ROUTER_SCALE) && self.has(scale)) {
            Some(scale) => {
                let scale = self.g.weight(scale, 1, 1);
                self.g.scaled_linear(name.into(), x, weight, scale)
            }
            None => self.g.linear(name, x, weight),
        }
    }

    /// Linear layer with a matrix `[outputs, inputs]`, and a bias if the file has one: `[rows, outputs]`.
    #[track_caller]
    pub(crate) fn project(&mut self, linear: &Linear, il: usize, x: ValueId, shape: [usize; 2]) -> ValueId {
        let [inputs, outputs] = shape;
        let weight = self.g.weight(format!("blk.{il}.{}.weight", linear.tensor), outputs, inputs);
        self.multiply(linear, il, x, weight)
    }

    /// Linear layer with a declared weight, and a bias if the file has one: `[rows, weight.rows]`.
    #[track_caller]
    pub(crate) fn multiply(&mut self, linear: &Linear, il: usize, x: ValueId, weight: WeightId) -> ValueId {
        let bias = format!("{}.bias", linear.tensor);
        if !self.in_layers(&bias) {
            return self.linear((linear.name, il), x, weight);
        }
        let [matmul, sum] = linear.biased;
        let bias = self.g.weight(format!("blk.{il}.{bias}"), 1, self.g.declared(weight).rows);
        let x = self.linear((matmul, il), x, weight);
        self.g.add_bias((sum, il), x, bias)
    }

    /// In the last layer, the output rows of attention output and residual stream; attention itself needs every row.
    #[track_caller]
    pub(crate) fn keep_outputs(&mut self, il: usize, a: ValueId, x: ValueId) -> (ValueId, ValueId) {
        (self.keep_output("kqv_out_outputs", il, a), self.keep_output("l_inp_outputs", il, x))
    }

    /// In the last layer, the output rows of `x`, unless the whole sequence is pooled.
    #[track_caller]
    pub(crate) fn keep_output(&mut self, name: &'static str, il: usize, x: ValueId) -> ValueId {
        let is_inner = il + 1 < self.c.block_count || self.pool().is_some();
        if is_inner { x } else { self.g.output_rows(name, x) }
    }

    /// Finishes the graph with the logits, `[outputs, vocab]`, by `output.weight` or by tied embeddings.
    #[track_caller]
    pub(crate) fn logits(self, x: ValueId) -> Graph {
        self.finish(x, None)
    }

    #[track_caller]
    pub(crate) fn scaled_logits(self, x: ValueId, factor: f32) -> Graph {
        self.finish(x, Some(Map::Scale(factor)))
    }

    /// The same, between `-cap` and `cap` if there is a cap.
    #[track_caller]
    pub(crate) fn capped_logits(self, x: ValueId, cap: Option<f32>) -> Graph {
        self.finish(x, cap.map(Map::Softcap))
    }

    /// The final norm and the logits, to which `map` is applied; or the embeddings.
    #[track_caller]
    fn finish(mut self, x: ValueId, map: Option<Map>) -> Graph {
        let x = self.global_norm("result_norm", x, self.output_norm); // [outputs, hidden]
        if self.c.pooling.is_some() {
            return self.embeddings(x, Activation::Identity);
        }
        let (vocab, hidden) = (self.c.vocab_size, self.c.embedding_length);
        let output = match self.token_embd {
            Some(table) if !self.has("output.weight") => table,
            _ => self.g.weight("output.weight", vocab, hidden),
        };
        let name = if map.is_some() { "result_output_mm" } else { "result_output" };
        let mut logits = self.linear(name, x, output); // [outputs, vocab]
        if let Some(map) = map {
            logits = self.g.op("result_output", Op::Map { x: logits, map });
        }
        self.g.finish(logits)
    }
}
