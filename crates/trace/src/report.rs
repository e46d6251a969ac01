//! The result of a comparison, as text and as JSON; `html.rs` shows the same as a page.

use std::fmt;

use serde::Serialize;

use crate::causes::Cause;
use crate::judge::Region;
use crate::metrics::Metrics;
use crate::tapped_name;

/// How two traces were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each operation alone, on its recorded inputs.
    Replay,
    /// Bit by bit: both come from one backend and one model.
    Bits,
    /// By accumulated error: there is no model to replay operations with.
    Accumulated,
}

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The file, or `computed now`.
    pub trace: String,
    pub producer: String,
    pub backend: String,
    pub model: String,
    /// Formats of the weights.
    pub types: String,
}

/// The result of comparing trace A with trace B.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether nothing is wrong.
    pub alike: bool,
    /// How the traces were compared.
    pub method: Method,
    /// The trace to check.
    pub a: Side,
    /// The trace that it is compared with.
    pub b: Side,
    /// Positions compared.
    pub positions: usize,
    /// The first wrong value.
    pub first: Option<First>,
    /// Every value of A, in the order of computation.
    pub values: Vec<Compared>,
    /// What else a reader must know.
    pub notes: Vec<String>,
}

/// The first wrong value.
#[derive(Clone, Debug, Serialize)]
pub struct First {
    /// Its name.
    pub name: String,
    /// The trace in which it is wrong, `a` or `b`; `None` where no replay shows which.
    pub side: Option<&'static str>,
    /// The first wrong position.
    pub position: usize,
    /// Its operation, as the graph prints it.
    pub operation: Option<String>,
    /// The line of the model's source that adds the operation.
    pub line: Option<String>,
    /// NMSE of its wrong rows and columns; accumulated without a replay.
    pub nmse: f64,
    /// NMSE of the whole value.
    pub whole: f64,
    /// The largest permitted error.
    pub limit: f64,
    /// Where it is wrong, in words.
    pub place: String,
    /// The wrong rows and columns.
    pub region: Region,
    /// Possible causes, the most likely first.
    pub causes: Vec<Cause>,
}

/// One value of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    pub name: String,
    /// Positions compared.
    pub rows: usize,
    pub cols: usize,
    /// Error of A's operation alone, against the reference on A's inputs.
    pub own: Option<Metrics>,
    /// The largest permitted own error.
    pub limit: Option<f64>,
    /// A against B; `None` when B lacks the value.
    pub accumulated: Option<Metrics>,
    /// The verdict on A's operation.
    pub verdict: Verdict,
    /// The same of B's operation; `None` where A is wrong or B is trusted.
    pub b: Option<Own>,
}

/// The verdict on one operation alone, on its recorded inputs.
#[derive(Clone, Debug, Serialize)]
pub struct Own {
    pub metrics: Option<Metrics>,
    pub limit: Option<f64>,
    pub verdict: Verdict,
}

/// Whether an operation is within its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Verdict {
    Right,
    Wrong,
    NotJudged(String),
}

const ERRORS: &str = "errors are NMSE, Σ(a − b)² / Σa²: own error against the reference backend on the recorded \
                      inputs, accumulated against B";

impl Compared {
    pub(crate) fn is_wrong(&self) -> bool {
        self.verdict == Verdict::Wrong || self.b.as_ref().is_some_and(|b| b.verdict == Verdict::Wrong)
    }

    pub(crate) fn own_b(&self) -> Option<Metrics> {
        self.b.as_ref()?.metrics
    }

    pub(crate) fn numbers(&self) -> [Option<f64>; 6] {
        let accumulated = self.accumulated.as_ref();
        [
            self.own.map(|metrics| metrics.nmse),
            self.own_b().map(|metrics| metrics.nmse),
            self.limit,
            accumulated.map(|metrics| metrics.nmse),
            accumulated.map(|metrics| (1.0 - metrics.cosine).max(0.0)),
            accumulated.map(|metrics| metrics.largest.difference),
        ]
    }

    pub(crate) fn largest(&self) -> String {
        let largest = self.accumulated.map(|metrics| metrics.largest).filter(|at| at.difference > 0.0);
        largest.map_or_else(String::new, |at| format!("({}, {})", at.position, at.column))
    }
}

impl First {
    pub(crate) fn headline(&self) -> String {
        match self.side {
            Some(side) => format!("{} first goes wrong at {}", side.to_uppercase(), self.name),
            None => format!("A and B first differ at {}", self.name),
        }
    }

