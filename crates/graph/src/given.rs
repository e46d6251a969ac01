//! Graphs whose routing does not depend on their values.

use std::collections::HashMap;

use crate::{Graph, Index, Op, Operand, Rows, Value, ValueId, Weight, WeightId};

impl Graph {
    /// The same graph, but each [`Op::Route`] reads its logits, which are still computed, from a table by position, `[positions,
    /// experts]`: the same tables give the same routes. Also returns the tensors of the tables, in the order of the operations.
    pub fn with_given_routes(&self, positions: usize) -> (Graph, Vec<String>) {
        let mut graph = Graph { values: Vec::new(), by_name: HashMap::new(), ..self.clone() };
        let (mut ids, mut given) = (Vec::<ValueId>::new(), Vec::new());
        for value in &self.values {
            let mut value = value.clone();
            value.op.operands(|operand| {
                if let Operand::Value(id) = operand {
                    *id = ids[id.index()];
                }
            });
            if let Op::Route { logits, .. } = &mut value.op {
                let of = graph.value(*logits).clone();
                let name = format!("{}.given", of.name);
                let table = WeightId(graph.weights.len() as u32);
                graph.weights.push(Weight::whole(name.clone(), [1, positions, of.cols]));
                given.push(name.clone());
                let op = Op::Embed { table, index: Index::Position };
                *logits = graph.push(Value { name: name.clone(), op, rows: Rows::Step, ..of.clone() });
                if of.rows == Rows::Output {
                    let (name, op) = (format!("{name}_outputs"), Op::OutputRows { x: *logits });
                    *logits = graph.push(Value { name, op, ..of });
                }
            }
            ids.push(graph.push(value));
        }
        graph.layer_ends.iter_mut().for_each(|id| *id = ids[id.index()]);
        graph.output = ids[graph.output.index()];
        (graph, given)
    }

    fn push(&mut self, value: Value) -> ValueId {
        let id = ValueId::from_index(self.values.len());
        self.by_name.insert(value.name.clone(), id);
        self.values.push(value);
        id
    }
}

#[cfg(test)]
mod tests {
    use crate::Builder;

    #[test]
    fn routes_read_tables() {
        let mut g = Builder::new();
        let (table, router) = (g.weight("table", 7, 4), g.weight("router", 3, 4));
        let x = g.embed("embd", table);
        let logits = g.linear(("logits", 0), x, router);
        let routes = g.route(("routes", 0), logits, 2);
        g.end_layer(routes);
        let x = g.output_rows("outputs", x);
        let logits = g.linear(("logits", 1), x, router);
        let routes = g.route(("routes", 1), logits, 2);
        let (graph, given) = g.finish(routes).with_given_routes(9);
        let expected = "embd = embed(table)  // [rows, 4]
logits-0 = linear(embd, router)  // [rows, 3]
logits-0.given = embed(logits-0.given, positions)  // [rows, 3]
routes-0 = route(logits-0.given, 2 used)  // [rows, 3]
outputs = output_rows(embd)  // [outputs, 4]
logits-1 = linear(outputs, router)  // [outputs, 3]
logits-1.given = embed(logits-1.given, positions)  // [rows, 3]
logits-1.given_outputs = output_rows(logits-1.given)  // [outputs, 3]
routes-1 = route(logits-1.given_outputs, 2 used)  // [outputs, 3]
";
        assert_eq!(graph.to_string(), expected);
        assert_eq!(given, ["logits-0.given", "logits-1.given"]);
        assert_eq!(graph.layer_ends(), [graph.find("routes-0").expect("a value")]);
        assert_eq!(graph.find("routes-1"), Some(graph.output()));
        let weight = graph.weights().last().expect("a table").1;
        assert_eq!([weight.count, weight.rows, weight.cols], [1, 9, 3]);
    }
}
