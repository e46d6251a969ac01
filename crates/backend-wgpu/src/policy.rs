//! Which kernel computes a product: a function of shapes and of what the device can do.

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Abilities {
    /// Whether kernels may add across subgroups, and the most threads of one.
    pub(crate) subgroups: Option<u32>,
}

/// How a pass of products is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Product {
    /// `linear.wgsl`: up to `columns` rows of activations at a time.
    Few { columns: usize, outputs: usize, lanes: usize, subgroups: bool },
    /// `matmul.wgsl`.
    Many,
}

/// Threads of a workgroup of `linear.wgsl`.
pub(crate) const THREADS: usize = 64;

/// Rows of activations from which weights are worth to be taken to workgroup memory.
const MANY: usize = 9;

/// Chooses for `rows` rows of activations of `chunks` chunks; `gates` weights make an output.
pub(crate) fn product(rows: usize, chunks: usize, gates: usize, abilities: Abilities) -> Product {
    if rows >= MANY {
        return Product::Many;
    }
    let columns = rows.max(1).next_power_of_two();
    let outputs = if columns == 1 { 4 / gates } else { 2 };
    let lanes = chunks.next_power_of_two().clamp(8, THREADS);
    let subgroups = lanes == THREADS && abilities.subgroups.is_some_and(|most| most as usize <= THREADS);
    Product::Few { columns, outputs, lanes, subgroups }
}

impl Product {
    /// Outputs and rows of activations of a workgroup.
    pub(crate) fn tile(self, gates: usize) -> (usize, usize) {
        match self {
            Product::Few { columns, outputs, lanes, .. } => (outputs * (THREADS / lanes), columns),
            Product::Many => (64 / gates, 32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_chosen_by_shape() {
        let (with, without) = (Abilities { subgroups: Some(32) }, Abilities { subgroups: None });
        let few = |columns, outputs, lanes, subgroups| Product::Few { columns, outputs, lanes, subgroups };
        let table = [
            ((1, 64, 1, with), few(1, 4, 64, true)),
            ((1, 64, 2, with), few(1, 2, 64, true)),
            ((1, 64, 1, without), few(1, 4, 64, false)),
            ((1, 64, 1, Abilities { subgroups: Some(128) }), few(1, 4, 64, false)),
            ((1, 8, 1, with), few(1, 4, 8, false)),
            ((1, 1, 1, with), few(1, 4, 8, false)),
            ((3, 176, 1, with), few(4, 2, 64, true)),
            ((8, 32, 1, with), few(8, 2, 32, false)),
            ((9, 64, 1, with), Product::Many),
            ((512, 8, 2, without), Product::Many),
        ];
        for ((rows, chunks, gates, abilities), expected) in table {
            assert_eq!(
                product(rows, chunks, gates, abilities),
                expected,
                "{rows} {chunks} {gates} {abilities:?}"
            );
        }
        assert_eq!(few(1, 4, 8, false).tile(1), (32, 1));
        assert_eq!(few(4, 2, 64, true).tile(1), (2, 4));
        assert_eq!(Product::Many.tile(2), (32, 32));
    }
}
