//! Statistics of a value, and the table of them.

use crate::Shape;

const FIRST: usize = 5;

/// Statistics of a value's elements. NaNs are only counted; infinities are included.
#[derive(Clone, Debug, PartialEq)]
pub struct Stats {
    /// Number of elements, including NaNs.
    pub count: u64,
    /// Number of NaNs.
    pub nan: u64,
    /// The smallest; NaN if all are.
    pub min: f32,
    /// The largest; NaN if all are.
    pub max: f32,
    /// The first five of the first row.
    pub first: Vec<f32>,
    sum: f64,
    squares: f64,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats { count: 0, nan: 0, min: f32::NAN, max: f32::NAN, first: Vec::new(), sum: 0.0, squares: 0.0 }
    }
}

impl Stats {
    /// Adds elements.
    pub fn add(&mut self, data: &[f32]) {
        self.count += data.len() as u64;
        self.first.extend(data.iter().take(FIRST - self.first.len()));
        for &x in data {
            if x.is_nan() {
                self.nan += 1;
                continue;
            }
            // Of NaN and a number, both take the number.
            self.min = self.min.min(x);
            self.max = self.max.max(x);
            self.sum += f64::from(x);
            self.squares += f64::from(x) * f64::from(x);
        }
    }

    /// The mean; NaN if all are.
    pub fn mean(&self) -> f64 {
        self.sum / (self.count - self.nan) as f64
    }

    /// The root mean square; NaN if all are.
    pub fn rms(&self) -> f64 {
        (self.squares / (self.count - self.nan) as f64).sqrt()
    }
}

/// A value and its statistics.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Name, rows and columns.
    pub shape: Shape,
    /// Its statistics.
    pub stats: Stats,
}

impl Summary {
    /// The value called `name` with rows of `cols` columns in `data`.
    pub fn of(name: &str, cols: usize, data: &[f32]) -> Summary {
        let mut stats = Stats::default();
        stats.add(data);
        Summary { shape: Shape { name: name.to_owned(), rows: data.len() / cols.max(1), cols }, stats }
    }
}

/// One line per value, under a heading: name, shape, type, RMS, mean, smallest, largest, NaNs, first five elements.
pub fn table(values: &[Summary]) -> String {
    let width = values.iter().map(|value| value.shape.name.len()).max().unwrap_or(0).max(5);
    let heading = ["rms", "mean", "min", "max"].map(|name| format!("{name:>11}")).concat();
    let mut lines = format!("{:width$} {:>13} type{heading} {:>6}  first\n", "value", "shape", "NaN");
    for Summary { shape, stats } in values {
        let size = format!("{} x {}", shape.rows, shape.cols);
        let numbers = [stats.rms(), stats.mean(), stats.min.into(), stats.max.into()].map(number).concat();
        let first: String = stats.first.iter().map(|&x| number(x.into())).collect();
        lines += &format!("{:width$} {size:>13}  f32{numbers} {:>6} {first}\n", shape.name, stats.nan);
    }
    lines
}

fn number(x: f64) -> String {
    let size = x.abs();
    if size == 0.0 || (1e-3..1e5).contains(&size) {
        let before = size.max(1.0).log10() as usize;
        format!("{x:>11.*}", 5 - before.min(5))
    } else {
        format!("{x:>11.3e}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_numbers() {
        let mut stats = Stats::default();
        stats.add(&[3.0, -4.0, f32::NAN]);
        stats.add(&[0.0, 1.0, 2.0, 3.0]);
        assert_eq!((stats.count, stats.nan, stats.min, stats.max), (7, 1, -4.0, 3.0));
        assert_eq!(stats.mean(), 5.0 / 6.0);
        assert_eq!(stats.rms(), (39.0f64 / 6.0).sqrt());
        assert_eq!(stats.first[..2], [3.0, -4.0]);
        assert_eq!(stats.first[3..], [0.0, 1.0]);
        assert!(stats.first[2].is_nan());
    }

    #[test]
    fn nothing_but_nan_and_infinity() {
        let mut stats = Stats::default();
        stats.add(&[f32::NAN; 3]);
        assert!([stats.mean(), stats.rms(), stats.min.into(), stats.max.into()].iter().all(|x| x.is_nan()));
        stats.add(&[f32::INFINITY]);
        assert_eq!((stats.nan, stats.max, stats.rms()), (3, f32::INFINITY, f64::INFINITY));
    }

    #[test]
    fn the_table_lines_up() {
        let value = |name| Summary::of(name, 3, &[1.5, -2.0, 12345.678, 1e-9, f32::NAN, 7.0]);
        let expected = "\
value                 shape type        rms       mean        min        max    NaN  first
embd                  2 x 3  f32    5521.16    2470.44   -2.00000    12345.7      1     1.50000   -2.00000    12345.7   1.000e-9        NaN
a_longer_name         2 x 3  f32    5521.16    2470.44   -2.00000    12345.7      1     1.50000   -2.00000    12345.7   1.000e-9        NaN
";
        let table = table(&[value("embd"), value("a_longer_name")]);
        assert_eq!(table, expected);
    }
}
