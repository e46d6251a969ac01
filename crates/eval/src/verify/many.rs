//! Logits of many rows at once and of single rows, for which a GPU has other kernels.
//!
//! In a mixture of experts, rounding may exchange nearly tied experts, and the logits of that row differ as if a kernel were
//! wrong. If a row is over the limit, all are compared again with the routers' logits ([`Ties`]), and once more without. In
//! both runs the K/V of the text at once replace those of single rows after each row whose experts were exchanged, so that
//! later rows do not inherit its difference. K/V that single rows wrote are read by those after them up to the next such row,
//! and where logits are compared with the reference's token by token.

use std::collections::BTreeSet;

use engine::Model;

use super::logits::{QUANTIZED_NMSE, TEXT, nmse};
use super::steps::{Part, Runner};
use super::ties::Ties;
use super::{Candidate, Failure};

/// Length of the long prompt, which a GPU computes in several tiles of rows.
const MANY: usize = 150;

/// NMSE limit of a token's logits, of many rows beside single rows on a GPU that rounds nothing to less than 11 bits. The
/// demo model has 6e-7 over all tokens (`docs/gpu.md`); deep models and single tokens have more. One that quantises the
/// activations of single rows has the limit of logits with quantised activations.
const MANY_NMSE: f64 = 1e-3;

/// Of this many compared positions one may be excused: the others show whether kernels are right.
const OF_EXCUSED: usize = 4;

/// Compares the logits of a long prompt at once and token by token. The reference would take too long for it.
pub(super) fn many_rows_agree(model: &Model, candidate: &Candidate) -> Result<(String, ()), Failure> {
    let mut texts = Texts::new(model, candidate)?;
    let (limit, mut worst, mut over) = (texts.limit, (0.0, 0), None);
    texts.compare(&[], &mut |row| match row.nmse {
        // Also if it is NaN.
        Some(nmse) if !(nmse <= limit) => {
            over = Some((nmse, row.position));
            Then::Stop
        }
        Some(nmse) => {
            worst = if nmse >= worst.0 { (nmse, row.position) } else { worst };
            Then::Continue
        }
        None => Then::Continue,
    })?;
    let mut excused = BTreeSet::new();
    if let Some((nmse, position)) = over {
        let ties = Ties::new(model)?;
        if ties.is_empty() {
            return Err(texts.differ(nmse, position, ""));
        }
        (excused, worst) = texts.excuse(ties)?;
    }
    model.file().check_intact()?;
    let (nmse, at) = worst;
    let ties = match excused.len() {
        0 => String::new(),
        1 => "; at 1 position nearly tied experts were chosen differently".to_owned(),
        count => format!("; at {count} positions nearly tied experts were chosen differently"),
    };
    Ok((
        format!("{MANY} tokens at once and token by token: NMSE at most {nmse:.1e}, at position {at}{ties}"),
        (),
    ))
}

/// A position of the text, computed alone and with all others.
struct Row<'a> {
    position: usize,
    /// Of the logits, if they are compared here. NaN if those of the single row are not finite.
    nmse: Option<f64>,
    /// Per router its logits alone and at once; `None` if the row is not among the routers' rows.
    routers: &'a [Option<[Vec<f32>; 2]>],
}

/// What follows a row.
enum Then {
    Continue,
    /// The next rows see the K/V and the state of the text at once.
    Align,
    Stop,
}

struct Texts {
    runner: Runner,
    tokens: Vec<u32>,
    /// One row of so many is compared: as many as the logits of a step may take.
    every: usize,
    /// NMSE limit of a row's logits.
    limit: f64,
}

impl Texts {
    fn new(model: &Model, candidate: &Candidate) -> Result<Texts, Failure> {
        let text = model.encode_prompt(TEXT, false);
        let tokens = text.iter().chain(&[0]).copied().cycle().take(MANY).collect();
        let every = MANY.div_ceil(engine::all_logits_rows(model.config().vocab_size, MANY));
        let runner = Runner::new(model, candidate, [1, MANY], MANY.div_ceil(every))?;
        let limit = if candidate.quantizes_activations { QUANTIZED_NMSE } else { MANY_NMSE };
        Ok(Texts { runner, tokens, every, limit })
    }

