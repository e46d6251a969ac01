//! The products that an operation consists of, whose inputs an engine may round.

use backend::Weight;
use graph::{Activation, Op};

use super::rounding::{Rounding, WAYS, dot, rounded_row};
use crate::activation::activate;
use crate::oracle::Call;
use crate::{Error, Matrix, Oracle};

/// The products of some rows.
pub(crate) enum Products {
    /// An input and the matrix that it is multiplied with.
    Linear(Matrix, Weight),
    /// Those of the experts that each row chose.
    Experts(Experts),
}

/// The inputs of [`Op::Experts`], and its gates, ups and downs.
pub(crate) struct Experts {
    x: Matrix,
    routes: Matrix,
    weights: [Weight; 3],
    act: Activation,
}

impl Products {
    /// Those of `call` on `inputs`; none when it has none.
    ///
    /// # Errors
    /// When the file lacks a weight.
    pub(crate) fn of(oracle: &Oracle<'_>, call: &Call, inputs: &[Matrix]) -> Result<Option<Products>, Error> {
        if let (Op::Linear { weight, .. }, [x]) = (&call.op, inputs) {
            return Ok(Some(Products::Linear(x.clone(), oracle.weight(*weight)?)));
        }
        if let (Op::Experts { gate, up, down, act, .. }, [x, routes]) = (&call.op, inputs) {
            let [gate, up, down] = [gate, up, down].map(|id| oracle.weight(*id));
            let (x, routes, weights) = (x.clone(), routes.clone(), [gate?, up?, down?]);
            return Ok(Some(Products::Experts(Experts { x, routes, weights, act: *act })));
        }
        Ok(None)
    }

    /// What rounding makes of the result, `y`.
    pub(crate) fn rounding(&self, y: &Matrix) -> Rounding {
        match self {
            Products::Linear(x, weight) => Rounding::of(x, weight, y),
            Products::Experts(experts) => {
                let ways: [Matrix; WAYS] = std::array::from_fn(|way| experts.rounded(way));
                Rounding::simulated(y, &ways)
            }
        }
    }
}

impl Experts {
    /// The result with the inputs of all products rounded in a way.
    fn rounded(&self, way: usize) -> Matrix {
        let [gates, ups, downs] = &self.weights;
        let mut sums = vec![0.0; self.x.rows * downs.rows];
        for expert in 0..gates.count {
            let [gate, up, down] = [gates, ups, downs].map(|weight| weight.part(expert));
            let chosen: Vec<usize> =
                (0..self.x.rows).filter(|&row| self.routes.at(row, expert) != 0.0).collect();
            let x = self.x.take_rows(&chosen);
            let [gate, up] = [&gate, &up].map(|weight| product(&x, weight, way));
            let pairs = gate.data.iter().zip(&up.data);
            let hidden =
                pairs.map(|(&gate, &up)| (activate(self.act, f64::from(gate)) * f64::from(up)) as f32);
            let y = product(&Matrix { data: hidden.collect(), ..gate }, &down, way);
            for (i, &row) in chosen.iter().enumerate() {
                let p = f64::from(self.routes.at(row, expert));
                let sums = &mut sums[row * downs.rows..][..downs.rows];
                sums.iter_mut().zip(y.row(i)).for_each(|(sum, &y)| *sum += p * f64::from(y));
            }
        }
        Matrix { rows: self.x.rows, cols: downs.rows, data: sums.into_iter().map(|sum| sum as f32).collect() }
    }
}

/// `x`, rounded in a way, times the transpose of `weight`.
fn product(x: &Matrix, weight: &Weight, way: usize) -> Matrix {
    let rounded: Vec<f32> = (0..x.rows).flat_map(|r| rounded_row(x.row(r), weight.format, way)).collect();
    let mut y = Matrix::from_fn(x.rows, weight.rows, |_, _| 0.0);
    let mut w = vec![0.0; weight.cols];
    for o in 0..weight.rows {
        weight.format.dequantize(weight.row(o), &mut w);
        for r in 0..x.rows {
            y.data[r * weight.rows + o] = dot(&rounded[r * x.cols..][..x.cols], &w) as f32;
        }
    }
    y
}

#[cfg(test)]
mod tests {
    use quant::Format;

    use super::*;

    /// By hand: one expert whose matrices are 2 (one number of a block of 32, the others 0), of the input 127 and 0.3.
    /// Gate and up read 0.3, which becomes 0 beside 127, so nothing is left of the result.
    #[test]
    fn what_experts_round_away_is_known() {
        let block = |at: usize, value: u8| {
            let quants = (0..32).map(move |i| if i == at { value } else { 0 });
            [0x00, 0x3c].into_iter().chain(quants).collect::<Vec<u8>>() // the scale 1.0 as F16
        };
        let matrix = |rows: usize, at: usize| {
            let bytes: Vec<u8> = (0..rows).flat_map(|_| block(at, 2)).collect();
            Weight::matrix(Format::Q8_0, rows, 32, bytes.into())
        };
        let x = Matrix::from_fn(1, 32, |_, k| if k == 0 { 127.0 } else { 0.3 });
        let routes = Matrix::from_fn(1, 1, |_, _| 1.0);
        let weights = [matrix(32, 1), matrix(32, 1), matrix(1, 5)];
        let experts = Experts { x, routes, weights, act: Activation::Silu };
        // silu(0.6) * 0.6, times 2.
        let y = 2.0 * 0.6 * 0.6 / (1.0 + (-0.6f32).exp());
        let rounding = Products::Experts(experts).rounding(&Matrix::new(1, vec![y]));
        assert!(rounding.added(0, 0).iter().all(|added| (added + f64::from(y)).abs() < 1e-6), "{rounding:?}");
        assert!((rounding.square(0, 0) / f64::from(y * y) - 1.0).abs() < 1e-6, "{rounding:?}");
        assert!(!rounding.has_direction());
    }
}
