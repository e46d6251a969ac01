//! The arguments of kernels: each kernel takes one struct, declared here and, generated from that, in `kernels/arguments`.
//!
//! A struct has pointers first, those to the step inputs before all others, then words. A launch names buffers before they are
//! allocated ([`Pointer`]); [`Arguments::on_card`] puts their addresses in. Structs are `#[repr(C)]`, which is the layout of C++.

use std::fmt::Debug;
use std::marker::PhantomData;

use gpu::BufferId;
use graph::StoreId;

/// What a pointer among the arguments points to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pointer {
    #[default]
    Null,
    Buffer(BufferId),
    /// The step inputs.
    Inputs,
    /// The tokens or candidates that a step chooses, and those of the step before.
    Chosen,
    ChosenBefore,
    /// The tensor maps of the keys and of the values of a store.
    TensorMaps(StoreId),
}

impl From<BufferId> for Pointer {
    fn from(id: BufferId) -> Pointer {
        Pointer::Buffer(id)
    }
}

impl From<Option<BufferId>> for Pointer {
    fn from(id: Option<BufferId>) -> Pointer {
        id.map_or(Pointer::Null, Pointer::Buffer)
    }
}

/// The struct of a kernel's arguments.
pub(crate) trait Arguments: Debug + Send + Sync {
    /// Its bytes as the kernel takes it, in words of 8 bytes; `address` is called with every pointer.
    fn on_card(&self, address: &mut dyn FnMut(Pointer) -> u64) -> Vec<u64>;
}

/// A field of such a struct: as launches are planned, and on the card.
pub(crate) trait Field {
    type Planned: Copy + Debug + Default + Send + Sync;
    type OnCard: bytemuck::NoUninit;

    /// The declaration of field `name` in C++.
    #[cfg(test)]
    fn declaration(name: &str) -> String;
    fn on_card(planned: Self::Planned, address: &mut dyn FnMut(Pointer) -> u64) -> Self::OnCard;
}

/// A pointer to what a kernel only reads.
pub(crate) struct In<T>(PhantomData<T>);

/// A pointer to what a kernel writes.
pub(crate) struct Out<T>(PhantomData<T>);

/// Offset and stride of an operand: `x_at` stands for the words `x_at` and `x_stride`.
pub(crate) struct At;

/// Offset, stride, heads and head dimension, likewise.
pub(crate) struct Heads;

macro_rules! fields {
    ($([$($generics:tt)*] $type:ty: $planned:ty => $on_card:ty, $declaration:expr, $resolve:expr;)*) => { $(
        impl<$($generics)*> Field for $type {
            type Planned = $planned;
            type OnCard = $on_card;

            #[cfg(test)]
            fn declaration(name: &str) -> String {
                ($declaration)(name)
            }

            fn on_card(planned: $planned, address: &mut dyn FnMut(Pointer) -> u64) -> $on_card {
                ($resolve)(planned, address)
            }
        }
    )* };
}
fields! {
    [] u32: u32 => u32, |name| format!("u32 {name}"), |word, _| word;
    [] f32: f32 => f32, |name| format!("float {name}"), |word, _| word;
    [] [u32; 3]: [u32; 3] => [u32; 3], |name| format!("u32 {name}[3]"), |words, _| words;
    [] At: [u32; 2] => [u32; 2], |name| operand_words(name, &["stride"]), |words, _| words;
    [] Heads: [u32; 4] => [u32; 4], |name| operand_words(name, &["stride", "heads", "dim"]), |words, _| words;
    [T] In<T>: Pointer => u64, |name| format!("const {}* {name}", element::<T>()), on_card;
    [T] Out<T>: Pointer => u64, |name| format!("{}* {name}", element::<T>()), on_card;
    [T] [In<T>; 3]: [Pointer; 3] => [u64; 3], |name| format!("const {}* {name}[3]", element::<T>()),
        |pointers: [Pointer; 3], address: &mut dyn FnMut(Pointer) -> u64| pointers.map(address);
}

