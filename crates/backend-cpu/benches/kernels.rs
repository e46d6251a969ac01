//! Kernels on one thread: linear layers by format and shape, attention by depth.
//!
//!     cargo bench -p rustorch-backend-cpu -- Q4_K
//!     RUSTORCH_ISA=avx2 cargo bench -p rustorch-backend-cpu -- attention
//!
//! What this machine could do is told first. A few rows are told in GB/s of weights or of keys and values, many in Gelem/s, which are products:
//! 10^9 multiplications with an addition each second. Weights are read again and again, from whichever cache
//! holds them. A layer's activations are looked up in a table and packed anew each time; of 512 rows that
//! is some percent.

use std::num::NonZero;
use std::time::Duration;

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use backend_cpu::{Cpu, Isa};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use graph::{Builder, Graph};
use quant::Format;

/// Rows of the tables that activations are looked up in.
const TABLE: usize = 16;

/// Rows that are told in bytes a second, at most.
const FEW: usize = 8;

/// Heads of queries, of keys and values, and values of each.
const HEADS: (usize, usize, usize) = (32, 4, 64);

/// Whether numbers are wanted: `cargo test` only sees that everything runs, on something small.
fn is_measured() -> bool {
    std::env::args().any(|arg| arg == "--bench")
}

/// What `RUSTORCH_ISA` names, or the best of this processor.
fn isa() -> Isa {
    std::env::var("RUSTORCH_ISA").map_or_else(
        |_| Isa::detect(),
        |name| Isa::named(&name).unwrap_or_else(|| panic!("RUSTORCH_ISA: there is no kernel set {name}")),
    )
}

/// Says what this machine could do, which the results are to be held against.
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

/// One thread's.
fn cpu() -> Cpu {
    let isa = isa();
    let cpu = Cpu::with_isa(1.try_into().ok(), isa);
    cpu.unwrap_or_else(|| panic!("this processor has no {}", isa.name()))
}

fn load(cpu: &mut Cpu, name: &str, format: Format, rows: usize, cols: usize) {
    let bytes = testkit::random_matrix(format, rows * cols, 0.1, 1).into();
    cpu.load(name, Weight { format, rows, cols, bytes }).expect("a good weight");
}

fn compile(cpu: &mut Cpu, graph: &Graph, rows: usize) -> Box<dyn Program> {
    let program = cpu.compile(graph, Bucket { rows, wanted: 1 }, Taps::None).expect("a good graph");
    cpu.prepare(&mut |_| {}).expect("room");
    program
}

/// `rows` rows of one sequence after `past` positions. One row of the result is kept.
fn step(past: usize, rows: usize, pages: &[u32]) -> Step {
    let tokens = (0..rows).map(|row| (row % TABLE) as u32).collect();
    Step::new(tokens, vec![Span { past, len: rows, pages: pages.to_vec() }], vec![0]).expect("a good step")
}

/// A program of one linear layer, `n` numbers of `k`.
fn linear(format: Format, n: usize, k: usize, rows: usize) -> Box<dyn Program> {
    let mut builder = Builder::new();
    let (table, weight) = (builder.weight("table", TABLE, k), builder.weight("weight", n, k));
    let x = builder.embed("x", table);
    let y = builder.linear("y", x, weight);
    let kept = builder.take_rows("kept", y);
    let graph = builder.finish(kept);
    let mut cpu = cpu();
    load(&mut cpu, "table", Format::F32, TABLE, k);
    load(&mut cpu, "weight", format, n, k);
    compile(&mut cpu, &graph, rows)
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
                let (mut program, step) = (None, step(0, rows, &pages(rows)));
                group.bench_function(BenchmarkId::from_parameter(format!("{rows} rows")), |bencher| {
                    let program = program.get_or_insert_with(|| linear(format, n, k, rows));
                    bencher.iter(|| program.run(&step).expect("a good step"));
                });
            }
        }
    }
}

/// What `rows` rows that read `bytes` and compute `products` each are told in.
fn throughput(rows: usize, bytes: usize, products: usize) -> Throughput {
    if rows <= FEW {
        Throughput::BytesDecimal(bytes as u64)
    } else {
        Throughput::Elements((rows * products) as u64)
    }
}

fn pages(positions: usize) -> Vec<u32> {
    (0..positions.div_ceil(PAGE) as u32).collect()
}

/// A program of attention alone over a store with `depth` positions and room for `rows` more.
fn attention(format: KvFormat, depth: usize, rows: usize) -> Box<dyn Program> {
    let (heads, kv_heads, dim) = HEADS;
    let mut builder = Builder::new();
    let tables = [("q", heads), ("k", kv_heads), ("v", kv_heads)];
    let qkv = tables.map(|(name, heads)| {
        let table = builder.weight(format!("{name}_table"), TABLE, heads * dim);
        builder.embed(name, table)
    });
    let y = builder.attention("y", qkv, heads, kv_heads, 0.125);
    let kept = builder.take_rows("kept", y);
    let graph = builder.finish(kept);
    let mut cpu = cpu();
    for (name, heads) in tables {
        load(&mut cpu, &format!("{name}_table"), Format::F32, TABLE, heads * dim);
    }
    let pages = pages(depth + rows);
    let layout = KvLayout { layers: 1, kv_heads, k_dim: dim, v_dim: dim, pages: pages.len(), format };
    cpu.allocate_kv(layout).expect("room");
    let mut program = compile(&mut cpu, &graph, depth);
    program.run(&step(0, depth, &pages)).expect("a good step");
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
                let (mut program, step) = (None, step(depth, rows, &pages(depth + rows)));
                group.bench_function(BenchmarkId::from_parameter(format!("{rows} rows")), |bencher| {
                    let program = program.get_or_insert_with(|| attention(format, depth, rows));
                    bencher.iter(|| program.run(&step).expect("a good step"));
                });
            }
        }
    }
}

fn config() -> Criterion {
    let criterion = Criterion::default().sample_size(10);
    criterion.warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1))
}

criterion_group! { name = kernels; config = config(); targets = ceilings_beside, linear_layers, attention_by_depth }
criterion_main!(kernels);
