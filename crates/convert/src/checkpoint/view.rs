//! Tensors of a checkpoint with their elements in another order, read when they are written.

use std::sync::Arc;

use super::source::{Elements, Source};
use crate::Error;

/// The elements of a [`Source`] in another order. Nothing is copied until it is read.
///
/// An axis is a traversal of the source: several dimensions, slowest first, each with a length and a stride. A transposed
/// or regrouped tensor is the same data with other axes, as in NumPy; unlike there, axes always merge.
#[derive(Clone, Debug)]
pub(crate) struct View {
    source: Arc<Source>,
    /// Element of the source at index 0.
    offset: usize,
    axes: Vec<Axis>,
    then: Vec<Then>,
}

#[derive(Clone, Copy, Debug)]
enum Then {
    Apply(fn(f32) -> f32),
    Scale(f32),
}

type Axis = Vec<Dim>;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Dim {
    len: usize,
    stride: usize,
}

/// Axes of these lengths, of which the last has the stride.
fn strided(lens: &[usize], mut stride: usize) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    for &len in lens.iter().rev() {
        axes.push(vec![Dim { len, stride }]);
        stride *= len;
    }
    axes.reverse();
    axes
}

fn len(axis: &Axis) -> usize {
    axis.iter().map(|dim| dim.len).product()
}

impl View {
    pub(crate) fn new(source: Arc<Source>) -> View {
        let axes = strided(&source.shape, 1);
        View { source, offset: 0, axes, then: Vec::new() }
    }

    /// A matrix that is the product of two others: its rows and columns can be rearranged, but it has no elements to read.
    pub(crate) fn product(name: &str, left: &View, right: &View) -> Result<View, Error> {
        let (a, b) = (left.shape(), right.shape());
        let ([rows, rank], [inner, columns]) = (a.as_slice(), b.as_slice()) else {
            let why = format!("its factors have the shapes {a:?} and {b:?}, not two dimensions");
            return Err(Error::tensor(name, why));
        };
        if rank != inner || rows.checked_mul(*columns).is_none() {
            let why = format!("its factors of the shapes {a:?} and {b:?} cannot be multiplied");
            return Err(Error::tensor(name, why));
        }
        let shape = vec![*rows, *columns];
        let data = bytes::Bytes::new();
        Ok(View::new(Arc::new(Source { name: name.to_owned(), shape, data, elements: Elements::F32 })))
    }

    /// What became of a [`View::product`], as the product of its factors, likewise rearranged.
    pub(crate) fn factors(&self, left: &View, right: &View) -> Result<(View, View), Error> {
        let unknown = || self.error("the model's matrix is changed in a way that its factors cannot be");
        let ([rows, columns], [l_rows, l_rank], [r_rank, r_columns]) =
            (self.axes.as_slice(), left.axes.as_slice(), right.axes.as_slice())
        else {
            return Err(unknown());
        };
        let ([of_rows], [of_columns]) = (l_rows.as_slice(), r_columns.as_slice()) else {
            return Err(unknown());
        };
        let width = of_columns.len;
        let extent: usize = columns.iter().map(|dim| (dim.len - 1) * dim.stride).sum();
        let is_row = |dim: &Dim| dim.len == 1 || dim.stride.is_multiple_of(width);
        if !rows.iter().all(is_row) || self.offset % width + extent >= width {
            return Err(unknown());
        }
        let scaled = |dims: &Axis, by: usize, step: usize| {
            dims.iter().map(|dim| Dim { len: dim.len, stride: dim.stride / by * step }).collect::<Axis>()
        };
        let (mut left, mut right) = (
            View { axes: vec![scaled(rows, width, of_rows.stride), l_rank.clone()], ..left.clone() },
            View { axes: vec![r_rank.clone(), scaled(columns, 1, of_columns.stride)], ..right.clone() },
        );
        left.offset += self.offset / width * of_rows.stride;
        right.offset += self.offset % width * of_columns.stride;
        for then in &self.then {
            match then {
                Then::Scale(_) => left.then.push(*then),
                Then::Apply(_) => return Err(unknown()),
            }
        }
        Ok((left, right))
    }

    pub(crate) fn has_same_elements(&self, other: &View) -> bool {
        Arc::ptr_eq(&self.source, &other.source) && self.offset == other.offset && self.axes == other.axes
    }

    pub(crate) fn name(&self) -> &str {
        &self.source.name
    }

    /// Lengths of the axes, slowest first.
    pub(crate) fn shape(&self) -> Vec<usize> {
        self.axes.iter().map(len).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.axes.iter().map(len).product()
    }

