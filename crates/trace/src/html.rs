//! The report as a page: verdict, chart and table, with nothing from outside.

use std::fmt::Write as _;

use crate::report::{ERRORS, NO_SIDE, scientific};
use crate::{Compared, Report, Verdict, tapped_name};

const STYLE: &str = include_str!("html/style.css");
const SCRIPT: &str = include_str!("html/script.js");

/// Size of the chart's plane and the room around it, in its own units.
const WIDTH: f64 = 1040.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

/// Decades of NMSE that the chart shows; what is beyond stands at its edge.
const LOWEST: i32 = -16;
const HIGHEST: i32 = 2;

impl Report {
    /// The report as a page that needs nothing from outside: verdict, chart and table.
    pub fn html(&self) -> String {
        let verdict = match &self.first {
            Some(first) => format!("{} at {}", first.verb(), first.name),
            None => "alike".to_owned(),
        };
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
             content=\"width=device-width, initial-scale=1\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
             <main>\n{}{}{}{}</main>\n<script>\n{SCRIPT}</script>\n</html>\n",
            escaped(&verdict),
            self.html_verdict(),
            self.html_chart(),
            self.html_table(),
            self.html_notes(),
        )
    }

    fn html_verdict(&self) -> String {
        let mut html = String::new();
        match &self.first {
            None => {
                let _ = writeln!(html, "<h1 class=\"alike\">{}</h1>", escaped(&self.all_is_well()));
            }
            Some(first) => {
                let _ = writeln!(
                    html,
                    "<h1 id=\"verdict\">{} at <code>{}</code>, position {}</h1>\n<p>Its {} is \
                     <b>{}</b>, the limit {}. Wrong: {}.</p>",
                    first.verb(),
                    escaped(&first.name),
                    first.position,
                    first.error(self.method),
                    scientific(first.nmse),
                    scientific(first.limit),
                    escaped(&first.place)
                );
                if let (Some(operation), Some(line)) = (&first.operation, &first.line) {
                    let _ = writeln!(html, "<p><code>{}</code><br>{}</p>", escaped(operation), escaped(line));
                }
                html += "<h2>Causes that the numbers bear out</h2>\n<ol class=\"causes\">\n";
                for cause in &first.causes {
                    let kind = if cause.likely { "likely" } else { "possible" };
                    let _ = writeln!(
                        html,
                        "<li><b>{kind}</b> {} <small>explains {:.1} % of the error, {} is left</small></li>",
                        escaped(&cause.text),
                        cause.explained * 100.0,
                        scientific(cause.nmse)
                    );
                }
                if first.causes.is_empty() {
                    let why = match first.side {
                        Some(_) => "none of the mistakes that are tried explains it",
                        None => NO_SIDE,
                    };
                    let _ = writeln!(html, "<li>{why}</li>");
                }
                html += "</ol>\n";
            }
        }
        let _ = writeln!(html, "<p>{}</p>", escaped(ERRORS));
        for (name, side) in [("A", &self.a), ("B", &self.b)] {
            let _ = writeln!(html, "<p class=\"side\"><b>{name}</b> {}</p>", escaped(&side.to_string()));
        }
        html
    }

    /// Errors of all values in the order of computation, by layer, on a logarithmic scale.
    fn html_chart(&self) -> String {
        let values: Vec<&Compared> = self.values.iter().collect();
        let n = values.len().max(1) as f64;
        let x = |i: usize| LEFT + (i as f64 + 0.5) / n * (WIDTH - LEFT - 8.0);
        let y = |nmse: f64| {
            let decades = nmse.max(1e-300).log10().clamp(f64::from(LOWEST), f64::from(HIGHEST));
            TOP + (f64::from(HIGHEST) - decades) / f64::from(HIGHEST - LOWEST) * HEIGHT
        };
        let mut svg = String::from(
            "<h2>Error by layer and value</h2>\n<p class=\"legend\">NMSE: <span class=\"own\">●</span> own error \
             <span class=\"accumulated\">━</span> accumulated <span class=\"limit\">┄</span> limit <label>value <select id=\"kind\"><option value=\"\">all</option>",
        );
        let mut kinds: Vec<&str> = Vec::new();
        for value in &values {
            let kind = kind(&value.name);
            if !kinds.contains(&kind) {
                kinds.push(kind);
                let _ = write!(svg, "<option>{}</option>", escaped(kind));
            }
        }
        let _ = writeln!(
            svg,
            "</select></label></p>\n<svg id=\"chart\" viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"NMSE of \
             each value, own and accumulated\">",
            TOP + HEIGHT + BOTTOM
        );
        for decade in (LOWEST..=HIGHEST).step_by(2) {
            let at = y(10f64.powi(decade));
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text \
                 class=\"axis\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">1e{decade}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        svg += &layers(&values, &x);
        let mut line = |class: &str, of: &dyn Fn(&Compared) -> Option<f64>| {
            let points = values
                .iter()
                .enumerate()
                .filter_map(|(i, value)| Some(format!("{:.1},{:.1}", x(i), y(of(value)?))));
            let points: Vec<String> = points.collect();
            if !points.is_empty() {
                let _ = writeln!(svg, "<polyline class=\"{class}\" points=\"{}\"/>", points.join(" "));
            }
        };
        line("limit", &|value| value.limit.filter(|limit| *limit > 0.0));
        line("accumulated", &|value| value.accumulated.map(|metrics| metrics.nmse));
        for (i, value) in values.iter().enumerate() {
            // That of the failing side.
            let own = if self.is_b_failing() { value.own_b().copied() } else { value.own };
            for (class, title, metrics) in
                [("accumulated", "accumulated", value.accumulated), ("own", "own error", own)]
            {
                let Some(metrics) = metrics else { continue };
                let wrong = if value.is_wrong() && class == "own" { " wrong" } else { "" };
                let _ = writeln!(
                    svg,
                    "<circle class=\"{class}{wrong}\" data-kind=\"{}\" cx=\"{:.1}\" cy=\"{:.1}\" \
                     r=\"{}\"><title>{}: {title} {}</title></circle>",
                    escaped(kind(&value.name)),
                    x(i),
                    y(metrics.nmse),
                    if class == "own" { 3.5 } else { 1.8 },
                    escaped(&value.name),
                    scientific(metrics.nmse)
                );
            }
        }
        if let (Some(first), Some(i)) = (&self.first, self.first_row()) {
            let at = x(i);
            let (anchor, beside) = if at > WIDTH / 2.0 { ("end", -5.0) } else { ("start", 5.0) };
            let _ = writeln!(
                svg,
                "<g id=\"first-divergence\"><line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{}\" y2=\"{}\"/><text \
                 x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">first wrong: {}</text></g>",
                TOP - 18.0,
                TOP + HEIGHT,
                at + beside,
                TOP - 8.0,
                escaped(&first.name)
            );
        }
        svg + "</svg>\n"
    }

    fn is_b_failing(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.side == Some("b"))
    }

    /// The row of the first wrong value: of the output, that of the program that is wrong.
    fn first_row(&self) -> Option<usize> {
        let name = &self.first.as_ref()?.name;
        let is_it = |value: &Compared| value.name == *name || value.name == tapped_name(name);
        let wrong = |value: &Compared| is_it(value) && value.is_wrong();
        self.values.iter().position(wrong).or_else(|| self.values.iter().position(is_it))
    }

    fn html_table(&self) -> String {
        let mut html = "<h2>Values</h2>\n<table id=\"values\">\n<thead><tr>".to_owned();
        let columns = self.columns();
        let before = [("#", "number"), ("value", "text"), ("shape", "text")];
        let numbers = columns.iter().flatten().map(|&title| (title, "number"));
        let after = [("at (position, column)", "text"), ("verdict", "text")];
        for (title, kind) in before.into_iter().chain(numbers).chain(after) {
            let _ = write!(html, "<th data-kind=\"{kind}\"><button>{title}</button></th>");
        }
        html += "</tr></thead>\n<tbody>\n";
        let number = |x: Option<f64>| match x {
            Some(x) => format!("<td data-value=\"{x:e}\">{}</td>", scientific(x)),
            None => "<td data-value=\"-1\">–</td>".to_owned(),
        };
        for (i, value) in self.values.iter().enumerate() {
            let is_first = self.first_row() == Some(i);
            // Where A is right, B may be wrong.
            let of_b = value.b.as_ref().map(|b| &b.verdict).filter(|_| value.verdict == Verdict::Right);
            let (verdict, class) = match of_b.unwrap_or(&value.verdict) {
                Verdict::Right => ("right".to_owned(), "right"),
                Verdict::Wrong if is_first => ("wrong, first".to_owned(), "wrong first"),
                Verdict::Wrong => ("wrong".to_owned(), "wrong"),
                Verdict::NotJudged(why) => (format!("not judged: {why}"), "open"),
            };
            let shown = value.numbers().into_iter().zip(columns).filter(|(_, title)| title.is_some());
            let numbers: String = shown.map(|(x, _)| number(x)).collect();
            let place = value.accumulated.map(|metrics| metrics.largest).filter(|l| l.difference > 0.0);
            let place = place.map_or(String::new(), |l| format!("({}, {})", l.position, l.column));
            let _ = writeln!(
                html,
                "<tr class=\"{class}\"><td data-value=\"{i}\">{i}</td><td><code>{}</code></td><td>{} × {}</td>\
                 {numbers}<td>{place}</td><td>{}</td></tr>",
                escaped(&value.name),
                value.rows,
                value.cols,
                escaped(&verdict)
            );
        }
        html + "</tbody>\n</table>\n"
    }

    fn html_notes(&self) -> String {
        if self.notes.is_empty() {
            return String::new();
        }
        let notes: String = self.notes.iter().map(|note| format!("<li>{}</li>\n", escaped(note))).collect();
        format!("<h2>Notes</h2>\n<ul>\n{notes}</ul>\n")
    }
}

