//! What came of a comparison, for people and for programs.

use std::fmt::{self, Write as _};

use serde::Serialize;

use crate::{Cause, Metrics, Region};

/// How two traces were compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each operation alone, on the inputs that were recorded.
    Replay,
    /// Bit by bit: both come from one backend and one model.
    Bits,
    /// By accumulated error alone: there is no model to replay operations with.
    Accumulated,
}

/// One side of a comparison.
#[derive(Clone, Debug, Serialize)]
pub struct Side {
    /// The file, or what was run.
    pub trace: String,
    /// The program that made it.
    pub producer: String,
    /// The backend.
    pub backend: String,
    /// The model's path or name.
    pub model: String,
    /// Formats of its weights.
    pub types: String,
}

/// What came of comparing two traces.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Whether nothing is wrong.
    pub alike: bool,
    /// How it was found out.
    pub method: Method,
    /// The trace that is checked.
    pub a: Side,
    /// The one it is compared with.
    pub b: Side,
    /// Positions compared.
    pub positions: usize,
    /// The first wrong value.
    pub first: Option<First>,
    /// Every value of A, in the order of computation.
    pub values: Vec<Compared>,
    /// What a reader must know besides.
    pub notes: Vec<String>,
}

/// The first wrong value.
#[derive(Clone, Debug, Serialize)]
pub struct First {
    /// Its name.
    pub name: String,
    /// The trace that it is wrong in, `a` or `b`; `None` where no replay shows which.
    pub side: Option<&'static str>,
    /// The first wrong position.
    pub position: usize,
    /// What makes it, as the graph says it.
    pub operation: Option<String>,
    /// The line of the model that makes it.
    pub line: Option<String>,
    /// NMSE of its wrong rows and columns; accumulated where there was no replay.
    pub nmse: f64,
    /// NMSE of the value as a whole.
    pub whole: f64,
    /// The largest error allowed.
    pub limit: f64,
    /// Where it is wrong, in words.
    pub place: String,
    /// Rows and columns in which it is wrong.
    pub region: Region,
    /// What may be the cause, the most likely first.
    pub causes: Vec<Cause>,
}

/// One value of both traces.
#[derive(Clone, Debug, Serialize)]
pub struct Compared {
    /// Its name.
    pub name: String,
    /// Positions compared.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// A's operation alone against the reference's on A's inputs.
    pub own: Option<Metrics>,
    /// The largest own error allowed.
    pub limit: Option<f64>,
    /// A against B; `None` when B lacks it.
    pub accumulated: Option<Metrics>,
    /// Whether it is right in A.
    pub verdict: Verdict,
    /// What is known of B's operation; `None` where A is failing or B is trusted.
    pub b: Option<Own>,
}

/// What is known of one operation alone, on the inputs that were recorded.
#[derive(Clone, Debug, Serialize)]
pub struct Own {
    /// Its own error.
    pub metrics: Option<Metrics>,
    /// The largest own error allowed.
    pub limit: Option<f64>,
    /// Whether it is right.
    pub verdict: Verdict,
}

impl Compared {
    /// Whether it is wrong in A or B.
    pub(crate) fn is_wrong(&self) -> bool {
        self.verdict == Verdict::Wrong || self.b.as_ref().is_some_and(|b| b.verdict == Verdict::Wrong)
    }

    /// The own error of B's operation.
    pub(crate) fn own_b(&self) -> Option<&Metrics> {
        self.b.as_ref()?.metrics.as_ref()
    }

    /// The numbers that are shown of it, as many as there are [`Report::columns`].
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
}

/// What errors are.
pub(crate) const ERRORS: &str = "errors are NMSE, Σ(a − b)² / Σa²: own error against the reference backend on the \
                                 recorded inputs, accumulated against B";

/// What is known of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Within the limit.
    Right,
    /// Beyond the limit.
    Wrong,
    /// Not judged, and why.
    NotJudged(String),
}

/// Stands for causes where no side is known to be wrong.
pub(crate) const NO_SIDE: &str = "no replay shows which of them is wrong, nor why";

impl First {
    /// What happens at the value: one side goes wrong, or both part.
    pub(crate) fn verb(&self) -> String {
        match self.side {
            Some(side) => format!("{} first goes wrong", side.to_uppercase()),
            None => "A and B first differ".to_owned(),
        }
    }