    /// Whether each element is a block of 32 values in MXFP4.
    pub(crate) fn has_blocks(&self) -> bool {
        matches!(self.source.elements, Elements::Mxfp4 { .. })
    }

    pub(crate) fn elements(&self) -> &Elements {
        &self.source.elements
    }

    pub(crate) fn error(&self, why: impl Into<String>) -> Error {
        Error::tensor(self.name(), why)
    }

    pub(crate) fn with_axes(self, count: usize) -> Result<View, Error> {
        if self.axes.len() == count {
            return Ok(self);
        }
        Err(self.error(format!("it has the shape {:?}, but {count} dimensions are expected", self.shape())))
    }

    /// One axis as several of these lengths, the slowest first; one 0 stands for what is left.
    pub(crate) fn split(mut self, axis: usize, lens: &[usize]) -> Result<View, Error> {
        let shape = self.shape();
        let wrong = |view: &View| {
            view.error(format!("its shape {shape:?} does not divide into {lens:?} along dimension {axis}"))
        };
        let Some(found) = self.axes.get(axis) else { return Err(wrong(&self)) };
        let known: usize = lens.iter().filter(|&&len| len != 0).product();
        let lens: Vec<usize> =
            lens.iter().map(|&lens| if lens == 0 { len(found) / known.max(1) } else { lens }).collect();
        let &[dim] = found.as_slice() else { return Err(wrong(&self)) };
        if lens.iter().product::<usize>() != dim.len {
            return Err(wrong(&self));
        }
        self.axes.splice(axis..=axis, strided(&lens, dim.stride));
        Ok(self)
    }

    pub(crate) fn merge(mut self, axes: std::ops::Range<usize>) -> View {
        let merged = self.axes[axes.clone()].concat();
        self.axes.splice(axes, [merged]);
        self
    }

    pub(crate) fn swap(mut self, a: usize, b: usize) -> View {
        self.axes.swap(a, b);
        self
    }

    pub(crate) fn narrow(mut self, axis: usize, range: std::ops::Range<usize>) -> Result<View, Error> {
        let fits = match self.axes.get_mut(axis).map(Vec::as_mut_slice) {
            Some([dim]) if range.start < range.end && range.end <= dim.len => {
                self.offset += range.start * dim.stride;
                dim.len = range.len();
                true
            }
            _ => false,
        };
        if fits {
            return Ok(self);
        }
        let shape = self.shape();
        Err(self.error(format!("its shape is {shape:?}, but {range:?} are read along dimension {axis}")))
    }

    /// One index of an axis, which vanishes.
    pub(crate) fn index(self, axis: usize, index: usize) -> Result<View, Error> {
        let mut view = self.narrow(axis, index..index + 1)?;
        view.axes.remove(axis);
        Ok(view)
    }

    /// Without axes of length 1, but the last one.
    pub(crate) fn squeeze(mut self) -> View {
        let last = self.axes.last().cloned();
        self.axes.retain(|axis| len(axis) != 1);
        if self.axes.is_empty() {
            self.axes.extend(last);
        }
        self
    }

    /// With an axis of length 1 before `axis`.
    pub(crate) fn expand(mut self, axis: usize) -> View {
        self.axes.insert(axis, vec![Dim { len: 1, stride: 0 }]);
        self
    }

    pub(crate) fn then(mut self, function: fn(f32) -> f32) -> View {
        self.then.push(Then::Apply(function));
        self
    }

    pub(crate) fn scale(mut self, factor: f32) -> View {
        self.then.push(Then::Scale(factor));
        self
    }

    /// Values `start..start + len` of the row-major traversal, appended.
    pub(crate) fn read(&self, start: usize, len: usize, out: &mut Vec<f32>) {
        let first = out.len();
        self.runs(start, len, |at, len| self.source.read(at, len, out));
        for then in &self.then {
            match then {
                Then::Apply(function) => out[first..].iter_mut().for_each(|value| *value = function(*value)),
                Then::Scale(factor) => out[first..].iter_mut().for_each(|value| *value *= factor),
            }
        }
    }

    pub(crate) fn read_blocks(&self, start: usize, len: usize, out: &mut Vec<u8>) {
        self.runs(start, len, |at, len| self.source.read_blocks(at, len, out));
    }

    /// Calls `take` with the contiguous runs of the source that elements `start..start + len` are.
    fn runs(&self, start: usize, len: usize, mut take: impl FnMut(usize, usize)) {
        let dims = self.coalesced();
        let (run, outer) = match dims.split_last() {
            Some((last, outer)) if last.stride == 1 => (last.len, outer),
            _ => (1, dims.as_slice()),
        };
        let (mut at, end) = (start, start + len);
        while at < end {
            let (mut rest, within) = (at / run, at % run);
            let mut place = self.offset + within;
            for dim in outer.iter().rev() {
                place += rest % dim.len * dim.stride;
                rest /= dim.len;
            }
            let len = (run - within).min(end - at);
            take(place, len);
            at += len;
        }
    }

