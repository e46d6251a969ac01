//! Cutting a graph into pipeline stages.

use crate::builder::IdMap;
use crate::{Builder, Graph, Op, Rows, Value, ValueId};

impl Graph {
    /// Cuts the graph after `layers` layers. The output of the first part is the [`Op::Input`] of the second. Each part has only
    /// the weights and stores that it uses, and all groups of the whole. `None` if a part would have no layer, if another value or
    /// a store is used on both sides, or if the value at the cut does not have all rows of a step.
    pub fn cut(&self, layers: usize) -> Option<(Graph, Graph)> {
        if layers >= self.layers() {
            return None;
        }
        let at = self.layer_ends[layers.checked_sub(1)?];
        let (before, after) = self.values.split_at(at.index() + 1);
        let stores = |value: &Value| value.op.store().map(|(store, _)| store);
        let is_alone = after.iter().flat_map(|value| value.op.inputs()).all(|input| input >= at)
            && !after.iter().filter_map(stores).any(|id| before.iter().filter_map(stores).any(|b| b == id));
        if !is_alone || self.value(at).rows != Rows::Step {
            return None;
        }
        let input = Value { op: Op::Input { cols: self.value(at).cols }, ..self.value(at).clone() };
        let rest = std::iter::once(&input).chain(after);
        Some((self.part(before.iter(), 0, at), self.part(rest, at.index(), self.output)))
    }

    /// The graph of `values`, a contiguous range that starts at value `first`.
    fn part<'a>(&self, values: impl Iterator<Item = &'a Value>, first: usize, output: ValueId) -> Graph {
        let (mut part, mut ids) = (Builder::new(), IdMap::default());
        values.for_each(|value| part.import(self, value, first, &mut ids));
        part.finish_part(self, first, output)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Builder, Graph, Mask, Store};

    const STORE: Store = Store { heads: 1, k_dim: 4, v_dim: 4, mask: Mask::Causal };

    /// Two layers of a linear and an attention operation. If `crosses`, the second layer reads the store of the first.
    fn model(crosses: bool) -> Graph {
        let mut g = Builder::new();
        let table = g.weight("table", 7, 4);
        let mut x = g.embed("embd", table);
        let first = g.store(STORE);
        for (layer, name) in ["first", "second"].into_iter().enumerate() {
            let w = g.weight(name, 4, 4);
            let y = g.linear(("y", layer), x, w);
            let a = match layer {
                0 => g.attention(("a", layer), y, Some([y, x]), first, 1, 0.5),
                _ if crosses => g.attention(("a", layer), y, None, first, 1, 0.5),
                _ => {
                    let own = g.store(Store { mask: Mask::Window(3), ..STORE });
                    g.attention(("a", layer), y, Some([y, x]), own, 1, 0.5)
                }
            };
            x = g.add(("out", layer), a, x);
            g.end_layer(x);
        }
        let x = g.output_rows("outputs", x);
        let y = g.linear("logits", x, table);
        g.finish(y)
    }

    #[test]
    fn parts_make_up_the_whole() {
        let whole = model(false);
        let at = whole.find("out-0").expect("it is there");
        let (first, second) = whole.cut(1).expect("nothing else crosses");
        let printed = whole.to_string();
        let lines: Vec<&str> = printed.lines().collect();
        let text = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        assert_eq!(first.to_string(), text(&lines[..=at.index()]));
        let mut expected = lines[at.index()..].to_vec();
        expected[0] = "out-0 = input(4)  // [rows, 4]";
        assert_eq!(second.to_string(), text(&expected).replace("store 1", "store 0"));
        let names = |graph: &Graph| graph.weights().map(|(_, w)| w.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&first), names(&second)),
            (vec!["table".into(), "first".into()], vec!["second".to_owned(), "table".to_owned()])
        );
        assert_eq!((first.layers(), second.layers()), (1, 1));
        assert_eq!(first.find("out-0"), Some(first.output()));
        // Both parts use the block tables of one step.
        assert_eq!((first.groups(), second.groups()), (whole.groups(), whole.groups()));
        let group = |graph: &Graph| graph.stores().map(|(id, _)| graph.store_group(id)).collect::<Vec<_>>();
        assert_eq!((group(&first), group(&second)), (vec![0], vec![1]));
    }

    #[test]
    fn cuts_with_other_dependencies_are_refused() {
        let whole = model(false);
        assert!(whole.cut(0).is_none() && whole.cut(2).is_none() && whole.cut(usize::MAX).is_none());
        assert!(model(true).cut(1).is_none(), "a store that both sides use");
    }
}