/// A band and a number for each decoder layer.
fn layers(values: &[&Compared], x: &dyn Fn(usize) -> f64) -> String {
    let half = (x(1) - x(0)) / 2.0;
    let mut runs: Vec<(Option<usize>, usize, usize)> = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let layer = value.name.rsplit_once('-').and_then(|(_, layer)| layer.parse().ok());
        match runs.last_mut() {
            // Values without a layer between those of one layer belong to it.
            Some((last, _, end))
                if *last == layer
                    || (layer.is_none()
                        && values[i + 1..]
                            .iter()
                            .any(|v| last.is_some_and(|l| v.name.ends_with(&format!("-{l}"))))) =>
            {
                *end = i
            }
            _ => runs.push((layer, i, i)),
        }
    }
    let mut svg = String::new();
    for (layer, first, last) in runs {
        let Some(layer) = layer else { continue };
        let (from, to) = (x(first) - half, x(last) + half);
        if layer % 2 == 1 {
            let _ = writeln!(
                svg,
                "<rect class=\"band\" x=\"{from:.1}\" y=\"{TOP}\" width=\"{:.1}\" height=\"{HEIGHT}\"/>",
                to - from
            );
        }
        if to - from > 18.0 {
            let name = if to - from > 60.0 { format!("layer {layer}") } else { layer.to_string() };
            let _ = writeln!(
                svg,
                "<text class=\"axis\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{name}</text>",
                f64::midpoint(from, to),
                TOP + HEIGHT + 18.0
            );
        }
    }
    svg
}

/// A value's name without its layer.
fn kind(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((kind, layer)) if layer.bytes().all(|byte| byte.is_ascii_digit()) => kind,
        _ => name,
    }
}

/// Text for a page.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}