    /// Computes the text at once, then row by row, and calls `visit` with each row and its logits of `routers`, which are
    /// tapped.
    fn compare(&mut self, routers: &[&str], visit: &mut dyn FnMut(&Row<'_>) -> Then) -> Result<(), Failure> {
        let tokens = self.tokens.clone();
        let outputs: Vec<u32> = (0..MANY as u32).step_by(self.every).collect();
        let compared = outputs.len();
        let at_once = self.runner.rows(&[Part { sequence: 0, n_past: 0, tokens: &tokens }], outputs)?;
        let mut at_once = at_once.chunks_exact(self.runner.n_vocab);
        let routers_at_once = self.read(routers)?;
        for (position, token) in tokens.chunks(1).enumerate() {
            let single = self.runner.step(&[Part { sequence: 0, n_past: position, tokens: token }])?;
            let is_compared = position.is_multiple_of(self.every);
            let nmse = is_compared.then(|| at_once.next()).flatten().map(|at_once| {
                let is_finite = single.iter().all(|logit| logit.is_finite());
                if is_finite { nmse(&single, at_once) } else { f64::NAN }
            });
            let alone = self.read(routers)?;
            let pairs = alone.into_iter().zip(&routers_at_once).map(|(alone, at_once)| {
                // Of the last layer only rows with logits are computed.
                let row = match at_once.len() / alone.len().max(1) {
                    MANY => position,
                    rows if rows == compared && is_compared => position / self.every,
                    _ => return None,
                };
                let at_once = at_once[row * alone.len()..][..alone.len()].to_vec();
                Some([alone, at_once])
            });
            let pairs: Vec<_> = pairs.collect();
            match visit(&Row { position, nmse, routers: &pairs }) {
                Then::Continue => {}
                Then::Align => self.align(position)?,
                Then::Stop => break,
            }
        }
        Ok(())
    }

    /// Replaces K/V and state after `position` by those of the text at once. All of it is computed, by the same kernels as
    /// before, unless the state would be that after the text.
    fn align(&mut self, position: usize) -> Result<(), Failure> {
        let has_state = self.runner.runner.graph().state_values() > 0;
        let rows = if has_state { position + 1 } else { MANY };
        let part = Part { sequence: 0, n_past: 0, tokens: &self.tokens[..rows] };
        self.runner.rows(&[part], vec![0])?;
        Ok(())
    }

    fn read(&self, names: &[&str]) -> Result<Vec<Vec<f32>>, Failure> {
        Ok(names
            .iter()
            .map(|name| Ok(self.runner.runner.read(name)?.to_vec()))
            .collect::<Result<_, Failure>>()?)
    }

    /// The positions over the limit because nearly tied experts were exchanged, and the largest NMSE of the others with its
    /// position. Fails if a position has another reason, or too many have this one.
    fn excuse(&mut self, mut ties: Ties) -> Result<(BTreeSet<usize>, (f64, usize)), Failure> {
        let limit = self.limit;
        let names: Vec<String> = ties.names().map(str::to_owned).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        self.runner.runner.tap(&names)?;
        let most = MANY.div_ceil(self.every) / OF_EXCUSED;
        let (mut over, mut aligned) = (Vec::new(), BTreeSet::new());
        self.compare(&names, &mut |row| {
            let is_exchanged = ties.add(row.position, row.routers);
            let is_over = row.nmse.is_some_and(|nmse| !(nmse <= limit));
            if let Some(nmse) = row.nmse.filter(|_| is_over) {
                over.push((nmse, row.position));
            }
            if !is_over && !is_exchanged {
                return Then::Continue;
            }
            aligned.insert(row.position);
            if over.len() > most { Then::Stop } else { Then::Align }
        })?;
        let mut excused = BTreeSet::new();
        for &(nmse, position) in &over {
            if !nmse.is_finite() {
                return Err(self.differ(nmse, position, ""));
            }
            ties.explain(position, limit).map_err(|why| self.differ(nmse, position, &format!("; {why}")))?;
            excused.insert(position);
        }
        if let Some(&(nmse, position)) = over.first() {
            if over.len() > most {
                let why =
                    format!("; experts were chosen differently at more than {most} positions over the limit");
                return Err(self.differ(nmse, position, &why));
            }
            ties.are_as_many_as_expected().map_err(|why| self.differ(nmse, position, &format!("; {why}")))?;
        }
        // The programs to check are those without taps.
        self.runner.runner.tap(&[])?;
        let (mut worst, mut unexcused) = ((0.0, 0), None);
        self.compare(&[], &mut |row| {
            let then = if aligned.contains(&row.position) { Then::Align } else { Then::Continue };
            let Some(nmse) = row.nmse else { return then };
            let is_excused = excused.contains(&row.position);
            if !(nmse <= limit) && !(is_excused && nmse.is_finite()) {
                unexcused = Some((nmse, row.position));
                return Then::Stop;
            }
            worst = if nmse >= worst.0 && !is_excused { (nmse, row.position) } else { worst };
            then
        })?;
        match unexcused {
            Some((nmse, position)) => {
                Err(self.differ(nmse, position, "; with the routers' logits copied they agree"))
            }
            None => Ok((excused, worst)),
        }
    }

    fn differ(&self, nmse: f64, position: usize, why: &str) -> Failure {
        format!(
            "logits of {MANY} tokens at once differ from those token by token: NMSE {nmse:.2e} at position {position} \
             (limit {:.0e}){why}",
            self.limit
        )
        .into()
    }
}
