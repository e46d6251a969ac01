//! The list of ways to misread a block.

use quant::Format;

use super::Group;

/// Changes the bytes of a block.
type OnBytes = Box<dyn Fn(&mut [u8])>;

/// The groups of a block, changed.
type OnGroups = Box<dyn Fn(&[Group]) -> Vec<Group>>;

/// What a mistake does to one block.
pub(super) enum Misread {
    /// To its bytes.
    Bytes(OnBytes),
    /// To its groups.
    Groups(OnGroups),
}

/// A way to misread a block, in words and as it is done.
pub(super) struct Mistake {
    pub(super) text: String,
    pub(super) misread: Misread,
}

/// Every way to misread a block that is tried.
pub(super) fn mistakes(format: Format) -> Vec<Mistake> {
    let mut all = Vec::new();
    let mut bytes = |text: String, change: OnBytes| {
        all.push(Mistake { text, misread: Misread::Bytes(change) });
    };
    let mut at = 0;
    for &(name, len) in fields(format) {
        let field = at..at + len;
        at += len;
        if ["d", "dmin", "m"].contains(&name) {
            continue;
        }
        let of_field = |change: fn(&mut [u8])| -> OnBytes {
            let field = field.clone();
            Box::new(move |block| change(&mut block[field.clone()]))
        };
        bytes(
            format!("the nibbles of `{name}` are exchanged: low ones are read as high ones"),
            of_field(|field| field.iter_mut().for_each(|byte| *byte = byte.rotate_left(4))),
        );
        bytes(format!("`{name}` is read as zero: its bits are lost"), of_field(|field| field.fill(0)));
        bytes(format!("`{name}` is read as ones"), of_field(|field| field.fill(255)));
        bytes(
            format!("the halves of `{name}` are exchanged"),
            of_field(|field| field.rotate_left(field.len() / 2)),
        );
        bytes(format!("`{name}` is read backwards"), of_field(<[u8]>::reverse));
        bytes(
            format!("bits of `{name}` are in reverse order"),
            of_field(|field| field.iter_mut().for_each(|byte| *byte = byte.reverse_bits())),
        );
        bytes(
            format!("the pairs of bits of `{name}` are exchanged"),
            of_field(|field| {
                field.iter_mut().for_each(|byte| *byte = (*byte & 0x33) << 2 | (*byte & 0xCC) >> 2);
            }),
        );
        bytes(
            format!("the top two bits of `{name}` are lost"),
            of_field(|field| field.iter_mut().for_each(|byte| *byte &= 63)),
        );
        bytes(
            format!("the upper nibbles of `{name}` are lost"),
            of_field(|field| field.iter_mut().for_each(|byte| *byte &= 15)),
        );
        bytes(
            format!("neighbouring bytes of `{name}` are exchanged"),
            of_field(|field| {
                field.as_chunks_mut().0.iter_mut().for_each(|[a, b]: &mut [u8; 2]| std::mem::swap(a, b))
            }),
        );
        if !name.starts_with("scales") {
            continue;
        }
        for i in 0..len {
            let byte = field.start + i;
            bytes(
                format!("the nibbles of byte {i} of `{name}` are exchanged"),
                Box::new(move |block| block[byte] = block[byte].rotate_left(4)),
            );
            bytes(format!("byte {i} of `{name}` is read as zero"), Box::new(move |block| block[byte] = 0));
            bytes(
                format!("the upper nibble of byte {i} of `{name}` is lost"),
                Box::new(move |block| block[byte] &= 15),
            );
            bytes(
                format!("the top two bits of byte {i} of `{name}` are lost"),
                Box::new(move |block| block[byte] &= 63),
            );
        }
    }
    if let Some((d, min)) = two_scales(format) {
        bytes(
            "the scale and the minimum of the block are exchanged".into(),
            Box::new(move |block| {
                for i in 0..2 {
                    block.swap(d + i, min + i);
                }
            }),
        );
    }
    let mut grouped = |text: String, change: OnGroups| {
        all.push(Mistake { text, misread: Misread::Groups(change) });
    };
    let each = |change: fn(Group) -> Group| -> OnGroups {
        Box::new(move |groups| groups.iter().copied().map(change).collect())
    };
    grouped(
        "low and high nibbles are exchanged: the halves of each 32 values".into(),
        each(|g| Group { quants: std::array::from_fn(|i| g.quants[i ^ 16]), ..g }),
    );
    grouped("nibbles are taken byte by byte: value 2i from the low, 2i + 1 from the high nibble of byte i, not low ones first".into(), each(|g| Group { quants: std::array::from_fn(|i| g.quants[i / 2 + i % 2 * 16]), ..g }));
    grouped("the minimum is not subtracted".into(), each(|g| Group { offset: [0.0; 2], ..g }));
    grouped(
        "the minimum is added in place of subtracted".into(),
        each(|g| Group { offset: g.offset.map(|x| -x), ..g }),
    );
    grouped(
        "the scales of the halves of each 32 values are exchanged".into(),
        each(|g| Group { scale: [g.scale[1], g.scale[0]], offset: [g.offset[1], g.offset[0]], ..g }),
    );
    grouped(
        "both halves of each 32 values have the scale of the first".into(),
        each(|g| Group { scale: [g.scale[0]; 2], offset: [g.offset[0]; 2], ..g }),
    );
    for (offset, text) in [
        (8, "8"),
        (16, "16"),
        (32, "32"),
        (-8, "−8"),
        (-16, "−16"),
        (-32, "−32"),
        (1, "1"),
        (-1, "−1"),
        (4, "4"),
        (-4, "−4"),
    ] {
        grouped(
            format!("the integers are too large by {text}: the value that stands for zero"),
            Box::new(move |groups| {
                // The scale times the shift is an offset, without the bounds of an i8.
                let shifted = |g: &Group| Group {
                    offset: [0, 1].map(|h| g.offset[h] + g.scale[h] * offset as f32),
                    ..*g
                };
                groups.iter().map(shifted).collect()
            }),
        );
    }
    let n = format.block_len() / 32;
    for other in [1usize, 2, 4].into_iter().filter(|&other| other < n) {
        let from = move |groups: &[Group], change: &dyn Fn(Group, Group) -> Group| -> Vec<Group> {
            groups.iter().enumerate().map(|(g, group)| change(*group, groups[g ^ other])).collect()
        };
        grouped(
            format!("the integers of groups g and g ^ {other} are exchanged ({})", order(other)),
            Box::new(move |groups| from(groups, &|g, o| Group { quants: o.quants, ..g })),
        );
        grouped(
            format!("the scales of groups g and g ^ {other} are exchanged ({})", order(other)),
            Box::new(move |groups| from(groups, &|g, o| Group { scale: o.scale, ..g })),
        );
        grouped(
            format!("the minimums of groups g and g ^ {other} are exchanged"),
            Box::new(move |groups| from(groups, &|g, o| Group { offset: o.offset, ..g })),
        );
        grouped(
            format!("scales and minimums of groups g and g ^ {other} are exchanged"),
            Box::new(move |groups| from(groups, &|g, o| Group { quants: g.quants, ..o })),
        );
    }
    if n == 8 {
        for order in ORDERS {
            let taken = move |groups: &[Group], of: fn(i8, i8) -> i8, bias: i8| -> Vec<Group> {
                let from = |g: usize| groups[g / 4 * 4 + order[g % 4]];
                let quants = |g: usize, group: &Group| {
                    std::array::from_fn(|i| of(group.quants[i] + bias, from(g).quants[i] + bias) - bias)
                };
                groups
                    .iter()
                    .enumerate()
                    .map(|(g, group)| Group { quants: quants(g, group), ..*group })
                    .collect()
            };
            let text = |what: &str| {
                format!(
                    "{what} of each four groups of 32 are taken in the order {order:?}: the planes of bits"
                )
            };
            grouped(text("the integers"), Box::new(move |groups| taken(groups, |_, other| other, 0)));
            match format {
                Format::Q6_K | Format::Q5_K => {
                    let bias = if format == Format::Q6_K { 32 } else { 0 };
                    grouped(
                        text("the low nibbles"),
                        Box::new(move |groups| taken(groups, |own, other| own & !15 | other & 15, bias)),
                    );
                    grouped(
                        text("the high bits"),
                        Box::new(move |groups| taken(groups, |own, other| own & 15 | other & !15, bias)),
                    );
                }
                Format::Q3_K => {
                    grouped(
                        text("the low bits"),
                        Box::new(move |groups| taken(groups, |own, other| own & !3 | other & 3, 4)),
                    );
                    grouped(
                        text("the high bits"),
                        Box::new(move |groups| taken(groups, |own, other| own & 3 | other & !3, 4)),
                    );
                }
                _ => {}
            }
        }
    }
    for g in 0..if n > 1 { n } else { 0 } {
        let values = format!("values {}–{} of each {}", 32 * g, 32 * g + 31, format.block_len());
        let only = move |change: &dyn Fn(&[Group]) -> Group, groups: &[Group]| -> Vec<Group> {
            let mut changed = groups.to_vec();
            changed[g] = change(groups);
            changed
        };
        grouped(
            format!("{values} count as zero (group {g})"),
            Box::new(move |groups| {
                only(&|groups| Group { scale: [0.0; 2], offset: [0.0; 2], ..groups[g] }, groups)
            }),
        );
        grouped(
            format!("{values} lack their minimum (group {g})"),
            Box::new(move |groups| only(&|groups| Group { offset: [0.0; 2], ..groups[g] }, groups)),
        );
        for other in (0..n).filter(|&other| other != g) {
            grouped(
                format!("{values} have the scale of group {other} (they are group {g})"),
                Box::new(move |groups| {
                    only(&|groups| Group { scale: groups[other].scale, ..groups[g] }, groups)
                }),
            );
            grouped(
                format!("{values} have scale and minimum of group {other} (they are group {g})"),
                Box::new(move |groups| {
                    only(&|groups| Group { quants: groups[g].quants, ..groups[other] }, groups)
                }),
            );
            grouped(
                format!("{values} have the integers of group {other} (they are group {g})"),
                Box::new(move |groups| {
                    only(&|groups| Group { quants: groups[other].quants, ..groups[g] }, groups)
                }),
            );
        }
    }
    all
}

