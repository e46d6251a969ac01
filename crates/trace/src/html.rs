//! The report as a page: verdict, chart and table, with nothing from outside.

use indexmap::{IndexMap, IndexSet};
use minijinja::{Environment, Value, context};

use crate::report::{Compared, Report, Verdict, scientific};

const PAGE: &str = include_str!("html/page.html");
const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

const LEFT: f64 = 56.0;
const RIGHT: f64 = 1032.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 354.0;

/// Decades of NMSE that the chart shows; values beyond appear at its edge.
const LOWEST: i32 = -16;
const HIGHEST: i32 = 2;

impl Report {
    /// The report as a self-contained page: verdict, chart and table.
    pub fn html(&self) -> String {
        let first = self.first_row();
        let rows = self.values.iter().enumerate();
        let mut kinds: IndexSet<&str> = IndexSet::new();
        let mut layers: IndexMap<usize, (f64, f64)> = IndexMap::new();
        for (i, value) in self.values.iter().enumerate() {
            let (kind, layer) = kind(&value.name);
            kinds.insert(kind);
            if let Some(layer) = layer {
                layers.entry(layer).or_insert((self.x(i, -0.5), 0.0)).1 = self.x(i, 0.5);
            }
        }
        let numbers = self.columns().into_iter().flatten().map(|title| (title, "number"));
        let before = [("#", "number"), ("value", "text"), ("shape", "text")].into_iter();
        let columns = before.chain(numbers).chain([("at (position, column)", "text"), ("verdict", "text")]);
        let page = context! {
            title => self.first.as_ref().map_or_else(|| "alike".to_owned(), |first| first.headline()),
            alike => self.alike,
            verdict => self.verdict(),
            remarks => self.remarks(),
            kinds => kinds.into_iter().map(str::to_owned).collect::<Vec<_>>(),
            decades => (LOWEST..=HIGHEST).step_by(2).map(|i| (i, y(10f64.powi(i)))).collect::<Vec<_>>(),
            layers => layers.into_iter().map(|(layer, (from, to))| (layer, from, to)).collect::<Vec<_>>(),
            columns => columns.collect::<Vec<_>>(),
            values => rows.map(|(i, value)| self.row(i, value, first == Some(i))).collect::<Vec<_>>(),
            first, left => LEFT, right => RIGHT, top => TOP, bottom => BOTTOM, style => STYLE, script => SCRIPT,
        };
        let page = Environment::new().render_named_str("page.html", PAGE, page);
        // A template's last newline is not part of its text.
        page.expect("the template uses what it is given") + "\n"
    }

    /// A value in chart and table. Points of the chart have a height and a text.
    fn row(&self, i: usize, value: &Compared, is_first: bool) -> Value {
        let is_b_wrong = self.first.as_ref().is_some_and(|first| first.side == Some("b"));
        let own = if is_b_wrong { value.own_b() } else { value.own };
        // Where A is right, B may be wrong.
        let of_b = value.b.as_ref().map(|b| &b.verdict).filter(|_| value.verdict == Verdict::Right);
        let (verdict, class) = match of_b.unwrap_or(&value.verdict) {
            Verdict::Right => ("right".to_owned(), "right"),
            Verdict::Wrong if is_first => ("wrong, first".to_owned(), "wrong first"),
            Verdict::Wrong => ("wrong".to_owned(), "wrong"),
            Verdict::NotJudged(why) => (format!("not judged: {why}"), "open"),
        };
        let shown = value.numbers().into_iter().zip(self.columns()).filter(|(_, title)| title.is_some());
        let number = |x: Option<f64>| match x {
            Some(x) => (format!("{x:e}"), scientific(x)),
            None => ("-1".to_owned(), "–".to_owned()),
        };
        let point = |nmse: f64| context! { y => y(nmse), text => scientific(nmse) };
        context! {
            name => value.name.clone(),
            kind => kind(&value.name).0.to_owned(),
            shape => format!("{} × {}", value.rows, value.cols),
            x => self.x(i, 0.0),
            own => own.map(|metrics| point(metrics.nmse)),
            accumulated => value.accumulated.map(|metrics| point(metrics.nmse)),
            limit => value.limit.filter(|limit| *limit > 0.0).map(point),
            wrong => value.is_wrong(),
            numbers => shown.map(|(x, _)| number(x)).collect::<Vec<_>>(),
            largest => value.largest(),
            class, verdict,
        }
    }

    /// The chart's coordinate of value `i`, or of its edges at -0.5 and 0.5.
    fn x(&self, i: usize, offset: f64) -> f64 {
        tenths(LEFT + (i as f64 + 0.5 + offset) * (RIGHT - LEFT) / self.values.len().max(1) as f64)
    }
}

fn y(nmse: f64) -> f64 {
    let decades = nmse.max(1e-300).log10().clamp(f64::from(LOWEST), f64::from(HIGHEST));
    tenths(TOP + (f64::from(HIGHEST) - decades) / f64::from(HIGHEST - LOWEST) * (BOTTOM - TOP))
}

fn tenths(x: f64) -> f64 {
    (x * 10.0).round() / 10.0
}

fn kind(name: &str) -> (&str, Option<usize>) {
    let split = name.rsplit_once('-').and_then(|(kind, layer)| Some((kind, Some(layer.parse().ok()?))));
    split.unwrap_or((name, None))
}
