//! Tensors of the file to be written.

use std::collections::BTreeMap;
use std::io::Write;

use indexmap::IndexMap;
use quant::Format;

use crate::Error;
use crate::checkpoint::View;

/// Values that are converted at once.
const CHUNK: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) name: String,
    /// Slowest dimension first.
    shape: Vec<usize>,
    content: Content,
    pub(crate) format: Format,
}

#[derive(Debug)]
enum Content {
    /// One after the other: the experts of a layer, the parts of a tensor, or one tensor.
    Views(Vec<View>),
    Values(Vec<f32>),
}

#[derive(Default)]
pub(crate) struct Outputs {
    outputs: Vec<Output>,
    experts: IndexMap<String, BTreeMap<usize, View>>,
    /// The first of the current rule.
    first: usize,
}

impl Outputs {
    /// From here on, the tensors are of another rule: those of a name are rows of one.
    pub(crate) fn begin(&mut self) {
        self.first = self.outputs.len();
    }

    pub(crate) fn add(&mut self, name: String, expert: Option<usize>, view: View) -> Result<(), Error> {
        if let Some(expert) = expert {
            self.experts.entry(name).or_default().insert(expert, view);
        } else if let Some(output) = self.outputs[self.first..].iter_mut().find(|output| output.name == name)
        {
            output.append(view)?;
        } else {
            self.outputs.push(Output::from_view(name, view));
        }
        Ok(())
    }

    /// Whether the current rule has made this very tensor.
    pub(crate) fn has_same(&self, name: &str, view: &View) -> Result<bool, Error> {
        let found = self.outputs[self.first..].iter().find(|output| output.name == name);
        match found.map(|output| &output.content) {
            None => Ok(false),
            Some(Content::Views(views)) if matches!(views.as_slice(), [one] if one.has_same_elements(view)) => {
                Ok(true)
            }
            Some(_) => Err(view.error("its parts have different columns; such adapters cannot be converted")),
        }
    }

    /// All outputs. The experts of a layer are stacked into one output for each of their matrices.
    pub(crate) fn finish(mut self) -> Result<Vec<Output>, Error> {
        for (name, views) in self.experts {
            self.outputs.push(Output::stacked(name, views)?);
        }
        let mut seen = IndexMap::new();
        for output in &self.outputs {
            if seen.insert(&output.name, ()).is_some() {
                return Err(Error::tensor(&output.name, "two tensors of the checkpoint would get this name"));
            }
        }
        Ok(self.outputs)
    }
}

impl Output {
    fn from_view(name: String, view: View) -> Output {
        Output { name, shape: view.shape(), content: Content::Views(vec![view]), format: Format::F32 }
    }

    pub(crate) fn from_values(name: String, values: Vec<f32>) -> Output {
        Output { name, shape: vec![values.len()], content: Content::Values(values), format: Format::F32 }
    }

    fn stacked(name: String, views: BTreeMap<usize, View>) -> Result<Output, Error> {
        let count = views.len();
        if let Some((missing, _)) = (0..).zip(views.keys()).find(|(expected, found)| expected != *found) {
            return Err(Error::tensor(
                name,
                format!("{count} experts were found, but expert {missing} is missing"),
            ));
        }
        let views: Vec<View> = views.into_values().collect();
        let mut shape = vec![count];
        shape.extend(views.first().map(View::shape).unwrap_or_default());
        if let Some(other) = views.iter().find(|view| view.shape() != shape[1..]) {
            let (found, expected) = (other.shape(), &shape[1..]);
            return Err(other.error(format!("its shape {found:?} differs from {expected:?} of expert 0")));
        }
        Ok(Output { name, shape, content: Content::Views(views), format: Format::F32 })
    }

    fn append(&mut self, view: View) -> Result<(), Error> {
        let shape = view.shape();
        match (&mut self.content, self.shape.as_mut_slice()) {
            (Content::Views(views), [rows, row @ ..]) if shape.get(1..) == Some(row) => {
                *rows += shape[0];
                views.push(view);
                Ok(())
            }
            _ => {
                Err(view.error(format!("rows of the shape {shape:?} do not fit others of {:?}", self.shape)))
            }
        }
    }

    pub(crate) fn dims(&self) -> usize {
        self.shape.len()
    }

    pub(crate) fn has_blocks(&self) -> bool {
        matches!(&self.content, Content::Views(views) if views.iter().any(View::has_blocks))
    }

    pub(crate) fn row_len(&self) -> usize {
        self.file_shape().first().copied().unwrap_or(1)
    }

    pub(crate) fn experts(&self) -> Option<u64> {
        let axis = if self.name.contains(".bias") { 2 } else { 3 };
        let count = *self.shape.get(self.shape.len().checked_sub(axis)?)? as u64;
        (self.name.contains("_exps.") && self.shape.len() >= 3).then_some(count)
    }

    pub(crate) fn len(&self) -> u64 {
        self.file_shape().iter().map(|&len| len as u64).product()
    }

    /// Fastest dimension first.
    pub(crate) fn file_shape(&self) -> Vec<usize> {
        let mut shape: Vec<usize> = self.shape.iter().rev().copied().collect();
        if let (true, Some(row)) = (self.has_blocks(), shape.first_mut()) {
            *row *= Format::MXFP4.block_len();
        }
        shape
    }

    pub(crate) fn write(&self, out: &mut dyn Write, progress: &dyn Fn(u64)) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let mut put = |bytes: &[u8]| {
            out.write_all(bytes)?;
            progress(bytes.len() as u64);
            Ok(())
        };
        let views = match &self.content {
            Content::Values(values) => {
                self.quantize(values, &mut bytes);
                return put(&bytes);
            }
            Content::Views(views) => views,
        };
        let mut values = Vec::new();
        let row = self.shape.last().copied().unwrap_or(1).max(1);
        let step = (CHUNK / row).max(1) * row;
        for view in views {
            for start in (0..view.len()).step_by(step) {
                let len = step.min(view.len() - start);
                bytes.clear();
                if view.has_blocks() {
                    view.read_blocks(start, len, &mut bytes);
                } else {
                    values.clear();
                    view.read(start, len, &mut values);
                    self.quantize(&values, &mut bytes);
                }
                put(&bytes)?;
            }
        }
        Ok(())
    }

    fn quantize(&self, values: &[f32], bytes: &mut Vec<u8>) {
        bytes.resize(values.len() / self.format.block_len() * self.format.block_bytes(), 0);
        self.format.quantize(values, None, bytes);
    }
}
