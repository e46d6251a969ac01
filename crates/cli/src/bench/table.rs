//! Markdown tables.

/// The lines of a table whose first row is the heading; columns in `numbers` are right-aligned.
pub(super) fn markdown<const N: usize>(lines: &[[String; N]], numbers: &[usize]) -> Vec<String> {
    let widths: [usize; N] =
        std::array::from_fn(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0));
    let line = |cells: &[String; N]| {
        let cell = |(at, cell): (usize, &String)| {
            let width = widths[at];
            if numbers.contains(&at) { format!(" {cell:>width$} |") } else { format!(" {cell:width$} |") }
        };
        format!("|{}", cells.iter().enumerate().map(cell).collect::<String>())
    };
    let rule = |at: usize| {
        let dashes = "-".repeat(widths[at]);
        if numbers.contains(&at) { format!(" {dashes}:|") } else { format!(" {dashes} |") }
    };
    let mut table: Vec<String> = lines.iter().map(line).collect();
    table.insert(1, format!("|{}", (0..N).map(rule).collect::<String>()));
    table
}
