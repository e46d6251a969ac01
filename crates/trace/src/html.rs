//! The report as a page: verdict, chart and table, with nothing from outside.

use indexmap::IndexSet;

use crate::report::{Compared, Report, Verdict, scientific};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Size of the chart's plane and its margins, in its own units.
const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

/// Decades of NMSE that the chart shows; values beyond appear at its edge.
const LOWEST: i32 = -16;
const HIGHEST: i32 = 2;

impl Report {
    /// The report as a page that needs nothing from outside: verdict, chart and table.
    pub fn html(&self) -> String {
        let title = self.first.as_ref().map_or_else(|| "alike".to_owned(), |first| first.headline());
        let class = if self.alike { "alike" } else { "wrong" };
        let verdict = self.verdict();
        let details = verdict[1..].iter().map(|line| format!("<p>{}</p>\n", escaped(line)));
        let remarks = self.remarks();
        let remarks = remarks.iter().map(|line| format!("<p class=\"remark\">{}</p>\n", escaped(line)));
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
             <main>\n<h1 class=\"{class}\">{}</h1>\n{}{}{}</main>\n<script>\n{SCRIPT}</script>\n</html>\n",
            escaped(&title),
            escaped(&verdict[0]),
            details.chain(remarks).collect::<String>(),
            self.chart(),
            self.table(),
        )
    }

    /// Errors of all values in the order of computation, by layer, on a logarithmic scale.
    fn chart(&self) -> String {
        let values = &self.values;
        let y = |nmse: f64| {
            let decades = nmse.max(1e-300).log10().clamp(f64::from(LOWEST), f64::from(HIGHEST));
            TOP + (f64::from(HIGHEST) - decades) / f64::from(HIGHEST - LOWEST) * HEIGHT
        };
        let kinds: IndexSet<&str> = values.iter().map(|value| kind(&value.name).0).collect();
        let kinds: String = kinds.iter().map(|kind| format!("<option>{}</option>", escaped(kind))).collect();
        let mut svg = format!(
            "<h2>Error by layer and value</h2>\n<p class=\"legend\">NMSE: <span class=\"own\">●</span> own error \
             <span class=\"accumulated\">━</span> accumulated <span class=\"limit\">┄</span> limit <label>value \
             <select id=\"kind\"><option value=\"\">all</option>{kinds}</select></label></p>\n<svg id=\"chart\" \
             viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"NMSE of each value, own and accumulated\">\n",
            TOP + HEIGHT + BOTTOM
        );
        for decade in (LOWEST..=HIGHEST).step_by(2) {
            let (at, left) = (y(10f64.powi(decade)), LEFT - 6.0);
            svg += &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text \
                 class=\"axis\" x=\"{left}\" y=\"{:.1}\" text-anchor=\"end\">1e{decade}</text>\n",
                at + 4.0
            );
        }
        svg += &self.layers();
        let mut polyline = |class: &str, of: &dyn Fn(&Compared) -> Option<f64>| {
            let point = |(i, value)| Some(format!("{:.1},{:.1}", self.x(i, 0.0), y(of(value)?)));
            let points: Vec<String> = values.iter().enumerate().filter_map(point).collect();
            svg += &format!("<polyline class=\"{class}\" points=\"{}\"/>\n", points.join(" "));
        };
        polyline("limit", &|value| value.limit.filter(|limit| *limit > 0.0));
        polyline("accumulated", &|value| value.accumulated.map(|metrics| metrics.nmse));
        let is_b_wrong = self.first.as_ref().is_some_and(|first| first.side == Some("b"));
        for (i, value) in values.iter().enumerate() {
            let own = if is_b_wrong { value.own_b() } else { value.own };
            let wrong = if value.is_wrong() { " wrong" } else { "" };
            for (class, wrong, title, radius, metrics) in [
                ("accumulated", "", "accumulated", 1.8, value.accumulated),
                ("own", wrong, "own error", 3.5, own),
            ] {
                let Some(metrics) = metrics else { continue };
                svg += &format!(
                    "<circle class=\"{class}{wrong}\" data-kind=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"{radius}\">\
                     <title>{}: {title} {}</title></circle>\n",
                    escaped(kind(&value.name).0),
                    self.x(i, 0.0),
                    y(metrics.nmse),
                    escaped(&value.name),
                    scientific(metrics.nmse)
                );
            }
        }
        if let (Some(first), Some(i)) = (&self.first, self.first_row()) {
            let at = self.x(i, 0.0);
            let (anchor, beside) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
            svg += &format!(
                "<g id=\"first-divergence\"><line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{}\"/><text \
                 x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">first wrong: {}</text></g>\n",
                TOP - 18.0,
                TOP + HEIGHT,
                at + beside,
                TOP - 8.0,
                escaped(&first.name)
            );
        }
        svg + "</svg>\n"
    }

    /// The chart's coordinate of value `i`, or of its edges at -0.5 and 0.5.
    fn x(&self, i: usize, offset: f64) -> f64 {
        LEFT + (i as f64 + 0.5 + offset) * (WIDTH - LEFT - 8.0) / self.values.len().max(1) as f64
    }

    /// A band for every second decoder layer, and the layers' numbers.
    fn layers(&self) -> String {
        let mut svg = String::new();
        let of: Vec<Option<usize>> = self.values.iter().map(|value| kind(&value.name).1).collect();
        let layers: IndexSet<usize> = of.iter().flatten().copied().collect();
        for layer in layers {
            let is_of = |of: &Option<usize>| *of == Some(layer);
            let (first, last) = (of.iter().position(is_of), of.iter().rposition(is_of));
            let [from, to] =
                [(first, -0.5), (last, 0.5)].map(|(i, half)| self.x(i.unwrap_or_default(), half));
            let (width, middle) = (to - from, f64::midpoint(from, to));
            if layer % 2 == 1 {
                svg += &format!(
                    "<rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{HEIGHT}\"/>\n"
                );
            }
            if width > 18.0 {
                svg += &format!(
                    "<text class=\"axis\" x=\"{middle:.1}\" y=\"{}\" text-anchor=\"middle\">{}{layer}</text>\n",
                    TOP + HEIGHT + 18.0,
                    if width > 60.0 { "layer " } else { "" }
                );
            }
        }
        svg
    }

    fn table(&self) -> String {
        let columns = self.columns();
        let before = [("#", "number"), ("value", "text"), ("shape", "text")];
        let numbers = columns.iter().flatten().map(|&title| (title, "number"));
        let after = [("at (position, column)", "text"), ("verdict", "text")];
        let heading = |(title, kind)| format!("<th data-kind=\"{kind}\"><button>{title}</button></th>");
        let headings: String = before.into_iter().chain(numbers).chain(after).map(heading).collect();
        let mut html =
            format!("<h2>Values</h2>\n<table id=\"values\">\n<thead><tr>{headings}</tr></thead>\n<tbody>\n");
        let number = |x: Option<f64>| match x {
            Some(x) => format!("<td data-value=\"{x:e}\">{}</td>", scientific(x)),
            None => "<td data-value=\"-1\">–</td>".to_owned(),
        };
        for (i, value) in self.values.iter().enumerate() {
            // Where A is right, B may be wrong.
            let of_b = value.b.as_ref().map(|b| &b.verdict).filter(|_| value.verdict == Verdict::Right);
            let (verdict, class) = match of_b.unwrap_or(&value.verdict) {
                Verdict::Right => ("right".to_owned(), "right"),
                Verdict::Wrong if self.first_row() == Some(i) => ("wrong, first".to_owned(), "wrong first"),
                Verdict::Wrong => ("wrong".to_owned(), "wrong"),
                Verdict::NotJudged(why) => (format!("not judged: {why}"), "open"),
            };
            let shown = value.numbers().into_iter().zip(columns).filter(|(_, title)| title.is_some());
            html += &format!(
                "<tr class=\"{class}\"><td data-value=\"{i}\">{i}</td><td><code>{}</code></td><td>{} × {}</td>\
                 {}<td>{}</td><td>{}</td></tr>\n",
                escaped(&value.name),
                value.rows,
                value.cols,
                shown.map(|(x, _)| number(x)).collect::<String>(),
                value.largest(),
                escaped(&verdict)
            );
        }
        html + "</tbody>\n</table>\n"
    }
}

/// A value's name without its layer, and its layer.
fn kind(name: &str) -> (&str, Option<usize>) {
    let split = name.rsplit_once('-').and_then(|(kind, layer)| Some((kind, Some(layer.parse().ok()?))));
    split.unwrap_or((name, None))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