    /// What its error is: its own, where a replay says so.
    pub(crate) fn error(&self, method: Method) -> &'static str {
        match method {
            Method::Replay if self.side.is_some() => "own error",
            Method::Replay | Method::Bits | Method::Accumulated => "accumulated error",
        }
    }

    /// The verdict in a few lines.
    fn write_to(&self, report: &Report, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.error(report.method);
        writeln!(
            f,
            "{} at {}, position {}: {what} {} (limit {})",
            self.verb(),
            self.name,
            self.position,
            scientific(self.nmse),
            scientific(self.limit)
        )?;
        if let (Some(operation), Some(line)) = (&self.operation, &self.line) {
            writeln!(f, "  {operation}  ({line})")?;
        }
        match self.place.as_str() {
            "everywhere" => writeln!(f, "  wrong: everywhere")?,
            place => {
                writeln!(f, "  wrong: {place}; the error over the whole value is {}", scientific(self.whole))?
            }
        }
        let likely = self.causes.iter().filter(|cause| cause.likely).count();
        match self.causes.first() {
            None if self.side.is_none() => writeln!(f, "  {NO_SIDE}")?,
            None => writeln!(f, "  cause: none of the mistakes that are tried explains it")?,
            Some(cause) if likely == 0 => writeln!(f, "  possible cause: {}", cause.text)?,
            Some(cause) => writeln!(f, "  likely cause: {}", cause.text)?,
        }
        for cause in self.causes.iter().skip(1) {
            let kind = if cause.likely { "as likely by the numbers" } else { "possible" };
            writeln!(f, "  {kind}: {} (explains {:.1} %)", cause.text, cause.explained * 100.0)?;
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    /// The verdict, then a table of all values.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.first {
            Some(first) => first.write_to(self, f)?,
            None => writeln!(f, "{}", self.all_is_well())?,
        }
        writeln!(f, "A: {}", self.a)?;
        writeln!(f, "B: {}", self.b)?;
        for note in &self.notes {
            writeln!(f, "note: {note}")?;
        }
        writeln!(f, "{ERRORS}\n")?;
        let width = self.values.iter().map(|value| value.name.len()).max().unwrap_or(0).max(5);
        let columns = self.columns();
        let heading: String = columns.iter().flatten().map(|title| format!("  {title:>11}")).collect();
        writeln!(f, "  {:width$}{heading}  at (position, column)", "value")?;
        for value in &self.values {
            let mut line = format!("{} {:width$}", if value.is_wrong() { "!" } else { " " }, value.name);
            for (number, _) in value.numbers().into_iter().zip(columns).filter(|(_, title)| title.is_some()) {
                write!(line, "  {:>11}", number.map_or("-".to_owned(), scientific))?;
            }
            let accumulated = value.accumulated.as_ref();
            if let Some(largest) = accumulated.map(|metrics| metrics.largest).filter(|l| l.difference > 0.0) {
                write!(line, "  ({}, {})", largest.position, largest.column)?;
            }
            if let Verdict::NotJudged(why) = &value.verdict
                && self.method == Method::Replay
            {
                write!(line, "  not judged: {why}")?;
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

impl Report {
    /// What the columns of numbers are called; that of B only where B's operations were judged.
    pub(crate) fn columns(&self) -> [Option<&'static str>; 6] {
        let (a, b) = match self.values.iter().any(|value| value.b.is_some()) {
            true => ("own error A", Some("own error B")),
            false => ("own error", None),
        };
        [Some(a), b, Some("limit"), Some("accumulated"), Some("1 − cosine"), Some("max |a − b|")]
    }

    /// The verdict on traces that are alike, in a line.
    pub(crate) fn all_is_well(&self) -> String {
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
            Method::Accumulated => {
                format!("alike: {judged} values at {positions} are near each other")
            }
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

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Side { trace, producer, backend, model, types } = self;
        write!(f, "{trace}: {producer}, backend {backend}, {model} ({types})")
    }
}

/// Such as `3.2e-7`; 0 is `0`.
pub(crate) fn scientific(x: f64) -> String {
    if x == 0.0 {
        "0".to_owned()
    } else if x.is_finite() {
        format!("{x:.1e}")
    } else {
        "inf".to_owned()
    }
}