fn on_card(pointer: Pointer, address: &mut dyn FnMut(Pointer) -> u64) -> u64 {
    address(pointer)
}

#[cfg(test)]
fn operand_words(name: &str, others: &[&str]) -> String {
    let operand = name.strip_suffix("_at").expect("an offset comes first");
    others.iter().fold(format!("u32 {name}"), |words, other| format!("{words}, {operand}_{other}"))
}

/// The name of a type in the kernels.
#[cfg(test)]
fn element<T>() -> &'static str {
    match std::any::type_name::<T>().rsplit("::").next() {
        Some("f32") => "float",
        Some("f16") => "__half",
        Some(name) => name,
        None => "",
    }
}

/// Declares structs of arguments by the header in `kernels/arguments` that they come to, each field after its comments.
macro_rules! arguments {
    ($($header:literal { $($name:ident { $($(#[doc = $comment:literal])* $field:ident: $type:ty,)* })* })*) => {
        $($(
            #[derive(Clone, Copy, Debug, Default)]
            pub(crate) struct $name {
                $(pub(crate) $field: <$type as Field>::Planned,)*
            }

            impl Arguments for $name {
                fn on_card(&self, address: &mut dyn FnMut(Pointer) -> u64) -> Vec<u64> {
                    #[repr(C)]
                    struct OnCard {
                        step: u64,
                        $($field: <$type as Field>::OnCard,)*
                    }
                    let args = OnCard {
                        step: address(Pointer::Inputs),
                        $($field: <$type as Field>::on_card(self.$field, address),)*
                    };
                    let mut words = vec![0; size_of::<OnCard>() / size_of::<u64>()];
                    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut words);
                    bytes[..size_of::<u64>()].copy_from_slice(bytemuck::bytes_of(&args.step));
                    $(
                        let field = bytemuck::bytes_of(&args.$field);
                        bytes[std::mem::offset_of!(OnCard, $field)..][..field.len()].copy_from_slice(field);
                    )*
                    words
                }
            }
        )*)*

        /// Name and text of each header.
        #[cfg(test)]
        fn headers() -> Vec<(&'static str, String)> {
            use std::fmt::Write as _;
            vec![$(($header, {
                let mut text = HEAD.to_owned();
                $(
                    writeln!(text, "\nstruct {} {{\n    const u32* step;", stringify!($name)).expect("memory");
                    $(
                        $(writeln!(text, "    //{}", $comment).expect("memory");)*
                        let declaration = <$type as Field>::declaration(stringify!($field));
                        writeln!(text, "    {declaration};").expect("memory");
                    )*
                    text.push_str("};\n");
                )*
                text
            })),*]
        }
    };
}

arguments! {
    "attention" {
        AttentionArgs {
            /// Queries, and the row's own keys and values where the kernel writes them to the cache, or null.
            q: In<f32>, k: In<f32>, v: In<f32>,
            y: Out<f32>,
            keys: Out<u8>, values: Out<u8>,
            /// A logit per head that only enters the denominator of the softmax, or null.
            sinks: In<f32>,
            /// Partial results of split attention, and a counter per row and block of heads, zero between launches.
            parts: Out<f32>, counters: Out<u32>,
            /// The tensor maps of keys and of values, 128 bytes each, for `flash_wgmma` and `decode_bulk` with a cache in f16; or null.
            tensor_maps: In<u8>,
            /// Offsets and strides.
            q_at: At, k_at: At, v_at: At, y_at: At,
            /// Query heads, K/V heads; columns of a head.
            heads: u32, kv_heads: u32, k_dim: u32, v_dim: u32,
            scale: f32,
            /// Roped columns, 0 for none, and the offset of the cos/sin table in `step`; whether columns i and i + dims / 2 pair.
            dims: u32, cos_sin: u32, halves: u32,
            /// The same for keys.
            k_dims: u32, k_cos_sin: u32, k_halves: u32,
            /// Offsets in `step`: positions, block table offsets, pages; number of splits and positions per split; first visible
            /// position and end of these per row; tiles.
            positions: u32, tables: u32, pages: u32, split: u32, visible: u32, tiles: u32,
            /// Whether `visible` differs from all positions up to the row's own.
            masked: u32,
            /// Cap of scores, or 0; largest bias of ALiBi, or 0.
            cap: f32, alibi: f32,
        }
    }
    "candidates" {
        PartArgs {
            /// The `K` best ranks of each part of a row, in any order.
            ranks: Out<u64>,
            x: In<f32>,
            /// Offset and stride, multiples of 4; columns.
            x_at: At, cols: u32,
        }
        MergeArgs {
            /// `K` ids of each row, best first, and the bits of their logits. Missing ids are 0xffffffff; all are if a logit is NaN or
            /// infinity (`backend::Outputs::from_candidates`).
            candidates: Out<u32>,
            ranks: In<u64>,
            x: In<f32>,
            x_at: At,
            /// Parts of a row.
            parts: u32,
        }
        DrawArgs {
            /// The token of each row, or 0xffffffff (`backend::Outputs::NO_TOKEN`).
            tokens: Out<u32>,
            ranks: In<u64>,
            /// Parts of a row; offset of the offset of draws.
            parts: u32, draws: u32,
        }
        AdjustArgs {
            x: Out<f32>,
            /// Offset, stride, columns.
            x_at: At, cols: u32,
            /// Offsets of tokens, of output rows, and of the offset of draws.
            tokens: u32, outputs: u32, draws: u32,
        }
    }
    "draw" {
        VocabularyArgs {
            /// The token of each row, or 0xffffffff (`backend::Outputs::NO_TOKEN`).
            tokens: Out<u32>,
            /// Logits, which change.
            x: Out<f32>,
            /// Offset and stride, multiples of 4; columns; offset of the offset of draws.
            x_at: At, cols: u32, draws: u32,
        }
    }
    "embed" {
        EmbedArgs {
            /// With tokens: the step inputs, to be written, and the tokens of the output rows of the step before.
            inputs: Out<u32>, before: In<u32>,
            table: In<u8>,
            y: Out<f32>,
            /// Offset of the rows' indices in `step`, and of the number of rows.
            indices: u32, rows: u32,
            y_at: At, cols: u32, table_rows: u32,
            /// Bytes of a row of the table, and whether rows come in pairs (`formats.cuh`).
            pitch: u32, is_paired: u32,
        }
    }
    "f16_rows" {
        F16RowsArgs {
            x: In<f32>,
            y: Out<half::f16>,
            /// The factor that undoes the scaling, per row.
            scales: Out<f32>,
            /// Weights of the norm, or null.
            g: In<f32>,
            /// Lists of experts: a row is an entry of a list, and entries past its end are skipped; or null.
            chosen: In<u32>,
            x_at: At, cols: u32, y_stride: u32, used: u32,
            eps: f32,
            /// Rows of a tile; 1: rows of groups; 0: rows of `gemm`.
            tile: u32,
        }
    }
    "matmul" {
        MatmulArgs {
            x: In<f32>,
            y: Out<f32>,
            w: [In<u8>; 3],
            /// Weights of a fused norm, or null.
            g: In<f32>,
            /// Residual or biases, or null.
            r: In<f32>,
            /// Lists of experts, or null.
            chosen: In<u32>,
            /// Biases and factors of experts, or null.
            biases: In<f32>,
            /// GEMM: activations as f16 with a factor per row (`f16_rows.cu`); rows grouped by experts, or null.
            x16: In<half::f16>, x16_scales: In<f32>, groups: In<u32>,
            /// Activations: offset, stride, columns. A row can have `x_segments` segments of `cols` columns, `x_segment` apart.
            x_at: At, cols: u32, chunks: u32, x_segments: u32, x_segment: u32,
            /// Index of the row count in `step`.
            rows: u32,
            /// Outputs of each weight, and their column offset in `y`; stride of `y`.
            outputs: [u32; 3], y_at: [u32; 3], y_stride: u32,
            r_at: At,
            eps: f32,
            /// A gated linear unit of the first weight's outputs and the second's.
            glu: u32, act: u32, limited: u32,
            limit: f32,
            /// Bytes of a weight row.
            pitch: u32,
            /// Experts: 0 none, 1 into hidden values, 2 out of them, summed; 3: a matrix per head.
            mode: u32,
            /// Maximum experts per row; matrices per expert, and which is the up projection; number of experts.
            used: u32, per_expert: u32, up: u32, experts: u32,
            weighs_inputs: u32,
            /// Biases: whether there are any, and the offset of those of the up projection. Offset of the factors, or ~0.
            has_biases: u32, up_biases: u32, factors: u32,
            /// GEMM: columns of a row of `x16`; offset of the entries in `groups`.
            x16_stride: u32, entries: u32,
            /// FIRST, SECOND, PAIRED.
            flags: u32,
        }
    }
    "recurrent" {
        ConvArgs {
            y: Out<f32>,
            x: In<f32>,
            /// Slots of the last `taps - 1` inputs, `[taps - 1][cols]`.
            state: Out<f32>,
            /// `[cols][taps]`.
            weight: In<f32>,
            /// Or null.
            bias: In<f32>,
            /// Offsets and strides.
            x_at: At, y_at: At,
            cols: u32, taps: u32,
            sequences: u32,
        }
        LinearAttentionArgs {
            y: Out<f32>,
            q: In<f32>, k: In<f32>, v: In<f32>, decay: In<f32>, beta: In<f32>,
            /// Slots of the heads' states, `[heads][k_dim][v_dim]`.
            state: Out<f32>,
            /// The heads' factors of values, or null.
            skip: In<f32>,
            /// Offsets and strides.
            q_at: At, k_at: At, v_at: At,
            decay_at: At, beta_at: At, y_at: At,
            heads: u32, k_heads: u32,
            scale: f32,
            sequences: u32,
            /// Columns of a head of keys and of values.
            k_dim: u32, v_dim: u32,
            /// Whether it follows the delta rule.
            is_delta: u32,
            /// Whether value head `h` reads key head `h mod k_heads`, otherwise `h / (heads / k_heads)`.
            is_tiled: u32,
        }
    }
    "rope" {
        RopeArgs {
            /// Heads that are roped into `q_out`; both null if there are none.
            q: In<f32>, q_out: Out<f32>,
            /// Heads that are written to the cache; null if there are none.
            k: In<f32>, v: In<f32>,
            /// The cache, as in `attention.cuh`. The padding is 0.
            keys: Out<u8>, values: Out<u8>,
            /// Offset, stride, heads, head dimension.
            q_at: Heads,
            k_at: Heads,
            v_at: Heads,
            /// Offset and stride of `q_out`.
            y_at: At,
            /// Roped columns; offset of the cos/sin table in `step`.
            dims: u32, cos_sin: u32,
            /// Offsets in `step`: positions, block table offsets, pages.
            positions: u32, tables: u32, pages: u32,
            /// Whether keys are roped; whether column i pairs with i + dims / 2, otherwise with the one beside it.
            ropes_keys: u32, halves: u32,
            k_type: u32, v_type: u32,
        }
    }
    "route" {
        RouteArgs {
            /// The lists.
            chosen: Out<u32>,
            /// Logits; routing weights for `route_list`.
            x: In<f32>,
            /// Routing weights; null for `route_list`.
            y: Out<f32>,
            /// Added to the weights for the selection only; or null.
            bias: In<f32>,
            /// Offsets and strides.
            x_at: At, y_at: At,
            /// Factor of the weights.
            scale: f32,
            experts: u32, used: u32,
            gating: u32,
            /// Whether the weights are divided by their sum, at least 2^-14.
            renormalises: u32,
            /// Experts are selected among the `used_groups` groups whose two largest weights, biases included, have the largest
            /// sum; 0 groups for no such limit.
            groups: u32, used_groups: u32,
        }
        GroupsArgs {
            /// A count of tiles; for each tile its expert, first entry and number of entries, at most `tile` of one expert; then,
            /// at `entries`, the entries by expert: the index of row and list entry, `row * used + slot`, and the bits of the
            /// routing weight. The order within an expert varies, and changes no result.
            groups: Out<u32>,
            /// The lists.
            chosen: In<u32>,
            /// Index of the row count in `step`.
            rows: u32,
            entries: u32,
            experts: u32, used: u32,
            tile: u32,
        }
        MixArgs {
            y: Out<f32>,
            /// Outputs of the experts, weighted: `[row * used + slot][cols]`.
            x: In<f32>,
            /// The lists.
            chosen: In<u32>,
            /// Residual, or null.
            r: In<f32>,
            /// Offsets and strides.
            y_at: At, r_at: At,
            cols: u32,
            /// Maximum experts per row.
            used: u32,
        }
    }
    "rows" {
        RowsArgs {
            a: In<f32>,
            /// Or null.
            b: In<f32>,
            y: Out<f32>,
            /// Offsets and strides.
            a_at: At, b_at: At, y_at: At,
            operation: u32,
            /// Of `ACT` and `GATE`; whether a gate is limited.
            act: u32, limited: u32,
            /// Columns of a norm's group, and of `y`.
            cols: u32, y_cols: u32,
            /// Epsilon, factor, cap or limit.
            scalar: f32,
            /// Columns of `b`; a norm's groups divide them.
            b_cols: u32,
            /// `SLICE`: columns of a head of `a` and of `y`, first column. `JOIN`: columns of a head of `a` and of `b`.
            head: [u32; 3],
        }
        ArgMaxArgs {
            tokens: Out<u32>,
            x: In<f32>,
            /// By row, the best of each part, and a counter of finished parts, zero between launches.
            best: Out<u64>, counters: Out<u32>,
            /// Offset and stride, multiples of 4; columns.
            x_at: At, cols: u32,
            /// The word of the step inputs with the offset of draws, whose biases are added; or `NO_DRAWS`.
            draws: u32,
        }
    }
}

#[cfg(test)]
const HEAD: &str = "// Generated from `src/arguments.rs`: WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments
#pragma once
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_structs() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/arguments");
        for (name, text) in headers() {
            let path = folder.join(format!("{name}.cuh"));
            if std::env::var_os("WRITE_HEADERS").is_some() {
                std::fs::write(&path, &text).expect("a header");
            }
            let found = std::fs::read_to_string(&path).unwrap_or_default();
            let how = "WRITE_HEADERS=1 cargo test -p rustorch-backend-cuda --lib arguments";
            assert!(found == text, "{} is stale: regenerate it with {how}", path.display());
        }
    }

    /// Bytes as C++ lays the struct out, by hand: 4 pointers, 8 words, which begin at byte 32.
    #[test]
    fn arguments_are_laid_out_as_in_c() {
        let args = ArgMaxArgs {
            x: BufferId::Own(3).into(),
            tokens: Pointer::Chosen,
            x_at: [7, 8],
            draws: 9,
            ..ArgMaxArgs::default()
        };
        let words = args.on_card(&mut |pointer| match pointer {
            Pointer::Inputs => 0x1000,
            Pointer::Chosen => 0x2000,
            Pointer::Buffer(BufferId::Own(3)) => 0x3000,
            _ => 0,
        });
        assert_eq!(words, [0x1000, 0x2000, 0x3000, 0, 0, 7 | 8 << 32, 9 << 32]);
        let odd = PartArgs { cols: 5, ..PartArgs::default() };
        assert_eq!(odd.on_card(&mut |_| 0), [0, 0, 0, 0, 5], "padded to whole pointers");
    }
}
