//! `rustorch verify`: checks that this file is computed rightly on this machine, a line a check.
//!
//! A check either says what it looked at or what is wrong, and where to look further. None trusts
//! another: a file with a bad weight still has its kernels checked.

mod known;
mod numbers;
mod products;
mod report;
mod runner;
#[cfg(test)]
mod tests;
mod text;
mod weights;

use std::num::NonZero;
use std::process::ExitCode;
use std::sync::Arc;

use backend::Device;
use engine::{Model, NoTemplate};
use gguf::Gguf;
use tokenizer::Tokenizer;

use crate::args::{ModelArgs, WeightsArgs};
use crate::backends::{self, Candidate};
use crate::load;
use crate::output::{Usage, counted, size};
use crate::registry::{BackendName, registry};
use crate::values::from_1_to;
use report::Report;

/// What `verify` is told.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit code 0 when all is good, 1 when something is not. Numbers are checked with this model's own
weights: each kernel set against plain Rust and the reference, each backend's logits against the
reference's, and that batches and chunks of prompts change no bit; of a graphics processor, which
has other kernels for other numbers of rows, logits of a prompt and token by token, and those of a
longer prompt beside its own token by token. Large models are checked on fewer rows and tokens.")]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Check this backend, such as cpu or vulkan [default: all sets of kernels for the CPU]
    #[arg(long, value_enum, hide_possible_values = true, help_heading = "Engine")]
    backend: Option<BackendName>,
    /// Threads [default: as many as the system says are useful]
    #[arg(short, long, value_name = "N", env = "RUSTORCH_THREADS", value_parser = from_1_to::<1024>)]
    #[arg(help_heading = "Engine")]
    threads: Option<NonZero<usize>>,
    #[command(flatten, next_help_heading = "Engine")]
    weights: WeightsArgs,
    /// Print one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitCode> {
    if matches!(args.backend, Some(BackendName::Auto | BackendName::HybridF32)) {
        let backends: Vec<&str> = registry().backends().collect();
        return Err(Usage(format!("one backend is verified at a time: {}", backends.join(", "))).into());
    }
    let graphics =
        args.backend.map(backends::graphics_of).transpose()?.unwrap_or_default().into_iter().next();
    let mut report = Report::new(&args.model, args.json);
    let Some(file) = report.get("file", "inspect", |bar| {
        let file = load::file(&args.model)?;
        bar.suspend(|| load::introduce(&args.model, &file));
        let detail = file_facts(&file);
        Ok((detail, file))
    }) else {
        return report.finish();
    };
    let threads = args.threads.or_else(|| std::thread::available_parallelism().ok());
    let are_finite =
        report.check("weights", "inspect --json", |bar| weights::are_finite(&file, threads, bar));
    let is_computable = report.check("model", "inspect", |_| {
        let models::Model { config, graph } = models::Model::new(&file)?;
        Ok(format!(
            "{}: {} of width {}, {}, every tensor in its place",
            config.architecture,
            counted(config.block_count, "layer"),
            config.embedding_length,
            counted(graph.values().len(), "operation")
        ))
    });
    report.check("tokenizer", "tokenize", |_| text::round_trips(&Tokenizer::from_metadata(file.metadata())?));
    let model = match Model::new(file) {
        Ok(model) if is_computable => model,
        _ => {
            report.skip("numbers", "without a model and a tokenizer there is nothing to compute");
            return report.finish();
        }
    };
    let model = Arc::new(model);
    match model.template() {
        Err(NoTemplate::Absent) => report.skip("chat template", "the file has none"),
        _ => _ = report.check("chat template", "run -p Hello -n 1", |_| text::template_renders(&model)),
    }
    check_numbers(&mut report, &model, &args, graphics, are_finite);
    report.finish()
}

fn file_facts(file: &Gguf) -> String {
    let (files, bytes) = file.files().fold((0, 0), |(files, bytes), (_, len)| (files + 1, bytes + len));
    let parts = if files > 1 { format!(" in {files} files") } else { String::new() };
    let tensors = counted(file.tensors().count(), "tensor");
    format!("GGUF {}, {}{parts}, {tensors}, none outside the file", file.version(), size(bytes))
}

