//! A graph as two, of which one goes on with what the other has computed.

use std::collections::HashMap;

use crate::{Graph, Op, Rows, Value, ValueId, Weight, WeightId};

impl Graph {
    /// Cuts after `at`: a graph whose output is that value, and one that has it as its [`Op::Input`]. Layers of the
    /// second count from 0 again; both have only the weights that they use.
    ///
    /// None when a later value reads any other that comes before, or `at` has not all rows of a step.
    pub fn cut(&self, at: ValueId) -> Option<(Graph, Graph)> {
        let (before, after) = self.values.split_at(at.index() + 1);
        let is_alone = after.iter().flat_map(|value| value.op.inputs()).all(|input| input >= at);
        if !is_alone || self.value(at).rows != Rows::Step || after.is_empty() {
            return None;
        }
        let is_attention = |value: &&Value| matches!(value.op, Op::Attention { .. });
        let layers = before.iter().filter(is_attention).count();
        let input = Value { op: Op::Input, ..self.value(at).clone() };
        let rest = std::iter::once(&input).chain(after);
        Some((self.part(before.iter(), 0, 0, at), self.part(rest, at.index(), layers, self.output)))
    }

    /// The graph of `values`, of which the first was value `first`, and the first layer layer `layer`.
    fn part<'a>(
        &self,
        values: impl Iterator<Item = &'a Value>,
        first: usize,
        layer: usize,
        output: ValueId,
    ) -> Graph {
        let mut part = Graph {
            values: Vec::new(),
            by_name: HashMap::new(),
            weights: Vec::new(),
            layers: 0,
            output: ValueId(output.0 - first as u32),
        };
        let mut weights = HashMap::new();
        for value in values {
            let mut value = value.clone();
            value.op.each_input(|input| input.0 -= first as u32);
            value.op.each_weight(|weight| *weight = self.keep(*weight, &mut part.weights, &mut weights));
            if let Op::Attention { layer: number, .. } = &mut value.op {
                *number -= layer;
                part.layers += 1;
            }
            part.by_name.insert(value.name.clone(), ValueId(part.values.len() as u32));
            part.values.push(value);
        }
        part
    }

    /// The number of a weight among those that a part uses.
    fn keep(
        &self,
        id: WeightId,
        used: &mut Vec<Weight>,
        numbers: &mut HashMap<WeightId, WeightId>,
    ) -> WeightId {
        *numbers.entry(id).or_insert_with(|| {
            used.push(self.weight(id).clone());
            WeightId(used.len() as u32 - 1)
        })
    }
}

impl Op {
    fn each_input(&mut self, mut each: impl FnMut(&mut ValueId)) {
        match self {
            Op::Input | Op::Embed { .. } => {}
            Op::Linear { x, .. }
            | Op::RmsNorm { x, .. }
            | Op::Rope { x, .. }
            | Op::AddBias { x, .. }
            | Op::TakeRows { x } => each(x),
            Op::Attention { q, k, v, .. } => [q, k, v].into_iter().for_each(each),
            Op::SwiGlu { gate: a, up: b } | Op::Add { a, b } => [a, b].into_iter().for_each(each),
        }
    }

    fn each_weight(&mut self, mut each: impl FnMut(&mut WeightId)) {
        match self {
            Op::Embed { table: weight }
            | Op::Linear { weight, .. }
            | Op::RmsNorm { weight, .. }
            | Op::AddBias { weight, .. } => each(weight),
            Op::Rope { rope, .. } => rope.factors.iter_mut().for_each(each),
            Op::Input | Op::Attention { .. } | Op::SwiGlu { .. } | Op::Add { .. } | Op::TakeRows { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Graph, ValueId};

    /// Two layers of attention and a product.
    fn model() -> Graph {
        let mut g = Builder::new();
        let table = g.weight("table", 7, 4);
        let mut x = g.embed("embd", table);
        for (layer, name) in ["first", "second"].into_iter().enumerate() {
            let w = g.weight(name, 4, 4);
            let y = g.linear(("y", layer), x, w);
            let a = g.attention(("a", layer), [y, y, x], 1, 1, 0.5);
            x = g.add(("out", layer), a, x);
        }
        let x = g.take_rows("wanted", x);
        let y = g.linear("logits", x, table);
        g.finish(y)
    }

    #[test]
    fn parts_are_the_whole() {
        let whole = model();
        let at = whole.find("out-0").expect("it is there");
        let (first, second) = whole.cut(at).expect("nothing else crosses");
        let expected: String =
            whole.to_string().lines().take(at.index() + 1).map(|l| format!("{l}\n")).collect();
        assert_eq!(first.to_string(), expected);
        let mut expected: String =
            whole.to_string().lines().skip(at.index()).map(|l| format!("{l}\n")).collect();
        let line = expected.lines().next().expect("a line").to_owned();
        expected = expected.replacen(&line, "out-0 = input()  // [rows, 4]", 1).replace("cache 1", "cache 0");
        assert_eq!(second.to_string(), expected);
        let names = |graph: &Graph| graph.weights().map(|(_, w)| w.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&first), names(&second)),
            (vec!["table".to_owned(), "first".to_owned()], vec!["second".to_owned(), "table".to_owned()],)
        );
        assert_eq!((first.layers(), second.layers()), (1, 1));
        assert_eq!(first.find("out-0"), Some(first.output()));
    }

    #[test]
    fn what_crosses_elsewhere_is_not_cut() {
        let whole = model();
        for name in ["y-0", "a-0", "wanted", "logits"] {
            assert!(whole.cut(whole.find(name).expect("it is there")).is_none(), "{name}");
        }
        assert!(whole.cut(ValueId::from_index(0)).is_some(), "embeddings");
    }
}
