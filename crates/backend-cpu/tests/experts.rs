//! Experts in every format: the same bits packed and mapped, the reference's values with f32 activations, and the same bits
//! for a row alone and in a batch.

use std::collections::HashMap;

use backend::{Backend, Bucket, KvFormat, KvLayout, Program, Row, Sequence, Step, Taps, Weight};
use backend_cpu::{Cpu, Isa};
use backend_reference::Reference;
use graph::{Activation, Builder, Graph};
use quant::Format;
use testkit::conformance::random::nmse;

/// Rows of the table; experts.
const ROWS: usize = 40;
const EXPERTS: usize = 6;

/// Columns of `x`, of gate and up, and of the result; the last strip is partial.
const COLS: usize = 256;
const INNER: usize = 512;
const OUT: usize = 100;

/// Source of the routing weights.
#[derive(Clone, Copy)]
enum Routes {
    /// Top 2 of logits.
    Two,
    /// A table: row `r` uses its first `r % 7` experts, so some rows use none.
    Table,
}

/// Experts with these formats of gate, up and down.
fn net([gate, up, down]: [Format; 3], routes: Routes) -> (Graph, HashMap<String, Weight>) {
    let (mut g, mut weights) = (Builder::new(), HashMap::new());
    let mut weight = |g: &mut Builder, name: &str, [count, rows, cols]: [usize; 3], format: Format| {
        let bytes = testkit::random_matrix(format, count * rows * cols, 1.0 / (cols as f32).sqrt(), 3);
        weights.insert(name.to_owned(), Weight { format, count, rows, cols, bytes: bytes.into() });
        if count > 1 { g.weights(name, [count, rows, cols]) } else { g.weight(name, rows, cols) }
    };
    let table = weight(&mut g, "table", [1, ROWS, COLS], Format::F32);
    let chosen = weight(&mut g, "chosen", [1, ROWS, EXPERTS], Format::F32);
    let experts = [("gates", INNER, COLS, gate), ("ups", INNER, COLS, up), ("downs", OUT, INNER, down)];
    let experts =
        experts.map(|(name, rows, cols, format)| weight(&mut g, name, [EXPERTS, rows, cols], format));
    let (x, chosen) = (g.embed("x", table), g.embed("chosen", chosen));
    let p = match routes {
        Routes::Two => g.route("p", chosen, 2),
        Routes::Table => chosen,
    };
    let y = g.experts("y", x, p, experts, Activation::Silu);
    let y = g.output_rows("outputs", y);
    if let Routes::Table = routes {
        let table = (0..ROWS * EXPERTS).map(|i| {
            let (row, expert) = (i / EXPERTS, i % EXPERTS);
            if expert < row % 7 { (row + 3 * expert) as f32 / 40.0 - 0.4 } else { 0.0 }
        });
        let bytes: Vec<u8> = table.flat_map(f32::to_le_bytes).collect();
        weights.insert("chosen".into(), Weight::matrix(Format::F32, ROWS, EXPERTS, bytes.into()));
    }
    (g.finish(y), weights)
}

fn compile(
    (graph, weights): &(Graph, HashMap<String, Weight>),
    backend: Box<dyn Backend>,
) -> Box<dyn Program> {
    let kv_layout = KvLayout::uniform(graph, 0, KvFormat::F16);
    let mut model = backend.load(graph, weights, &kv_layout).expect("a good graph");
    model.compile(Bucket { rows: ROWS, outputs: ROWS }, Taps::None).expect("enough memory")
}

/// Runs these rows of the table.
fn run(program: &mut dyn Program, rows: std::ops::Range<u32>) -> Vec<f32> {
    let n = rows.len();
    let sequence = Sequence::uniform(0, n, 0, []);
    let step = Step::new(Row::logits(rows, 0..n as u32), vec![sequence]).expect("a good step");
    program.run(&step).expect("a good step").values().to_vec()
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|x| x.to_bits()).collect()
}

/// Checks experts of these formats on every instruction set.
fn check(formats: [Format; 3], routes: Routes) {
    let net = net(formats, routes);
    let truth = run(&mut *compile(&net, Box::new(Reference::new())), 0..ROWS as u32);
    let is_float = formats.iter().all(|format| format.block_len() == 1);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        let cpu = || Cpu::with_isa(2.try_into().ok(), isa).expect("a detected instruction set");
        let label = format!("{formats:?} {}", isa.name());
        let mut packed = compile(&net, Box::new(cpu()));
        let all = run(&mut *packed, 0..ROWS as u32);
        let (error, limit) = (nmse(&truth, &all), if is_float { 1e-10 } else { 2e-3 });
        assert!(error <= limit, "{label}: NMSE {error:e}");
        let mut mapped = compile(&net, Box::new(cpu().without_repacking()));
        assert!(bits(&run(&mut *mapped, 0..ROWS as u32)) == bits(&all), "{label}: other bits mapped");
        let mut exact = compile(&net, Box::new(cpu().with_f32_activations()));
        let of_f32 = run(&mut *exact, 0..ROWS as u32);
        let error = nmse(&truth, &of_f32);
        assert!(error <= 1e-10, "{label}, activations of f32: NMSE {error:e}");
        for first in [0, 3, 17, 38] {
            for len in [1, 2, 11] {
                let rows = first..(first + len).min(ROWS as u32);
                let among = |all: &[f32]| bits(&all[rows.start as usize * OUT..rows.end as usize * OUT]);
                let programs = [(&mut packed, &all), (&mut mapped, &all), (&mut exact, &of_f32)];
                for (kind, (program, all)) in programs.into_iter().enumerate() {
                    let found = bits(&run(&mut **program, rows.clone()));
                    assert!(found == among(all), "{label}, {kind}: other bits of rows {rows:?}");
                }
            }
        }
    }
}

#[test]
fn every_format() {
    for format in Format::ALL {
        check([format; 3], Routes::Two);
    }
}

/// Gate and up with different activation layouts, and rows with none to all experts.
#[test]
fn mixed_formats_and_any_number_of_experts() {
    use Format::{BF16, F32, Q4_K, Q5_0, Q6_K, Q8_0};
    check([Q4_K, Q6_K, Q5_0], Routes::Table);
    check([Q8_0, F32, BF16], Routes::Table);
    check([F32, F32, Q6_K], Routes::Two);
}
