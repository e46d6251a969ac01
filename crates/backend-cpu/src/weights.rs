//! A model's weights in the layout the kernels read: matrices in strips, vectors in f32.

use std::sync::{Arc, OnceLock};

use backend::{BoundModel, Error, Memory, MemoryKind, Remedy, Weight};
use graph::{Role, WeightId};
use quant::Format;

use crate::kernels::{Kernels, Linear};
use crate::lanes::BYTES;
use crate::memory::Lines;
use crate::packed::Packed;
use crate::packed::activations::Form;
use crate::pool::Pool;
use crate::{Options, PACKED_WEIGHTS};

#[derive(Debug)]
pub(crate) struct ModelWeights {
    /// Weights of linear layers and experts.
    matrices: Vec<Option<Matrix>>,
    /// Norm weights, biases and RoPE factors; empty for others.
    vectors: Vec<Vec<f32>>,
    /// Total bytes as loaded.
    bytes: u64,
}

/// A weight of linear layers, packed on first use or read from the file.
#[derive(Debug)]
pub(crate) struct Matrix {
    weight: Weight,
    tensor: String,
    pub(crate) linear: Linear,
    /// Whether it is, or will be, packed.
    is_copied: bool,
    /// Whether it is also an embedding table, which is read from the file's bytes.
    is_table: bool,
    /// One matrix, or one per expert.
    pub(crate) packed: OnceLock<Vec<Packed>>,
}

impl Matrix {
    fn new(weight: Weight, tensor: String, roles: &[Role], kernels: Kernels, options: Options) -> Matrix {
        let Weight { format, count, rows, cols, .. } = weight;
        let parts = || (0..count).map(|part| weight.part(part).bytes);
        let (linear, left): (_, Option<Vec<Packed>>) = if options.f32_activations && format.block_len() > 1 {
            let left = parts().map(|bytes| Packed::quantised(format, bytes, rows, cols));
            (kernels.linear(Format::F32), Some(left.collect()))
        } else {
            let left = || parts().map(|bytes| Packed::mapped(bytes, rows, cols)).collect();
            (kernels.linear(format), (!options.is_repacking).then(left))
        };
        let is_copied = left.is_none();
        let is_table = roles.contains(&Role::Table);
        let packed = left.map_or_else(OnceLock::new, OnceLock::from);
        Matrix { weight, tensor, linear, is_copied, is_table, packed }
    }

    /// Whether the file's bytes are unused once it is packed.
    fn replaces_file_bytes(&self) -> bool {
        self.is_copied && !self.is_table
    }

    fn shape(&self) -> [usize; 3] {
        [self.weight.count, self.weight.rows, self.weight.cols]
    }

    fn lines(&self) -> usize {
        self.linear.lines(self.shape())
    }
}

fn line_bytes(lines: usize) -> u64 {
    (lines as u64).saturating_mul(BYTES as u64)
}

impl ModelWeights {
    /// Prepares the weights of `model`; packs nothing yet.
    pub(crate) fn new(model: &BoundModel, kernels: Kernels, options: Options) -> ModelWeights {
        let graph = model.graph();
        let (mut matrices, mut vectors) = (Vec::new(), Vec::new());
        for ((id, declared), roles) in graph.weights().zip(graph.roles()) {
            let weight = model.weight(id);
            let is_matrix = roles.iter().any(|role| matches!(role, Role::Matrix | Role::Experts));
            let matrix = || Matrix::new(weight.clone(), declared.tensor.clone(), &roles, kernels, options);
            matrices.push(is_matrix.then(matrix));
            vectors.push(if roles.contains(&Role::Vector) { weight.vector() } else { Vec::new() });
        }
        let bytes = model.weights().iter().map(|weight| weight.bytes.len() as u64).sum();
        ModelWeights { matrices, vectors, bytes }
    }

    pub(crate) fn matrix(&self, id: WeightId) -> &Matrix {
        self.matrices[id.index()].as_ref().expect("a linear layer has a matrix")
    }

    pub(crate) fn form(&self, id: WeightId) -> Form {
        self.matrix(id).linear.form
    }

    /// A one-row weight in f32.
    pub(crate) fn vector(&self, id: WeightId) -> &[f32] {
        &self.vectors[id.index()]
    }

    /// Packs all remaining weights.
    pub(crate) fn pack(&self, pool: &mut Pool) -> Result<(), Error> {
        if self.matrices.iter().flatten().all(|matrix| matrix.packed.get().is_some()) {
            return Ok(());
        }
        self.prepare(pool, &mut |_| {})
    }

    /// Packs all remaining weights in file order, for sequential reads, into one allocation, because each would begin and end
    /// within a large page. Calls `copied` with the name of each tensor whose file bytes are no longer needed.
    pub(crate) fn prepare(&self, pool: &mut Pool, copied: &mut dyn FnMut(&str)) -> Result<(), Error> {
        let mut matrices: Vec<&Matrix> = self.matrices.iter().flatten().collect();
        matrices.sort_by_key(|matrix| matrix.weight.bytes.as_ptr());
        let is_left = |matrix: &&&Matrix| matrix.packed.get().is_none();
        let left: Vec<&Matrix> = matrices.iter().filter(is_left).copied().collect();
        let len = left.iter().map(|matrix| matrix.lines()).fold(0, usize::saturating_add);
        let (what, bytes, remedy) = (PACKED_WEIGHTS, line_bytes(len), Remedy::LeaveWeightsInFile);
        let error = |_| Error::OutOfMemory { what, bytes, memory: MemoryKind::Host, remedy };
        let mut lines = Lines::large(len).map_err(error)?;
        let mut rest = lines.all_mut();
        // Parts of one tensor are adjacent.
        for parts in matrices.chunk_by(|a, b| a.tensor == b.tensor) {
            for matrix in parts.iter().filter(is_left) {
                let to = rest.split_off_mut(..matrix.lines()).expect("the sum of all");
                (matrix.linear.pack)(pool, &matrix.weight.bytes, matrix.shape(), to);
            }
            if parts.iter().all(|matrix| matrix.replaces_file_bytes()) {
                copied(&parts[0].tensor);
            }
        }
        let (lines, mut first) = (Arc::new(lines), 0);
        for matrix in left {
            let strip = (matrix.linear.strip)(matrix.weight.cols);
            matrix.packed.get_or_init(|| Packed::all(&lines, first, strip, matrix.shape()));
            first += matrix.lines();
        }
        Ok(())
    }

    /// Memory of all weights; those still to be packed count as packed.
    pub(crate) fn memory(&self) -> Memory {
        let copies = || self.matrices.iter().flatten().filter(|matrix| matrix.is_copied);
        let replaced = copies().filter(|matrix| matrix.replaces_file_bytes());
        let replaced: u64 = replaced.map(|matrix| matrix.weight.bytes.len() as u64).sum();
        Memory {
            weights_mapped: self.bytes - replaced,
            weights_owned: copies().map(|matrix| line_bytes(matrix.lines())).fold(0, u64::saturating_add),
            ..Memory::default()
        }
    }
}