fn order(other: usize) -> &'static str {
    match other {
        1 => "each 32 values with the next 32, such as low and high nibbles",
        2 => "each 64 values with the next 64",
        _ => "each 128 values with the next 128",
    }
}

/// Orders of four things other than their own: all that exchange two, turn round, or shift.
const ORDERS: [[usize; 4]; 11] = [
    [1, 0, 2, 3],
    [0, 2, 1, 3],
    [0, 1, 3, 2],
    [2, 1, 0, 3],
    [0, 3, 2, 1],
    [3, 1, 2, 0],
    [1, 0, 3, 2],
    [2, 3, 0, 1],
    [3, 2, 1, 0],
    [1, 2, 3, 0],
    [3, 0, 1, 2],
];

/// Where the F16 scale and the F16 scale of the minimums lie.
fn two_scales(format: Format) -> Option<(usize, usize)> {
    match format {
        Format::Q4_1 | Format::Q5_1 | Format::Q4_K | Format::Q5_K => Some((0, 2)),
        Format::Q2_K => Some((80, 82)),
        _ => None,
    }
}

/// Fields of a block, as the files of `quant` list them: name and bytes.
pub(super) fn fields(format: Format) -> &'static [(&'static str, usize)] {
    match format {
        Format::F32 | Format::F16 | Format::BF16 => &[],
        Format::Q4_0 | Format::IQ4_NL => &[("d", 2), ("qs", 16)],
        Format::Q4_1 => &[("d", 2), ("m", 2), ("qs", 16)],
        Format::Q5_0 => &[("d", 2), ("qh", 4), ("qs", 16)],
        Format::Q5_1 => &[("d", 2), ("m", 2), ("qh", 4), ("qs", 16)],
        Format::Q8_0 => &[("d", 2), ("qs", 32)],
        Format::Q2_K => &[("scales", 16), ("qs", 64), ("d", 2), ("dmin", 2)],
        Format::Q3_K => &[("hmask", 32), ("qs", 64), ("scales", 12), ("d", 2)],
        Format::Q4_K => &[("d", 2), ("dmin", 2), ("scales", 12), ("qs", 128)],
        Format::Q5_K => &[("d", 2), ("dmin", 2), ("scales", 12), ("qh", 32), ("qs", 128)],
        Format::Q6_K => &[("ql", 128), ("qh", 64), ("scales", 16), ("d", 2)],
        Format::IQ4_XS => &[("d", 2), ("scales_h", 2), ("scales_l", 4), ("qs", 128)],
    }
}