    /// All dimensions, slowest first. Dimensions that continue each other are merged.
    fn coalesced(&self) -> Vec<Dim> {
        let mut dims: Vec<Dim> = Vec::new();
        for dim in self.axes.iter().flatten().filter(|dim| dim.len != 1) {
            match dims.last_mut() {
                Some(outer) if outer.stride == dim.len * dim.stride => {
                    *outer = Dim { len: outer.len * dim.len, stride: dim.stride };
                }
                _ => dims.push(*dim),
            }
        }
        dims
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(shape: &[usize]) -> View {
        let len: usize = shape.iter().product();
        let data: Vec<u8> = (0..len).flat_map(|i| (i as f32).to_le_bytes()).collect();
        let source =
            Source { name: "x".into(), shape: shape.to_vec(), data: data.into(), elements: Elements::F32 };
        View::new(Arc::new(source))
    }

    fn values(view: &View) -> Vec<f32> {
        let mut out = Vec::new();
        view.read(0, view.len(), &mut out);
        out
    }

    #[test]
    fn a_view_is_read_in_the_order_of_its_axes() -> Result<(), Error> {
        // numpy.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)[1:3].ravel()
        let of = view(&[2, 3, 4]).swap(1, 2).swap(0, 1).narrow(0, 1..3)?;
        assert_eq!(of.shape(), [2, 2, 3]);
        assert_eq!(values(&of), [1., 5., 9., 13., 17., 21., 2., 6., 10., 14., 18., 22.]);
        // The same with the rows merged, in two parts.
        let of = of.merge(0..2);
        assert_eq!(of.shape(), [4, 3]);
        let mut parts = Vec::new();
        of.read(0, 5, &mut parts);
        of.read(5, 7, &mut parts);
        assert_eq!(parts, values(&of));
        Ok(())
    }

    #[test]
    fn a_split_needs_the_whole_axis() {
        let message = view(&[6, 2]).split(0, &[4, 0]).expect_err("6 is no multiple of 4").to_string();
        assert!(message.contains("[6, 2]") && message.contains("[4, 0]"), "{message}");
        assert!(view(&[6, 2]).narrow(0, 4..7).is_err());
        assert!(view(&[6, 2]).narrow(2, 0..1).is_err());
    }

    /// `left` times `right`, or what became of it: rows times columns.
    fn times(left: &View, right: &View) -> Vec<f32> {
        let (a, b) = (values(left), values(right));
        let (rank, columns) = (right.shape()[0], right.shape()[1]);
        let entry = |row: &[f32], column: usize| (0..rank).map(|k| row[k] * b[k * columns + column]).sum();
        a.chunks(rank).flat_map(|row| (0..columns).map(move |column| entry(row, column))).collect()
    }

    #[test]
    fn what_is_done_to_a_product_is_done_to_its_factors() -> Result<(), Error> {
        let (left, right) = (view(&[6, 2]), view(&[2, 8]).then(|value| value - 5.0));
        let dense = times(&left, &right);
        let data: Vec<u8> = dense.iter().flat_map(|value| value.to_le_bytes()).collect();
        let source =
            Source { name: "x".into(), shape: vec![6, 8], data: data.into(), elements: Elements::F32 };
        let change = |view: View| {
            let rows = view.narrow(0, 2..6)?.split(0, &[2, 2])?.swap(0, 1).merge(0..2);
            Ok::<View, Error>(rows.split(1, &[2, 0])?.narrow(2, 1..4)?.swap(1, 2).merge(1..3).scale(0.5))
        };
        let expected = values(&change(View::new(Arc::new(source)))?);
        let (left, right) = change(View::product("x", &left, &right)?)?.factors(&left, &right)?;
        assert_eq!((left.shape(), right.shape()), (vec![4, 2], vec![2, 6]));
        assert_eq!(times(&left, &right), expected);
        Ok(())
    }

    #[test]
    fn factors_of_other_shapes_are_refused() -> Result<(), Error> {
        let (left, right) = (view(&[6, 2]), view(&[2, 8]));
        assert!(View::product("x", &right, &left).is_err());
        assert!(View::product("x", &left, &view(&[2, 2, 2])).is_err());
        let product = View::product("x", &left, &right)?;
        assert!(product.clone().swap(0, 1).factors(&left, &right).is_err());
        assert!(product.then(|value| value + 1.0).factors(&left, &right).is_err());
        Ok(())
    }
}
