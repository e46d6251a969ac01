//! Kernels on one thread: linear layers by format and shape, experts by rows, attention by depth.
//!
//!     cargo bench -p rustorch-backend-cpu -- Q4_K
//!     RUSTORCH_ISA=avx2 cargo bench -p rustorch-backend-cpu -- attention
//!
//! Prints the machine's peak rates first. Small batches report GB/s of weights or K/V; large ones report Gelem/s, which are 10^9
//! multiply-adds per second. Weights are read repeatedly, so they may come from cache. Activations are looked up and packed
//! each time, a few percent of the time for 512 rows.

use std::collections::HashMap;
use std::num::NonZero;
use std::time::Duration;

use backend::{Backend, Bucket, KV_BLOCK, KvFormat, KvLayout, Program, Row, Sequence, Step, Taps, Weight};
use backend_cpu::{Cpu, Isa};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use graph::{Activation, Builder, Graph, Mask, Store};
use quant::Format;

/// Rows of the activation tables.
const TABLE: usize = 16;

/// Maximum rows that report bytes per second.
const FEW: usize = 8;

/// Experts per row.
const USED: usize = 8;

/// Query heads, K/V heads, head dimension.
const HEADS: (usize, usize, usize) = (32, 4, 64);

/// Whether to measure: `cargo test` only runs each benchmark once, on small sizes.
fn is_measured() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// The instruction set of `RUSTORCH_ISA`, or the best of this CPU.
fn isa() -> Isa {
    std::env::var("RUSTORCH_ISA").map_or_else(
        |_| Isa::detect(),
        |name| Isa::named(&name).unwrap_or_else(|| panic!("RUSTORCH_ISA: there is no kernel set {name}")),
    )
}

/// Prints the machine's peak rates.
fn ceilings_beside(_: &mut Criterion) {
    if !is_measured() {
        return;
    }
    let ceilings = backend_cpu::ceilings(isa(), NonZero::<usize>::MIN).expect("room to read from");
    let giga = |rate: f64| rate / 1e9;
    if let (Some(int8), Some(f32)) = (ceilings.int8_macs_per_second, ceilings.f32_macs_per_second) {
        eprintln!("ceilings: {:.0} Gelem/s of 8 bits, {:.0} Gelem/s of f32", giga(int8), giga(f32));
    }
    eprintln!("ceiling of reading memory: {:.1} GB/s\n", giga(ceilings.read_bytes_per_second));
}

/// A backend with one thread.
fn cpu() -> Cpu {
    let isa = isa();
    let cpu = Cpu::with_isa(1.try_into().ok(), isa);
    cpu.unwrap_or_else(|| panic!("this CPU has no {}", isa.name()))
}

/// Random weights by name.
type Loaded = HashMap<String, Weight>;

fn load(weights: &mut Loaded, name: &str, format: Format, [count, rows, cols]: [usize; 3]) {
    let bytes = testkit::random_matrix(format, count * rows * cols, 0.1, 1).into();
    weights.insert(name.to_owned(), Weight { format, count, rows, cols, bytes });
}

fn compile(graph: &Graph, weights: &Loaded, rows: usize, blocks: usize, kv: KvFormat) -> Box<dyn Program> {
    let kv_layout = KvLayout::uniform(graph, blocks, kv);
    let mut model = Box::new(cpu()).load(graph, weights, &kv_layout).expect("a good graph");
    let program = model.compile(Bucket { rows, outputs: 1 }, Taps::None).expect("a good graph");
    model.prepare(&mut |_| {}).expect("enough memory");
    program
}

/// `rows` rows of one sequence after `n_past` positions, with one output row.
fn step(n_past: usize, rows: usize, groups: usize) -> Step {
    let tokens = (0..rows).map(|row| (row % TABLE) as u32);
    let sequence = Sequence::uniform(n_past, rows, groups, blocks(n_past + rows));
    Step::new(Row::logits(tokens, [0]), vec![sequence]).expect("a good step")
}

/// A linear layer from `k` to `n` columns.
fn linear(format: Format, n: usize, k: usize, rows: usize) -> Box<dyn Program> {
    let mut builder = Builder::new();
    let (table, weight) = (builder.weight("table", TABLE, k), builder.weight("weight", n, k));
    let x = builder.embed("x", table);
    let y = builder.linear("y", x, weight);
    let output = builder.output_rows("output", y);
    let graph = builder.finish(output);
    let mut weights = Loaded::new();
    load(&mut weights, "table", Format::F32, [1, TABLE, k]);
    load(&mut weights, "weight", format, [1, n, k]);
    compile(&graph, &weights, rows, 0, KvFormat::F16)
}

/// A mixture of experts `[count, inner, cols]`, 8 per row.
fn experts(format: Format, [count, inner, cols]: [usize; 3], rows: usize) -> Box<dyn Program> {
    let mut builder = Builder::new();
    let (table, chosen) = (builder.weight("table", TABLE, cols), builder.weight("chosen", TABLE, count));
    let (x, logits) = (builder.embed("x", table), builder.embed("logits", chosen));
    let p = builder.route("p", logits, USED);
    let shapes = [("gates", inner, cols), ("ups", inner, cols), ("downs", cols, inner)];
    let of = shapes.map(|(name, rows, cols)| builder.weights(name, [count, rows, cols]));
    let y = builder.experts("y", x, p, of, Activation::Silu);
    let output = builder.output_rows("output", y);
    let graph = builder.finish(output);
    let mut weights = Loaded::new();
    load(&mut weights, "table", Format::F32, [1, TABLE, cols]);
    load(&mut weights, "chosen", Format::F32, [1, TABLE, count]);
    for (name, rows, cols) in shapes {
        load(&mut weights, name, format, [count, rows, cols]);
    }
    compile(&graph, &weights, rows, 0, KvFormat::F16)
}