/// Everything that computes with the model, whose weights may not all be finite: then kernels are checked
/// by what they make of the others, and the whole model is not, as it can be no better than its weights.
fn check_numbers(
    report: &mut Report,
    model: &Arc<Model>,
    args: &Args,
    graphics: Option<Arc<dyn Device>>,
    are_finite: bool,
) {
    let backend = graphics.as_ref().map_or("cpu", |device| device.info().backend);
    let mut all = backends::candidates(args.threads, args.weights);
    all.extend(args.backend.zip(graphics).map(|(name, device)| backends::graphics(name, device)));
    let reference = |candidate: &&Candidate| candidate.backend == BackendName::REFERENCE;
    let (plain, exact) = (all.first(), all.iter().find(reference));
    let (Some(plain), Some(exact)) = (plain, exact) else { return };
    // The reference is what others are compared with; what it promises itself is checked when asked for.
    let is_wanted = |candidate: &&Candidate| match args.backend {
        Some(backend) => candidate.backend == backend,
        None => !reference(candidate),
    };
    let chosen: Vec<&Candidate> = all.iter().filter(is_wanted).collect();
    let tokens = numbers::tokens(model);
    let ids: Vec<String> = tokens.iter().map(u32::to_string).collect();
    let ids = ids.join(",");
    let logits = |backend: &str| format!("logits --tokens {ids} --backend {backend}");
    let compare = format!("compare --a {backend} --b reference --tokens {ids}");

    let exact_logits = if are_finite {
        report.get("reference: logits", &logits("reference"), |_| {
            numbers::logits(model, &exact.make, &tokens, tokens.len())
        })
    } else {
        report.skip("whole model", "not all of its weights are finite, so what it computes need not be");
        None
    };
    for candidate in &chosen {
        let name = &candidate.name;
        let more = logits(if reference(candidate) { "reference" } else { "cpu" });
        if candidate.backend == plain.backend && candidate.name != plain.name {
            report.check(&format!("{name}: kernels"), &compare, |bar| {
                products::agree(model, plain, candidate, products::Limits::SameActivations, bar)
            });
        }
        let is_graphics = candidate.backend.is_graphics();
        if !reference(candidate) {
            let limits = if is_graphics { products::Limits::ExactGraphics } else { products::Limits::Exact };
            report.check(&format!("{name}: products"), &compare, |bar| {
                products::agree(model, exact, candidate, limits, bar)
            });
        }
        if !are_finite {
            continue;
        }
        if !reference(candidate) {
            if candidate.name == plain.name && chosen.len() > 1 && numbers::is_large(model) {
                report
                    .skip(&format!("{name}: model"), "it is large: plain Rust computes only products of it");
                continue;
            }
            match &exact_logits {
                Some(exact) => {
                    _ = report.check(&format!("{name}: logits"), &compare, |_| {
                        numbers::logits_agree(model, exact, &candidate.make, &tokens, tokens.len())
                    })
                }
                None => report.skip(&format!("{name}: logits"), "there is nothing to compare with"),
            }
        }
        if is_graphics {
            // Bits depend on which kernels are for so many rows, so these logits are near the exact ones, too.
            if let Some(exact) = &exact_logits {
                report.check(&format!("{name}: token by token"), &format!("{compare} -b 1"), |_| {
                    numbers::logits_agree(model, exact, &candidate.make, &tokens, 1)
                });
            }
            report.check(&format!("{name}: many rows"), &compare, |_| {
                numbers::many_rows_are_single(model, &candidate.make)
            });
            continue;
        }
        report.check(&format!("{name}: batch"), &more, |_| {
            numbers::batch_is_single(model, &candidate.make, &tokens)
        });
        let chunks = if reference(candidate) { more } else { compare.clone() + " -b 1" };
        report.check(&format!("{name}: chunks"), &chunks, |_| {
            numbers::chunks_are_whole(model, &candidate.make, &tokens)
        });
    }
    if !are_finite {
        return;
    }
    // The one that was asked for, or the best of the CPU's kernel sets.
    let best = chosen.iter().rfind(|candidate| !reference(candidate)).or(chosen.first());
    match (known::recognise(model), best) {
        (Ok(known), Some(best)) => {
            report.check("known answers", "chat", |_| known.hold(model, (best.make)()?));
        }
        (Err(why), _) => report.skip("known answers", &why),
        (_, None) => {}
    }
}
