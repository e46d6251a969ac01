//! Logits of many rows at once and of single rows, for which a GPU has other kernels.
//!
//! Routers of experts amplify rounding: correct kernels may differ by any amount in a row where a choice between nearly tied
//! experts turns over, and in later rows that attend to it. If rows of a mixture are over the limit, the routers' logits of the
//! text at once are recorded, and both ways are compared again with these as the routers' input ([`GivenRoutes`]). Then nothing is
//! amplified, and all logits have to agree. Besides, the routes of the text at once must be the same with its own logits and with
//! their copies, and few rows may be over the limit.

use engine::Model;
use runner::FileWeights;

use super::logits::{QUANTIZED_NMSE, TEXT, nmse};
use super::routes::{GivenRoutes, Router, routers};
use super::steps::{Part, Runner};
use super::{Candidate, Checked, Failure};

/// Length of the long prompt, which a GPU computes in several tiles of rows.
const MANY: usize = 150;

/// NMSE limit of a token's logits, of many rows beside single rows on a GPU that rounds nothing to less than 11 bits. The
/// demo model has 6e-7 over all tokens (`docs/gpu.md`); deep models and single tokens have more. One that quantises the
/// activations of single rows has the limit of logits with quantised activations.
const MANY_NMSE: f64 = 1e-3;

/// Of this many compared rows one may be over the limit with its own routes. Rounding took up to one of 6 over it in models of
/// two to four layers; routes that are wrong in one of the runs take nearly all.
const OF_OVER: usize = 2;

/// NMSE limit of routes that the same kernel computes from the same logits.
const SAME_NMSE: f64 = 1e-9;

/// Compares the logits of a long prompt at once and token by token. The reference would take too long for it.
pub(super) fn many_rows_agree(model: &Model, candidate: &Candidate) -> Checked {
    let text = Text::new(model, candidate);
    let routers = routers(model.graph());
    let (weights, outputs) = (FileWeights(model.file()), text.outputs().len());
    let mut runner = Runner::new(model.graph(), &weights, candidate, [1, MANY], outputs)?;
    let mut own = Worst::default();
    let mut over = Vec::new();
    text.compare(&mut runner, &[], &mut |difference| {
        if !difference.is_within(text.limit) {
            // Without routers nothing excuses it, nor ever values that are not finite.
            if routers.is_empty() || !difference.nmse.is_finite() {
                return Err(text.differ(&difference, ""));
            }
            over.push(difference.position);
        }
        own.add(&difference);
        Ok(())
    })?;
    model.file().check_intact()?;
    let what = format!("{MANY} tokens at once and token by token");
    let Some(first) = over.first() else {
        return Ok((format!("{what}: {own}"), ()));
    };
    let (given, own_routes) = text.record(model, &mut runner, &routers)?;
    // The device need not have room for both.
    drop(runner);
    let mut runner = Runner::new(&given.graph, &given, candidate, [1, MANY], outputs)?;
    text.tap(&mut runner, &routers)?;
    text.at_once(&mut runner)?;
    for ((router, own), given) in routers.iter().zip(&own_routes).zip(text.routes(&runner, &routers)?) {
        let nmse = nmse(own, &given);
        let is_same = nmse <= SAME_NMSE;
        if !is_same {
            let Router { logits, routes } = router;
            return Err(format!(
                "`{routes}` does not follow from `{logits}`: NMSE {nmse:.2e} (limit {SAME_NMSE:.0e})"
            )
            .into());
        }
    }
    let names: Vec<&str> = routers.iter().map(|router| &*router.logits).collect();
    let mut worst = Worst::default();
    text.compare(&mut runner, &names, &mut |difference| {
        if !difference.is_within(text.limit) {
            return Err(text.differ(&difference, ", with the same routes of experts"));
        }
        if difference.router.is_none() {
            worst.add(&difference);
        }
        Ok(())
    })?;
    model.file().check_intact()?;
    let (count, limit, rows) = (over.len(), text.limit, outputs);
    if count > rows / OF_OVER {
        let why = format!(
            "logits of {MANY} tokens at once differ from those token by token at {count} of {rows} positions, first {first} \
             (limit {limit:.0e}): more than routers can do that amplify rounding"
        );
        return Err(why.into());
    }
    Ok((
        format!(
            "{what}: {worst}, with the same routes of experts; with their own routes, which rounding changes, {count} positions \
             exceed {limit:.0e}, the first is {first}"
        ),
        (),
    ))
}

/// The difference of a row of the text at once from the row alone.
struct Difference<'a> {
    position: usize,
    /// Of the model's logits, or the router's, relative to the mean over all rows. NaN if the single row's are not finite.
    nmse: f64,
    router: Option<&'a str>,
}

impl Difference<'_> {
    fn is_within(&self, limit: f64) -> bool {
        self.nmse <= limit
    }
}

#[derive(Default)]
struct Worst {
    nmse: f64,
    position: usize,
}

impl Worst {
    fn add(&mut self, difference: &Difference<'_>) {
        if difference.nmse >= self.nmse {
            (self.nmse, self.position) = (difference.nmse, difference.position);
        }
    }
}

impl std::fmt::Display for Worst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NMSE at most {:.1e}, at position {}", self.nmse, self.position)
    }
}

struct Text {
    tokens: Vec<u32>,
    /// One row of so many is compared: as many as the logits of a step may take.
    every: usize,
    limit: f64,
}

