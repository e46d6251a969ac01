//! Output of `rustorch perplexity`, with the names of `llama-perplexity`.

use std::io::Write;

use eval::{Divergence, Estimate, Score, Windows};
use serde::Serialize;

use crate::output::{self, counted};

#[derive(Serialize)]
struct Report<'a> {
    model: &'a str,
    n_ctx: usize,
    windows: usize,
    tokens: usize,
    scored_tokens: usize,
    #[serde(flatten)]
    score: Score,
}

pub(crate) fn print(model: &str, windows: &Windows, score: Score, json: bool) -> anyhow::Result<()> {
    let (n_ctx, tokens, scored_tokens) = (windows.n_ctx(), windows.tokens().len(), score.token_nll.len());
    if json {
        return output::json(&Report { model, n_ctx, windows: windows.len(), tokens, scored_tokens, score });
    }
    let mut out = output::stdout();
    let (windows, scored) = (counted(windows.len(), "window"), counted(scored_tokens, "token"));
    writeln!(out, "{windows} of {n_ctx} tokens, {scored} scored")?;
    match &score.divergence {
        None => {
            let Estimate { value, standard_error } = score.perplexity;
            writeln!(out, "Final estimate: PPL = {value:.4} +/- {standard_error:.5}")?;
        }
        Some(divergence) => print_divergence(&mut out, divergence)?,
    }
    Ok(out.flush()?)
}

fn print_divergence(out: &mut impl Write, found: &Divergence) -> std::io::Result<()> {
    let line = |out: &mut dyn Write, name: &str, Estimate { value, standard_error }: Estimate| {
        writeln!(out, "{name:<30}: {value:>10.6} ± {standard_error:>10.6}")
    };
    writeln!(out, "\n====== Perplexity statistics ======")?;
    line(out, "Mean PPL(Q)", found.perplexity)?;
    line(out, "Mean PPL(base)", found.base_perplexity)?;
    writeln!(out, "Cor(ln(PPL(Q)), ln(PPL(base))): {:6.2}%", 100.0 * found.correlation)?;
    line(out, "Mean ln(PPL(Q)/PPL(base))", found.log_ratio)?;
    line(out, "Mean PPL(Q)/PPL(base)", found.ratio)?;
    line(out, "Mean PPL(Q)-PPL(base)", found.difference)?;

    let kl = found.kl_spread;
    writeln!(out, "\n====== KL divergence statistics ======")?;
    writeln!(out, "Mean    KLD: {:>10.6} ± {:>10.6}", found.kl.value, found.kl.standard_error)?;
    for (name, value) in kl.labelled().filter(|(name, _)| !["75.0%", "25.0%"].contains(name)) {
        writeln!(out, "{name:<7} KLD: {value:>10.6}")?;
    }

    let percent = |Estimate { value, standard_error }: Estimate| {
        format!("{:>6.3} ± {:>5.3} %", 100.0 * value, 100.0 * standard_error)
    };
    writeln!(out, "\n====== Token probability statistics ======")?;
    writeln!(out, "Mean    Δp: {}", percent(found.p_diff))?;
    for (name, value) in found.p_diff_spread.labelled() {
        writeln!(out, "{name:<7} Δp: {:>6.3}%", 100.0 * value)?;
    }
    writeln!(out, "RMS Δp    : {}", percent(found.p_diff_rms))?;
    writeln!(out, "Same top p: {}", percent(found.same_top))
}
