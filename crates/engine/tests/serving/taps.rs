//! Values seen from outside while the engine serves.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use engine::{LogitRows, Options, Params, Request};
use quant::Format;

use crate::common::{eight, model, run, serve};

/// What an observer saw of a step: tokens, the positions of each, and a value.
type Seen = (Vec<u32>, Vec<usize>, Vec<f32>);

#[test]
fn every_step_is_seen_and_nothing_changes() {
    let model = model(Format::F32);
    let request = |prompt: &[u32]| {
        Request::new(prompt.to_vec()).params(Params { temperature: 0.0, ..Params::default() }).max_tokens(4)
    };
    let prompts: [&[u32]; 2] = [&[1, 300, 7], &[1, 2]];
    let mut plain = serve(&model, 2, eight());
    let expected = run(&mut plain, prompts.map(request));

    let mut engine = serve(&model, 2, eight());
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let sink = seen.clone();
    engine
        .observe(&["embd"], move |observed| {
            assert_eq!(observed.name, "embd");
            let (positions, tokens) = observed.rows.iter().map(|row| (row.position, row.token)).unzip();
            sink.lock().expect("no panic").push((tokens, positions, observed.values.to_vec()));
            ControlFlow::Continue(())
        })
        .expect("the graph has it");
    let found = run(&mut engine, prompts.map(request));
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found.content(), expected.content());
    }

    let seen = std::mem::take(&mut *seen.lock().expect("no panic"));
    let tokens: Vec<u32> = seen.iter().flat_map(|(tokens, ..)| tokens.clone()).collect();
    let positions: Vec<usize> = seen.iter().flat_map(|(_, positions, _)| positions.clone()).collect();
    assert_eq!(tokens[..5], [1, 300, 7, 1, 2]);
    assert_eq!(positions[..5], [0, 1, 2, 0, 1]);
    let generated: usize = found.iter().map(|answer| answer.tokens.len() - 1).sum();
    assert_eq!(tokens.len(), 5 + generated, "nothing is computed after the last tokens");
    let table = model.file().tensor("token_embd.weight").expect("a tensor");
    for (tokens, _, value) in seen {
        for (token, row) in tokens.iter().zip(value.chunks_exact(64)) {
            let mut expected = vec![0.0; 64];
            table.format.dequantize(table.row(*token as usize).expect("a row"), &mut expected);
            assert_eq!(row, expected);
        }
    }
}

#[test]
fn logits_are_steps_too_and_unknown_names_are_refused() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 2, Options::default());
    let steps: Arc<Mutex<usize>> = Arc::default();
    let error =
        engine.observe(&["nothing"], |_| ControlFlow::Break(())).expect_err("no such value").to_string();
    assert!(error.contains("`nothing` is not in the graph"), "{error}");
    for rows in [LogitRows::Last, LogitRows::All] {
        let count = steps.clone();
        engine
            .observe(&["l_out-1"], move |observed| {
                assert_eq!(observed.values.len(), 64 * observed.rows.len());
                *count.lock().expect("no panic") += 1;
                ControlFlow::Continue(())
            })
            .expect("the graph has it");
        engine.logits(&[1, 2, 3], rows, |_, _| ControlFlow::Continue(())).expect("logits");
    }
    assert_eq!(*steps.lock().expect("no panic"), 2);
}

/// Values of output rows alone are those of the last positions; breaking cancels all requests of the step.
#[test]
fn an_observer_of_the_engine_sees_logits_and_ends_requests() {
    let model = model(Format::F32);
    let mut engine = serve(&model, 1, eight());
    let mut rows = Vec::new();
    let seen: Arc<Mutex<Vec<usize>>> = Arc::default();
    let sink = seen.clone();
    let observer = move |observed: engine::Observed<'_>| {
        rows.extend(observed.rows.iter().map(|row| row.position));
        *sink.lock().expect("no panic") = rows.clone();
        if rows.len() < 6 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    engine.observe(&["result_output"], observer).expect("the graph has it");
    let request = |prompt: &[u32]| Request::new(prompt.to_vec()).params(Params::greedy()).max_tokens(20);
    let answers = run(&mut engine, [request(&[1, 300, 7]), request(&[1, 2])]);
    assert_eq!(*seen.lock().expect("no panic"), [2, 1, 3, 2, 4, 3]);
    assert!(answers.iter().all(|answer| answer.reason == engine::StopReason::Cancelled));
}
