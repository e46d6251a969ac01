//! A sequence alone and among others gets the same logits, bit for bit, in every format: steps that mix
//! chunks of prompts with single tokens, sequences whose pages lie between each other's.

use backend::{Backend, Bucket, KvFormat, KvLayout, PAGE, Program, Span, Step, Taps, Weight};
use backend_cpu::Cpu;
use gguf::Gguf;
use models::Model;
use testkit::goldens;

/// Sequences in a step.
const SEQUENCES: usize = 3;
/// Pages of a sequence.
const PAGES: usize = 18;
/// Rows a step.
const ROWS: usize = 520;

/// A step's spans: sequence and rows, in order. The first sequence grows past 512 positions, where
/// attention is split.
const STEPS: [&[(usize, usize)]; 8] = [
    &[(0, 20)],
    &[(0, 1), (1, 33)],
    &[(2, 7), (0, 485), (1, 17)],
    &[(1, 1), (0, 9), (2, 40)],
    &[(0, 1), (1, 1), (2, 1)],
    &[(2, 1), (0, 1), (1, 30)],
    &[(0, 3), (1, 1), (2, 1)],
    &[(1, 1), (2, 1)],
];

/// A program of `file` on two threads, with a store that holds all sequences.
fn compile(file: &Gguf) -> Box<dyn Program> {
    let Model { config, graph } = Model::new(file).expect("a good model");
    let mut cpu = Cpu::new(2.try_into().ok());
    for (_, weight) in graph.weights() {
        let tensor = file.tensor(&weight.name).expect("the model has checked its tensors");
        let (rows, cols, bytes) = (weight.rows, weight.cols, tensor.data.clone());
        let weight_of_tensor = Weight { format: tensor.format, rows, cols, bytes };
        cpu.load(&weight.name, weight_of_tensor).expect("a good weight");
    }
    let layout = KvLayout {
        layers: graph.layers(),
        kv_heads: config.head_count_kv,
        k_dim: config.key_length,
        v_dim: config.value_length,
        pages: SEQUENCES * PAGES,
        format: KvFormat::F16,
    };
    cpu.allocate_kv(layout).expect("room for a small store");
    cpu.compile(&graph, Bucket { rows: ROWS, wanted: ROWS }, Taps::None).expect("a good graph")
}

/// The bits of each row's logits of a step that wants them all.
fn run(program: &mut dyn Program, tokens: Vec<u32>, spans: Vec<Span>) -> Vec<Vec<u32>> {
    let rows = tokens.len();
    let step = Step::new(tokens, spans, (0..rows as u32).collect()).expect("a good step");
    program.run(&step).expect("a good step");
    let logits = program.output();
    let row = |row: &[f32]| row.iter().map(|logit| logit.to_bits()).collect();
    logits.chunks_exact(logits.len() / rows).map(row).collect()
}

#[test]
fn a_batch_changes_no_bit() {
    let goldens = goldens::tokens();
    let goldens = goldens.as_flattened();
    let len = |sequence| -> usize {
        STEPS.concat().iter().filter(|(of, _)| *of == sequence).map(|(_, rows)| rows).sum()
    };
    let tokens: Vec<&[u32]> = (0..SEQUENCES).map(|s| &goldens[s * 100..][..len(s)]).collect();
    assert!(tokens.iter().all(|tokens| tokens.len() <= PAGES * PAGE));
    // Page `i` of a sequence lies between those of the others, from the end of the store on.
    let pages = |s| (0..PAGES).rev().map(|page| (page * SEQUENCES + s) as u32).collect::<Vec<_>>();

    for (name, spec) in testkit::llama::models() {
        let file = Gguf::from_bytes(spec.file().into()).expect("a good file");
        let mut alone = compile(&file);
        let expected: Vec<Vec<Vec<u32>>> = tokens
            .iter()
            .map(|tokens| {
                let span = Span { past: 0, len: tokens.len(), pages: (0..PAGES as u32).collect() };
                run(&mut *alone, tokens.to_vec(), vec![span])
            })
            .collect();

        let mut together = compile(&file);
        let mut past = [0; SEQUENCES];
        for (i, step) in STEPS.iter().enumerate() {
            let (mut now, mut spans, mut wanted) = (Vec::new(), Vec::new(), Vec::new());
            for &(s, len) in *step {
                let end = past[s] + len;
                now.extend_from_slice(&tokens[s][past[s]..end]);
                wanted.extend((past[s]..end).map(|position| (s, position)));
                spans.push(Span { past: past[s], len, pages: pages(s) });
                past[s] = end;
            }
            for ((s, position), row) in wanted.into_iter().zip(run(&mut *together, now, spans)) {
                assert!(row == expected[s][position], "{name}: step {i}, sequence {s}, position {position}");
            }
        }
        assert_eq!(past.to_vec(), tokens.iter().map(|tokens| tokens.len()).collect::<Vec<_>>());
    }
}
