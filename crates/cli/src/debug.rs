//! `--debug`: the values of each step.

use engine::Engine;
use trace::Summary;

use crate::output::note;

/// Prints a table of all values to stderr after each step of `engine`.
pub(crate) fn show_steps(engine: &mut Engine) -> anyhow::Result<()> {
    let model = engine.model().clone();
    let names: Vec<&str> = model.graph().values().map(|(_, value)| &*value.name).collect();
    let shown = model.clone();
    engine.tap(&names, move |step, program| {
        let rows = step.rows().zip(step.tokens());
        let rows: Vec<String> = rows.map(|((_, position), token)| format!("{token}@{position}")).collect();
        let values = shown.graph().values().filter_map(|(_, value)| {
            let data = program.read(&value.name).ok()?;
            Some(Summary::of(&value.name, value.cols, data))
        });
        let table = trace::table(&values.collect::<Vec<_>>());
        note(format_args!("step of {} (token@position)\n{table}", rows.join(" ")));
    })?;
    Ok(())
}