/// A row's 8 experts read and multiply as much as three linear layers with 8 times an expert's rows.
fn experts_by_rows(criterion: &mut Criterion) {
    let shape = if is_measured() { [64, 768, 2048] } else { [8, 32, 256] };
    let [_, inner, cols] = shape;
    for format in [Format::Q4_0, Format::Q8_0, Format::Q4_K] {
        let mut group = criterion.benchmark_group(format!("experts {format} {inner}x{cols}"));
        for rows in [1, FEW, 512] {
            let products = 3 * USED * inner * cols;
            let bytes = products / format.block_len() * format.block_bytes();
            group.throughput(throughput(rows, bytes, products));
            let (mut program, step) = (None, step(0, rows, 0));
            group.bench_function(BenchmarkId::from_parameter(format!("{rows} rows")), |bencher| {
                let program = program.get_or_insert_with(|| experts(format, shape, rows));
                bencher.iter(|| program.run(&step).map(drop).expect("a good step"));
            });
        }
    }
}

fn linear_layers(criterion: &mut Criterion) {
    let shapes: &[(usize, usize)] =
        if is_measured() { &[(2048, 2048), (5632, 2048), (2048, 5632)] } else { &[(64, 256)] };
    for format in Format::ALL {
        for &(n, k) in shapes {
            let mut group = criterion.benchmark_group(format!("{format} {n}x{k}"));
            for rows in [1, FEW, 512] {
                let bytes = n * k / format.block_len() * format.block_bytes();
                group.throughput(throughput(rows, bytes, n * k));
                let (mut program, step) = (None, step(0, rows, 0));
                group.bench_function(BenchmarkId::from_parameter(format!("{rows} rows")), |bencher| {
                    let program = program.get_or_insert_with(|| linear(format, n, k, rows));
                    bencher.iter(|| program.run(&step).map(drop).expect("a good step"));
                });
            }
        }
    }
}

/// The throughput unit of `rows` rows that each read `bytes` and compute `products`.
fn throughput(rows: usize, bytes: usize, products: usize) -> Throughput {
    if rows <= FEW {
        Throughput::BytesDecimal(bytes as u64)
    } else {
        Throughput::Elements((rows * products) as u64)
    }
}

fn blocks(positions: usize) -> std::ops::Range<u32> {
    0..positions.div_ceil(KV_BLOCK) as u32
}

/// Attention alone, over `depth` cached positions and `rows` new ones.
fn attention(format: KvFormat, depth: usize, rows: usize) -> Box<dyn Program> {
    let (heads, kv_heads, dim) = HEADS;
    let mut builder = Builder::new();
    let tables = [("q", heads), ("k", kv_heads), ("v", kv_heads)];
    let qkv = tables.map(|(name, heads)| {
        let table = builder.weight(format!("{name}_table"), TABLE, heads * dim);
        builder.embed(name, table)
    });
    let [q, k, v] = qkv;
    let store = builder.store(Store { heads: kv_heads, k_dim: dim, v_dim: dim, mask: Mask::Causal });
    let y = builder.attention("y", q, Some([k, v]), store, heads, 0.125);
    let output = builder.output_rows("output", y);
    let graph = builder.finish(output);
    let mut weights = Loaded::new();
    for (name, heads) in tables {
        load(&mut weights, &format!("{name}_table"), Format::F32, [1, TABLE, heads * dim]);
    }
    let mut program = compile(&graph, &weights, depth, blocks(depth + rows).len(), format);
    program.run(&step(0, depth, 1)).map(drop).expect("a good step");
    program
}

fn attention_by_depth(criterion: &mut Criterion) {
    let (heads, kv_heads, dim) = HEADS;
    let depths: &[usize] = if is_measured() { &[512, 4096] } else { &[40] };
    for (name, format, size) in [("f16", KvFormat::F16, 2), ("f32", KvFormat::F32, 4)] {
        for &depth in depths {
            let mut group = criterion.benchmark_group(format!("attention {name} at {depth}"));
            for rows in [1, 32] {
                group.throughput(throughput(
                    rows,
                    2 * kv_heads * dim * depth * size,
                    2 * heads * dim * depth,
                ));
                let (mut program, step) = (None, step(depth, rows, 1));
                group.bench_function(BenchmarkId::from_parameter(format!("{rows} rows")), |bencher| {
                    let program = program.get_or_insert_with(|| attention(format, depth, rows));
                    bencher.iter(|| program.run(&step).map(drop).expect("a good step"));
                });
            }
        }
    }
}

fn config() -> Criterion {
    let criterion = Criterion::default().sample_size(10);
    criterion.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! { name = kernels; config = config(); targets = ceilings_beside, linear_layers, experts_by_rows, attention_by_depth }
criterion_main!(kernels);