impl Text {
    fn new(model: &Model, candidate: &Candidate) -> Text {
        let text = model.encode_prompt(TEXT, false);
        let tokens = text.iter().chain(&[0]).copied().cycle().take(MANY).collect();
        let every = MANY.div_ceil(engine::all_logits_rows(model.config().vocab_size, MANY));
        let limit = if candidate.quantizes_activations { QUANTIZED_NMSE } else { MANY_NMSE };
        Text { tokens, every, limit }
    }

    fn outputs(&self) -> Vec<u32> {
        (0..MANY as u32).step_by(self.every).collect()
    }

    fn at_once(&self, runner: &mut Runner) -> Result<Vec<f32>, Failure> {
        runner.rows(&[Part { sequence: 0, n_past: 0, tokens: &self.tokens }], self.outputs())
    }

    /// Computes the text at once, then row by row; calls `each` with each row's differences in tapped `routers` and logits.
    fn compare(
        &self,
        runner: &mut Runner,
        routers: &[&str],
        each: &mut dyn FnMut(Difference<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let at_once = self.at_once(runner)?;
        let mut at_once = at_once.chunks_exact(runner.n_vocab);
        let of_routers = self.rows_of(runner, routers)?;
        let mean_size = |rows: &Vec<f32>| {
            let rows = rows.chunks_exact((rows.len() / MANY).max(1)).step_by(self.every);
            let count = rows.len() as f64;
            rows.map(|row| size_of(row.iter().copied())).sum::<f64>() / count
        };
        let sizes: Vec<f64> = of_routers.iter().map(mean_size).collect();
        for (position, token) in self.tokens.chunks(1).enumerate() {
            let single = runner.step(&[Part { sequence: 0, n_past: position, tokens: token }])?;
            let Some(at_once) = position.is_multiple_of(self.every).then(|| at_once.next()).flatten() else {
                continue;
            };
            for ((&router, rows), size) in routers.iter().zip(&of_routers).zip(&sizes) {
                let alone = runner.runner.read(router)?;
                let at_once = &rows[position * alone.len()..][..alone.len()];
                let error = size_of(alone.iter().zip(at_once).map(|(a, b)| a - b));
                let nmse = if error == 0.0 { 0.0 } else { error / size };
                each(Difference { position, nmse, router: Some(router) })?;
            }
            let nmse = if is_finite(&single) { nmse(&single, at_once) } else { f64::NAN };
            each(Difference { position, nmse, router: None })?;
        }
        Ok(())
    }

    /// The last step's logits of `routers`, `[MANY, experts]` each. Rows that the last layer leaves out are 0.
    fn rows_of(&self, runner: &Runner, routers: &[&str]) -> Result<Vec<Vec<f32>>, Failure> {
        let outputs = self.outputs();
        let rows = routers.iter().map(|name| {
            let graph = runner.runner.graph();
            let cols = graph.find(name).map_or(0, |id| graph.value(id).cols);
            let values = runner.runner.read(name)?;
            let mut rows = vec![0.0; MANY * cols];
            if values.len() == rows.len() {
                rows.copy_from_slice(values);
            } else {
                for (&row, values) in outputs.iter().zip(values.chunks_exact(cols)) {
                    rows[row as usize * cols..][..cols].copy_from_slice(values);
                }
            }
            Ok(rows)
        });
        rows.collect()
    }

    fn tap(&self, runner: &mut Runner, routers: &[Router]) -> Result<(), Failure> {
        let names = routers.iter().flat_map(|router| [&*router.logits, &*router.routes]);
        Ok(runner.runner.tap(&names.collect::<Vec<&str>>())?)
    }

    fn routes(&self, runner: &Runner, routers: &[Router]) -> Result<Vec<Vec<f32>>, Failure> {
        routers.iter().map(|router| Ok(runner.runner.read(&router.routes)?.to_vec())).collect()
    }

    /// Computes the text at once; returns the model with these router logits given, and the routes chosen from them.
    fn record<'a>(
        &self,
        model: &'a Model,
        runner: &mut Runner,
        routers: &[Router],
    ) -> Result<(GivenRoutes<'a>, Vec<Vec<f32>>), Failure> {
        self.tap(runner, routers)?;
        self.at_once(runner)?;
        let names: Vec<&str> = routers.iter().map(|router| &*router.logits).collect();
        let logits = self.rows_of(runner, &names)?;
        Ok((GivenRoutes::new(model, MANY, &logits), self.routes(runner, routers)?))
    }

    fn differ(&self, difference: &Difference<'_>, how: &str) -> Failure {
        let Difference { position, nmse, router } = difference;
        let what = router.map_or("logits".to_owned(), |router| format!("router logits `{router}`"));
        format!(
            "{what} of {MANY} tokens at once differ from those token by token{how}: NMSE {nmse:.2e} at position \
             {position} (limit {:.0e})",
            self.limit
        )
        .into()
    }
}

fn is_finite(values: &[f32]) -> bool {
    values.iter().all(|value| value.is_finite())
}

/// The sum of squares without the mean: a large one must not hide errors in the differences that routers choose by.
fn size_of(values: impl ExactSizeIterator<Item = f32> + Clone) -> f64 {
    let mean = values.clone().map(f64::from).sum::<f64>() / values.len() as f64;
    values.map(|value| (f64::from(value) - mean).powi(2)).sum()
}