    fn lines(&self, method: Method) -> Vec<String> {
        let error = match self.side {
            Some(_) if method == Method::Replay => "own error",
            _ => "accumulated error",
        };
        let (nmse, limit) = (scientific(self.nmse), scientific(self.limit));
        let headline = self.headline();
        let mut lines =
            vec![format!("{headline}, position {}: {error} {nmse} (limit {limit})", self.position)];
        if let (Some(operation), Some(line)) = (&self.operation, &self.line) {
            lines.push(format!("{operation}  ({line})"));
        }
        lines.push(match &*self.place {
            "everywhere" => "wrong: everywhere".to_owned(),
            place => format!("wrong: {place}; the error over the whole value is {}", scientific(self.whole)),
        });
        for (i, cause) in self.causes.iter().enumerate() {
            let explained = format!(" (explains {:.1} %)", cause.explained * 100.0);
            let (kind, explained) = match (i, cause.likely) {
                (0, true) => ("likely cause", ""),
                (0, false) => ("possible cause", &*explained),
                (_, true) => ("equally likely", &*explained),
                (_, false) => ("possible", &*explained),
            };
            lines.push(format!("{kind}: {}{explained}", cause.text));
        }
        match (&self.causes[..], self.side) {
            ([], None) => lines.push("no replay shows which of them is wrong, nor why".to_owned()),
            ([], Some(_)) => lines.push("cause: no known mistake explains it".to_owned()),
            _ => {}
        }
        lines
    }
}

impl Report {
    pub(crate) fn verdict(&self) -> Vec<String> {
        self.first.as_ref().map_or_else(|| vec![self.alike()], |first| first.lines(self.method))
    }

    /// Both sides, notes, and what the figures mean, in lines.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let sides = [format!("A: {}", self.a), format!("B: {}", self.b)];
        let notes = self.notes.iter().map(|note| format!("note: {note}"));
        sides.into_iter().chain(notes).chain([ERRORS.to_owned()]).collect()
    }

    /// Titles of the columns of figures; B has one only if its operations were judged.
    pub(crate) fn columns(&self) -> [Option<&'static str>; 6] {
        let (a, b) = if self.values.iter().any(|value| value.b.is_some()) {
            ("own error A", Some("own error B"))
        } else {
            ("own error", None)
        };
        [Some(a), b, Some("limit"), Some("accumulated"), Some("1 − cosine"), Some("max |a − b|")]
    }

    /// The row of the first wrong value. If that is the output, it is the row in the output of the program that is wrong.
    pub(crate) fn first_row(&self) -> Option<usize> {
        let name = &self.first.as_ref()?.name;
        let is_it = |value: &Compared| value.name == *name || value.name == tapped_name(name);
        let wrong = |value: &Compared| is_it(value) && value.is_wrong();
        self.values.iter().position(wrong).or_else(|| self.values.iter().position(is_it))
    }

    fn alike(&self) -> String {
        let is_right = |value: &&Compared| {
            value.verdict == Verdict::Right && value.b.as_ref().is_none_or(|b| b.verdict == Verdict::Right)
        };
        let judged = self.values.iter().filter(is_right).count();
        let all = self.values.len();
        let positions = match self.positions {
            1 => "1 position".to_owned(),
            n => format!("{n} positions"),
        };
        match self.method {
            Method::Bits => format!("alike: all bits of {judged} values at {positions} are equal"),
            Method::Accumulated => format!("alike: {judged} values at {positions} are near each other"),
            Method::Replay if judged == all => format!(
                "alike: every operation is right on its own, {all} of {all} values judged at {positions}"
            ),
            Method::Replay => format!(
                "alike as far as can be judged: {judged} of {all} values are right on their own at {positions}, \
                 the others could not be judged; where both have them, they are near each other"
            ),
        }
    }
}

impl fmt::Display for Report {
    /// The verdict, then a table of all values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}\n", self.verdict().join("\n  "), self.remarks().join("\n"))?;
        let width = self.values.iter().map(|value| value.name.len()).max().unwrap_or(0).max(5);
        let columns = self.columns();
        let heading: String = columns.iter().flatten().map(|title| format!("  {title:>11}")).collect();
        writeln!(f, "  {:width$}{heading}  at (position, column)", "value")?;
        for value in &self.values {
            let mut line = format!("{} {:width$}", if value.is_wrong() { "!" } else { " " }, value.name);
            for (number, _) in value.numbers().into_iter().zip(columns).filter(|(_, title)| title.is_some()) {
                line += &format!("  {:>11}", number.map_or("-".to_owned(), scientific));
            }
            line += &format!("  {}", value.largest());
            if let (Verdict::NotJudged(why), Method::Replay) = (&value.verdict, self.method) {
                line = format!("{}  not judged: {why}", line.trim_end());
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { trace, producer, backend, model, types } = self;
        write!(f, "{trace}: {producer}, backend {backend}, {model} ({types})")
    }
}

/// Such as `3.2e-7`; 0 is `0`.
pub(crate) fn scientific(x: f64) -> String {
    match x {
        0.0 => "0".to_owned(),
        _ if x.is_finite() => format!("{x:.1e}"),
        _ => "inf".to_owned(),
    }
}
